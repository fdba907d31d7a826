//! What pacing costs without sending: `floor PPS SECONDS` waits for deadlines by reading the clock, and prints how late it
//! was. No generator on this host can be more exact; what is far above tens of ns was taken by others, or the hypervisor.

#![expect(clippy::print_stdout, reason = "an example says what it did")]

use pktgen_core::time::{NS, SECOND};
use pktgen_core::{Error, Result};
use pktgen_realtime::clock::RunClock;

fn main() -> Result<()> {
    let numbers: Vec<i64> = std::env::args().skip(1).filter_map(|text| text.parse().ok()).collect();
    let (pps, seconds) = match numbers[..] {
        [pps, seconds] if pps > 0 && seconds > 0 => (pps, seconds),
        _ => return Err(Error::config("usage: floor PPS SECONDS")),
    };
    let gap = SECOND / pps;
    let clock = RunClock::start_in(1_000_000 * NS);
    let mut late_ns: Vec<i64> = Vec::with_capacity((pps * seconds) as usize);
    for i in 0..pps * seconds {
        let due = i * gap;
        let mut now = clock.now();
        while now <= due {
            std::hint::spin_loop();
            now = clock.now();
        }
        late_ns.push((now - due) / NS);
    }
    late_ns.sort_unstable();
    let at = |per_mille: usize| late_ns[(late_ns.len() - 1) * per_mille / 1000];
    println!("p50 {} ns, p99 {} ns, p99.9 {} ns, max {} ns", at(500), at(990), at(999), at(1000));
    Ok(())
}
