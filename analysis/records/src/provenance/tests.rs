use pktgen_workload::lanes::{Ask, Detail, Layout, Merge, Number};

use super::*;
use crate::run::{ReceivedColumns, SentColumns};
use crate::testing::Story;
use crate::{Analysis, Options};

/// Two workers of cluster 0 and one of cluster 1; the lanes of a packet are the sums of its members' lanes.
struct Bed {
    layout: Layout,
    records: Records,
    lanes: LaneColumns,
}

const CLUSTERS: [u16; 3] = [0, 0, 1];
const RANKS: [u32; 3] = [0, 1, 0];

impl Bed {
    fn new(detail: Detail, window: u32) -> Self {
        let ask = Ask { detail, merge: Merge::Sum, window };
        let layout = Layout::plan((Number::F32, false), ask, 2, 46).unwrap();
        Bed { layout, records: Records::default(), lanes: LaneColumns::default() }
    }

    fn sent(&mut self, t: i64, worker: u32, seq: u32) -> &mut Self {
        let SentColumns { t_gen_ps, t_sent_ps, cluster, worker: workers, seq: numbers, attempt, reward, .. } =
            &mut self.records.sent;
        attempt.push(numbers.iter().zip(&*workers).filter(|own| own == &(&seq, &worker)).count() as u8);
        reward.push(None);
        t_gen_ps.push(t - 5);
        t_sent_ps.push((t >= 0).then_some(t));
        cluster.push(CLUSTERS[worker as usize]);
        workers.push(worker);
        numbers.push(seq);
        self
    }

    /// Adds a packet with only a time, a cluster and lanes.
    fn received(&mut self, t: i64, members: &[(u32, u32)]) -> &mut Self {
        let ReceivedColumns { t_recv_ps, cluster, .. } = &mut self.records.received;
        t_recv_ps.push(t);
        cluster.push(members.first().map_or(0, |(worker, _)| CLUSTERS[*worker as usize]));
        let mut sums = vec![0f32; self.layout.lanes()];
        for (worker, seq) in members {
            self.layout.each(RANKS[*worker as usize], *seq, |lane, value| sums[lane] += value as f32);
        }
        self.lanes.push(&sums.iter().map(|sum| sum.to_bits()).collect::<Vec<_>>());
        self
    }

    fn resolve(&self) -> Provenance {
        self.resolve_by("virtual")
    }

    /// Resolves arrivals whose times are of this clock.
    fn resolve_by(&self, clock: &str) -> Provenance {
        let mut manifest = Story::default().manifest();
        manifest.clusters = CLUSTERS.to_vec();
        manifest.clocks.insert("sent.t_sent_ps".into(), "virtual".into());
        manifest.clocks.insert("received.t_recv_ps".into(), clock.into());
        Provenance::resolve(&manifest, &self.layout, &self.records, &self.lanes).unwrap()
    }
}

#[test]
fn a_balance_without_books() {
    let mut bed = Bed::new(Detail::Which, 64);
    for seq in 0..6 {
        bed.sent(100 * i64::from(seq), 0, seq).sent(100 * i64::from(seq) + 10, 1, seq);
    }
    bed.sent(-1, 2, 0).sent(50, 2, 1);
    // 1 of worker 0 was subsumed by 2; worker 1's 1 and 3 are lost; the last updates of both are in flight.
    bed.received(105, &[(0, 0)]).received(250, &[(0, 2), (1, 0), (1, 2)]).received(260, &[(2, 1)]);
    bed.received(520, &[(0, 3), (0, 4), (1, 4)]);
    let found = bed.resolve();
    assert_eq!(found.found.answers, [Answer::Known; 4]);
    let named = |row: usize| -> Vec<(u32, u32)> {
        let sent = &bed.records.sent;
        found.members_of(row).iter().map(|row| (sent.worker[*row as usize], sent.seq[*row as usize])).collect()
    };
    assert_eq!((named(1), named(3)), (vec![(0, 2), (1, 0), (1, 2)], vec![(0, 3), (0, 4), (1, 4)]));
    let expected = Account { sent: 13, alone: 2, merged: 6, overtaken: 3, missing: 2, unclear: 0 };
    assert_eq!(found.account, expected);
    // From the first generation of worker 0, and from the delivery of the update generated at 395.
    let ages = found.ages.unwrap();
    assert!(ages.clusters.iter().all(|age| age.delivered));
    assert_eq!(
        ages.traces[0].sawtooth().unwrap().teeth.last().map(|tooth| (tooth.t_ps, tooth.after_ps)),
        Some((520, 520 - 405))
    );
}

#[test]
fn what_was_not_sent_yet_or_has_arrived_is_no_candidate() {
    let mut bed = Bed::new(Detail::Which, 64);
    bed.sent(0, 0, 0).sent(200, 0, 1).received(100, &[(0, 1)]).received(300, &[(0, 0)]).received(310, &[(0, 0)]);
    let found = bed.resolve();
    assert_eq!(found.found.answers, [Answer::Contradiction, Answer::Known, Answer::Contradiction]);
    // An update that was sent twice may arrive twice.
    let mut bed = Bed::new(Detail::Which, 64);
    bed.sent(0, 0, 0).sent(200, 0, 0).received(300, &[(0, 0)]).received(310, &[(0, 0)]).received(320, &[(0, 0)]);
    let found = bed.resolve();
    assert_eq!(found.found.answers, [Answer::Known, Answer::Known, Answer::Contradiction]);
    assert_eq!((found.account.sent, found.account.alone), (2, 2));
    // Both attempts may meet in a queue.
    let mut bed = Bed::new(Detail::Which, 64);
    bed.sent(0, 0, 0).sent(0, 1, 7).sent(200, 0, 0).sent(210, 0, 1).received(300, &[(0, 0), (0, 0), (1, 7)]);
    let found = bed.resolve();
    assert_eq!((found.found.answers[0], found.members_of(0).len(), found.account.merged), (Answer::Known, 3, 3));
}

/// The lanes of an update of the first worker of a cluster are those of the other cluster's first worker.
#[test]
fn a_packet_that_names_a_worker_of_another_cluster_proves_nothing() {
    let mut bed = Bed::new(Detail::Which, 64);
    bed.sent(0, 2, 0).sent(1, 0, 0).received(10, &[(0, 0)]).received(20, &[(2, 0)]);
    bed.records.received.cluster = vec![1, 1];
    bed.records.received.packet = [0, 2].map(|worker| PacketId::new(worker, 0, 0).0).to_vec();
    let found = bed.resolve();
    assert_eq!(found.found.answers, [Answer::Contradiction, Answer::Known]);
    assert_eq!((found.members_of(0), found.members_of(1)), (&[][..], &[0][..]));
}

#[test]
fn what_waits_longer_than_the_window_is_noticed() {
    let mut bed = Bed::new(Detail::Which, 4);
    (0..20).for_each(|seq| _ = bed.sent(i64::from(seq), 0, seq));
    bed.received(100, &[(0, 17)]).received(101, &[(0, 13)]).received(102, &[(0, 16), (0, 11)]);
    assert_eq!(bed.resolve().found.answers, [Answer::Known, Answer::Contradiction, Answer::Contradiction]);
}

#[test]
fn what_is_ambiguous_is_counted_and_its_candidates_are_unclear() {
    let mut bed = Bed::new(Detail::Count, 2);
    for seq in 0..5 {
        bed.sent(i64::from(seq), 0, seq).sent(i64::from(seq), 1, seq);
    }
    bed.received(10, &[(0, 3), (1, 3), (1, 4)]);
    let found = bed.resolve();
    assert_eq!(found.found.answers, [Answer::Ambiguous(Some(3))]);
    assert_eq!(found.unidentified(), 3);
    let expected = Account { sent: 10, unclear: 10, ..Account::default() };
    assert_eq!(found.account, expected);
    // A packet with another number of lanes.
    bed.records.received.t_recv_ps.push(20);
    bed.records.received.cluster.push(0);
    bed.lanes.push(&[]);
    assert_eq!(bed.resolve().found.answers[1], Answer::Ambiguous(None));
}

#[test]
fn packets_without_lanes_of_a_killed_run_may_have_any_updates() {
    let mut bed = Bed::new(Detail::Which, 64);
    bed.sent(0, 0, 0).sent(10, 0, 1).received(100, &[(0, 0)]).received(110, &[(0, 1)]);
    bed.lanes = bed.lanes.aligned(&[100, 110], &[100]);
    let found = bed.resolve();
    assert_eq!(found.found.answers, [Answer::Known, Answer::Ambiguous(None)]);
    assert_eq!(found.account, Account { sent: 2, alone: 1, unclear: 1, ..Account::default() });
}

/// Members are known then, and what is not explained may be so for the clocks.
#[test]
fn ages_by_lanes_need_one_clock() {
    let mut bed = Bed::new(Detail::Which, 64);
    bed.sent(0, 0, 0).received(100, &[(0, 0)]).received(110, &[(0, 1)]);
    let dir = tempfile::tempdir().unwrap();
    Story::new().sent(0, 0, Some(0), 0).write(dir.path());
    let mut run = Analysis::open(dir.path(), Options::default()).unwrap();
    for (clock, why) in [("virtual", "format.lanes_merge"), ("another host, not synchronised", "clocks")] {
        let found = bed.resolve_by(clock);
        assert_eq!(found.found.answers, [Answer::Known, Answer::Contradiction]);
        let is_one = clock == "virtual";
        assert_eq!(found.ages.is_some(), is_one);
        run.manifest.clocks.insert("sent.t_sent_ps".into(), "virtual".into());
        run.manifest.clocks.insert("received.t_recv_ps".into(), clock.into());
        run.provenance = Some(found);
        let notes = run.remarks();
        let text = |code: &str| notes.iter().find(|note| note.note == code).map(|note| note.text.clone());
        assert!(text("lanes_contradict").unwrap().contains(why), "{notes:?}");
        assert_eq!(text("clocks_not_comparable").is_some_and(|text| text.contains("members by lanes")), !is_one);
    }
}

/// Generation times mean nothing then.
#[test]
fn there_are_no_ages_by_lanes_at_top_speed() {
    let mut bed = Bed::new(Detail::Which, 64);
    bed.sent(0, 0, 0).received(100, &[(0, 0)]);
    let mut manifest = Story::default().manifest();
    manifest.clusters = CLUSTERS.to_vec();
    for noted in [false, true] {
        manifest.validity.notes.extend(noted.then_some(pktgen_core::record::Note::TopSpeed {}));
        let found = Provenance::resolve(&manifest, &bed.layout, &bed.records, &bed.lanes).unwrap();
        assert_eq!(found.ages.is_some(), !noted);
    }
}
