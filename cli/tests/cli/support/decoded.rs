//! Runs decoded from payloads and the sender's log alone, compared with the books, which are kept aside.

use pktgen_records::age::Ages;
use pktgen_records::fates::Fates;
use pktgen_records::provenance::{Answer, Provenance};
use pktgen_records::run::{ReceivedColumns, Records, RunData};
use pktgen_records::{Analysis, Options};

/// What a black box leaves: the sender's log, and of what arrived the time and the cluster.
pub fn without_books(records: &Records) -> Records {
    let received = &records.received;
    let (t_recv_ps, cluster) = (received.t_recv_ps.clone(), received.cluster.clone());
    Records {
        sent: records.sent.clone(),
        received: ReceivedColumns { t_recv_ps, cluster, ..Default::default() },
        ..Default::default()
    }
}

/// Decodes a run without its books, and compares with them. Returns packets, and those that are ambiguous.
pub fn agrees(run: &RunData) -> (u64, u64) {
    let (records, layout) = (run.records.as_ref().expect("records"), run.manifest.lanes.as_ref().expect("lanes"));
    let lanes = run.lanes.as_ref().expect("lanes");
    assert!(run.manifest.validity.is_valid(), "{:?}", run.manifest.validity);
    assert_eq!(run.manifest.counters.sums_wrong, 0);
    let found = Provenance::resolve(&run.manifest, layout, &without_books(records), lanes).expect("it resolves");
    let fates = Fates::resolve(records);
    let balance = fates.balance();
    assert_eq!(found.wrong(records, &fates), 0);
    assert_eq!(found.packets(|answer| *answer == Answer::Contradiction), 0);
    let (account, unidentified) = (&found.account, found.unidentified());
    assert_eq!(account.sent, balance.sent);
    assert_eq!(account.alone + account.merged + unidentified, balance.delivered_alone + balance.delivered_merged);
    let ended = balance.subsumed + balance.outranked + balance.dropped_total() + balance.in_flight;
    assert_eq!(account.overtaken + account.missing + account.unclear - unidentified, ended, "{account:?} {balance:?}");
    let ambiguous = found.packets(|answer| matches!(answer, Answer::Ambiguous(_)));
    if ambiguous == 0 {
        assert_eq!((account.alone, account.merged), (balance.delivered_alone, balance.delivered_merged));
        let whole = Analysis::new(run.clone(), Options::default()).expect("it resolves");
        let ages = whole.resolved.and_then(|resolved| resolved.ages);
        let flows = |ages: &Ages| (ages.clusters.clone(), ages.workers.clone());
        assert_eq!(found.ages.as_ref().map(flows), ages.as_ref().map(flows));
    }
    (found.packets(|answer| *answer != Answer::Other), ambiguous)
}
