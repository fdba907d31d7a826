//! The registry of causes: each has a code with a fixed meaning and is found by one rule.

use pktgen_core::json_kind::JsonKind;

/// Version of the output of `pktgen diagnose --json`.
pub const DIAGNOSIS: JsonKind = JsonKind {
    name: "diagnosis",
    version: 1,
    about: "symptoms, causes and the bottleneck of a run: `pktgen diagnose`",
};

/// Where a cause is located.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, serde::Serialize)]
#[serde(rename_all = "snake_case")]
pub enum CausePlace {
    /// The sending host.
    Host,
    /// Cables and interfaces.
    Wire,
    /// The device.
    Device,
    /// The windows of workers: what they may have in flight and what they hold back.
    Window,
    /// The receiving host.
    Server,
    /// The experiment file.
    Experiment,
}

impl CausePlace {
    /// Returns its name.
    pub const fn name(self) -> &'static str {
        match self {
            CausePlace::Host => "host",
            CausePlace::Wire => "wire",
            CausePlace::Device => "device",
            CausePlace::Window => "window",
            CausePlace::Server => "server",
            CausePlace::Experiment => "experiment",
        }
    }
}

/// A cause of missing, too few or wrong sums.
#[derive(Debug, PartialEq, Eq)]
pub struct Cause {
    /// Its code.
    pub code: &'static str,
    /// Where it is.
    pub place: CausePlace,
    /// What it is.
    pub what: &'static str,
    /// The evidence that proves it.
    pub proof: &'static str,
    /// What to do.
    pub remedy: &'static str,
}

macro_rules! causes {
    ($($name:ident = $code:literal in $place:ident, $what:literal, by $proof:literal, do $remedy:literal;)+) => {
        $(#[doc = $what] pub(crate) static $name: Cause =
            Cause { code: $code, place: CausePlace::$place, what: $what, proof: $proof, remedy: $remedy };)+
        /// All causes; of two with equal evidence the earlier one is listed first.
        pub static CAUSES: &[&Cause] = &[$(&$name),+];
    };
}

causes! {
    CANNOT_RUN = "cannot_run" in Host, "the experiment cannot run on this host",
        by "pktgen doctor EXPERIMENT",
        do "the remedy of the finding";
    DEVICE_NOT_READY = "device_not_ready" in Device, "the device does not do what shows that it is ready",
        by "pktgen target check EXPERIMENT",
        do "look at the device's tables and at what it printed";
    NOTHING_SENT = "nothing_sent" in Experiment, "no update left the workers",
        by "no row of `sent` has a time of sending",
        do "pktgen replay EXPERIMENT --dry-run says what would be sent";
    NO_CARRIER = "no_carrier" in Wire, "an interface was down, absent or without a carrier",
        by "its state, or changes of its carrier during the run",
        do "connect the cable, set both ends up: ip link set IF up";
    SEND_REFUSED = "send_refused" in Wire, "an interface dropped frames that it was given, or took none",
        by "its counters of frames dropped on the way out",
        do "compare the MTU of both ends of the cable with the longest frame, and look for pause frames";
    LINK_LOST = "link_lost" in Wire, "frames are lost on a link at the device",
        by "what one end of the link counted as sent, and the other as received",
        do "look at the cable, and at what is between the two counters: a capture at each end has the frames";
    HOST_LATE = "host_late" in Host, "the sending host could not keep to the schedule",
        by "frames that left ever later, or not at all",
        do "give the workers a core of their own (transport.cores, wait = \"spin\"), or lower schedule.offered";
    HOST_OVERRUN = "host_overrun" in Server, "frames were lost on the host after they had arrived",
        by "drops of the receiving socket or interface",
        do "give the server a core of its own, raise net.core.rmem_max; transport.kind = \"af_xdp\" takes more than sockets";
    DEVICE_ENDED = "device_ended" in Device, "the launched device ended during the run",
        by "the fault device_ended",
        do "look at what the device printed";
    LOCKSTEP_BROKEN = "lockstep_broken" in Device, "the device ended during the run, or broke a rule of lockstep",
        by "what the session says of its last message",
        do "look at what the device printed, and compare its messages with docs/lockstep.md";
    DEVICE_UNREACHED = "device_unreached" in Wire, "frames left and the device counted none of them",
        by "the interface's counter of frames sent, and the device's of frames received",
        do "compare the cable with transport.interfaces, and the device's port with its configuration";
    DEVICE_SILENT = "device_silent" in Device, "the device took frames and sent none",
        by "the device's counters, or frames that left for it and nothing that came",
        do "look at the device's tables and counters of drops: pktgen device plan says what they should hold";
    WAITS_FOR_OTHERS = "waits_for_others" in Device, "the device waits for contributions that no worker sends",
        by "sums to which all workers contributed and that no worker received",
        do "set the number of workers in the device's tables to that of the experiment: pktgen device plan";
    WORKER_UNKNOWN = "worker_unknown" in Device, "the device takes nothing of some workers",
        by "all frames of these workers are missing, or in no sum, or their job had no result, and those of others came",
        do "write their addresses into the device's tables: pktgen device plan";
    RESULTS_TO_SOME = "results_to_some" in Device, "results come to some workers only",
        by "sums of which these workers never had a result, and others of their job had",
        do "compare the members of the multicast group with pktgen device plan";
    WRONG_DESTINATION = "wrong_destination" in Device, "frames come back with addresses or ports that the run does not have",
        by "the first frame that differs from what was sent in an address or a port",
        do "compare the device's tables with the addresses of the profile: pktgen device show";
    TAG_CHANGED = "tag_changed" in Device, "frames come back with another VLAN tag",
        by "the first frame whose tag differs from what was sent",
        do "compare addressing.vlan of the profile with the VLAN of the device's ports";
    FIELD_CHANGED = "field_changed" in Device, "a field changes on the way that the device keeps by its profile",
        by "the first frame with a value of that field with which nothing was sent, or that is not of its newest member",
        do "compare frames.keeps of the profile with what the device writes: pktgen device compare names the field in every frame";
    BAD_CHECKSUM = "bad_checksum" in Device, "frames come back with a wrong checksum of IPv4 or UDP",
        by "the first frame whose checksum does not fit",
        do "have the device compute the checksum anew wherever it rewrites a field that it covers";
    LENGTH_WRONG = "length_wrong" in Device, "frames come back whose headers say another length than they have",
        by "the first frame that is as long as one that was sent, with other lengths in its headers",
        do "have the device write the lengths of IPv4 and UDP as they are wherever it makes or changes a frame";
    TRUNCATED = "truncated" in Device, "frames come back shorter than they were sent",
        by "the first frame that is the beginning of one that was sent",
        do "look for a limit of length in the device's parser and deparser";
    DEVICE_OVERRUN = "device_overrun" in Device, "the device was too slow to take what came to its ports",
        by "its counter of frames that its own ports dropped",
        do "give the device more cores or buffers (net.core.rmem_max), or send less";
    DEVICE_LATE_START = "device_late_start" in Device, "nothing came back until an instant of the run",
        by "all frames before it are missing, far more in a row than other losses explain",
        do "wait until the device is ready: [target.launch] ready, or pktgen target check";
    DEVICE_STOPPED = "device_stopped" in Device, "nothing came back from an instant of the run on",
        by "all frames after it are missing, far more in a row than other losses explain",
        do "look at the device's log at that time";
    TOO_LONG = "too_long" in Device, "frames above a length are missing",
        by "all frames longer than the longest that came are missing",
        do "raise the MTU of the device's ports, or send shorter frames";
    RATE_LIMITED = "rate_limited" in Device, "the device takes no more than a rate",
        by "losses are more frequent where more was sent just before, or what passes is even",
        do "lower schedule.offered below the rate that passed, or raise the device's limit";
    DROPPED_BY_COUNT = "dropped_by_count" in Device, "every n-th frame is lost, whatever the rate",
        by "losses follow each other after the same number of frames, at unequal times",
        do "look for one of several lanes, queues or members of a port group that fails, and for a counter or sampler that drops frames";
    DROPPED_IN_BURSTS = "dropped_in_bursts" in Device, "frames are lost many in a row",
        by "losses are less even than independent ones",
        do "look for pauses of the device: garbage, table updates, a queue that overflows";
    DROPPED_AT_RANDOM = "dropped_at_random" in Device, "frames are lost independently of time, worker and length",
        by "losses that no other rule explains, spread as independent ones are",
        do "look at counters of errors of the ports: cable, optics, FCS; then at the device's drops";
    RESULTS_LOST = "results_lost" in Device, "contributions or results are lost now and then",
        by "sums or acknowledgements that workers asked for again, never got, or that lack contributions sent in time",
        do "look at the device's and the interfaces' counters of drops; with endpoint.retransmit workers ask again";
    TIMEOUT_WRONG = "timeout_wrong" in Device, "the device goes on without workers sooner or later than its timeout says",
        by "partial results that came before one target.timeout, or long after two",
        do "compare the device's timeout and its number of workers with pktgen device plan";
    ACKS_LOST = "acks_lost" in Device, "answers of the server do not come to the workers",
        by "answers that were sent, and answers that came",
        do "look at the device's table of groups and its way back: pktgen device plan";
    ACKS_TO_SOME = "acks_to_some" in Device, "answers of the server come to some workers of a cluster only",
        by "workers that answers came to, and workers that they are for",
        do "compare the device's multicast groups with pktgen device plan";
    DEVICE_DROPS = "device_drops" in Device, "the device loses frames that it took",
        by "its counter of drops, or what it took beside what it sent, merged and replaced",
        do "look at what the device drops and why: its tables, its memory, its ports";
    NOT_MERGED = "not_merged" in Device, "the device merges nothing",
        by "every packet holds one update, although more was sent than came",
        do "the device must know the workers (tables), and its output must be slower than what is sent";
    WORKER_NOT_MERGED = "worker_not_merged" in Device, "updates of some workers are never merged, and those of others are",
        by "packets of these workers hold one update each, also those that met in the queue",
        do "write their addresses into the table that names clusters: pktgen device plan";
    WRONG_CLUSTER = "wrong_cluster" in Device, "updates of different clusters are merged with each other",
        by "a packet whose payload is the sum of updates of several clusters",
        do "compare the table of workers and clusters with pktgen device plan";
    BITS_FLIPPED = "bits_flipped" in Device, "single bits of payloads change on the way",
        by "a frame that differs from one that was sent, or from the sum, in a few bits",
        do "look for errors of memory or links in the device: counters of ECC and FCS";
    BYTE_ORDER = "byte_order" in Device, "values come back with their bytes reversed",
        by "a payload that is right when the bytes of its values are reversed",
        do "have the device read and write values in the format's byte order: docs/wireshark.md";
    CONTRIBUTION_MISSING = "contribution_missing" in Device, "sums lack the contribution of a worker",
        by "the sum less the result is one worker's contribution",
        do "the device ends sums early: compare its number of workers with the experiment";
    CONTRIBUTION_TWICE = "contribution_twice" in Device, "sums have a contribution twice",
        by "the result less the sum is one worker's contribution",
        do "the device must recognise repeated packets by its bitmap";
    STALE_SUM = "stale_sum" in Device, "sums begin with what an earlier one left",
        by "the result less the sum is an earlier result of the same place",
        do "the first contribution of a sum must overwrite its values";
    EXPONENT_WRONG = "exponent_wrong" in Device, "results have another exponent than the largest of their contributions",
        by "the exponent of a result, and those of all its contributions",
        do "the device must keep the largest exponent of a slot, as a signed number, and begin with that of the first contribution; a cable may have changed a few on the way to it";
    SATURATED = "saturated" in Device, "values stop at the end of their range",
        by "wrong values that are the largest or smallest that there is, of a format whose sums wrap around",
        do "scale gradients down, or let the device's additions wrap as the format says";
    ADDS_WRONGLY = "adds_wrongly" in Device, "sums are wrong in a way that no other rule explains",
        by "a result and the sum of what was sent",
        do "pktgen certify finds which rule of the protocol the device breaks";
    PAYLOAD_CHANGED = "payload_changed" in Device, "payloads change on the way in a way that no other rule explains",
        by "a frame that differs from the one that was sent",
        do "compare both frames in Wireshark: pktgen dissector";
    RESULTS_UNMATCHED = "results_unmatched" in Device, "frames come back that are no results of the run",
        by "frames that match no update or result, beside sums that did not come",
        do "compare job, block, slot, length and port of what the device sends with docs/device.md; pktgen certify names the first field that differs";
    RESULTS_UNLIKE = "results_unlike" in Device, "copies of one result differ",
        by "results of one sum that hold something else than the first copy",
        do "look at how the device multicasts results, and at what it keeps to answer repeated contributions";
    COPIES = "copies" in Device, "frames come more than once",
        by "packets that arrived again without having been sent again",
        do "look for loops and mirrored ports: every frame must have one way";
    REORDERED = "reordered" in Device, "frames overtake each other",
        by "frames that arrived after others that were sent later",
        do "keep all frames of a worker in one queue of the device";
    STRANGERS = "strangers" in Wire, "frames of others come to the receiver",
        by "frames with addresses or a protocol that the run does not have",
        do "take other hosts off the segment, and switch off protocols of the kernel on these interfaces";
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_differ() {
        let mut codes: Vec<_> = CAUSES.iter().map(|cause| cause.code).collect();
        codes.sort_unstable();
        codes.dedup();
        assert_eq!(codes.len(), CAUSES.len());
    }
}
