//! Rules tested by hand.

use crate::format::{HEADER, Header, PORT};
use pktgen_core::config::{Section, Value};
use pktgen_core::record::{Action, PacketId, Reason};
use pktgen_core::time::{MS, Time, US};
use pktgen_wire::wire::frame::{Datagram, SERVER_IP, group_ip, has_udp_checksum, set_udp_checksum};

use super::super::TrioMlKind;
use super::super::job::JobRecord;
use super::super::settings::Settings;
use super::super::table::{BlockRecord, Table};
use super::rig::{Input, ROOM, Rig, job, place};
use crate::chip::ChipSettings;
use pktgen_engine::frame::Kind;
use pktgen_engine::groups::JobPlace;
use pktgen_engine::target::program::ProgramKind;

fn input(t: Time, source: u8, generation: u16, values: &[i32]) -> Input {
    let header = Header { source, sources: 1, generation, ..Default::default() };
    Input { t, header, values: values.to_vec(), packet: PacketId::new(source.into(), t as u32, 0) }
}

fn two() -> Vec<JobPlace> {
    vec![job(&[(0, 1), (1, 1)], None, &[0])]
}

fn plain() -> [(&'static str, Value); 1] {
    [("chip", "none".into())]
}

#[test]
fn a_result_has_the_headers_of_the_group() {
    let mut rig = Rig::new(two(), &plain());
    rig.offer(&input(0, 1, 5, &[i32::MAX, 3]));
    rig.offer(&input(1, 0, 5, &[1, -4]));
    rig.finish();
    let (_, frame) = rig.out.frames[0];
    assert_eq!((frame.kind, frame.packet, frame.cluster, frame.worker), (Kind::Result, PacketId::new(1, 0, 0), 0, 0));
    let datagram = Datagram::parse(rig.pool.frame(&frame)).unwrap();
    assert_eq!((datagram.src, datagram.src_port), (SERVER_IP, PORT));
    assert_eq!((datagram.dst, datagram.dst_port), (group_ip(0), PORT));
    assert!(!has_udp_checksum(rig.pool.frame(&frame)));
    let (_, sent) = rig.sent().remove(0);
    // Job, block, generation, source, sources, elements, age_op, last, degraded.
    assert_eq!((sent.header, &sent.values[..]), ([0, 0, 5, 1, 2, 2, 0, 0, 0], &[i32::MIN, -1][..]));
    assert_eq!((rig.counter("blocks"), rig.counter("results"), rig.counter("degraded")), (1, 1, 0));
}

#[test]
fn checksums_are_filled_in_on_request() {
    let mut place = place(two());
    place.udp_checksum = true;
    let program = TrioMlKind.open(&mut Section::of("target", &plain()), place).unwrap();
    let mut rig = Rig { program, ..Rig::new(two(), &plain()) };
    rig.offer(&input(0, 0, 0, &[7]));
    rig.offer(&input(0, 1, 0, &[8]));
    rig.finish();
    let mut bytes = rig.pool.frame(&rig.out.frames[0].1).to_vec();
    let before = bytes.clone();
    assert!(has_udp_checksum(&bytes) && bytes.len() == 60, "padded as Ethernet pads");
    assert_eq!(Datagram::parse(&bytes).unwrap().payload.len(), HEADER + 4, "padding is behind the datagram");
    set_udp_checksum(&mut bytes);
    assert_eq!(bytes, before);
}

#[test]
fn a_late_packet_opens_a_record_unless_the_device_remembers() {
    for tombstones in [false, true] {
        let mut rig = Rig::new(two(), &[("chip", "none".into()), ("tombstones", tombstones.into())]);
        rig.offer(&input(0, 0, 9, &[1]));
        rig.pass(30 * MS);
        assert_eq!((rig.counter("aged"), rig.counter("results")), (1, 1));
        rig.offer(&input(30 * MS, 1, 9, &[2]));
        rig.finish();
        assert_eq!(rig.counter("late"), 1);
        assert_eq!(rig.counter("results"), if tombstones { 1 } else { 2 });
        assert_eq!(rig.drops(), if tombstones { vec![Reason::Late] } else { vec![] });
    }
}

#[test]
fn a_newer_generation_ends_the_older_one() {
    let mut rig = Rig::new(two(), &plain());
    rig.offer(&input(0, 0, 65535, &[1]));
    rig.offer(&input(1, 0, 0, &[2, 3]));
    rig.offer(&input(2, 1, 65535, &[4]));
    rig.offer(&input(3, 1, 0, &[5, 6]));
    rig.finish();
    let sent: Vec<_> = rig.sent().into_iter().map(|(_, plain)| (plain.header, plain.values)).collect();
    assert_eq!(sent, [([0, 0, 65535, 0, 1, 1, 1, 0, 1], vec![1]), ([0, 0, 0, 0, 2, 2, 0, 0, 0], vec![7, 9])]);
    assert_eq!((rig.drops(), rig.counter("evicted")), (vec![Reason::Stale], 1));
}

#[test]
fn late_records_are_forgotten_when_they_have_left() {
    let place = place(two());
    let settings = Settings::read(&mut Section::of("target", &[]), &place).unwrap();
    let mut job = JobRecord::new(0, &place.jobs[0], &settings, 1);
    let mut table = Table::new(ROOM, 1, 1);
    let mut open = |job: &mut JobRecord, block: u32| {
        let opener = PacketId::new(0, block, 0);
        let mut record = BlockRecord::new(0, block, opener, 0);
        record.late = true;
        let index = table.insert(record, 0);
        job.opened_late((index, block, opener), &table);
        // Every tenth one leaves with the next of these, the others at once.
        let leaves = match block.is_multiple_of(10) {
            true => block.checked_sub(10).and_then(|before| table.find(0, before)),
            false => Some(index),
        };
        if let Some(index) = leaves {
            table.remove(index);
            table.release(index);
        }
        job.late.len()
    };
    assert!((0..1000).all(|block| open(&mut job, block) <= 12));
    let last = table.find(0, 990);
    assert!(last.is_some() && job.oldest_late(&table) == last);
    assert_eq!(job.oldest_late(&table), None);
}

#[test]
fn late_generations_do_not_hide_later_ones() {
    // The record that a late packet opened has aged, or is replaced by the next one.
    for wait in [30 * MS, 3] {
        let mut rig = Rig::new(two(), &plain());
        rig.offer(&input(0, 0, 9, &[1]));
        rig.offer(&input(1, 1, 9, &[1]));
        rig.offer(&input(2, 0, 7, &[1]));
        rig.pass(2 + wait);
        rig.offer(&input(2 + wait, 0, 8, &[1]));
        rig.finish();
        assert_eq!((rig.counter("late"), rig.counter("evicted")), (2, u64::from(wait < MS)), "after {wait} ps");
    }
}

#[test]
fn a_copy_of_a_link_represents_no_sum() {
    for chip in ["none", "trio"] {
        let mut rig = Rig::new(two(), &[("chip", chip.into())]);
        rig.offer(&input(0, 0, 0, &[1]));
        rig.offer(&input(1, 1, 0, &[2]));
        rig.offer(&Input { packet: PacketId::NOBODY, ..input(1, 1, 0, &[2]) });
        rig.offer(&input(2, 0, 0, &[1]));
        rig.finish();
        let retransmitted = PacketId::new(0, 2, 0);
        assert!(rig.rows().iter().all(|row| row.1 != PacketId::NOBODY && row.3 != Some(PacketId::NOBODY)));
        assert!(rig.rows().iter().any(|row| (row.1, row.2) == (retransmitted, Action::Queued)), "it opens a record");
        assert_eq!((rig.counter("duplicates"), rig.counter("late"), rig.counter("results")), (1, 1, 2), "{chip}");
        rig.sent();
        assert_eq!(rig.pool.in_use(), 0);
    }
}

#[test]
fn any_lookup_sets_the_ref_flag() {
    // A duplicate every 9 ms keeps a block of 10 ms alive; without them it is gone after 20 ms.
    let mut rig = Rig::new(two(), &plain());
    for i in 0..20 {
        rig.pass(i * 9 * MS);
        rig.offer(&input(i * 9 * MS, 0, 0, &[1]));
    }
    assert_eq!((rig.counter("duplicates"), rig.counter("aged")), (19, 0));
    rig.finish();
    assert_eq!(rig.counter("aged"), 1);
}

#[test]
fn a_job_may_have_255_sources() {
    let sources: Vec<_> = (0..255).map(|id| (id, 1)).collect();
    let mut rig = Rig::new(vec![job(&sources, None, &[0])], &plain());
    for source in 0..=255 {
        rig.offer(&input(source.into(), source, 0, &[1 << 23, source.into()]));
    }
    rig.finish();
    let (_, sent) = rig.sent().remove(0);
    assert_eq!((sent.header[4], sent.header[8]), (255, 0));
    assert_eq!(sent.values, [255i64.wrapping_shl(23) as i32, 255 * 254 / 2]);
    assert_eq!(rig.drops(), [Reason::UnknownSource], "id 255 is nobody's");
}

#[test]
fn a_result_leaves_when_the_last_thread_has_ended() {
    let mut rig = Rig::new(two(), &[]);
    let chip = ChipSettings::default();
    rig.offer(&input(0, 0, 0, &[1; 20]));
    rig.offer(&input(5, 1, 0, &[1; 20]));
    let done = 5 + chip.packet_time(20) + chip.result_time(20);
    assert_eq!((rig.program.next_wake(), rig.pool.in_use()), (done, 0));
    // The record no longer exists: the next packet of the block opens another one.
    rig.offer(&input(6, 1, 1, &[1; 20]));
    rig.pass(done);
    let departed: Vec<_> = rig.rows().into_iter().filter(|row| row.2 == Action::Departed).collect();
    assert_eq!(departed, [(done, PacketId::new(0, 0, 0), Action::Departed, None, None)]);
    rig.finish();
    assert_eq!((rig.counter("results"), rig.counter("records_max")), (2, 1));
    let times = [5 + chip.packet_time(20) + chip.result_time(20) - 5, 2 * chip.packet_time(20)];
    assert_eq!(rig.counter("packet_time_ps") as i64, times.iter().sum::<i64>());
    rig.sent();
    assert_eq!(rig.pool.in_use(), 0);
}

#[test]
fn without_mitigation_nothing_wakes_and_blocks_wait() {
    let mut rig = Rig::new(two(), &[("mitigation", false.into()), ("chip", "none".into())]);
    rig.offer(&input(0, 0, 0, &[1]));
    rig.finish();
    rig.offer(&input(3_600_000 * MS, 1, 0, &[1]));
    rig.finish();
    assert_eq!((rig.counter("results"), rig.counter("degraded")), (1, 0));
}

#[test]
fn keys_are_the_ones_that_are_read() {
    let mut section = Section::of("target", &[]);
    TrioMlKind.open(&mut section, place(two())).unwrap();
    let mut asked: Vec<_> = section.asked().iter().map(String::as_str).collect();
    let mut named: Vec<_> = pktgen_core::config::names_of(TrioMlKind.keys()).collect();
    asked.sort_unstable();
    named.sort_unstable();
    assert_eq!(asked, named);
}

#[test]
fn what_does_not_fit_is_refused_by_name() {
    let open = |jobs: Vec<JobPlace>, key: &str, value: Value| {
        TrioMlKind.open(&mut Section::of("target", &[(key, value)]), place(jobs)).map(drop)
    };
    for (key, value) in [
        ("block_cnt_max", 65_536u32.into()),
        ("block_cnt_max", 0u32.into()),
        ("block_grad_max", 33u32.into()),
        ("timers", 0u32.into()),
        ("timeout", "1500us".into()),
        ("timeout", "256ms".into()),
        ("timeout", "0ms".into()),
        ("straggler_interval", "1us".into()),
        ("straggler_misses", 0.0.into()),
        ("straggler_min", 0u32.into()),
    ] {
        let message = open(two(), key, value).unwrap_err().to_string();
        assert!(message.contains(&format!("target.{key}")), "{message}");
    }
    let above = || vec![job(&[(0, 3), (3, 3)], None, &[0])];
    let message = open(above(), "top_timeout", "9ms".into()).unwrap_err().to_string();
    assert!(message.contains("target.top_timeout") && message.contains("20ms"), "{message}");
    assert!(open(above(), "top_timeout", "10ms".into()).is_ok(), "one timeout for all (§6.1)");
    assert!(open(above(), "timeout", "128ms".into()).is_err(), "twice that does not fit 8 bits");
    let stated = [("timeout", "200ms".into()), ("top_timeout", "200ms".into())];
    assert!(TrioMlKind.open(&mut Section::of("target", &stated), place(above())).is_ok(), "what is stated fits");
    assert!(open(two(), "top_timeout", "19ms".into()).is_ok() && open(two(), "timeout", "255ms".into()).is_ok());
    assert!(open(vec![JobPlace::default(); 257], "timers", 3u32.into()).is_err());
    let many: Vec<_> = (0..=255).map(|id| (id, 1)).collect();
    assert!(open(vec![job(&many, None, &[0])], "timers", 3u32.into()).is_err());
    assert!(open(vec![job(&many[..255], None, &[0])], "timers", 3u32.into()).is_ok());
}

#[test]
fn a_simulation_ends() {
    let mut rig = Rig::new(two(), &plain());
    assert_eq!(rig.program.next_wake(), i64::MAX);
    rig.offer(&input(3 * US, 0, 0, &[1]));
    assert_eq!(rig.program.next_wake(), 100 * US, "ticks keep their times");
    rig.offer(&input(4 * US, 1, 0, &[1]));
    assert_eq!(rig.program.next_wake(), i64::MAX);
}
