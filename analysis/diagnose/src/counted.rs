//! Names under which devices count frames. The first name in a list that the device has is used.

/// Frames received and sent at the port towards the workers.
pub(crate) const DOWN_TAKEN: &[&str] = &["received", "in_received", "port0_in", "down_received"];
pub(crate) const DOWN_GIVEN: &[&str] = &["back_sent", "in_sent", "port0_out", "down_sent"];
/// The same of the port towards the server.
pub(crate) const UP_TAKEN: &[&str] = &["back_received", "out_received", "port1_in", "up_received"];
pub(crate) const UP_GIVEN: &[&str] = &["sent", "out_sent", "port1_out", "up_sent"];
/// Frames sent by a device with one port.
pub(crate) const ONE_GIVEN: &[&str] = &["sent", "in_sent", "port0_out"];
/// Frames received and sent at all ports.
pub(crate) const TAKEN: &[&str] = &["received", "rx_packets"];
pub(crate) const GIVEN: &[&str] = &["sent", "tx_packets"];
/// The same for one port is `port`, a number, and one of these.
pub(crate) const OF_PORT: [&str; 2] = ["_in", "_out"];
/// Packets that a device added up, and results that it produced.
pub(crate) const SUMMED: &[&str] = &["packets"];
pub(crate) const RESULTS: &[&str] = &["results"];
/// Frames that its ports lost before the device processed them.
pub(crate) const OVERRUN: &[&str] = &["overrun", "rx_missed", "rx_dropped", "missed"];
/// Frames from unknown senders.
pub(crate) const UNKNOWN: &[&str] = &["unknown_source", "unknown_worker", "unknown", "refused"];
/// Ends of frames that a device received and did not send; all of its counters are added.
pub(crate) const ENDS: &[&str] =
    &["replaced", "full", "refused", "unknown_source", "unknown_worker", "unknown", "outranked"];
/// Frames that the device itself lost; all of its counters are added.
pub(crate) const DROPS: &[&str] = &["dropped", "lost", "discarded", "errors", "unsent"];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_page_has_every_name() {
        let page = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/diagnose.md");
        let page = std::fs::read_to_string(page).expect("docs/diagnose.md");
        let lists = [
            DOWN_TAKEN, DOWN_GIVEN, UP_TAKEN, UP_GIVEN, ONE_GIVEN, TAKEN, GIVEN, SUMMED, RESULTS, OVERRUN, UNKNOWN,
            ENDS, DROPS,
        ];
        let ports = OF_PORT.map(|end| format!("portN{end}"));
        for name in lists.concat().into_iter().chain(ports.iter().map(String::as_str)) {
            assert!(page.contains(&format!("`{name}`")), "docs/diagnose.md has no `{name}`");
        }
    }
}
