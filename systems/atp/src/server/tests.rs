//! Compares the server with a model: sets of workers by number, and sums in 64 bits.

use std::collections::{BTreeMap, BTreeSet};

use pktgen_wire::wire::frame::source_ip;
use proptest::prelude::*;

use super::*;
use crate::rig::{Setup, facts};

const WINDOW: u16 = 4;
const WORKERS: u32 = 3;

/// A packet: its number, workers, transmission, and value.
#[derive(Debug, Clone)]
struct Told {
    /// Number relative to the first incomplete one.
    ahead: u32,
    bitmap: u32,
    attempt: u8,
    value: i32,
    collision: bool,
    congested: bool,
}

fn told() -> impl Strategy<Value = Told> {
    let flags = (any::<bool>(), any::<bool>());
    (0..u32::from(WINDOW), 1u32..1 << WORKERS, 0u8..3, -1000i32..1000, flags).prop_map(
        |(ahead, bitmap, attempt, value, (collision, congested))| Told {
            ahead,
            bitmap,
            attempt,
            value,
            collision,
            congested,
        },
    )
}

/// State of a number in the model.
#[derive(Debug, Default)]
struct Known {
    workers: BTreeSet<u32>,
    sum: i64,
    collided: bool,
    congested: bool,
}

struct Bed {
    server: AtpServer,
    pool: Pool,
    host: Host,
}

impl Bed {
    fn new() -> Self {
        let setup = Setup {
            jobs: 1,
            workers: WORKERS,
            window: WINDOW.into(),
            aggregators: 9,
            loss: 0.0,
            copies: 0.0,
            way: 0,
            seed: 1,
            iterations: 1,
        };
        Bed {
            server: AtpServer::new(&facts(&setup), WINDOW, 9, 0),
            pool: Pool::new(UDP_FRAME_BYTES, 8),
            host: Host::default(),
        }
    }

    /// Delivers a packet; returns whether it was accepted, and header and first value of the answer.
    fn give(&mut self, header: &Header, value: i32) -> (Option<bool>, Option<(Header, i32)>) {
        let name = Name::of(header.key);
        let worker = u32::from(name.source);
        let (buffer, packet) = (self.pool.take(), PacketId::new(worker, name.number, name.attempt));
        let bytes = &mut self.pool.bytes_mut(buffer)[..UDP_FRAME_BYTES];
        Template::new((pktgen_wire::wire::frame::worker_ip(worker), WORKER_PORT), (SERVER_IP, PORT), UDP_FRAME_BYTES)
            .emit(bytes);
        header.emit(&mut bytes[HEAD..]);
        emit_values(&[value; ELEMENTS], values_mut(&mut bytes[HEAD..]));
        let (len, head) = (UDP_FRAME_BYTES as u16, HEAD as u8);
        let frame = Frame { t: 5, packet, buffer, worker, len, cluster: 0, flow: 1, head, kind: Kind::Update };
        self.server.on_burst(1, &[frame], &mut self.pool, &mut self.host);
        let row = self.host.deliveries.drain(..).next().map(|delivery| {
            self.pool.release(delivery.frame.buffer);
            delivery.row.accepted
        });
        let answer = self.host.outgoing.drain(..).next().map(|outgoing| {
            let payload = self.pool.payload(&outgoing.frame);
            assert_eq!(source_ip(self.pool.frame(&outgoing.frame)), SERVER_IP);
            let mut sums = [0; ELEMENTS];
            set_values(&mut sums, values(payload).unwrap());
            assert!(sums.iter().all(|sum| *sum == sums[0]));
            let header = Header::parse(payload).unwrap();
            self.pool.release(outgoing.frame.buffer);
            (header, sums[0])
        });
        (row, answer)
    }
}

fn header(number: u32, told: &Told) -> Header {
    let name = Name { number, attempt: told.attempt, source: told.bitmap.trailing_zeros() as u8 };
    Header {
        bitmap: told.bitmap,
        workers: WORKERS as u8,
        collision: told.collision,
        congested: told.congested,
        resent: told.attempt > 0,
        app: 1,
        seq: name.seq(),
        aggregator: (number % 9) as u16,
        key: name.key(),
        tensor: 500,
        ..Header::default()
    }
}

proptest! {
    #[test]
    fn the_server_is_the_model(all in prop::collection::vec(told(), 1..200)) {
        let mut bed = Bed::new();
        let mut known: BTreeMap<u32, Known> = BTreeMap::new();
        let mut ids = BTreeSet::new();
        let whole: BTreeSet<u32> = (0..WORKERS).collect();
        for told in &all {
            let from = (0..).find(|number| known.get(number).is_none_or(|own| own.workers != whole)).unwrap();
            // Workers are within a window of the oldest incomplete number or slightly behind it.
            let number = (from + told.ahead).saturating_sub(2);
            let header = header(number, told);
            let (row, answer) = bed.give(&header, told.value);
            let own = known.entry(number).or_default();
            let members: BTreeSet<u32> = (0..WORKERS).filter(|worker| told.bitmap >> worker & 1 == 1).collect();
            let before = own.workers.clone();
            own.collided |= told.collision && own.workers != whole;
            own.congested |= told.congested;
            let accepted = if members == whole && before != whole {
                own.sum = told.value.into();
                true
            } else if members.is_disjoint(&before) {
                own.sum += i64::from(told.value);
                true
            } else {
                false
            };
            if accepted {
                own.workers.extend(&members);
            }
            let fresh = ids.insert((number, told.bitmap.trailing_zeros(), told.attempt));
            prop_assert_eq!(row, fresh.then_some(accepted));
            let answers = (own.workers == whole) && (before != whole || told.attempt > 0);
            prop_assert_eq!(answer.is_some(), answers);
            if let Some((answer, sum)) = answer {
                prop_assert_eq!(i64::from(sum), own.sum);
                prop_assert_eq!((answer.ack, answer.collision, answer.congested), (true, own.collided, own.congested));
                prop_assert_eq!((answer.seq, answer.aggregator, Name::of(answer.key).number), (header.seq, header.aggregator, number));
                prop_assert!(own.collided || answer.tensor == 500, "what moved, moved there");
            }
        }
        prop_assert_eq!(bed.pool.in_use(), 0);
    }
}

/// A packet that arrives when all workers have its result is delivered, and not accepted.
#[test]
fn a_packet_two_windows_late_is_delivered() {
    let told = |bitmap, attempt| Told { ahead: 0, bitmap, attempt, value: 1, collision: false, congested: false };
    let mut bed = Bed::new();
    for number in 0..=2 * u32::from(WINDOW) {
        assert_eq!(bed.give(&header(number, &told(7, 0)), 1).0, Some(true));
    }
    assert_eq!(bed.give(&header(0, &told(1, 1)), 1), (Some(false), None));
    // A copy is not recognised any more.
    assert_eq!(bed.give(&header(0, &told(1, 1)), 1), (Some(false), None));
    assert_eq!((bed.server.counts.stale, bed.host.frames_again, bed.pool.in_use()), (2, 0, 0));
}

/// A copy has no row, and is counted; a retransmission is no copy.
#[test]
fn copies_of_packets_are_counted() {
    let mut bed = Bed::new();
    for (attempt, row, copies) in [(0, Some(true), 0), (0, None, 1), (1, Some(false), 1), (1, None, 2)] {
        let told = Told { ahead: 0, bitmap: 1, attempt, value: 1, collision: false, congested: false };
        assert_eq!(bed.give(&header(0, &told), 1).0, row, "{attempt}");
        assert_eq!(bed.host.frames_again, copies, "{attempt}");
    }
    assert_eq!(bed.pool.in_use(), 0);
}

#[test]
fn what_no_worker_can_have_sent_is_refused() {
    let good = Told { ahead: 0, bitmap: 1, attempt: 0, value: 1, collision: false, congested: false };
    let base = header(0, &good);
    let far = header(WINDOW.into(), &good);
    for (what, header) in [
        ("another job", Header { app: 2, ..base }),
        ("no job", Header { app: 0, ..base }),
        ("nobody", Header { bitmap: 0, ..base }),
        ("a worker that there is not", Header { bitmap: 8, ..base }),
        ("another number of workers", Header { workers: 2, ..base }),
        ("an answer", Header { ack: true, ..base }),
        ("floats", Header { overflow: true, ..base }),
        ("a number that does not fit the key", Header { seq: 2, ..base }),
        ("a contribution that is not in it", Header { key: base.key | 1 << 40, ..base }),
        ("a source beyond all bits", Header { key: base.key | 32 << 40, ..base }),
        ("a key with bits above its source", Header { key: base.key | 1 << 48, ..base }),
        ("a key with its highest bit", Header { key: base.key | 1 << 63, ..base }),
        ("a window ahead", far),
    ] {
        let mut bed = Bed::new();
        assert_eq!(bed.give(&header, 7), (None, None), "{what}");
        assert_eq!((bed.host.foreign, bed.pool.in_use()), (1, 0), "{what}");
    }
}
