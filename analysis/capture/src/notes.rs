//! Notes about a capture: problems of its files and sides, and why metrics have no value.

use pktgen_core::time::{HORIZON, SECOND};
use pktgen_records::human::show;
use pktgen_records::line::Note;
use pktgen_wire::wire::sight::Delivery;

use super::Side;
use super::clock::EXCHANGED;
use super::input::InputFacts;
use super::lines::{Deliveries, Facts, Known, clocks_error};
use super::meter::Totals;

/// Codes of notes about a capture, each with its meaning; those about digests are `Note::CODES` of run dirs.
pub const CODES: &[(&str, &str)] = &[
    ("age_of_model_not_defined", "There is no Age-of-Model; the text has the reason."),
    (
        "anew",
        "Updates have numbers that came before: a restart, shared numbers, or late copies without a generation time.",
    ),
    ("clocks", "How the clocks of the two sides relate, and from where times count."),
    ("copies", "Packets that the senders' captures have twice: they count as sent once."),
    (
        "copies_unclear",
        "Results that equal an earlier one of their block count as its copies: some may be sums of retransmissions.",
    ),
    ("damaged", "A file is damaged: what stands before the damage was analysed."),
    ("deliveries_unknown", "Packets do not show how many updates arrived, or which packets deliver them."),
    ("duplicates", "Packets at the server that had arrived before: they are among what was received."),
    (
        "fates_unknown",
        "What was sent and did not arrive was dropped, replaced or is under way: captures do not show which.",
    ),
    ("files_alike", "Contributions to sums are in several of the senders' files, and count as retransmissions."),
    ("invalid", "The numbers of the capture cannot be used as they are; the text has the reason."),
    ("late", "Packets that came too late to tell whether they are duplicates: they are counted as new."),
    ("members_unknown", "Packets do not name all updates in an aggregate: no Age-of-Model by worker."),
    ("not_counted", "Packets that are not counted as updates; the text has the reason."),
    (
        "not_only_forwarded",
        "Aggregates arrived in spite of --forwards: what the device replaced or merged counts as lost.",
    ),
    ("nothing_found", "A side has no packet of a known format."),
    ("numbers_incomplete", "Aggregates hide updates: how many of the numbers are missing is not known exactly."),
    ("repeats_unknown", "Aggregates may hold retransmitted updates: how many different ones arrived is not known."),
    ("resolution", "The times of a file are coarser than 1 ns, and so are latencies and ages."),
    ("sender_not_seen", "There is no capture of the senders: what was sent is not known."),
    ("senders_incomplete", "The senders' captures lack some of what arrived: what is missing is not known."),
    ("shard", "Only the clusters of one shard were analysed."),
    (
        "spans_differ",
        "The packets at the server span less time than the senders': what seems to be missing may not have been captured.",
    ),
    (
        "transmissions_unknown",
        "Packets do not show which transmission they are: retransmissions and copies are not known.",
    ),
    ("unordered", "Packets of a file are not in the order of time."),
    ("unseen", "Packets arrived whose sending was not captured, or no longer remembered."),
];

const GAPS_AND_AGES: &str = "what was sent is not known: \"numbers_missing\" counts gaps in the numbers of what arrived, and ages \
                             begin with the first generation that arrived; --sent FILE adds the senders' side";
const AGES: &str = "what was sent is not known, and ages begin with the first generation that arrived; --sent FILE adds the senders' side";
const NOTHING_SENT: &str = "what was sent is not known; --sent FILE adds the senders' side";
const NO_FATES: &str = "\"missing\" was sent and is in nothing that arrived: dropped, replaced or under way; if the device only \
                        forwards, --forwards calls it loss";

/// Returns notes about problems of files.
fn notes_of_files(facts: &Facts) -> Vec<Note> {
    let mut notes = Vec::new();
    let mut say = |note, text: String| notes.push(Note { note, text });
    for input in facts.inputs {
        let (path, tally) = (&input.path, &input.tally);
        if let Some(error) = &input.damage {
            say("damaged", format!("{error}; what stands before it was analysed"));
        }
        if input.dropped > 0 {
            let text = format!(
                "{path}: {} packets were dropped where it was made, by its own count: what is missing in it may be these",
                input.dropped
            );
            say("invalid", text);
        }
        input.faults.iter().for_each(|why| say("invalid", format!("{path}: {why}")));
        if let Some(note) = input.verified.note() {
            say(note.code(), format!("{path}: {note}"));
        }
        if tally.unordered > 0 {
            let n = tally.unordered;
            let text = match input.is_unordered() {
                false => {
                    format!("{path}: {n} packets are earlier than the one before: they were put in the order of time")
                }
                true => format!(
                    "{path}: {n} packets are earlier than the one before, and they are too many to be put in order here (--memory): no ages \
                     and latencies; sort it: reordercap"
                ),
            };
            say("unordered", text);
        }
        if tally.resolution_ps > 1000 {
            let resolution = show("ns", tally.resolution_ps as f64 / 1000.0);
            let text =
                format!("{path}: the file has {resolution} stamps: latencies and ages are exact to {resolution}");
            say("resolution", text);
        }
        if tally.early > 0 {
            let (n, offset, anchor) = (tally.early, facts.clocks.option(), facts.clocks.origin_option());
            let text = format!(
                "{path}: {n} packets were received before they were generated: the clocks do not agree ({offset}, {anchor})"
            );
            say("invalid", text);
        }
        if tally.links > 0 {
            let text = format!(
                "{path}: {} packets are of a link type that is not read, so what they hold is in no metric; capture on Ethernet, any (cooked) \
                 or raw IP",
                tally.links
            );
            say("invalid", text);
        }
        not_counted(input).chain(distant(facts, input)).for_each(|text| say("not_counted", text));
    }
    notes
}

/// Returns sentences about packets that are not counted as updates.
fn not_counted(input: &InputFacts) -> impl Iterator<Item = String> {
    let (path, tally) = (&input.path, &input.tally);
    let reasons = [
        (
            tally.misfits,
            "have a port or Ethernet type of a known format and another content (damaged, another protocol, or several datagrams that the host joined: \
             ethtool -K IF gro off rx-gro-hw off)",
        ),
        (
            tally.undirected,
            "do not show whether they are contributions or results (trio_ml over IPv6; RDMA writes neither from the ports of SwitchML's \
             switch nor to a slot of it)",
        ),
        (tally.unreadable, "are cut within their headers"),
        (tally.fragments, "are fragments"),
        (tally.timeless, "have no time"),
        (tally.absurd.saturating_sub(tally.distant), "have a generation or a worker that no run has"),
    ];
    let counted = reasons.into_iter().filter(|(n, _)| *n > 0);
    counted.map(move |(n, what)| format!("{path}: {n} packets {what}, and are not counted as updates"))
}

/// Returns a sentence about packets that are not counted because the origin of times is not theirs.
fn distant(facts: &Facts, input: &InputFacts) -> Option<String> {
    let n = input.tally.distant;
    (n > 0).then(|| {
        format!(
            "{}: {n} packets are more than {} days from the origin of times, {} s after 1970, and are not counted as updates; --anchor RUN (the \
             senders' run dir) or --anchor NS (since 1970) sets another origin",
            input.path,
            HORIZON / (86_400 * SECOND),
            facts.clocks.anchor_of(input.side) / 1_000_000_000
        )
    })
}

/// Returns why no packet of a side was found; `None` if those that are known may be of clusters of other shards.
fn why_nothing(side: Side, facts: &Facts, totals: &Totals) -> Option<String> {
    let at = match (side, facts.sides) {
        (_, [false, _] | [_, false]) => "",
        (Side::Sender, _) => " at the senders",
        (Side::Server, _) => " at the server",
    };
    let of_side = || facts.inputs.iter().filter(move |input| input.side == side);
    if facts.shard.is_some() && of_side().any(|input| input.tally.known() > 0) {
        return None;
    }
    let packets: u64 = of_side().map(|input| input.tally.packets).sum();
    let unread: u64 = of_side().map(|input| input.tally.unread()).sum();
    let distant: u64 = of_side().map(|input| input.tally.distant).sum();
    let strange: u64 = of_side().map(|input| input.tally.strange()).sum();
    Some(match (packets, facts.format) {
        (0, _) => format!("there is no packet{at}"),
        // Another format would not help.
        _ if packets == unread || distant > strange => {
            format!("no packet{at} could be counted, of {packets}: the other notes say why")
        }
        (_, Some(format)) => format!("no packet{at} is of {format}; leave --format out, or name another one"),
        (_, None) => {
            let names: Vec<_> = totals.formats.iter().map(|format| format.name()).collect();
            format!("no packet{at} is of a known format; if ports are others, name it: --format {}", names.join("|"))
        }
    })
}

/// Returns notes about packets that the captures of a side lack or contain twice.
fn notes_of_sides(facts: &Facts, totals: &Totals) -> Vec<Note> {
    let mut notes = Vec::new();
    let mut say = |note, text: String| notes.push(Note { note, text });
    for side in Side::ALL.into_iter().zip(facts.sides).filter_map(|(side, given)| given.then_some(side)) {
        if totals.found(side) == 0
            && let Some(text) = why_nothing(side, facts, totals)
        {
            say("nothing_found", text);
        }
    }
    let anew = Side::ALL
        .map(|side| totals.anew[side as usize] + totals.restarts[side as usize])
        .into_iter()
        .max()
        .unwrap_or(0);
    if anew > 0 {
        say(
            "anew",
            format!(
                "{anew} times an update had a number that its worker's updates had before: workers or runs began anew, jobs share numbers, or, \
                 without generation times, copies came late and count as updates; gaps in numbers are not known"
            ),
        );
    }
    // Updates of two jobs look like copies of each other.
    if facts.shares_numbers() {
        return notes;
    }
    if totals.copies > 0 {
        say(
            "copies",
            format!(
                "{} packets of the senders' captures were there before: they are not counted as sent; capture at one interface",
                totals.copies
            ),
        );
    }
    if totals.elsewhere > 0 {
        say(
            "files_alike",
            format!(
                "{} contributions were in another of the senders' files before, and count as retransmissions, since packets do not show which \
                 transmission they are: if files have the same frames (a mirror beside a tap, two captures of one host), give one of them",
                totals.elsewhere
            ),
        );
    }
    if totals.duplicates > 0 {
        say(
            "duplicates",
            format!(
                "{} of {} packets at the server had arrived before, and are among what was received: the network copied them, or they were \
                 captured twice (several interfaces, both directions of a mirror)",
                totals.duplicates, totals.received
            ),
        );
    }
    notes
}

/// Returns the reason why there are no ages.
fn why_no_ages(facts: &Facts, totals: &Totals, deliveries: Deliveries) -> &'static str {
    match (totals.ageless > 0 || deliveries != Deliveries::Counted, facts.clocks.comparable()) {
        _ if !facts.tells_of_server(totals) => "no packet at the server is of a known format",
        _ if facts.shares_numbers() => "several addresses use the same worker numbers",
        _ if facts.joins_runs() => "a file has packets of several runs: analyse them one by one",
        _ if facts.inputs.iter().any(InputFacts::is_unordered) => "packets are not in the order of time",
        (true, _) => "these formats carry no generation time",
        (false, true) => "no update arrived",
        (false, false) => "the clocks are not known to agree",
    }
}

/// Notes packets that arrived before they were sent by more than the uncertainty of times.
fn note_of_times(facts: &Facts, totals: &Totals) -> Option<Note> {
    let exact = facts.inputs.iter().map(|input| input.tally.resolution_ps).max().unwrap_or(0);
    let exact = i64::try_from(exact).unwrap_or(i64::MAX).saturating_add(clocks_error(facts.clocks));
    (totals.backwards > 0 && facts.clocks.comparable() && totals.backwards_ps > exact).then(|| {
        let most = show("ns", totals.backwards_ps as f64 / 1000.0);
        let (count, option) = (totals.backwards, facts.clocks.option());
        let swapped = match totals.backwards * 2 > totals.matched && facts.clocks.measured_offset().is_none() {
            true => format!(", or {EXCHANGED}"),
            false => String::new(),
        };
        let text = format!(
            "{count} packets arrived before they were sent, by up to {most}: the clocks do not agree ({option}){swapped}"
        );
        Note { note: "invalid", text }
    })
}

/// Fewer updates than these may be lost one after another.
const OUTSIDE: u64 = 16;

/// Notes that the packets at the server span less than those of the senders: by more than 1 % and several times the
/// longest that an update, or the server, waited. A shard does not have the packets of other clusters, which arrived meanwhile.
fn note_of_spans(facts: &Facts, totals: &Totals) -> Option<Note> {
    if facts.shard.is_some() {
        return None;
    }
    let ((sent, sent_last), (received, received_last)) = (totals.sent_ps?, totals.received_ps?);
    let longest = totals.latency_max_ps.max(totals.pause_max_ps);
    let least = (sent_last.saturating_sub(sent) / 100).max(longest.saturating_mul(4));
    let gaps = [received.saturating_sub(sent), sent_last.saturating_sub(received_last)];
    let found = gaps.into_iter().zip(totals.sent_outside).filter(|(gap, n)| *gap > least && *n >= OUTSIDE);
    let (gap_ps, n) = found.reduce(|(gap, n), (other, m)| (gap.saturating_add(other), n.saturating_add(m)))?;
    // Clocks without relation count each side from a packet of its own.
    (!facts.clocks.is_unrelated() && !facts.inputs.iter().any(InputFacts::is_unordered)).then(|| {
        let text = format!(
            "the packets at the server span {} less than the senders', in which {n} updates were sent: if the server's capture began \
             later or ended earlier, these are not missing, and ages are too large; give captures of the same time",
            show("ns", gap_ps as f64 / 1000.0)
        );
        Note { note: "spans_differ", text }
    })
}

/// Returns what is not known where only the server's side was captured.
fn without_a_sender(totals: &Totals, known: &Known) -> &'static str {
    let numbered = totals.ageless == 0 && known.deliveries == Deliveries::Counted;
    match (numbered, known.merged) {
        (false, _) => NOTHING_SENT,
        (true, false) => GAPS_AND_AGES,
        (true, true) => AGES,
    }
}

pub(super) fn notes(facts: &Facts, totals: &Totals, known: Known) -> Vec<Note> {
    let [sender, server] = facts.sides;
    let mut notes = notes_of_files(facts);
    notes.extend(note_of_times(facts, totals));
    notes.extend(note_of_spans(facts, totals));
    let ours: u64 = totals.kinds.iter().flatten().flatten().sum();
    let found: u64 = Side::ALL.iter().map(|side| totals.found(*side)).sum();
    notes.extend(notes_of_sides(facts, totals));
    let mut say = |note, text: String| notes.push(Note { note, text });
    if let Some(shard) = &facts.shard {
        say(
            "shard",
            format!("this is shard {shard} of the clusters: merge the tables of all (--tables, pktgen merge)"),
        );
    }
    // Without generation times there is nothing that an origin would give.
    if found > 0 && (totals.timed || !facts.clocks.lacks_origin()) {
        say("clocks", facts.clocks.about());
    }
    if ours > 0 && server && !known.aged {
        say("age_of_model_not_defined", format!("no Age-of-Model: {}", why_no_ages(facts, totals, known.deliveries)));
    }
    if let (true, Deliveries::Uncounted(why) | Deliveries::Unknown(why)) = (server, known.deliveries) {
        say("deliveries_unknown", why.text(facts, totals));
    }
    if known.merged && known.aged {
        say("members_unknown", "packets do not name all updates in an aggregate: no Age-of-Model by worker".to_owned());
    }
    if facts.forwards && totals.aggregates {
        let text = "packets with several updates arrived, so the device does not only forward: what it replaced or merged counts as lost; \
                    leave --forwards out";
        say("not_only_forwarded", text.to_owned());
    }
    if totals.late > 0 {
        say("late", format!("{} packets came so late that duplicates among them are counted as new", totals.late));
    }
    if ours > 0 && server && !sender {
        say("sender_not_seen", without_a_sender(totals, &known).to_owned());
    } else if ours > 0
        && sender
        && totals.found(Side::Server) > 0
        && known.deliveries == Deliveries::Counted
        && !facts.forwards
    {
        say("fates_unknown", NO_FATES.to_owned());
    }
    notes.extend(notes_of_counts(facts, totals, &known));
    notes
}

/// Returns what packets with several updates in the senders' captures may mean, if these lack some of what arrived.
fn exchanged(totals: &Totals) -> String {
    match totals.sent_aggregates {
        0 => String::new(),
        n => format!(
            "; {n} packets of the senders' captures have several updates, which no worker sends: they are of a device, or {EXCHANGED}"
        ),
    }
}

/// Returns the note about packets that arrived without a sending in the senders' captures.
fn unsent(totals: &Totals) -> Option<Note> {
    if totals.lacks_senders() {
        let what = match (totals.unseen, totals.short_sums) {
            (0, 0) => "contributions arrived of workers of whom the senders' captures have none".to_owned(),
            (0, short) => format!("results of {short} sums have more sources than contributions were captured"),
            (unseen, _) => format!("{unseen} packets arrived whose sending was not captured"),
        };
        let text = format!(
            "{what}: the senders' captures lack some of what was sent, so what is missing is not known; give those of all \
             workers, from before the first packet on (--sent FILE, repeatable){}",
            exchanged(totals)
        );
        return Some(Note { note: "senders_incomplete", text });
    }
    // Without related clocks, the sides are read further apart than what is remembered.
    (totals.unseen > 0 && totals.matched > 0).then(|| Note {
        note: "unseen",
        text: format!("{} packets arrived whose sending was not captured, or no longer remembered", totals.unseen),
    })
}

/// Returns notes about counts of updates that are not known.
fn notes_of_counts(facts: &Facts, totals: &Totals, known: &Known) -> Vec<Note> {
    let [sender, server] = facts.sides;
    let mut notes = Vec::new();
    let mut say = |note, text: String| notes.push(Note { note, text });
    if server && known.deliveries == Deliveries::Counted && totals.unclear > 0 {
        let advice = match sender {
            true => format!("the senders' captures lack their contributions: {}", facts.other_contributions()),
            false => "--sent FILE shows whether any were".to_owned(),
        };
        let text = format!(
            "{} results of {} equal an earlier one of their block, and count as its copies; results do not say which transmissions they hold, \
             so if contributions were sent again, some may be sums of these, and received and all that follows from it too low; \
             {advice}",
            totals.unclear,
            totals.formats_at_server_by(Delivery::Results).join(" and ")
        );
        say("copies_unclear", text);
    }
    if server && known.deliveries == Deliveries::Counted {
        let (held, sent, numbered) = (totals.distinct().unwrap_or(0), totals.sent_updates, known.numbered);
        if totals.distinct().is_none() {
            let text = "updates were sent again, and packets do not name all updates in an aggregate: how many different ones arrived is not \
                        known";
            say("repeats_unknown", text.to_owned());
        }
        if sender && held > sent && !totals.lacks_senders() {
            say(
                "senders_incomplete",
                format!(
                    "{held} updates arrived, and the senders' capture has {sent}: it lacks some, so what is missing is not known{}",
                    exchanged(totals)
                ),
            );
        }
        if numbered > 0 && known.merged && totals.ageless == 0 {
            let least = totals.distinct().map(|held| numbered.saturating_sub(held));
            let of = match least {
                Some(least) => format!("at least {least} are missing"),
                None => "it is not known how many are missing".to_owned(),
            };
            let text = format!(
                "packets do not name all updates in an aggregate: of the {numbered} numbers that arrived span, {of}"
            );
            say("numbers_incomplete", text);
        }
    }
    let hidden = totals.hidden_transmissions();
    if sender && !hidden.is_empty() {
        let text = format!(
            "packets of {} do not show which transmission they are: how many of what was sent was sent again is not known, nor \
             which packets the captures have twice, so neither how many different updates are missing",
            hidden.join(" and ")
        );
        say("transmissions_unknown", text);
    }
    if sender {
        notes.extend(unsent(totals));
    }
    notes
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::CODES;

    #[test]
    fn every_code_has_a_meaning() {
        let (source, _) = include_str!("notes.rs").split_once("#[cfg(test)]").expect("tests");
        let said = ["say(", "note: "].into_iter().flat_map(|start| source.split(start).skip(1));
        let said = said.filter_map(|rest| rest.trim_start().strip_prefix('"')?.split('"').next());
        let codes: BTreeSet<&str> = CODES.iter().map(|(code, _)| *code).collect();
        assert_eq!(said.collect::<BTreeSet<&str>>(), codes);
        assert!(codes.len() == CODES.len() && CODES.iter().all(|(_, about)| about.ends_with('.')));
    }
}
