//! Runs decoded from payloads and the sender's log alone, compared with the books, which are kept aside.

use pktgen_core::record::PacketId;
use pktgen_records::age::Ages;
use pktgen_records::model::Fates;
use pktgen_records::provenance::{Answer, Provenance};
use pktgen_records::run::{ReceivedColumns, Records, RunData};
use pktgen_records::{Analysis, Options};

/// Returns what a black box leaves: the sender's log, and time and cluster of the received packets.
pub fn without_books(records: &Records) -> Records {
    let received = &records.received;
    let (t_recv_ps, cluster) = (received.t_recv_ps.clone(), received.cluster.clone());
    Records {
        sent: records.sent.clone(),
        received: ReceivedColumns { t_recv_ps, cluster, ..Default::default() },
        ..Default::default()
    }
}

/// Returns the number of packets whose members differ from those in the books.
pub fn wrong(found: &Provenance, records: &Records, fates: &Fates) -> usize {
    let (named, sent) = (found.named(records), &records.sent);
    let id = |row: &u32| {
        let row = *row as usize;
        PacketId::new(sent.worker[row], sent.seq[row], sent.attempt[row])
    };
    let rows = 0..records.received.packet.len();
    rows.filter(|row| named.differs(*row, fates.members_of(*row).iter().map(id))).count()
}

/// Returns the packets with a member that left its worker longer ago than the decoder looks back on a host that stops threads
/// (docs/provenance.md).
fn late(records: &Records, fates: &Fates) -> u64 {
    const LOOKS_BACK_PS: i64 = 200_000_000_000;
    let late = |row: &usize| {
        let arrived = records.received.t_recv_ps[*row];
        let left = fates.members_of(*row).iter().filter_map(|member| records.sent.t_sent_ps[*member as usize]);
        left.min().is_some_and(|left| arrived - left > LOOKS_BACK_PS)
    };
    (0..records.received.packet.len()).filter(late).count() as u64
}

/// Decodes a run without its books, and compares with them. Returns packets, and those that are ambiguous: all of them if a
/// busy host made packets so late that no set explains them.
pub fn agrees(run: &RunData) -> (u64, u64) {
    let records = run.records.as_ref().expect("records").whole().expect("readable");
    let (records, layout) = (&*records, run.manifest.lanes.as_ref().expect("lanes"));
    let lanes = run.lanes.as_ref().expect("lanes");
    assert!(run.manifest.validity.is_valid(), "{:?}", run.manifest.validity);
    assert_eq!(run.manifest.counters.sums_wrong, 0);
    let found = Provenance::resolve(&run.manifest, layout, &without_books(records), lanes).expect("it resolves");
    let fates = Fates::resolve(records);
    let balance = fates.balance();
    assert_eq!(wrong(&found, records, &fates), 0);
    let contradictions = found.packets(|answer| *answer == Answer::Contradiction);
    if contradictions > 0 {
        let late = if run.manifest.is_real_time() { late(records, &fates) } else { 0 };
        assert!(contradictions <= late, "{contradictions} contradictions, {late} late packets");
        let packets = found.packets(|answer| *answer != Answer::Other);
        return (packets, packets);
    }
    let (account, unidentified) = (&found.account, found.unidentified());
    assert_eq!(account.sent, balance.sent);
    assert_eq!(account.alone + account.merged + unidentified, balance.delivered_alone + balance.delivered_merged);
    let ended = balance.subsumed + balance.outranked + balance.dropped_total() + balance.in_flight;
    assert_eq!(account.overtaken + account.missing + account.unclear - unidentified, ended, "{account:?} {balance:?}");
    let ambiguous = found.packets(|answer| matches!(answer, Answer::Ambiguous(_)));
    if ambiguous == 0 {
        assert_eq!((account.alone, account.merged), (balance.delivered_alone, balance.delivered_merged));
        let whole = Analysis::new(run.clone(), Options::default()).expect("it resolves");
        let ages = whole.resolved.as_ref().and_then(|resolved| resolved.ages());
        let flows = |ages: &Ages| (ages.clusters.clone(), ages.workers.clone());
        assert_eq!(found.ages.as_ref().map(flows), ages.map(flows));
    }
    (found.packets(|answer| *answer != Answer::Other), ambiguous)
}
