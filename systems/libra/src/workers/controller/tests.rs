//! Tests of the controller by hand: what it requests, and what it states at the end of a run.

use std::sync::Arc;

use super::*;
use crate::format::control::CONTROL_MAX;
use pktgen_core::time::{MS, US};

const FULL: What = What::Status { packets: 0, dropped: 0, memory_ppm: 1_000_000 };
const WELL: What = What::Status { packets: 0, dropped: 0, memory_ppm: 0 };

/// The controller, at node 9, of the switches 5, 6 and 7 around node 0.
struct Rig {
    controller: Controller,
    pool: Pool,
    host: Host,
}

impl Rig {
    fn new() -> Self {
        let known = Standby { controller: 9, switch: 0, aggregators: Arc::from([5, 6, 7]) };
        let settings = Settings::read(&mut Section::of("endpoint", &[])).unwrap();
        let controller = Controller::new(known, settings, false);
        Rig { controller, pool: Pool::new(HEAD + HEADER + CONTROL_MAX, 8), host: Host::default() }
    }

    fn hear(&mut self, from: u16, session: u32, what: What, t: Time) {
        let control = Control { from, to: 9, session, what };
        self.controller.hear(&control, t, &mut self.pool, &mut self.host);
    }

    /// Sends a heartbeat, which these switches answer after a microsecond.
    fn beat(&mut self, t: Time, switches: &[u16]) {
        self.controller.tick(t, &mut self.pool, &mut self.host);
        let beat = self.controller.watch.beats() as u32;
        switches.iter().for_each(|from| self.hear(*from, beat, WELL, t + US));
    }

    /// Returns the requests since the last call, without heartbeats: to which node, in which session, what.
    fn sent(&mut self) -> Vec<(u16, u32, String)> {
        let mut sent = Vec::new();
        for outgoing in self.host.outgoing.drain(..) {
            let control = Control::parse(&self.pool.payload(&outgoing.frame)[HEADER..]).unwrap();
            if control.what != What::Heartbeat {
                sent.push((control.to, control.session, format!("{:?}", control.what)));
            }
            self.pool.release(outgoing.frame.buffer);
        }
        sent
    }
}

fn request(to: u16, session: u32, what: &str) -> (u16, u32, String) {
    (to, session, what.to_owned())
}

#[test]
fn a_sixteenth_change_is_refused() {
    for (before, sent) in [(14, vec![request(6, 15, "Prepare { fresh: true }")]), (15, Vec::new())] {
        let mut rig = Rig::new();
        rig.controller.session = before;
        rig.beat(0, &[5, 6, 7]);
        (1..=4).for_each(|n| rig.beat(n * MS, &[6, 7]));
        assert_eq!((rig.sent(), rig.controller.session), (sent, 15));
    }
}
