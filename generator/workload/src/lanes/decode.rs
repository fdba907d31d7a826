//! From the lanes of a packet back to its members.
//!
//! An explanation is a set of candidates whose lanes add up to what arrived. One explanation is an answer; several are
//! ambiguous; none contradicts what was assumed: that candidates are all there can be, and each at most as often as it was sent. What left the
//! exact range of a lane is ambiguous too: its value is lost.

use super::{Detail, Layout, Merge, Number};

/// An update, by the rank of its worker in the cluster.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Member {
    /// Rank of its worker.
    pub rank: u32,
    /// Sequence number.
    pub seq: u32,
}

/// Which updates may be in a packet, by the sender's log.
pub trait Candidates {
    /// Appends all sequence numbers of a worker that may be, each as often as it was sent.
    fn list(&self, rank: u32, out: &mut Vec<u32>);
    /// Whether this one may be.
    fn may(&self, rank: u32, seq: u32) -> bool;
}

/// What is known of members that are not.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Known {
    /// How many there are.
    pub count: Option<u32>,
    /// How many of each worker, by rank.
    pub who: Option<Vec<u32>>,
    /// What stands in the way.
    pub why: &'static str,
}

/// What lanes say.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Decoded {
    /// The members, in order.
    Members(Vec<Member>),
    /// There are several explanations, or their number is unknown.
    Ambiguous(Known),
    /// There is no explanation.
    Contradiction(&'static str),
}

/// What keeps lanes from being read.
type Fault = Decoded;

const INEXACT: &str = "a lane has left its exact range";
const COUNTED: &str = "the layout does not say which";
const SEVERAL: &str = "several sets of updates have these lanes";
const NONE: &str = "no set of updates that may have arrived has these lanes";
const BROKEN: &str = "a lane is no whole number";
const NOT_MEAN: &str = "the lane of ones is not the mean of ones";
const DEEP: &str = "a member was merged more often than lanes can show";

/// Most steps of a search, and most explanations that are kept: beyond either, there are several for all we know.
const STEPS: u32 = 1 << 18;
const KEEP: usize = 16;
/// Most sets that a search looks at.
const LOOKS: u32 = 1 << 24;
/// Most candidates with one mark.
const ALIKE: usize = 16;

/// Who is in a packet with these lanes?
pub fn decode(layout: &Layout, words: &[u32], candidates: &dyn Candidates) -> Decoded {
    if words.len() < layout.lanes() {
        return ambiguous(None, "the packet is shorter than lanes are");
    }
    let words = &words[..layout.lanes()];
    let answer = match layout.merge {
        Merge::Sum => of_sum(layout, words, candidates),
        Merge::Mean => of_mean(layout, words, candidates),
        Merge::RunningMean => of_running_mean(layout, words, candidates),
    };
    answer.unwrap_or_else(|fault| fault)
}

fn ambiguous(count: Option<u32>, why: &'static str) -> Decoded {
    Decoded::Ambiguous(Known { count, who: None, why })
}

/// The whole number in a lane of a sum.
fn whole(layout: &Layout, word: u32) -> Result<u64, Fault> {
    match layout.number {
        Number::I32 => Ok(word.into()),
        Number::F32 => {
            let value = f64::from(f32::from_bits(word));
            if !(value >= 0.0 && value.fract() == 0.0) {
                return Err(Decoded::Contradiction(BROKEN));
            }
            if value >= f64::from(1u32 << layout.bits()) {
                return Err(ambiguous(None, INEXACT));
            }
            Ok(value as u64)
        }
    }
}

fn of_sum(layout: &Layout, words: &[u32], candidates: &dyn Candidates) -> Result<Decoded, Fault> {
    let count = whole(layout, words[0])? as u32;
    if count == 0 || count > i32::MAX as u32 {
        return Ok(Decoded::Contradiction("the lane of ones counts no update, or less"));
    }
    if layout.detail == Detail::Count {
        return Ok(ambiguous(Some(count), COUNTED));
    }
    // Lanes are made for so many: with more, any of them may have left its range.
    if u64::from(count) > layout.members_max() {
        return Ok(ambiguous(Some(count), INEXACT));
    }
    let values = match words.iter().map(|word| whole(layout, *word)).collect::<Result<Vec<_>, _>>() {
        Err(Decoded::Ambiguous(_)) => return Ok(ambiguous(Some(count), INEXACT)),
        other => other?,
    };
    if layout.detail == Detail::Who {
        return Ok(who_of(layout, count, &values));
    }
    if layout.shared {
        return Ok(of_shared(layout, count, &values, candidates));
    }
    let mut search = Search::new(layout, candidates);
    search.run(count, &values);
    Ok(search.answer(Some(count)))
}

/// Counts by worker, where digits hold them.
fn who_of(layout: &Layout, count: u32, values: &[u64]) -> Decoded {
    let who: Vec<u32> = (0..layout.workers).map(|rank| digit(layout, values, rank)).collect();
    let whole = who.iter().map(|n| u64::from(*n)).sum::<u64>() == u64::from(count);
    Decoded::Ambiguous(Known { count: Some(count), who: whole.then_some(who), why: COUNTED })
}

fn digit(layout: &Layout, values: &[u64], mark: u32) -> u32 {
    let (per_lane, bits) = (layout.per_lane(), layout.digit_bits());
    let lane = values[layout.before_marks() + (mark / per_lane) as usize];
    (lane >> (mark % per_lane * bits)) as u32 & ((1 << bits) - 1)
}

/// Of members that share their sequence number.
fn of_shared(layout: &Layout, count: u32, values: &[u64], candidates: &dyn Candidates) -> Decoded {
    let ranks: Vec<u32> = (0..layout.workers).filter(|rank| digit(layout, values, *rank) == 1).collect();
    // Bits of no worker, or carries of a worker that is in it twice.
    let marks: u32 = values[layout.before_marks()..].iter().map(|lane| lane.count_ones()).sum();
    if ranks.len() != count as usize || marks != count || !values[1].is_multiple_of(count.into()) {
        return Decoded::Contradiction(NONE);
    }
    let check = |seq: u32| ranks.iter().map(|rank| u64::from(layout.check(*rank, seq))).sum::<u64>() == values[2];
    let least = values[1] / u64::from(count);
    let step = 1u64 << layout.number_bits();
    if least >= step {
        return Decoded::Contradiction(NONE);
    }
    let numbers = (least..=u32::MAX.into()).step_by(step as usize).map(|seq| seq as u32);
    let fitting = numbers.filter(|seq| ranks.iter().all(|rank| candidates.may(*rank, *seq)) && check(*seq));
    let mut found: Vec<u32> = fitting.take(2).collect();
    match (found.pop(), found.pop()) {
        (None, _) => Decoded::Contradiction(NONE),
        (Some(seq), None) => Decoded::Members(ranks.into_iter().map(|rank| Member { rank, seq }).collect()),
        _ => {
            let who = (0..layout.workers).map(|rank| u32::from(ranks.contains(&rank))).collect();
            Decoded::Ambiguous(Known { count: Some(count), who: Some(who), why: SEVERAL })
        }
    }
}

/// Of a mean the sum is not known, but for every number of members there is at most one that it can be the mean of.
fn of_mean(layout: &Layout, words: &[u32], candidates: &dyn Candidates) -> Result<Decoded, Fault> {
    let means: Vec<f64> = words.iter().map(|word| f64::from(f32::from_bits(*word))).collect();
    if means.iter().any(|mean| !(*mean >= 0.0 && mean.is_finite())) {
        return Err(Decoded::Contradiction(BROKEN));
    }
    // Rounded once or twice on its way.
    let near = |value: f64, to: f64| (value - to).abs() <= to * f64::from(2f32.powi(-22));
    if !near(means[0], 1.0) {
        return Err(Decoded::Contradiction(NOT_MEAN));
    }
    // Two bits more than marks have: members with one mark carry, and up to there rounding is undone.
    let mut search = Search::new(layout, candidates);
    let most = layout.members_max().min(search.candidates.len() as u64) as u32;
    let mut values = vec![0; means.len()];
    for count in 1..=most {
        let sums = means.iter().map(|mean| mean * f64::from(count));
        let fits = sums.zip(&mut values).all(|(sum, value)| {
            *value = sum.round() as u64;
            near(sum, sum.round()) && *value < 1 << (layout.bits() + 2)
        });
        if fits {
            search.run(count, &values);
        }
    }
    Ok(search.answer(None))
}

/// Every member has the weight of its place in the tree of merges, a power of two, and its mark holds it.
fn of_running_mean(layout: &Layout, words: &[u32], candidates: &dyn Candidates) -> Result<Decoded, Fault> {
    let unit = 1u32 << (layout.digit_bits() - 1);
    let in_units = |word: &u32| {
        let value = f64::from(f32::from_bits(*word)) * f64::from(unit);
        match value {
            _ if !(value >= 0.0 && value.is_finite()) => Err(Decoded::Contradiction(BROKEN)),
            _ if value.fract() != 0.0 || value >= f64::from(1u32 << 24) => Err(ambiguous(None, DEEP)),
            _ => Ok(value as u64),
        }
    };
    let values = words.iter().map(in_units).collect::<Result<Vec<_>, _>>()?;
    if values[0] != u64::from(unit) {
        return Err(Decoded::Contradiction(NOT_MEAN));
    }
    // A weight below a mark's digit is one more in the digit before, which is the mark of another update, or of none.
    let weights: u32 = (0..layout.marks() as u32).map(|mark| digit(layout, &values, mark)).sum();
    if weights != unit {
        return Err(ambiguous(None, DEEP));
    }
    // Digits behind the last mark belong to no update.
    let places = (layout.lanes() - layout.before_marks()) as u32 * layout.per_lane();
    if (layout.marks() as u32..places).any(|place| digit(layout, &values, place) != 0) {
        return Err(Decoded::Contradiction(NONE));
    }
    let search = Search::new(layout, candidates);
    let (mut members, mut check, mut several) = (Vec::new(), 0, false);
    for mark in 0..layout.marks() as u32 {
        let weight = digit(layout, &values, mark);
        if weight == 0 {
            continue;
        }
        match search.with_mark(mark) {
            [] => return Err(Decoded::Contradiction(NONE)),
            [(_, only)] if weight.is_power_of_two() => {
                check += u64::from(weight) * u64::from(layout.check(only.rank, only.seq));
                members.push(*only);
            }
            [_] => return Err(Decoded::Contradiction(NONE)),
            _ => several = true,
        }
    }
    if several {
        return Err(ambiguous(None, SEVERAL));
    }
    if check != values[1] {
        return Err(Decoded::Contradiction(NONE));
    }
    members.sort_unstable();
    Ok(Decoded::Members(members))
}

/// All sets of candidates that add up.
struct Search<'a> {
    layout: &'a Layout,
    /// Candidates by their mark.
    candidates: Vec<(u32, Member)>,
    /// Of the lanes of the sum that is being explained.
    values: Vec<u64>,
    chosen: Vec<Member>,
    found: Vec<Vec<Member>>,
    steps: u32,
    looks: u32,
    /// Nothing was left out.
    whole: bool,
}

impl<'a> Search<'a> {
    fn new(layout: &'a Layout, log: &dyn Candidates) -> Self {
        let (mut candidates, mut numbers) = (Vec::new(), Vec::new());
        for rank in 0..layout.workers {
            numbers.clear();
            log.list(rank, &mut numbers);
            candidates.extend(numbers.iter().map(|seq| (layout.mark(rank, *seq), Member { rank, seq: *seq })));
        }
        candidates.sort_unstable();
        let (values, chosen, found) = (Vec::new(), Vec::new(), Vec::new());
        Search { layout, candidates, values, chosen, found, steps: 0, looks: 0, whole: true }
    }

    fn with_mark(&self, mark: u32) -> &[(u32, Member)] {
        let from = self.candidates.partition_point(|(own, _)| *own < mark);
        let to = self.candidates.partition_point(|(own, _)| *own <= mark);
        &self.candidates[from..to]
    }

    /// Finds the sets of `count` candidates whose lanes are `values`.
    fn run(&mut self, count: u32, values: &[u64]) {
        self.values = values.to_vec();
        self.step(0, 0, 0, count);
    }

    /// The marks from `mark` on are open, and candidates from `at` on; `carry` comes from the marks below in its lane.
    fn step(&mut self, mut mark: u32, at: usize, mut carry: u64, left: u32) {
        let (per_lane, marks) = (self.layout.per_lane(), self.layout.marks() as u32);
        loop {
            if mark > 0 && (mark == marks || mark.is_multiple_of(per_lane)) {
                if !self.ends(mark - 1, carry) {
                    return;
                }
                carry = 0;
            }
            if mark == marks {
                return self.end(left);
            }
            let lane = self.values[self.layout.before_marks() + (mark / per_lane) as usize];
            let odd = (lane >> (mark % per_lane) ^ carry) & 1;
            if self.candidates.get(at).is_some_and(|(own, _)| *own == mark) {
                return self.choose(mark, at, (carry, odd), left);
            }
            // No candidate has this mark: it is what the marks below carry into it.
            if odd == 1 {
                return;
            }
            carry >>= 1;
            mark += 1;
        }
    }

    /// Tries all sets of the candidates with this mark that make its bit what it is.
    fn choose(&mut self, mark: u32, at: usize, (carry, odd): (u64, u64), left: u32) {
        let alike = self.candidates[at..].iter().take_while(|(own, _)| *own == mark).count();
        if alike > ALIKE {
            self.whole = false;
            return;
        }
        // Attempts of one update are alike, so a second is looked at beside the first only.
        let again = |i: &usize| self.candidates[at + i] == self.candidates[at + i - 1];
        let second: u32 = (1..alike).filter(again).map(|i| 1 << i).sum();
        // If nothing is left to choose, only the empty set remains.
        let sets = if left == 0 { 1 } else { 1u32 << alike };
        for set in 0..sets {
            self.looks += 1;
            if self.looks > LOOKS {
                self.whole = false;
                return;
            }
            let size = set.count_ones();
            if u64::from(size) % 2 != odd || size > left || set & second & !(set << 1) != 0 {
                continue;
            }
            self.steps += 1;
            if self.steps > STEPS || self.found.len() > KEEP {
                self.whole = false;
                return;
            }
            let before = self.chosen.len();
            let members = (0..alike).filter(|i| set >> i & 1 == 1).map(|i| self.candidates[at + i].1);
            self.chosen.extend(members);
            self.step(mark + 1, at + alike, (carry + u64::from(size)) >> 1, left - size);
            self.chosen.truncate(before);
        }
    }

    /// Whether what the last mark of a lane carries is what is left of the lane.
    fn ends(&self, mark: u32, carry: u64) -> bool {
        let per_lane = self.layout.per_lane();
        let used = mark % per_lane + 1;
        let rest = self.values[self.layout.before_marks() + (mark / per_lane) as usize] >> used;
        match self.layout.number {
            Number::F32 => rest == carry,
            // Integers wrap around.
            Number::I32 => (rest ^ carry) & ((1u64 << (32 - used)) - 1) == 0,
        }
    }

    fn end(&mut self, left: u32) {
        let check: u64 = self.chosen.iter().map(|own| u64::from(self.layout.check(own.rank, own.seq))).sum();
        if left == 0 && check == self.values[self.layout.before_marks() - 1] {
            let mut members = self.chosen.clone();
            members.sort_unstable();
            // Attempts of one update are alike.
            if !self.found.contains(&members) {
                self.found.push(members);
            }
        }
    }

    fn answer(mut self, count: Option<u32>) -> Decoded {
        match (self.found.len(), self.whole) {
            (0, true) => Decoded::Contradiction(NONE),
            (1, true) => Decoded::Members(self.found.remove(0)),
            _ => {
                let who = |members: &Vec<Member>| {
                    let mut who = vec![0; self.layout.workers as usize];
                    members.iter().for_each(|own| who[own.rank as usize] += 1);
                    who
                };
                let mut all = self.found.iter().map(who);
                let first = all.next().filter(|first| self.whole && all.all(|other| other == *first));
                Decoded::Ambiguous(Known { count, who: first, why: SEVERAL })
            }
        }
    }
}
