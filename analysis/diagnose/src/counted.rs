//! Names under which devices count frames. Of several names the first counts that the device has.

/// What came to the port towards the workers, and what left it.
pub(crate) const DOWN_TAKEN: &[&str] = &["received", "in_received", "port0_in", "down_received"];
pub(crate) const DOWN_GIVEN: &[&str] = &["back_sent", "in_sent", "port0_out", "down_sent"];
/// The same of the port towards the server.
pub(crate) const UP_TAKEN: &[&str] = &["back_received", "out_received", "port1_in", "up_received"];
pub(crate) const UP_GIVEN: &[&str] = &["sent", "out_sent", "port1_out", "up_sent"];
/// What left a device with one port.
pub(crate) const ONE_GIVEN: &[&str] = &["sent", "in_sent", "port0_out"];
/// What came to all ports together, and what left them.
pub(crate) const TAKEN: &[&str] = &["received", "rx_packets"];
pub(crate) const GIVEN: &[&str] = &["sent", "tx_packets"];
/// The same of a port is `port`, a number, and one of these.
pub(crate) const OF_PORT: [&str; 2] = ["_in", "_out"];
/// What a device summed, and the results that it made.
pub(crate) const SUMMED: &[&str] = &["packets"];
pub(crate) const RESULTS: &[&str] = &["results"];
/// What its ports lost before the device had it.
pub(crate) const OVERRUN: &[&str] = &["overrun", "rx_missed", "rx_dropped", "missed"];
/// What it does not know the sender of.
pub(crate) const UNKNOWN: &[&str] = &["unknown_source", "unknown_worker", "unknown", "refused"];
/// What became of a frame that a device took and did not send: each that it counts.
pub(crate) const ENDS: &[&str] =
    &["replaced", "full", "refused", "unknown_source", "unknown_worker", "unknown", "outranked"];
/// What a device lost by itself: each that it counts.
pub(crate) const DROPS: &[&str] = &["dropped", "lost", "discarded", "errors", "unsent"];
