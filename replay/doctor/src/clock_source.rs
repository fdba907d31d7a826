//! The clock: what the kernel reads it from, and what a reading costs us.

use pktgen_core::registry::Named;

use super::{Check, Finding, Level, View};

const NAME: &str = "clock";
const FOLDER: &str = "sys/devices/system/clocksource/clocksource0";
/// A reading within the process costs less than this, in ns; one by a system call or from a slow device more.
const CHEAP_NS: f64 = 100.0;
const DEAR_NS: f64 = 1000.0;

/// See the head of this file.
pub(super) struct ClockSource;

impl Named for ClockSource {
    fn name(&self) -> &'static str {
        NAME
    }
    fn about(&self) -> &'static str {
        "clock source and cost of reading it"
    }
}

impl Check for ClockSource {
    fn look(&self, view: &View<'_>) -> Vec<Finding> {
        let current = view.host.read(&format!("{FOLDER}/current_clocksource")).unwrap_or_default();
        let available = view.host.read(&format!("{FOLDER}/available_clocksource")).unwrap_or_default();
        let remedy = match available.split_whitespace().any(|source| source == "tsc") {
            true => format!("echo tsc | sudo tee /{FOLDER}/current_clocksource"),
            false => {
                "dmesg | grep -i -e tsc -e clocksource says why there is no tsc; if it is sound, boot with tsc=reliable"
                    .into()
            }
        };
        let source = match current.as_str() {
            "tsc" | "arch_sys_counter" => Finding::new(NAME, "source", Level::Ok, current),
            // Read within the process too, with a correction by the hypervisor.
            "kvm-clock" | "hyperv_clocksource_tsc_page" => Finding::new(NAME, "source", Level::Note, current)
                .why("the hypervisor corrects it, so it may be uneven")
                .remedy(remedy),
            "" => {
                Finding::new(NAME, "source", Level::Note, "not available").why("the cost of a reading is what counts")
            }
            _ => Finding::new(NAME, "source", Level::Warning, current)
                .why("every reading is a system call or a slow device's, so frames are paced coarsely")
                .remedy(remedy),
        };
        let cost = view.host.answers().clock_read_ns();
        let value = format!("{cost:.0} ns");
        let cost = match cost {
            cost if cost < CHEAP_NS => Finding::new(NAME, "reading", Level::Ok, value),
            cost => Finding::new(NAME, "reading", if cost < DEAR_NS { Level::Note } else { Level::Warning }, value)
                .why("pacing reads the clock all the time: lateness is at least this")
                .remedy("use the clock source tsc, and no emulation"),
        };
        vec![source, cost]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{Fixture, level};

    #[test]
    fn sources_are_told_apart() {
        for (current, available, expected, part) in [
            ("tsc", "tsc kvm-clock", Level::Ok, ""),
            ("kvm-clock", "kvm-clock tsc", Level::Note, "echo tsc"),
            ("hpet", "tsc hpet acpi_pm", Level::Warning, "echo tsc"),
            ("acpi_pm", "acpi_pm", Level::Warning, "dmesg"),
        ] {
            let fixture = Fixture::good().file(&format!("{FOLDER}/current_clocksource"), current);
            let found = fixture.file(&format!("{FOLDER}/available_clocksource"), available).look(&ClockSource);
            assert_eq!(level(&found, "source"), expected, "{current}");
            assert!(found[0].remedy.contains(part) && found[0].remedy.is_empty() == part.is_empty(), "{found:?}");
        }
    }

    #[test]
    fn a_dear_reading_is_told() {
        for (ns, expected) in [(22.0, Level::Ok), (450.0, Level::Note), (1200.0, Level::Warning)] {
            let mut fixture = Fixture::good();
            fixture.answers.clock_read_ns = ns;
            assert_eq!(level(&fixture.look(&ClockSource), "reading"), expected, "{ns}");
        }
    }
}
