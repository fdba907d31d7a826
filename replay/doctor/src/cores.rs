//! Cores: how many, whether others use them, and whether they keep their speed.

use pktgen_core::registry::Named;

use super::{Check, Finding, Host, Level, View};

use pktgen_realtime::driver::real_time::{THREADS, core_list};

const NAME: &str = "cores";

/// See the head of this file.
pub(super) struct Cores;

impl Named for Cores {
    fn name(&self) -> &'static str {
        NAME
    }
    fn about(&self) -> &'static str {
        "cores for the threads of a run, isolation, frequency, shared cores"
    }
}

impl Check for Cores {
    fn look(&self, view: &View<'_>) -> Vec<Finding> {
        vec![count(view), isolated(view), governor(view), siblings(view)]
    }
}

fn count(view: &View<'_>) -> Finding {
    let cores = view.host.answers().cores();
    let online = view.host.read("sys/devices/system/cpu/online").unwrap_or_else(|| "?".into());
    let value = format!("{cores} usable, {online} online, {THREADS} threads in a run");
    match cores >= THREADS {
        true => Finding::new(NAME, "count", Level::Ok, value),
        false => Finding::new(NAME, "count", Level::Warning, value)
            .why("threads share cores: frames are later, and transport.wait = \"spin\" is refused")
            .remedy(format!("--set transport.wait=block; or give it {THREADS} cores")),
    }
}

fn isolated(view: &View<'_>) -> Finding {
    match view.host.read("sys/devices/system/cpu/isolated").unwrap_or_default() {
        none if none.is_empty() => Finding::new(NAME, "isolation", Level::Note, "none isolated")
            .why("other processes may interrupt sending for milliseconds")
            .remedy(isolate(view.host.answers().cores(), &permitted(view.host))),
        list => Finding::new(NAME, "isolation", Level::Ok, format!("{list} isolated")),
    }
}

/// Returns the numbers of the cores on which this process may run.
pub(super) fn permitted(host: &Host) -> Vec<usize> {
    let status = host.read("proc/self/status").unwrap_or_default();
    let list = status.lines().find_map(|line| line.strip_prefix("Cpus_allowed_list:"));
    let listed = list.map(str::trim).filter(|list| !list.is_empty()).and_then(core_list);
    listed.unwrap_or_else(|| (0..host.answers().cores()).collect())
}

/// Sets the last of the permitted cores apart, of which one thread each is to have one; the system needs one too. A quota may permit
/// fewer `cores` at once.
fn isolate(cores: usize, permitted: &[usize]) -> String {
    if cores.min(permitted.len()) <= THREADS {
        return format!("give it more than {THREADS} cores: {THREADS} to isolate, the others for the system");
    }
    let chosen = &permitted[permitted.len() - THREADS..];
    let list = match chosen {
        [first, .., last] if last - first + 1 == chosen.len() => format!("{first}-{last}"),
        some => some.iter().map(usize::to_string).collect::<Vec<_>>().join(","),
    };
    format!("boot with isolcpus={list} nohz_full={list} rcu_nocbs={list}, then taskset -c {list} pktgen ...")
}

fn governor(view: &View<'_>) -> Finding {
    let folder = "sys/devices/system/cpu";
    let cores = view.host.names(folder, "cpu").into_iter().filter(|name| name[3..].parse::<u32>().is_ok());
    let mut governors: Vec<_> =
        cores.filter_map(|core| view.host.read(&format!("{folder}/{core}/cpufreq/scaling_governor"))).collect();
    governors.sort();
    governors.dedup();
    match governors.iter().all(|governor| governor == "performance") {
        _ if governors.is_empty() => Finding::new(NAME, "governor", Level::Note, "not available")
            .why("firmware or a hypervisor decides on the frequency, so it may change during a run"),
        true => Finding::new(NAME, "governor", Level::Ok, "performance"),
        false => Finding::new(NAME, "governor", Level::Warning, governors.join(", "))
            .why("the frequency changes with the load, so the first frames after a pause are late")
            .remedy("echo performance | sudo tee /sys/devices/system/cpu/cpu*/cpufreq/scaling_governor"),
    }
}

fn siblings(view: &View<'_>) -> Finding {
    match view.host.read("sys/devices/system/cpu/smt/active").as_deref() {
        Some("1") => Finding::new(NAME, "SMT", Level::Note, "on")
            .why("two of the cores may be one, and then slow each other down")
            .remedy("echo off | sudo tee /sys/devices/system/cpu/smt/control; or choose cores of different thread_siblings_list"),
        Some(_) => Finding::new(NAME, "SMT", Level::Ok, "off"),
        None => Finding::new(NAME, "SMT", Level::Note, "not available").why("cores may share their units with others"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{Fixture, level};

    #[test]
    fn a_good_host_has_cores_of_its_own() {
        let found = Fixture::good().look(&Cores);
        assert!(found.iter().all(|f| f.level == Level::Ok), "{found:?}");
    }

    #[test]
    fn what_disturbs_is_told() {
        let mut fixture = Fixture::good()
            .file("sys/devices/system/cpu/isolated", "\n")
            .file("sys/devices/system/cpu/smt/active", "1\n")
            .file("sys/devices/system/cpu/cpu1/cpufreq/scaling_governor", "powersave\n");
        fixture.answers.cores = THREADS - 1;
        let found = fixture.look(&Cores);
        for (subject, expected) in
            [("count", Level::Warning), ("isolation", Level::Note), ("governor", Level::Warning), ("SMT", Level::Note)]
        {
            assert_eq!(level(&found, subject), expected, "{subject}");
        }
        let governor = found.iter().find(|f| f.subject == "governor").unwrap();
        assert_eq!(governor.value, "performance, powersave");
    }

    #[test]
    fn only_cores_that_there_are_can_be_isolated() {
        let of = |cores: usize| isolate(cores, &(0..cores).collect::<Vec<_>>());
        assert!(of(8).starts_with("boot with isolcpus=5-7 "));
        assert!(of(THREADS + 1).starts_with("boot with isolcpus=1-3 "));
        assert!(of(THREADS).starts_with("give it more than"));
        assert!(of(1).starts_with("give it more than"));
        assert!(isolate(2, &[0, 1, 2, 3]).starts_with("give it more than"));
    }

    #[test]
    fn cores_to_isolate_are_those_of_the_process() {
        for (list, chosen) in [("8-15", "13-15"), ("0-3,8,10", "3,8,10"), ("?", "5-7")] {
            let found = Fixture::good()
                .file("sys/devices/system/cpu/isolated", "\n")
                .file("proc/self/status", &format!("Name:\tpktgen\nCpus_allowed_list:\t{list}\n"))
                .look(&Cores);
            let remedy = &found.iter().find(|f| f.subject == "isolation").expect("listed").remedy;
            let command = format!("then taskset -c {chosen} pktgen");
            assert!(remedy.contains(&format!("isolcpus={chosen} ")) && remedy.contains(&command), "{list}: {remedy}");
        }
    }

    #[test]
    fn a_virtual_machine_tells_no_governor() {
        let fixture = Fixture::good().remove("sys/devices/system/cpu/cpu0").remove("sys/devices/system/cpu/cpu1");
        assert_eq!(level(&fixture.look(&Cores), "governor"), Level::Note);
    }
}
