//! Sums of contributions (Trio-ML, SwitchML): finds copies of results and counts contributors, in bounded memory.
//!
//! Called by [`super::meter`]. A result goes to every worker of a job, so a capture may contain it many times. The
//! first is its delivery, as in run dirs.

use pktgen_wire::wire::Formats;
use pktgen_wire::wire::sight::{Renewal, Sight};

use super::Event;
use super::recent::Recent;

/// Number of entries that are remembered; at most twice as many.
const KEPT: usize = 1 << 20;

/// What all packets of a sum have in common.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
struct SumId {
    format: u8,
    cluster: u16,
    round: u16,
    seq: u32,
    /// Distinguishes sums that have one number: the round beyond 16 bits, or how often sequence numbers restarted.
    renewed: u32,
}

impl SumId {
    fn of(event: &Event) -> Self {
        let Sight { cluster, round, seq, .. } = event.sight;
        SumId { format: event.format, cluster, round, seq, renewed: 0 }
    }

    /// Returns its number in a slot or, of all rounds, its block.
    fn number(self) -> u64 {
        u64::from(self.cluster) << 32 | u64::from(self.seq)
    }

    /// Returns its slot, as `actor` uses it, for [`Renewals::last`].
    fn slot(self, actor: Actor) -> (u8, u64, Actor) {
        (self.format, u64::from(self.round), actor)
    }
}

/// Sender of a packet of a sum: a worker, or `None` for the aggregating device.
type Actor = Option<u32>;

/// The progress of an actor in its sequence numbers.
#[derive(Debug, Clone, Copy, Default)]
struct Position {
    /// The last number without the mark of retransmissions; a number shortly before it does not change it.
    number: Option<u32>,
    /// Number with which it began.
    first: u32,
    /// Steps up to the last restart, from each last number to the next 0.
    base: u32,
    /// `base` and `number` before the last restart.
    before: Option<(u32, u32)>,
    /// How often the numbers restarted.
    times: u32,
}

impl Position {
    /// Returns how far the actor has come, over all restarts. Numbers that were lost count, too.
    fn steps(&self) -> u32 {
        self.base.wrapping_add(self.number.unwrap_or(0))
    }

    /// Returns how far the actor has come since `used`, which may be ahead of it if a restart was taken back.
    fn steps_since(&self, used: Use) -> u32 {
        self.steps().wrapping_sub(used.at).cast_signed().max(0).cast_unsigned()
    }

    /// Takes a restart back if `seq` continues the numbers before it: what seemed to begin anew was one late number. Returns whether it did.
    fn resume(&mut self, seq: u32) -> bool {
        let (Some(last), Some((base, number))) = (self.number, self.before) else { return false };
        let has_just_begun = last <= self.first.saturating_add(STEPS_BACK);
        let resumes = has_just_begun && seq > last.saturating_add(STEPS_BACK) && seq.abs_diff(number) <= STEPS_BACK;
        if resumes {
            (self.base, self.number, self.before) = (base, Some(number), None);
        }
        resumes
    }

    /// Moves on to `seq`, which is `back` numbers before the last one: far before it, it begins anew.
    fn advance(&mut self, seq: u32, back: u32) {
        if let Some(last) = self.number.filter(|_| back > STEPS_BACK) {
            self.before = Some((self.base, last));
            self.base = self.base.wrapping_add(last).wrapping_add(1);
            (self.first, self.number) = (seq, None);
        }
        self.number = self.number.max(Some(seq));
    }
}

/// The last use of a sequence number.
#[derive(Debug, Clone, Copy)]
struct Use {
    /// [`Position::times`] at that time.
    times: u32,
    /// [`Position::steps`] at that time.
    at: u32,
}

/// Detects numbers of sums that are reused: jobs, generations and sequence numbers wrap around or restart.
struct Renewals {
    by_format: Vec<Renewal>,
    /// The last number: of an actor in a slot; of all actors of a block.
    last: Recent<(u8, u64, Actor), u64>,
    /// Progress of each actor in a job.
    positions: Recent<(SumId, Actor), Position>,
    /// Sequence numbers that an actor has used.
    used: Recent<(SumId, Actor), Use>,
}

/// Maximum number of sequence numbers by which an actor has gone on before a copy of a number.
const STEPS_BACK: u32 = 16;
/// With up to this many actors, numbers at most this part of the remembered entries back are not forgotten.
const FAR_BACK: usize = 256;

impl Renewals {
    /// Returns how a format reuses numbers.
    fn of(&self, format: u8) -> Renewal {
        self.by_format.get(usize::from(format)).copied().unwrap_or(Renewal::Rounds)
    }

    /// Returns the sum of an event, and whether it is certainly not the last one of its actor in its slot: an earlier
    /// sum may have the same id then.
    fn sum(&mut self, event: &Event, actor: Actor) -> (SumId, bool) {
        let id = SumId::of(event);
        match self.of(id.format) {
            Renewal::Slots => {
                let (slot, number) = (id.slot(actor), id.number());
                let last = self.last.get(&slot);
                if last != Some(number) {
                    self.last.put(slot, number);
                }
                (id, last.is_some_and(|last| last != number))
            }
            Renewal::Rounds => (self.in_round(id), false),
            Renewal::Sequences => (self.in_sequence(event, id, actor), false),
        }
    }

    /// Whether the last result in the slot of a contribution is that of its sum.
    fn is_over(&self, event: &Event) -> bool {
        let id = SumId::of(event);
        self.of(event.format) == Renewal::Slots && self.last.get(&id.slot(None)) == Some(id.number())
    }

    /// Extends a round beyond 16 bits: it is the one nearest to the last round of its block.
    fn in_round(&mut self, id: SumId) -> SumId {
        let place = (id.format, id.number(), None);
        let last = self.last.get(&place);
        // The first one is not 0, since a packet of an earlier round may follow.
        let round = last.map_or(1u64 << 16 | u64::from(id.round), |last| {
            let steps = id.round.wrapping_sub(last as u16).cast_signed();
            last.saturating_add_signed(i64::from(steps))
        });
        if last.is_none_or(|last| round > last) {
            self.last.put(place, round);
        }
        SumId { renewed: (round >> 16) as u32, ..id }
    }

    /// Distinguishes a number that is used again from a copy. Which number is used again first does not matter: the one before it
    /// may not have been captured.
    fn in_sequence(&mut self, event: &Event, id: SumId, actor: Actor) -> SumId {
        let place = (SumId { round: 0, seq: 0, ..id }, actor);
        let mut position = self.positions.get(&place).unwrap_or_default();
        let is_marked = event.sight.attempt > 0;
        let used = self.used.get(&(id, actor));
        // A copy of what was used shortly before does not show where the actor is.
        let is_copy = used.is_some_and(|used| position.steps_since(used) <= STEPS_BACK);
        if !is_marked && !is_copy && position.resume(id.seq) {
            self.positions.put(place, position);
        }
        let back = position.number.map_or(0, |last| last.saturating_sub(id.seq));
        // A retransmission of a number ahead of all others is of the time before the restart.
        let is_before = position.number.is_some_and(|last| id.seq > last.saturating_add(STEPS_BACK));
        let is_same = |used: &Use| {
            let steps = position.steps_since(*used);
            steps <= STEPS_BACK || is_marked && (is_before || steps - STEPS_BACK <= back)
        };
        if let Some(used) = used.filter(is_same) {
            return SumId { renewed: used.times, ..id };
        }
        // A number that is not known to be used may have been forgotten, unless it is near: then it is only late.
        let near = (self.used.kept / FAR_BACK) as u32;
        let may_be_forgotten = || !is_marked && self.used.forgot() && back > near;
        let restarts = used.map_or_else(may_be_forgotten, |used| used.times == position.times);
        position.times += u32::from(restarts);
        if !is_marked {
            position.advance(id.seq, back);
        }
        self.positions.put(place, position);
        self.used.put((id, actor), Use { times: position.times, at: position.steps() });
        SumId { renewed: position.times, ..id }
    }
}

/// A worker's contribution to a sum.
#[derive(Debug, Clone, Copy)]
struct Contribution {
    /// Whether it was sent again.
    again: bool,
    /// Copies of its results before it was known to be sent again, if the sides are in no order.
    copies: u32,
    /// The [`Contributors`] that it is among.
    counted: u32,
    /// The file that it was first in.
    file: u32,
}

/// Contributors of a sum.
#[derive(Debug, Clone, Copy)]
struct Contributors {
    /// Distinguishes sums with one id.
    number: u32,
    workers: u16,
}

/// The sums of a capture.
pub(super) struct Sums {
    renewals: Renewals,
    contributions: Recent<(SumId, u32), Contribution>,
    /// Of sums whose results did not come yet.
    contributors: Recent<SumId, Contributors>,
    /// Number of [`Contributors`] so far.
    counts: u32,
    /// By sum, by the source that opened it (if results contain that), and by contents.
    results: Recent<(SumId, u32, u16, u32), ()>,
    /// Minimum and maximum number of contributors of the sums whose results were captured.
    workers: Option<(u16, u16)>,
    /// Whether a worker's first contribution to a sum came after the result, so that times of the two sides are in no common order.
    overtaken: bool,
    /// Whether nothing relates the clocks of the two sides.
    pub(super) unordered: bool,
    /// Whether there are captures of the senders.
    pub(super) has_senders: bool,
    /// Numbers of sources in results of sums with fewer contributions so far.
    short: Recent<SumId, u16>,
    /// See [`Sums::short_sums`].
    short_count: u64,
    /// Copies of results before the contributions that opened them, if the sides are in no order.
    early: Recent<(SumId, u32), u32>,
    /// Results that are copies or belong to a retransmitted contribution that opened a sum of its own: their header
    /// does not distinguish these.
    pub(super) ambiguous: u64,
    /// Results that equal an earlier one of their block, whose contributions were not captured (before them, if the sides are in order):
    /// copies, or sums of transmissions that headers do not distinguish.
    pub(super) unclear: u64,
    /// The file that is being read, and the contributions that another file had before.
    pub(super) file: u32,
    pub(super) elsewhere: u64,
}

impl Sums {
    pub(super) fn new(formats: Formats) -> Self {
        Sums::remembering(formats, KEPT)
    }

    /// Creates sums that remember at least the latest `kept` packets.
    fn remembering(formats: Formats, kept: usize) -> Self {
        Sums {
            renewals: Renewals {
                by_format: formats.iter().map(|format| format.facts().renewal).collect(),
                last: Recent::new(kept),
                positions: Recent::new(kept),
                used: Recent::new(kept),
            },
            contributions: Recent::new(kept),
            contributors: Recent::new(kept),
            counts: 0,
            results: Recent::new(kept),
            workers: None,
            overtaken: false,
            unordered: false,
            has_senders: false,
            short: Recent::new(kept),
            short_count: 0,
            early: Recent::new(kept),
            ambiguous: 0,
            unclear: 0,
            file: 0,
            elsewhere: 0,
        }
    }

    /// Records a contribution; returns true if its worker had sent it before.
    pub(super) fn contribution(&mut self, event: &Event) -> bool {
        let Some(worker) = event.sender() else { return false };
        let (sum, is_new) = self.renewals.sum(event, Some(worker));
        let last = self.contributions.get(&(sum, worker));
        if let Some(last) = last.filter(|_| !is_new) {
            self.contributions.put((sum, worker), Contribution { again: true, copies: 0, ..last });
            self.ambiguous += u64::from(last.copies);
            self.elsewhere += u64::from(last.file != self.file);
            return true;
        }
        self.overtaken |= self.renewals.is_over(event);
        // A count that includes the worker already is of an earlier sum with this id, whose result was not captured.
        let is_open = |open: &Contributors| last.is_none_or(|last| last.counted != open.number);
        let open = self.contributors.get(&sum).filter(is_open).unwrap_or_else(|| {
            self.counts = self.counts.wrapping_add(1);
            Contributors { number: self.counts, workers: 0 }
        });
        let workers = open.workers.saturating_add(1);
        self.contributors.put(sum, Contributors { workers, ..open });
        if self.short.get(&sum).is_some_and(|sources| sources <= workers) {
            self.short.take(&sum);
            self.short_count -= 1;
        }
        let (file, copies) = (self.file, self.early.take(&(sum, worker)).unwrap_or(0));
        self.unclear -= u64::from(copies);
        self.contributions.put((sum, worker), Contribution { again: false, copies, counted: open.number, file });
        false
    }

    /// Records a result, with the source that opened its sum unless it has all workers; returns false if it is a copy.
    /// A device below another one opens a sum there for each of its own: they differ in their contents.
    pub(super) fn result(&mut self, event: &Event, of_all: bool) -> bool {
        let (sum, is_new) = self.renewals.sum(event, None);
        // The worker of a result with all workers is its destination.
        let opener = if of_all { 0 } else { event.sight.worker.unwrap_or(0) };
        let result = (sum, opener, event.sight.count, event.content);
        if !is_new && self.results.get(&result).is_some() {
            // Of numbers in sequence, the number and the count of sources tell all sums apart.
            if !of_all && self.renewals.of(event.format) != Renewal::Sequences {
                self.copy((sum, opener));
            }
            return false;
        }
        self.results.put(result, ());
        if of_all {
            // The next sum with this id begins at 0.
            let n = self.contributors.take(&sum).map_or(0, |open| open.workers);
            self.workers = Some(self.workers.map_or((n, n), |(least, most)| (least.min(n), most.max(n))));
        } else if self.has_senders && self.renewals.of(sum.format) == Renewal::Rounds {
            self.compare_sources(sum, event.sight.count);
        }
        true
    }

    /// Compares the number of sources of a result with the contributions so far: where the sides are in no order, others follow.
    /// Sequences that restart may have another id at each actor.
    fn compare_sources(&mut self, sum: SumId, sources: u16) {
        if sources > self.contributors.get(&sum).map_or(0, |open| open.workers) {
            let before = self.short.get(&sum);
            self.short_count += u64::from(before.is_none());
            self.short.put(sum, before.map_or(sources, |before| before.max(sources)));
        }
    }

    /// Returns the number of sums of which a result has more sources than contributions were captured; 0 if some were forgotten.
    pub(super) fn short_sums(&self) -> u64 {
        if self.contributors.forgot() || self.short.forgot() { 0 } else { self.short_count }
    }

    /// Records the copy of a result that contains the contribution which opened its sum. Only with related clocks is it known whether
    /// that was sent again before.
    fn copy(&mut self, opener: (SumId, u32)) {
        match self.contributions.get(&opener) {
            Some(own) if own.again => self.ambiguous += 1,
            Some(own) if self.unordered => {
                self.contributions.put(opener, Contribution { copies: own.copies.saturating_add(1), ..own });
            }
            Some(_) => {}
            None => {
                self.unclear += 1;
                if self.unordered {
                    self.early.put(opener, self.early.get(&opener).unwrap_or(0).saturating_add(1));
                }
            }
        }
    }

    /// Returns the number of workers that contributed to every sum with all workers before its result; `None` if it is unknown or differs.
    pub(super) fn workers(&self) -> Option<u16> {
        self.workers.filter(|(least, most)| least == most && *least > 0 && !self.overtaken).map(|(n, _)| n)
    }
}

#[cfg(test)]
mod tests {
    use pktgen_wire::wire::sight::What;

    use super::super::Side;
    use super::*;

    fn event(what: What, worker: Option<u32>, seq: u32, round: u16) -> Event {
        let sight =
            Sight { what, cluster: 1, worker, seq, round, attempt: 0, generation: None, count: 1, elements: 64 };
        Event { t: 0, side: Side::Server, bytes: 300, format: 2, sight, content: 0 }
    }

    fn sums(renewal: Renewal) -> Sums {
        let mut sums = Sums::new(&[]);
        sums.renewals.by_format = vec![renewal; 3];
        sums
    }

    /// SwitchML's job number has 8 bits: with tensors of one packet, a slot sees it again after two others.
    #[test]
    fn slots_tell_a_number_that_is_used_again_from_a_packet_that_is_sent_again() {
        let mut sums = sums(Renewal::Slots);
        let packet = |what, worker, job: u16| {
            let event = event(what, Some(worker), 0, job % 128);
            Event { sight: Sight { cluster: job % 256, ..event.sight }, ..event }
        };
        for job in 0..1024 {
            for worker in 0..3 {
                assert!(!sums.contribution(&packet(What::Update, worker, job)), "{job}");
            }
            let again = job % 7 == 3;
            assert!(!again || sums.contribution(&packet(What::Update, 1, job)), "{job}");
            let copies: Vec<_> = (0..3).map(|to| sums.result(&packet(What::Result, to, job), true)).collect();
            assert_eq!(copies, [true, false, false], "{job}");
        }
        assert_eq!(sums.workers(), Some(3));
    }

    /// SwitchML's jobs come back after 256 tensors, when a part of what is remembered is forgotten.
    #[test]
    fn numbers_that_come_back_after_they_were_forgotten_are_new() {
        let mut sums = Sums::remembering(&[], 1 << 12);
        sums.renewals.by_format = vec![Renewal::Slots; 3];
        let packet = |what, worker, job: u16, n: u16| {
            let event = event(what, Some(worker), n.into(), n);
            Event { sight: Sight { cluster: job % 256, ..event.sight }, ..event }
        };
        let (mut again, mut results) = (0, 0);
        for (job, n) in (0..300).flat_map(|job| (0..4).map(move |n| (job, n))) {
            again += (0..8).filter(|worker| sums.contribution(&packet(What::Update, *worker, job, n))).count();
            results += (0..8).filter(|to| sums.result(&packet(What::Result, *to, job, n), true)).count();
        }
        assert_eq!((again, results, sums.workers()), (0, 1200, Some(8)));
    }

    /// The result of the third sum was not captured: its contributors are none of the next sum with its number.
    #[test]
    fn contributors_of_a_sum_without_a_result_are_not_counted_later() {
        let mut sums = sums(Renewal::Slots);
        for (n, seq) in (0..12).map(|n| (n, n % 4)) {
            // The first worker is not always the same.
            for worker in (0..3).map(|worker| (worker + n) % 3) {
                assert!(!sums.contribution(&event(What::Update, Some(worker), seq, 0)), "{n}");
            }
            assert!(n == 2 || sums.result(&event(What::Result, Some(0), seq, 0), true), "{n}");
        }
        assert_eq!(sums.workers(), Some(3));
    }

    #[test]
    fn a_contribution_behind_its_result_shows_that_the_sides_are_in_no_order() {
        let mut sums = sums(Renewal::Slots);
        for n in 0..9 {
            let slot = (n % 4) as u16;
            assert!(!sums.contribution(&event(What::Update, Some(0), n, slot)));
            assert!(sums.result(&event(What::Result, None, n, slot), true));
            assert!(!sums.contribution(&event(What::Update, Some(1), n, slot)));
        }
        assert_eq!(sums.workers(), None);
    }

    /// Counts three tensors of 400 numbers from two workers; calls `behind` with tensor and number after each result.
    fn long_tensors(behind: impl Fn(&mut Sums, u32, u32)) {
        let mut sums = Sums::remembering(&[], 1 << 8);
        sums.renewals.by_format = vec![Renewal::Sequences; 3];
        for (tensor, seq) in (0..3).flat_map(|tensor| (0..400).map(move |seq| (tensor, seq))) {
            for worker in 0..2 {
                assert!(!sums.contribution(&event(What::Update, Some(worker), seq, 0)), "{tensor} {seq}");
            }
            assert!(sums.result(&event(What::Result, Some(0), seq, 0), true), "{tensor} {seq}");
            behind(&mut sums, tensor, seq);
        }
        assert_eq!(sums.workers(), Some(2));
    }

    #[test]
    fn a_long_tensor_that_begins_anew_is_new() {
        long_tensors(|_, _, _| {});
    }

    /// Behind the second result of a tensor, a copy of a late one of the tensor before comes.
    #[test]
    fn a_late_copy_behind_the_begin_of_a_tensor_begins_none() {
        long_tensors(|sums, tensor, seq| {
            if tensor > 0 && seq == 1 {
                assert!(!sums.result(&event(What::Result, Some(1), 398, 0), true), "{tensor}");
            }
        });
    }

    /// The result 15,000 comes first after 15,040, when a part of what is remembered is forgotten.
    #[test]
    fn a_late_number_begins_no_tensor() {
        let mut sums = Sums::remembering(&[], 1 << 14);
        sums.renewals.by_format = vec![Renewal::Sequences; 3];
        for seq in 0..16_000 {
            for worker in 0..2 {
                assert!(!sums.contribution(&event(What::Update, Some(worker), seq, 0)), "{seq}");
            }
            assert!(seq == 15_000 || sums.result(&event(What::Result, Some(0), seq, 0), true), "{seq}");
            if seq == 15_040 {
                assert!(sums.result(&event(What::Result, Some(0), 15_000, 0), true), "late");
                assert!(!sums.result(&event(What::Result, Some(1), seq, 0), true), "a copy");
            }
        }
        assert_eq!(sums.workers(), Some(2));
    }

    /// A capture that begins where generations wrap around: the workers' first packets are of different ones.
    #[test]
    fn rounds_are_the_same_for_all_whichever_came_first() {
        let mut sums = sums(Renewal::Rounds);
        assert!(!sums.contribution(&event(What::Update, Some(1), 7, u16::MAX)));
        assert!(sums.result(&event(What::Result, Some(1), 7, u16::MAX), false));
        assert!(!sums.contribution(&event(What::Update, Some(2), 7, 0)));
        assert!(sums.contribution(&event(What::Update, Some(2), 7, 0)), "sent again");
        assert!(sums.result(&event(What::Result, Some(2), 7, 0), false));
        assert!(!sums.result(&event(What::Result, Some(2), 7, 0), false));
        assert_eq!(sums.ambiguous, 1);
    }

    #[test]
    fn senders_without_a_worker_number_are_told_apart_by_their_addresses() {
        let mut sums = sums(Renewal::Slots);
        for src in [0xac14_0721, 0xac14_0722, 0xac14_0723] {
            let update = Event { content: src, ..event(What::Update, None, 0, 0) };
            assert!(!sums.contribution(&update));
            assert!(sums.contribution(&update));
        }
        assert!(sums.result(&event(What::Result, None, 0, 0), true));
        assert_eq!(sums.workers(), Some(3));
    }

    #[test]
    fn generations_that_wrap_around_are_new() {
        let mut sums = sums(Renewal::Rounds);
        for round in 0..200_000u32 {
            let round = round as u16;
            assert!(!sums.contribution(&event(What::Update, Some(1), 7, round)), "{round}");
            assert!(sums.result(&event(What::Result, Some(1), 7, round), false), "{round}");
            assert!(!sums.result(&event(What::Result, Some(1), 7, round), false), "{round}");
            // A packet of a straggler, of a finished round.
            if round > 3 {
                assert!(sums.contribution(&event(What::Update, Some(1), 7, round - 3)), "{round}");
                assert!(!sums.result(&event(What::Result, Some(1), 7, round - 3), false), "{round}");
            }
        }
    }

    #[test]
    fn sequence_numbers_that_begin_anew_are_new_unless_they_say_that_they_were_sent_before() {
        let mut sums = sums(Renewal::Sequences);
        for tensor in 0..5 {
            for seq in 0..200 {
                for worker in 0..2 {
                    assert!(!sums.contribution(&event(What::Update, Some(worker), seq, 0)), "{tensor} {seq}");
                }
                // A copy made by the network, and one sent again by its worker.
                assert!(sums.contribution(&event(What::Update, Some(0), seq, 0)), "{tensor} {seq}");
                let late = event(What::Update, Some(1), seq / 2, 0);
                assert!(
                    sums.contribution(&Event { sight: Sight { attempt: 1, ..late.sight }, ..late }),
                    "{tensor} {seq}"
                );
                assert!(sums.result(&event(What::Result, Some(0), seq, 0), true), "{tensor} {seq}");
                assert!(!sums.result(&event(What::Result, Some(1), seq, 0), true), "{tensor} {seq}");
            }
        }
        assert_eq!(sums.workers(), Some(2));
    }

    #[test]
    fn a_tensor_whose_first_number_was_not_captured_hides_none_after_it() {
        let mut sums = sums(Renewal::Sequences);
        for (tensor, seq) in (0..3).flat_map(|tensor| (0..100).map(move |seq| (tensor, seq))).skip(1) {
            for worker in 0..2 {
                assert!(!sums.contribution(&event(What::Update, Some(worker), seq, 0)), "{tensor} {seq}");
            }
            assert!(sums.result(&event(What::Result, None, seq, 0), false), "{tensor} {seq}");
            assert!(!sums.result(&event(What::Result, None, seq, 0), false), "{tensor} {seq}");
        }
    }

    #[test]
    fn a_short_tensor_with_losses_hides_none_of_the_next_one() {
        let mut sums = sums(Renewal::Sequences);
        for (tensor, seq) in (0..3).flat_map(|tensor| (0..22).map(move |seq| (tensor, seq))) {
            let is_lost = tensor == 0 && (4..12).contains(&seq);
            assert!(is_lost || sums.result(&event(What::Result, None, seq, 0), true), "{tensor} {seq}");
            assert!(is_lost || !sums.result(&event(What::Result, None, seq, 0), true), "{tensor} {seq}");
        }
    }

    #[test]
    fn tensors_of_one_number_more_than_a_copy_may_be_late_are_told_apart() {
        let mut sums = sums(Renewal::Sequences);
        for (tensor, seq) in (0..4).flat_map(|tensor| (0..=STEPS_BACK + 1).map(move |seq| (tensor, seq))) {
            assert!(!sums.contribution(&event(What::Update, Some(0), seq, 0)), "{tensor} {seq}");
            assert!(sums.result(&event(What::Result, None, seq, 0), true), "{tensor} {seq}");
            assert!(!sums.result(&event(What::Result, None, seq, 0), true), "{tensor} {seq}");
        }
    }

    /// Whatever the address of the server, results of ATP do not say who opened their sum.
    #[test]
    fn copies_of_results_in_sequence_are_not_ambiguous() {
        for server in [None, Some(0), Some(9)] {
            let mut sums = sums(Renewal::Sequences);
            let update = event(What::Update, Some(0), 1, 0);
            assert!(!sums.contribution(&update));
            assert!(sums.contribution(&Event { sight: Sight { attempt: 1, ..update.sight }, ..update }));
            let results = [(); 2].map(|()| sums.result(&event(What::Result, server, 1, 0), false));
            assert_eq!((results, sums.ambiguous), ([true, false], 0), "{server:?}");
        }
    }

    /// A capture that begins at number 95 of a tensor, in which results come late, also after the next tensor began.
    #[test]
    fn tensors_are_told_apart_wherever_the_capture_begins() {
        let mut sums = sums(Renewal::Sequences);
        let result = |seq: u32, attempt: u8| {
            let event = event(What::Result, None, seq, 0);
            Event { sight: Sight { attempt, ..event.sight }, ..event }
        };
        for (tensor, seq) in (0..5).flat_map(|tensor| (0..100).map(move |seq| (tensor, seq))).skip(95) {
            if seq == 50 {
                continue;
            }
            assert!(sums.result(&result(seq, 0), false), "{tensor} {seq}");
            if tensor > 0 && seq == 1 {
                // The copy of a retransmission of the tensor before, between two copies of this number.
                assert!(!sums.result(&result(98, 1), false), "{tensor}");
                assert!(!sums.result(&result(98, 0), false), "{tensor}");
            }
            assert!(!sums.result(&result(seq, 0), false), "{tensor} {seq}");
            if seq == 90 {
                // The first result of number 50 was lost, and two copies of the second one come.
                let copies = [(); 2].map(|()| sums.result(&result(50, 1), false));
                assert_eq!(copies, [true, false], "{tensor}");
            }
        }
    }

    #[test]
    fn results_are_counted_once_and_by_their_contributors() {
        let mut sums = sums(Renewal::Rounds);
        for worker in 0..3 {
            assert!(!sums.contribution(&event(What::Update, Some(worker), 7, 0)));
        }
        assert!(sums.contribution(&event(What::Update, Some(1), 7, 0)), "sent again");
        assert!(!sums.contribution(&event(What::Update, None, 7, 0)), "of nobody who is known");
        // A copy for every worker.
        let copies = (0..3).map(|to| sums.result(&event(What::Result, Some(to), 7, 0), true));
        assert_eq!(copies.collect::<Vec<_>>(), [true, false, false]);
        assert_eq!(sums.workers(), Some(3));
        // The same number in the next round is another sum, of which no contributions were captured.
        assert!(sums.result(&event(What::Result, None, 7, 1), true));
        assert_eq!(sums.workers(), None);
    }

    #[test]
    fn partial_sums_are_told_apart_by_who_opened_them() {
        let mut sums = sums(Renewal::Rounds);
        let of = [(4, true), (4, false), (5, true), (4, false)];
        for (opener, is_new) in of {
            assert_eq!(sums.result(&event(What::Result, Some(opener), 7, 0), false), is_new);
        }
        assert_eq!(sums.ambiguous, 0);
        // Results of a lower device that opened two sums: they have different values or different numbers of sources.
        let of = |count, content| {
            let event = event(What::Result, Some(9), 7, 0);
            Event { content, sight: Sight { count, ..event.sight }, ..event }
        };
        let different = [of(1, 77), of(1, 78), of(1, 77), of(2, 78)];
        assert_eq!(different.map(|event| sums.result(&event, false)), [true, true, false, true]);
        // After a retransmission, the next result may belong to a sum of its own.
        for again in [false, true] {
            assert_eq!(sums.contribution(&event(What::Update, Some(4), 7, 0)), again);
        }
        let unclear = sums.unclear;
        assert!(!sums.result(&event(What::Result, Some(4), 7, 0), false));
        assert_eq!((sums.ambiguous, sums.unclear), (1, unclear));
    }

    /// Without contributions, equal results may also be of transmissions that aged alone. ATP's bitmaps belong to one sum of a number.
    #[test]
    fn equal_results_are_unclear_where_contributions_were_not_captured() {
        for (renewal, of_all, unclear) in
            [(Renewal::Rounds, false, 2), (Renewal::Rounds, true, 0), (Renewal::Sequences, false, 0)]
        {
            let mut sums = sums(renewal);
            let is_new = [7, 7, 8, 7].map(|seq| sums.result(&event(What::Result, Some(4), seq, 0), of_all));
            assert_eq!((is_new, sums.unclear), ([true, false, true, false], unclear));
        }
    }
}
