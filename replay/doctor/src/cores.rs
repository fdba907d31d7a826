//! Cores: how many, whether others use them, and whether they keep their speed.

use pktgen_core::registry::Named;

use super::{Check, Finding, Level, View};

use pktgen_realtime::driver::real_time::THREADS;

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
            .remedy(isolate(view.host.answers().cores())),
        list => Finding::new(NAME, "isolation", Level::Ok, format!("{list} isolated")),
    }
}

/// Sets the last cores apart, of which one thread each is to have one; the system needs one too.
fn isolate(cores: usize) -> String {
    let Some(first) = cores.checked_sub(THREADS).filter(|first| *first > 0) else {
        return format!("give it more than {THREADS} cores: {THREADS} to isolate, the others for the system");
    };
    let list = format!("{first}-{}", cores - 1);
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
        assert!(isolate(8).starts_with("boot with isolcpus=5-7 "));
        assert!(isolate(THREADS + 1).starts_with("boot with isolcpus=1-3 "));
        assert!(isolate(THREADS).starts_with("give it more than"));
        assert!(isolate(1).starts_with("give it more than"));
    }

    #[test]
    fn a_virtual_machine_tells_no_governor() {
        let fixture = Fixture::good().remove("sys/devices/system/cpu/cpu0").remove("sys/devices/system/cpu/cpu1");
        assert_eq!(level(&fixture.look(&Cores), "governor"), Level::Note);
    }
}
