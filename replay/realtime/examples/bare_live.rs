//! What live frames reach on an interface and no sender can exceed: `bare_live INTERFACE SIZE FRAMES SECONDS CALL` attaches FRAMES different
//! frames once and makes the same system call on CALL of them again and again, and nothing else. Prints what left.
//! Send only where the traffic cannot leave: a veth pair in a network namespace, for example.

#![expect(clippy::print_stdout, reason = "an example says what it did")]

use pktgen_core::registry::find;
use pktgen_core::{Error, Result};
use pktgen_realtime::clock::Stopwatch;
use pktgen_realtime::transport::{TRANSPORTS, TransportPlan};
use pktgen_wire::wire::frame::{HEAD, SERVER_IP, Template, worker_ip};

fn main() -> Result<()> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let usage = || Error::config("usage: bare_live INTERFACE SIZE FRAMES SECONDS CALL (CALL divides FRAMES)");
    let [interface, numbers @ ..] = &args[..] else { return Err(usage()) };
    let numbers: Vec<usize> = numbers.iter().filter_map(|text| text.parse().ok()).collect();
    let [size, count, seconds, call] = numbers[..] else { return Err(usage()) };
    if size < HEAD + 8 || call == 0 || !count.is_multiple_of(call) {
        return Err(usage());
    }
    let plan = TransportPlan {
        interfaces: vec![interface.clone()],
        ..TransportPlan::of(find(TRANSPORTS, "transport", "xdp_live", "KIND")?)
    };
    let template = Template::new((worker_ip(1), 9000), (SERVER_IP, 9000), size);
    let mut frames = vec![vec![0xa5u8; size]; count];
    for (frame, number) in frames.iter_mut().zip(0u64..) {
        template.emit(frame);
        frame[HEAD..HEAD + 8].copy_from_slice(&number.to_le_bytes());
    }
    let slices: Vec<&[u8]> = frames.iter().map(Vec::as_slice).collect();
    let attached = plan.kind.attach(&plan, &slices)?;
    let unfit = || Error::config(format!("{count} frames of {size} B cannot be attached"));
    let mut attached = attached.ok_or_else(unfit)?;
    let (mut sent, mut at, watch) = (0, 0, Stopwatch::start());
    while watch.elapsed().as_secs() < seconds as u64 {
        sent += attached.send(at, call)?.taken;
        at = (at + call) % count;
    }
    let spent = watch.elapsed().as_secs_f64();
    println!("sent={sent} dropped={} mpps={:.3}", attached.counters().send_dropped, sent as f64 / spent / 1e6);
    Ok(())
}
