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

/// A full switch 5 whose state switch 6 has: the switch in the middle is asked to send packets there.
fn activating() -> Rig {
    let mut rig = Rig::new();
    rig.beat(0, &[6, 7]);
    rig.hear(5, 1, FULL, US);
    rig.hear(5, 1, What::Frozen(0), 2 * US);
    rig.hear(6, 1, What::Prepared, 3 * US);
    rig.hear(6, 1, What::Begun, 4 * US);
    let asked = [(5, "Freeze"), (6, "Prepare { fresh: false }"), (6, "Begin"), (0, "Activate(6)")];
    assert_eq!(rig.sent(), asked.map(|(to, what)| request(to, 1, what)));
    rig
}

#[test]
fn a_silent_switch_that_may_have_begun_is_replaced_itself() {
    let mut rig = activating();
    // The answer is lost, and switch 6 is silent.
    (1..=3).for_each(|n| rig.beat(n * MS, &[5, 7]));
    assert_eq!(rig.sent(), vec![request(0, 1, "Activate(6)"); 2], "sent again");
    rig.beat(4 * MS, &[5, 7]);
    assert_eq!(rig.sent(), [request(5, 1, "Retire"), request(7, 2, "Prepare { fresh: true }")]);
    rig.hear(7, 2, What::Prepared, 4 * MS + 2 * US);
    rig.hear(7, 2, What::Begun, 4 * MS + 3 * US);
    rig.hear(0, 2, What::Activated, 4 * MS + 4 * US);
    rig.hear(5, 1, What::Retired, 4 * MS + 5 * US);
    let counts = rig.controller.counts;
    assert_eq!((rig.controller.active, counts.migrations, counts.takeovers), (2, 1, 1));
    rig.sent();
    // It speaks again: what it has added is lost.
    rig.hear(6, 5, WELL, 4 * MS + 6 * US);
    assert_eq!(rig.sent(), [request(6, 2, "Retire")]);
}

#[test]
fn without_another_standby_switch_the_switch_in_the_middle_is_asked_until_it_answers() {
    let mut rig = activating();
    (1..=4).for_each(|n| rig.beat(n * MS, &[5]));
    rig.sent();
    assert_eq!((rig.controller.active, rig.controller.stuck), (1, true));
    assert!(rig.controller.unfinished().is_some_and(|why| why.contains("no standby switch was well")));
    rig.hear(0, 1, What::Activated, 4 * MS + 2 * US);
    rig.hear(5, 1, What::Retired, 4 * MS + 3 * US);
    // Switch 6 was slow, and is the one that adds up.
    rig.hear(6, 5, WELL, 4 * MS + 4 * US);
    rig.beat(5 * MS, &[5, 6]);
    assert_eq!((rig.sent(), rig.controller.active, rig.controller.stuck), (Vec::new(), 1, false));
}

#[test]
fn a_switch_that_waited_for_a_standby_switch_is_no_fault() {
    let mut rig = Rig::new();
    rig.beat(0, &[]);
    rig.hear(5, 1, FULL, US);
    assert_eq!((rig.controller.counts.no_standby, rig.controller.stuck, rig.controller.unfinished()), (1, true, None));
    rig.hear(6, 1, WELL, 2 * US);
    rig.hear(5, 1, FULL, 3 * US);
    // The run ends before the change does.
    assert_eq!(rig.sent(), [request(5, 1, "Freeze")]);
    assert_eq!(rig.controller.unfinished(), None);
}

#[test]
fn a_silent_switch_without_a_standby_switch_is_named_at_the_end() {
    let mut rig = Rig::new();
    rig.beat(0, &[5]);
    (1..=4).for_each(|n| rig.beat(n * MS, &[]));
    assert!(rig.controller.unfinished().is_some_and(|why| why.contains("topology.standby")));
    rig.hear(5, 5, WELL, 4 * MS + US);
    assert_eq!(rig.controller.unfinished(), None, "it was slow");
}

#[test]
fn a_pause_of_heartbeats_is_no_silence() {
    let mut rig = Rig::new();
    rig.beat(0, &[5, 6, 7]);
    rig.controller.resume(MS);
    assert_eq!(rig.controller.next(), MS, "not overdue");
    rig.controller.resume(20 * MS);
    assert_eq!(rig.controller.next(), 20 * MS);
    rig.beat(20 * MS, &[5, 6, 7]);
    assert_eq!((rig.sent(), rig.controller.unfinished()), (Vec::new(), None));
}
