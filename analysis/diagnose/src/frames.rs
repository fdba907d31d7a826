//! Finds causes of frames that arrived changed.

use crate::answers::OddAnswers;
use crate::cause::{
    BAD_CHECKSUM, BITS_FLIPPED, BYTE_ORDER, COPIES, Cause, FIELD_CHANGED, LENGTH_WRONG, PAYLOAD_CHANGED, STRANGERS,
    TAG_CHANGED, TRUNCATED, WRONG_DESTINATION,
};
use crate::crossing::{Altered, Crossing, Odd};
use crate::evidence::Evidence;
use crate::finding::{CauseFound, Certainty, EvidenceItem};

/// Maximum number of differing bits of a payload that is attributed to flips of single bits.
const FLIPS_MAX: u32 = 4;

/// Converts the results of comparing captures into causes. `place` states where the frames were captured.
pub(crate) fn look(
    evidence: &Evidence,
    crossing: &Crossing,
    kept: &[String],
    place: &str,
    found: &mut Vec<CauseFound>,
) {
    let refused = refused(evidence, crossing, kept);
    let proof = |place: &str, odd: &Odd| {
        EvidenceItem::packet(place, odd.first, format!("{}; {} such frames", odd.says, odd.frames))
    };
    let odd = |cause: &'static Cause, odd: &Odd| {
        CauseFound::new(cause, Certainty::Certain, odd.frames, vec![proof(place, odd)])
    };
    if refused && crossing.address.frames > 0 {
        found.push(odd(&WRONG_DESTINATION, &crossing.address));
    }
    if !refused && crossing.misled.frames > 0 {
        found.push(odd(&WRONG_DESTINATION, &crossing.misled));
    }
    if crossing.station.frames > 0 {
        found.push(odd(&WRONG_DESTINATION, &crossing.station));
    }
    of_answers(&crossing.answers, found);
    if crossing.kept.frames > 0 {
        found.push(odd(&FIELD_CHANGED, &crossing.kept));
    }
    if crossing.tag.frames > 0 {
        found.push(odd(&TAG_CHANGED, &crossing.tag));
    }
    if crossing.strangers.frames > (crossing.came / 50).max(20) {
        found.push(odd(&STRANGERS, &crossing.strangers));
    }
    if crossing.length.frames > 0 {
        found.push(odd(&LENGTH_WRONG, &crossing.length));
    }
    let short = &crossing.short;
    if short.frames > 0 {
        found.push(odd(&TRUNCATED, short));
    }
    let merges = !evidence.forwards();
    let before = found.len();
    if !evidence.is_results() && short.frames == 0 {
        altered(crossing, merges, place, found);
    }
    // If a payload or a length changed, a wrong checksum follows from that.
    if crossing.checksum.frames > 0 && found.len() == before && crossing.length.frames == 0 {
        found.push(odd(&BAD_CHECKSUM, &crossing.checksum));
    }
}

/// Whether the run did not take frames with other addresses or ports. It accepts what the device may rewrite; fields that
/// the profile declares as kept must not change.
fn refused(evidence: &Evidence, crossing: &Crossing, kept: &[String]) -> bool {
    let counters = &evidence.manifest.counters;
    if evidence.is_results() {
        // Of a result, only the first copy is among the packets received.
        return counters.foreign.saturating_mul(2) >= crossing.address.frames;
    }
    let taken = counters.packets_received;
    let left_some = crossing.came > taken + taken / 100 && !evidence.is_killed();
    left_some || kept.iter().any(|kept| *kept == crossing.field)
}

/// Answers of the server that came otherwise than they left.
fn of_answers(answers: &OddAnswers, found: &mut Vec<CauseFound>) {
    let all = [
        (&WRONG_DESTINATION, &answers.address),
        (&TAG_CHANGED, &answers.tag),
        (&BAD_CHECKSUM, &answers.checksum),
        (&WRONG_DESTINATION, &answers.port),
        (&WRONG_DESTINATION, &answers.station),
        (&COPIES, &answers.again),
    ];
    found.extend(all.into_iter().filter(|(_, odd)| odd.frames > 0).map(|(cause, odd)| {
        let says = format!("{}; {} such frames", odd.says, odd.frames);
        let proof = EvidenceItem::packet("tap of the workers", odd.first, says);
        CauseFound::new(cause, Certainty::Certain, odd.frames, vec![proof])
    }));
}

/// Payloads that are like none that was sent: `merges` says that they may be sums.
fn altered(crossing: &Crossing, merges: bool, place: &str, found: &mut Vec<CauseFound>) {
    let unlike = crossing.unlike;
    let mut add = |cause: &'static Cause, those: &[&Altered], certainty, says: &dyn Fn(&Altered) -> String| {
        let Some(first) = those.first() else { return };
        let explains = unlike * those.len() as u64 / crossing.altered.len().max(1) as u64;
        let proofs = vec![
            EvidenceItem::packet(place, first.came, says(first)),
            EvidenceItem::packet("tap of the workers", first.sent, "the frame that was sent and is most like it"),
        ];
        found.push(CauseFound::new(cause, certainty, explains.max(those.len() as u64), proofs));
    };
    let all = &crossing.altered;
    let reversed: Vec<_> = all.iter().filter(|one| one.reversed).collect();
    let cut: Vec<_> = all.iter().filter(|one| one.shorter > 0 && one.bytes == 0).collect();
    let rest = || all.iter().filter(|one| !(one.reversed || one.shorter > 0 && one.bytes == 0));
    let flipped: Vec<_> = rest().filter(|one| one.shorter == 0 && one.bits <= FLIPS_MAX).collect();
    let changed: Vec<_> = rest().filter(|one| one.shorter > 0 || one.bits > FLIPS_MAX).collect();
    add(&BYTE_ORDER, &reversed, Certainty::Certain, &|_| "its values are those that were sent, bytes reversed".into());
    add(&TRUNCATED, &cut, Certainty::Certain, &|one| {
        format!("it is what was sent, less its last {} bytes", one.shorter)
    });
    add(&BITS_FLIPPED, &flipped, Certainty::Certain, &|one| {
        format!("{} bits differ from what was sent, first in byte {} of the payload", one.bits, one.first)
    });
    if !merges {
        add(&PAYLOAD_CHANGED, &changed, Certainty::Likely, &|one| {
            format!("{} bytes differ from what was sent, first byte {} of the payload", one.bytes, one.first)
        });
    }
}

#[cfg(test)]
mod tests {
    use pktgen_core::record::Family;

    use super::*;
    use crate::evidence::manifest;

    /// A result to each of two workers, from a port that was not asked, as in RoCEv2.
    #[test]
    fn results_that_the_run_took_have_no_wrong_destination() {
        let causes = |foreign: u64| {
            let mut manifest = manifest(&[0, 0]);
            manifest.family = Some(Family::Results);
            (manifest.counters.packets_received, manifest.counters.foreign) = (30, foreign);
            let evidence = Evidence::of(std::path::Path::new(""), manifest);
            let address = Odd { frames: 60, first: 1, says: String::new() };
            let crossing = Crossing { came: 60, address, ..Crossing::default() };
            let mut found = Vec::new();
            look(&evidence, &crossing, &[], "tap of the workers", &mut found);
            found.iter().map(|found| found.cause.code).collect::<Vec<_>>()
        };
        assert_eq!((causes(0), causes(60)), (vec![], vec!["wrong_destination"]));
    }
}
