//! An end of a cable over AF_XDP: a port for each queue of its interface.
//!
//! A card spreads arriving frames over its receive queues by addresses and ports, and an AF_XDP socket receives from
//! one of them. Frames in a queue without a socket would be lost and not counted, so an end has a socket for each
//! queue, or is refused. Live frames (`xdp_live`) arrive at a veth on the queue of the sending core, so if the thread
//! is moved to another core, later frames may overtake earlier ones.

use std::path::Path;
use std::sync::Arc;

use pktgen_core::{Error, Result};

use super::super::ethtool;
use super::super::link::Interface;
use super::super::queues::{self, Ports};
use super::super::redirect::Redirect;
use super::super::{End, TransportPlan, Wire};
use super::{AfXdp, HEADROOM, Options};

/// An end that sends and receives frames of up to `frame_max` bytes: a port for each queue.
pub fn ports(plan: &TransportPlan, at: End, frame_max: usize) -> Result<Ports> {
    let interface = plan.interface(at)?;
    check_queues(Path::new("/sys/class/net"), interface, plan.queues)?;
    let options = Options { zero_copy: plan.zero_copy, ..Options::new(interface).for_frames(frame_max) };
    check_chunk(&options, plan.smaller, frame_max)?;
    let ports = open(&options, plan.queues)?;
    plan.check_fit(frame_max, interface, ports[0].frame_max())?;
    let waitable = |port: AfXdp| (Some(port.descriptor()), Box::new(port) as Box<dyn Wire>);
    Ok(Ports::waitable(at, ports.into_iter().map(waitable)))
}

/// Opens the first `queues` queues, with one program for all.
pub fn open(options: &Options, queues: u32) -> Result<Vec<AfXdp>> {
    let interface = || Interface::open(&options.interface);
    let redirect = Arc::new(Redirect::attach(&interface()?, options.attach, queues)?);
    // The interface's count of drops covers all queues; one port reports it.
    let open = |queue| {
        let options = Options { queue, tells_interface: queue == 0, ..options.clone() };
        AfXdp::over(interface()?, &options, Some(redirect.clone()))
    };
    (0..queues).map(open).collect()
}

/// Refuses frames that fit no chunk, for any MTU.
fn check_chunk(options: &Options, smaller: &str, frame_max: usize) -> Result<()> {
    let most = options.capabilities().frame_max;
    if frame_max > most {
        return Err(Error::config(format!(
            "frames of up to {frame_max} bytes do not go over AF_XDP on {}: a chunk of {} holds {most} beside the kernel's \
             {HEADROOM}; {smaller}, or use kind = \"af_packet\"",
            options.interface, options.chunk
        )));
    }
    Ok(())
}

/// Refuses an interface with a number of receive queues other than `queues`. `folder` describes all interfaces.
pub(crate) fn check_queues(folder: &Path, interface: &str, queues: u32) -> Result<()> {
    let (has, _) = queues::count(folder, interface)?;
    let give = || ethtool::set_queues(ethtool::driver(interface).as_deref(), interface, queues);
    match queues {
        _ if queues == has => Ok(()),
        _ if queues > has => Err(Error::Host(format!(
            "transport.queues = {queues}, and {interface} has {has} receive queues; ask for {has}, or give it more: {}",
            give()
        ))),
        _ => Err(Error::Host(format!(
            "{interface} has {has} receive queues, and transport.queues = {queues}: what comes to the others would be lost \
             and counted nowhere; only transport.queues = {has} is possible, unless: {}",
            give()
        ))),
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn an_interface_has_as_many_queues_as_are_heard() {
        let folder = tempfile::tempdir().unwrap();
        for name in ["rx-0", "rx-1", "rx-2", "tx-0"] {
            fs::create_dir_all(folder.path().join("eth7/queues").join(name)).unwrap();
        }
        let check = |interface, queues| check_queues(folder.path(), interface, queues).map_err(|e| e.to_string());
        assert_eq!(check("eth7", 3), Ok(()));
        let (few, many) = (check("eth7", 1).unwrap_err(), check("eth7", 4).unwrap_err());
        assert!(few.contains("queues = 3") && few.contains("ethtool -L eth7 combined 1"), "{few}");
        assert!(many.contains("queues = 4") && many.contains("has 3"), "{many}");
        assert!(check("eth8", 1).unwrap_err().contains("eth8"));
    }
}
