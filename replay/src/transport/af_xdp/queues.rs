//! An end of a cable over AF_XDP: a port for each queue of its interface.
//!
//! A card spreads what arrives over its receive queues by flow, and an AF_XDP socket hears one of them. What came to a
//! queue that nobody hears would be lost and counted nowhere, so an end hears all, or is refused. It sends on queue 0
//! only: frames of different queues may overtake each other. Live frames (`xdp_live`) come to a veth on the queue of the
//! core that sends, so there a thread that is moved to another core may make later frames overtake earlier ones.

use std::fs;
use std::path::Path;
use std::sync::Arc;

use pktgen_generator::{Error, Result};

use super::super::bpf::host_error;
use super::super::link::Interface;
use super::super::redirect::Redirect;
use super::super::{Arrival, End, TransportPlan, Wire, WireCounters, xsk};
use super::{AfXdp, HEADROOM, Options};

/// An end that sends and receives frames of up to `frame_max` bytes.
pub fn end(plan: &TransportPlan, at: End, frame_max: usize) -> Result<Box<dyn Wire>> {
    let interface = plan.interface(at)?;
    check_queues(Path::new("/sys/class/net"), interface, plan.queues)?;
    let options = Options { zero_copy: plan.zero_copy, ..Options::new(interface).for_frames(frame_max) };
    check_chunk(&options, frame_max)?;
    let mut ports = open(&options, plan.queues)?;
    plan.check_fit(frame_max, interface, ports[0].frame_max())?;
    match ports.len() {
        1 => Ok(Box::new(ports.remove(0))),
        _ => Ok(Box::new(Queues::over(ports))),
    }
}

/// Opens the first `queues` queues, with one program for all.
fn open(options: &Options, queues: u32) -> Result<Vec<AfXdp>> {
    let interface = || Interface::open(&options.interface);
    let redirect = Arc::new(Redirect::attach(&interface()?, options.attach, queues)?);
    let open = |queue| AfXdp::over(interface()?, &Options { queue, ..options.clone() }, Some(redirect.clone()));
    (0..queues).map(open).collect()
}

/// Refuses frames that no chunk holds, whatever the MTU is.
fn check_chunk(options: &Options, frame_max: usize) -> Result<()> {
    let most = options.capabilities().frame_max;
    if frame_max > most {
        return Err(Error::config(format!(
            "frames of up to {frame_max} bytes do not go over AF_XDP on {}: a chunk of {} holds {most} beside the kernel's \
             {HEADROOM}; lower workload.bytes, set endpoint.ack_model = \"none\", or use kind = \"af_packet\"",
            options.interface, options.chunk
        )));
    }
    Ok(())
}

/// Refuses an interface that has other than `queues` receive queues. `folder` describes all interfaces.
fn check_queues(folder: &Path, interface: &str, queues: u32) -> Result<()> {
    let path = folder.join(interface).join("queues");
    let entries = fs::read_dir(&path).map_err(|e| {
        Error::Host(format!("this host cannot tell how many queues {interface} has: {}: {e}", path.display()))
    })?;
    let is_receive = |name: &std::ffi::OsStr| name.to_str().is_some_and(|name| name.starts_with("rx-"));
    let has = entries.flatten().filter(|entry| is_receive(&entry.file_name())).count() as u32;
    match queues {
        _ if queues == has => Ok(()),
        _ if queues > has => Err(Error::Host(format!(
            "transport.queues = {queues}, and {interface} has {has} receive queues; ask for {has}, or give it more: \
             ethtool -L {interface} combined {queues}"
        ))),
        _ => Err(Error::Host(format!(
            "{interface} has {has} receive queues, and transport.queues = {queues}: what comes to the others would be lost \
             and counted nowhere; set transport.queues = {has}, or ethtool -L {interface} combined {queues}"
        ))),
    }
}

/// Several ports of one interface.
struct Queues {
    ports: Vec<AfXdp>,
    /// The port that is asked first next time, so that a busy one does not keep the others waiting.
    first: usize,
    sockets: Vec<libc::pollfd>,
}

impl Queues {
    fn over(ports: Vec<AfXdp>) -> Self {
        let sockets = ports.iter().map(|port| xsk::readable(port.socket.raw_fd())).collect();
        Queues { ports, first: 0, sockets }
    }
}

impl Wire for Queues {
    fn send(&mut self, frames: &[&[u8]]) -> Result<usize> {
        self.ports[0].send(frames)
    }

    fn receive(&mut self, most: usize, each: &mut dyn FnMut(Arrival<'_>)) -> Result<usize> {
        let (first, count) = (self.first, self.ports.len());
        self.first = (first + 1) % count;
        let mut total = 0;
        for turn in 0..count {
            if total == most {
                break;
            }
            total += self.ports[(first + turn) % count].receive(most - total, each)?;
        }
        Ok(total)
    }

    fn wait(&mut self, timeout_ns: u64) -> Result<()> {
        let wait = xsk::wait_readable(&mut self.sockets, timeout_ns);
        wait.map_err(|e| host_error(&format!("wait for frames on {}", self.ports[0].options.interface), &e))
    }

    fn flush(&mut self, timeout_ns: u64) -> Result<()> {
        self.ports[0].flush(timeout_ns)
    }

    fn counters(&mut self) -> WireCounters {
        // What is said of sending is the first port's, and the interface's; what of receiving, each socket's own.
        let mut total = self.ports[0].counters();
        for port in &mut self.ports[1..] {
            let one = port.counters();
            total.received += one.received;
            total.receive_dropped += one.receive_dropped;
        }
        total
    }

    fn mode(&self) -> String {
        format!("{}; receives from {} queues in turn, sends on this one", self.ports[0].mode(), self.ports.len())
    }

    fn notes(&mut self) -> Vec<(String, String)> {
        let counts: Vec<_> = self.ports.iter().map(|port| port.received.to_string()).collect();
        vec![(format!("queues.{}", self.ports[0].options.interface), format!("received {}", counts.join(", ")))]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_interface_has_as_many_queues_as_are_heard() {
        let folder = tempfile::tempdir().unwrap();
        for name in ["rx-0", "rx-1", "rx-2", "tx-0", "tx-1", "tx-2", "tx-3"] {
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
