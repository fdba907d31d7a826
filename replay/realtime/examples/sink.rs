//! Counts what an interface receives, and drops it in the kernel, until stdin ends: `sink INTERFACE`. Prints frames and
//! bytes then.

#![expect(clippy::print_stdout, reason = "an example says what it did")]

use pktgen_core::{Error, Result};
use pktgen_realtime::transport::Sink;

fn main() -> Result<()> {
    let Some(interface) = std::env::args().nth(1) else { return Err(Error::config("usage: sink INTERFACE")) };
    let sink = Sink::attach(&interface, false)?;
    println!("ready");
    let _ = std::io::copy(&mut std::io::stdin(), &mut std::io::sink());
    let (frames, bytes) = sink.counts();
    println!("frames={frames} bytes={bytes}");
    Ok(())
}
