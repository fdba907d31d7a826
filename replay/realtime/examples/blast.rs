//! Sends numbered frames on an interface, each different: a source for captures.
//!
//! `blast INTERFACE KIND SIZE COUNT PPS`: KIND is a transport (xdp_live, af_xdp, af_packet), SIZE in bytes, PPS 0 for as
//! many as possible. Frame n carries n behind its headers, as 8 bytes, little endian. Prints what was sent on stdout.
//! Send only where the traffic cannot leave: a veth pair in a network namespace, for example.

#![expect(clippy::print_stdout, reason = "an example says what it did")]

use pktgen_core::registry::find;
use pktgen_core::{Error, Result};
use pktgen_realtime::clock::Stopwatch;
use pktgen_realtime::transport::{End, TRANSPORTS, TransportPlan, Wire};
use pktgen_wire::wire::frame::{HEAD, SERVER_IP, Template, worker_ip};

/// Frames in memory; more than one call takes.
const FRAMES: usize = 4096;
/// Least frames per call at a given rate: as many as are due in this time.
const QUANTUM_NS: u64 = 50_000;

fn main() -> Result<()> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    println!("{}", blast(&args)?);
    Ok(())
}

/// Does what the arguments say, and says what it did.
pub fn blast(args: &[String]) -> Result<String> {
    let [interface, kind, size, count, pps] = args else {
        return Err(Error::config("usage: blast INTERFACE KIND SIZE COUNT PPS (PPS 0: as many as possible)"));
    };
    let number = |text: &String| text.parse::<u64>().map_err(|e| Error::config(format!("\"{text}\": {e}")));
    let (size, count, pps) = (number(size)? as usize, number(count)?, number(pps)?);
    if size < HEAD + 8 {
        return Err(Error::config(format!("frames of {size} B: {} or more hold headers and a number", HEAD + 8)));
    }
    let plan = TransportPlan {
        interfaces: vec![interface.clone()],
        ..TransportPlan::of(find(TRANSPORTS, "transport", kind, "KIND")?)
    };
    let mut wire = plan.kind.open(&plan, &[End::Workers], size)?.remove(0).whole();
    let wire = wire.as_mut();
    let (sent, seconds) = send(wire, size, count, pps)?;
    wire.flush(100_000_000)?;
    let dropped = wire.counters().send_dropped;
    Ok(format!("sent={sent} dropped={dropped} seconds={seconds:.3} mpps={:.3}", sent as f64 / seconds / 1e6))
}

/// Sends `count` frames, at most `pps` per second.
fn send(wire: &mut dyn Wire, size: usize, count: u64, pps: u64) -> Result<(u64, f64)> {
    let template = Template::new((worker_ip(1), 9000), (SERVER_IP, 9000), size);
    let mut frames = vec![vec![0xa5u8; size]; FRAMES];
    frames.iter_mut().for_each(|frame| template.emit(frame));
    let (mut sent, mut numbered) = (0u64, 0u64);
    let least = (u128::from(QUANTUM_NS) * u128::from(pps) / 1_000_000_000).max(1) as u64;
    let watch = Stopwatch::start();
    while sent < count {
        let due = match pps {
            0 => u64::MAX,
            _ => (watch.elapsed().as_nanos() * u128::from(pps) / 1_000_000_000) as u64 + 1,
        };
        let now = due.saturating_sub(sent).min(count - sent);
        if now < least.min(count - sent) {
            std::hint::spin_loop();
            continue;
        }
        let first = sent as usize % FRAMES;
        let take = (now as usize).min(FRAMES - first).min(FRAMES / 2);
        for n in numbered.max(sent)..sent + take as u64 {
            frames[n as usize % FRAMES][HEAD..HEAD + 8].copy_from_slice(&n.to_le_bytes());
        }
        numbered = numbered.max(sent + take as u64);
        let mut offered: [&[u8]; FRAMES / 2] = [&[]; FRAMES / 2];
        offered.iter_mut().zip(&frames[first..first + take]).for_each(|(to, frame)| *to = frame);
        sent += wire.send(&offered[..take])?.taken as u64;
    }
    Ok((sent, watch.elapsed().as_secs_f64()))
}
