//! Every kind of JSON object that commands print with `--json` (docs/stability.md). `pktgen list schemas` prints these,
//! and `--test cli -- stability::` checks the members of each.

use pktgen_core::json_kind::JsonKind;
use pktgen_core::plan::PLAN_VERSION;
use pktgen_core::record::{MANIFEST_VERSION, SCHEMA_VERSION, STREAMS};
use pktgen_workload::trace::{TRACE, TRACE_VERSION};

macro_rules! kinds {
    ($($name:ident = $word:literal / $version:literal, $about:literal;)*) => {
        $(pub(crate) const $name: JsonKind = JsonKind { name: $word, version: $version, about: $about };)*
        /// Those of the commands.
        const PRINTED: &[JsonKind] = &[$($name),*];
    };
}

kinds! {
    CALIBRATION = "calibration" / 1, "result of `pktgen calibrate`; calibration.json";
    CAPTURED = "captured" / 1, "summary of a recording by `pktgen capture --iface`";
    CERTIFICATE = "certificate" / 2, "certificate of `pktgen certify`";
    CLAUSE = "clause" / 1, "a clause: `pktgen certify --list`";
    CLAUSE_VERDICT = "clause_verdict" / 1, "verdict on one clause: `pktgen certify`";
    CONTROL_EVENT = "control_event" / 1, "a line of `pktgen control RUN events`";
    CONTROL_REPLY = "control_reply" / 1, "the reply to `pktgen control`";
    COUNTED = "counted" / 1, "frame counts of `pktgen capture --iface --count-only`";
    DEFINITION = "definition" / 1, "a metric, column, code or name: `pktgen explain`";
    DEVICE_CHECK = "device_check" / 1, "one checked limit: `pktgen device check`";
    DEVICE_COMPARISON = "device_comparison" / 2, "result of `pktgen device compare`";
    DEVICE_PLAN = "device_plan" / 1, "control-plane entries of a device: `pktgen device plan`, plan.json";
    DEVICE_PROFILE = "device_profile" / 1, "device profile: `pktgen device show`";
    DEVICE_START = "device_start" / 1, "result of `pktgen target check`";
    DRAFT = "draft" / 1, "preview of a run: `pktgen replay --dry-run`";
    ENTRY = "entry" / 1, "a name of `pktgen list` or `pktgen device list`";
    FINDING = "finding" / 1, "result of one check: `pktgen doctor`";
    FOLDER = "folder" / 1, "a folder or file that a command wrote";
    INITIATED = "initiated" / 1, "files written by `pktgen init`";
    KEY = "key" / 1, "a key of an experiment: `pktgen list --keys`";
    MERGED = "merged" / 1, "shards joined by `pktgen merge`";
    METRIC = "metric" / 1, "value of a metric of a run or capture: `pktgen analyze`";
    NOTE = "note" / 1, "a note of `pktgen analyze`, on stderr";
    PLACEMENT = "placement" / 1, "placement of `pktgen place soar`";
    PLACEMENTS = "placements" / 1, "placements of `pktgen place soar --workloads`";
    QUERY_COLUMN = "query_column" / 1, "a column of a table: `pktgen query --tables`";
    RATE = "rate" / 1, "highest rate found by `pktgen replay --find-rate`";
    RFC2544 = "rfc2544" / 1, "the tables of `pktgen replay --find-rate --rfc2544`";
    ROLE = "role" / 1, "frames moved by one role of a run in real time, at its end";
    SERIES = "series" / 1, "a metric over time: `pktgen history`";
    SERVED = "served" / 1, "where `pktgen serve` listens";
    SHARD = "shard" / 1, "a share of a sweep: `pktgen replay --shard`";
    STATS = "stats" / 1, "an interval of a run in real time: `--stats`";
    TRACE_MADE = "trace_made" / 1, "trace written by `pktgen trace`";
    TRACE_FIDELITY = "trace_fidelity" / 1, "comparison of a scaled trace with its original: `pktgen trace check INPUT SCALED`";
    TRACE_INFO = "trace_info" / 1, "description of a trace: `pktgen trace info` and `check`";
    TUNING = "tuning" / 1, "result of `pktgen tune`; tuning.json";
    VERIFICATION = "verification" / 1, "verdict of `pktgen verify`";
    VERIFIED_RATE = "verified_rate" / 1, "highest verified rate: `pktgen verify --find max-rate`";
    WIRING = "wiring" / 1, "wiring of `pktgen place atro`";
    WRONG = "wrong" / 1, "number of wrong packets of a run: `pktgen analyze --wrong`";
    WRONG_PACKET = "wrong_packet" / 1, "one wrong packet of a run: `pktgen analyze --wrong`";
}

/// Returns a kind of object or stream of files with a version in a member or in its metadata.
const fn filed(name: &'static str, version: u32, about: &'static str) -> JsonKind {
    JsonKind { name, version, about }
}

/// Returns all kinds of JSON objects, and all streams and files, by name.
pub(crate) fn all() -> Vec<JsonKind> {
    let mut all = PRINTED.to_vec();
    all.extend([
        pktgen_report::JSON,
        pktgen_compare::JSON,
        pktgen_diagnose::DIAGNOSIS,
        filed("history", pktgen_compare::history::VERSION, "a line of a history: member `version`"),
        filed("manifest", MANIFEST_VERSION, "manifest.json of a run: member `version`"),
        filed("plan", PLAN_VERSION, "a plan of `pktgen place --plan`: member `version`"),
        filed("sweep", MANIFEST_VERSION, "sweep.json: member `version`"),
    ]);
    all.extend(STREAMS.iter().map(|stream| filed(stream.name, SCHEMA_VERSION, stream.row)));
    all.push(filed(TRACE.name, TRACE_VERSION, TRACE.row));
    all.sort_by_key(|kind| kind.name);
    all
}
