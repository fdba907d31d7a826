//! An end of a cable with several queues: a wire for each.
//!
//! A card spreads arriving frames over its receive queues by addresses and ports, and sends from each queue separately,
//! so a thread can use a queue exclusively, from the core to the cable. An end is opened as a wire per queue. For one
//! thread per queue they are taken [apart](Ports::apart); for a single thread they become one wire that receives from
//! all in turn, and sends on the first only: frames of different queues may overtake each other.

use std::fs;
use std::os::fd::RawFd;
use std::path::Path;

use pktgen_core::{Error, Result};

use super::{Arrival, End, Found, Submitted, Wire, WireCounters, ethtool, safety, socket};

/// Interval of checks of a queue that cannot be waited for.
const LOOK_NS: u64 = 50_000;

/// Several wires of one end, as one.
pub(super) struct Queues {
    ports: Vec<Box<dyn Wire>>,
    /// The port that is polled first next time, so that a busy one does not starve the others.
    first: usize,
    waiting: Option<socket::Waiting>,
    at: End,
}

/// An open end: a wire for each of its queues. The first of them counts what concerns the interface as a whole.
pub struct Ports {
    at: End,
    wires: Vec<Box<dyn Wire>>,
    /// Descriptors that become readable on arrivals, if the kernel can wait for all.
    descriptors: Option<Vec<RawFd>>,
}

impl Ports {
    /// An end with one queue.
    pub(super) fn one(at: End, wire: Box<dyn Wire>) -> Self {
        Ports::new(at, vec![wire])
    }

    /// An end with these queues, without a common wait.
    pub(super) fn new(at: End, wires: Vec<Box<dyn Wire>>) -> Self {
        Ports { at, wires, descriptors: None }
    }

    /// An end with these queues, each with its descriptor.
    pub(super) fn waitable(at: End, ports: impl Iterator<Item = (Option<RawFd>, Box<dyn Wire>)>) -> Self {
        let (descriptors, wires): (Vec<_>, _) = ports.unzip();
        Ports { at, wires, descriptors: descriptors.into_iter().collect() }
    }

    /// Wraps the wire of each queue, given its number.
    pub(super) fn around(self, wrap: impl Fn(usize, Box<dyn Wire>) -> Result<Box<dyn Wire>>) -> Result<Self> {
        let wires = self.wires.into_iter().enumerate().map(|(queue, wire)| wrap(queue, wire));
        Ok(Ports { wires: wires.collect::<Result<_>>()?, ..self })
    }

    /// Returns one wire over all queues; a single one is returned unchanged.
    pub fn whole(mut self) -> Box<dyn Wire> {
        if self.wires.len() == 1 {
            return self.wires.remove(0);
        }
        let waiting = self.descriptors.map(socket::Waiting::on);
        Box::new(Queues { ports: self.wires, first: 0, waiting, at: self.at })
    }

    /// Returns a wire for each queue, for one thread each.
    pub fn apart(self) -> Vec<Box<dyn Wire>> {
        self.wires
    }
}

impl Wire for Queues {
    fn send(&mut self, frames: &[&[u8]]) -> Result<Submitted> {
        self.ports[0].send(frames)
    }

    fn receive(&mut self, most: usize, each: &mut dyn FnMut(Arrival<'_>)) -> Result<Found> {
        // From one queue: callers read the clock once per call, and frames of the others may be sent during it.
        for _ in 0..self.ports.len() {
            let found = self.ports[self.first].receive(most, each)?;
            self.first = (self.first + 1) % self.ports.len();
            if found.frames > 0 {
                return Ok(found);
            }
        }
        Ok(Found::some(0))
    }

    fn wait(&mut self, timeout_ns: u64) -> Result<()> {
        let Some(waiting) = &mut self.waiting else { return self.ports[0].wait(timeout_ns.min(LOOK_NS)) };
        let is_readable = waiting
            .wait(timeout_ns)
            .map_err(|e| Error::Host(format!("this host cannot wait for the queues of {}: {e}", self.at.name())))?;
        // Nothing came: a port knows whether the interface is down.
        if is_readable { Ok(()) } else { self.ports[0].wait(0) }
    }

    fn flush(&mut self, timeout_ns: u64) -> Result<()> {
        self.ports[0].flush(timeout_ns)
    }

    fn counters(&mut self) -> WireCounters {
        self.ports.iter_mut().map(|port| port.counters()).fold(WireCounters::default(), WireCounters::plus)
    }

    fn mode(&self) -> String {
        format!("{}; receives from {} queues in turn, sends on this one", self.ports[0].mode(), self.ports.len())
    }

    fn notes(&mut self) -> Vec<(String, String)> {
        let counts: Vec<_> = self.ports.iter_mut().map(|port| port.counters().received.to_string()).collect();
        vec![(format!("queues.{}", self.at.name()), format!("received {}", counts.join(", ")))]
    }
}

/// Returns the numbers of receive and send queues of an interface. `folder` describes all interfaces.
pub(super) fn count(folder: &Path, interface: &str) -> Result<(u32, u32)> {
    let path = folder.join(interface).join("queues");
    // An entry that cannot be read may be a queue.
    let entries = fs::read_dir(&path).and_then(|entries| entries.collect::<std::io::Result<Vec<_>>>());
    let entries = entries.map_err(|e| {
        Error::Host(format!("this host cannot tell how many queues {interface} has: {}: {e}", path.display()))
    })?;
    let names: Vec<_> = entries.iter().map(|entry| entry.file_name()).collect();
    let of = |prefix| names.iter().filter(|name| name.to_str().is_some_and(|name| name.starts_with(prefix))).count();
    Ok((of("rx-") as u32, of("tx-") as u32))
}

/// Returns the number of send queues of an interface; refuses one that does not exist or is not up.
pub(crate) fn to_send(interface: &str) -> Result<u32> {
    safety::check_usable(interface)?;
    count(Path::new("/sys/class/net"), interface).map(|(_, send)| send)
}

/// Returns whether threads may send from `queues` queues of an interface. It may have fewer send than receive queues.
pub(super) fn sends_from(folder: &Path, interface: &str, queues: u32) -> bool {
    count(folder, interface).is_ok_and(|(_, send)| send >= queues)
}

/// Refuses to use more queues than an interface has. `folder` describes all interfaces.
pub fn check_enough_queues(folder: &Path, interface: &str, key: &str, queues: u32) -> Result<()> {
    if queues == 1 {
        return Ok(());
    }
    let (receive, send) = count(folder, interface)?;
    let has = receive.min(send);
    if queues > has {
        return Err(Error::Host(format!(
            "{key} = {queues}, and {interface} has {receive} receive queues and {send} send queues; ask for {has}, or \
             give it more: {}",
            ethtool::set_queues(ethtool::driver(interface).as_deref(), interface, queues)
        )));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::super::ring::cable;
    use super::*;

    /// A time that a caller reads during a call is after the sending of all of its frames.
    #[test]
    fn a_call_receives_from_one_queue_and_the_next_one_from_another() {
        let (mut far, near): (Vec<_>, Vec<_>) = (0..3).map(|_| cable(256, 64)).unzip();
        let mut whole = Ports::new(End::Workers, near).whole();
        assert_eq!(far[0].send(&[&[0; 8], &[0; 8]]).unwrap().taken, 2);
        let mut got = Vec::new();
        for _ in 0..3 {
            let found = whole.receive(64, &mut |arrival| {
                got.push(arrival.bytes[0]);
                if got.len() < 3 {
                    assert_eq!(far[2].send(&[&[2; 8]]).unwrap().taken, 1);
                    assert_eq!(far[0].send(&[&[0; 8]]).unwrap().taken, 1);
                }
            });
            assert_eq!(found.unwrap().frames, 2);
        }
        assert_eq!(got, [0, 0, 2, 2, 0, 0]);
        assert_eq!(whole.receive(64, &mut |_| {}).unwrap().frames, 0);
    }

    #[test]
    fn more_queues_than_an_interface_has_are_refused_with_both_numbers() {
        let folder = tempfile::tempdir().unwrap();
        for name in ["rx-0", "rx-1", "rx-2", "tx-0", "tx-1"] {
            fs::create_dir_all(folder.path().join("eth7/queues").join(name)).unwrap();
        }
        let check = |interface, queues| {
            check_enough_queues(folder.path(), interface, "transport.queues", queues).map_err(|e| e.to_string())
        };
        assert_eq!((check("eth7", 1), check("eth7", 2), check("eth8", 1)), (Ok(()), Ok(()), Ok(())));
        let many = check("eth7", 3).unwrap_err();
        assert!(many.contains("queues = 3") && many.contains("has 3 receive queues and 2 send queues"), "{many}");
        assert!(many.contains("ask for 2") && many.contains("ethtool -L eth7 combined 3"), "{many}");
        assert!(check("eth8", 2).unwrap_err().contains("eth8"));
        let sends = |interface, queues| sends_from(folder.path(), interface, queues);
        assert_eq!((sends("eth7", 2), sends("eth7", 3), sends("eth8", 2)), (true, false, false));
    }
}
