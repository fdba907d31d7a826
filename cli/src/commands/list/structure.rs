//! Keys of sections whose readers are no table of `settings!`: names of components, and keys that contain tables. A test compares the
//! names with the shipped experiments. Defaults are the constants of the readers where these have one; other defaults and values are
//! compared by no test.

use pktgen_core::config::{Key, UNNAMED};
use pktgen_core::topology;
use pktgen_engine::endpoint::raw;
use pktgen_realtime::capture::Records;
use pktgen_realtime::{run, transport};
use pktgen_workload::{lanes, workload};

/// Tables of keys: name, default and values in words, meaning.
macro_rules! keys {
    ($($table:ident { $($name:literal [$default:expr; $range:literal] $about:literal;)+ })+) => {
        $(pub(super) const $table: &[Key] =
            &[$(Key::new($name, $about, || $default.to_string(), || $range.to_owned())),+];)+
    };
}

/// Returns a text as TOML has it.
fn quoted(text: &str) -> String {
    format!("\"{text}\"")
}

/// Returns the default workers, in words.
fn default_workers() -> String {
    let of_others = pktgen_registry::all().defaults.workers;
    format!("{}, for raw frames {}", quoted(of_others), quoted(raw::NAME))
}

/// Returns the default program, in words.
fn default_program() -> String {
    format!("that of the workers, else {}", pktgen_registry::all().defaults.program)
}

keys! {
    TOP {
        "name" [quoted(UNNAMED); "a text"] "Name of the experiment.";
        "about" ["\"\""; "a text"] "Description, shown in reports.";
        "seed" [run::SEED; "a whole number, 0 or more"] "Seed of all random streams; `sweep.seeds` lists several.";
    }
    WORKLOAD {
        "kind" [quoted(workload::DEFAULT); "one of `pktgen list workloads`"] "Generator of the updates; `trace` replaces it.";
        "moves" ["none"; "a list of tables"] "Workers that change their cluster: `at`, `worker`, `cluster`.";
    }
    SCHEDULE {
        "kind" ["as the workload says"; "one of `pktgen list schedules`"] "Times of the updates.";
    }
    FORMAT {
        "kind" ["that of the workers"; "one of `pktgen list formats`"] "Wire format; another one than the workers' is refused.";
        "udp_checksum" ["false"; "true or false"] "Whether UDP checksums are filled in; else the field is 0, which means none.";
        "lanes" ["none"; "see docs/provenance.md"] "Gradients that identify the updates in a packet.";
        "lanes_window" [lanes::WINDOW; "a whole number from 1"] "Transmissions of a worker that lanes distinguish.";
        "lanes_merge" ["\"sum\""; "sum, mean, running_mean"] "How the device merges gradients.";
    }
    TOPOLOGY {
        "kind" [quoted(topology::DEFAULT); "one of `pktgen list topologies`"] "Shape of the network.";
    }
    ENDPOINT {
        "workers" [default_workers(); "one of `pktgen list endpoints`"] "Behaviour of the workers.";
    }
    TARGET {
        "kind" ["\"software\""; "software, external"] "Whether the device is this process's, or hardware.";
        "program" [default_program(); "one of `pktgen list programs`"] "Program of the devices.";
        "queue" ["that of the program"; "one of `pktgen list queues`"] "Queue of the devices' outputs.";
        "profile" ["none"; "one of `pktgen device list`, or a file"] "Profile of the hardware.";
    }
    TRANSPORT {
        "kind" [quoted(transport::DEFAULT); "one of `pktgen list transports`"] "Path of the frames.";
    }
    CAPTURE {
        "records" [quoted(&Records::Full.to_string()); "full, every:N, none"] "Recorded rows; counters are always complete.";
        "states" ["false"; "true or false"] "Whether feedback and decisions of workers under transmission control are recorded.";
        "pcap" ["false"; "true or false"] "Whether the packets at the server are captured.";
        "until" ["none"; "a span of time"] "Time at which the run is cut.";
        "goal" ["none"; "a whole number from 1"] "Updates of every worker at the server that end the run.";
    }
    SWEEP {
        "seeds" ["seed"; "a text, as 1..30 or 1,4"] "Seeds, one run each.";
        "axes" ["none"; "a table: key = list of values"] "Keys that vary; all combinations are run.";
        "variants" ["none"; "a list of tables"] "Alternatives: a `name`, and the keys that each sets.";
    }
    REPORT {
        "metrics" ["those of the system"; "a list of names of metrics"] "Metrics in the table.";
        "baseline" ["none"; "the name of a variant"] "Variant that the others are compared with.";
        "question" ["none"; "a text"] "Title of the page.";
        "groups" ["none"; "a list of tables"] "Groups of clusters: a `name`, and `clusters` as \"0-4\" or \"0,3,7\".";
        "fitted" ["[]"; "a list, each a text"] "Parameters that were fitted.";
        "notes" ["[]"; "a list, each a text"] "Notes for readers of the report.";
    }
    PAPER {
        "rows" ["none"; "a list of tables"] "Published values, with all printed digits: `at` (labels of the point), `source`, metric = value, `bound` (above, below).";
    }
    CALIBRATE {
        "parameters" ["must be written"; "a list of tables"] "Searched keys, each with its range.";
        "targets" ["none"; "a list of tables"] "Measured values to reproduce.";
        "metrics" ["[]"; "a list, each a text"] "Metrics of files that become targets.";
        "predict" ["none"; "a list of tables"] "Points to predict: the keys that each sets.";
    }
    STUDY {
        "kind" ["must be written"; "one of `pktgen list studies`"] "Measurement that is made.";
    }
}
