//! Assigns aggregators to packets: a place in the window is hashed to an aggregator and moves after a collision
//! (`common/HashTable.cc` of the public code).

use rand::seq::SliceRandom;

use pktgen_core::seed::Seed;

/// Number of aggregators of a switch: half of the 40,000 registers, since the other half holds the second half of the values.
pub(crate) const AGGREGATORS_MAX: u16 = super::format::SECOND;

/// Returns the CRC-32 of Ethernet, computed bit by bit: a table is filled only once.
fn crc32(bytes: &[u8]) -> u32 {
    let step = |crc: u32| (crc >> 1) ^ if crc & 1 == 1 { 0xedb8_8320 } else { 0 };
    !bytes.iter().fold(u32::MAX, |crc, byte| (0..8).fold(crc ^ u32::from(*byte), |crc, _| step(crc)))
}

/// The aggregators of the places in a worker's window. All workers of a job begin with the same ones and receive the same moves.
#[derive(Debug, Clone)]
pub(crate) struct Places {
    aggregator_of: Vec<u16>,
    /// Aggregators that a place was hashed to initially.
    taken: Vec<bool>,
}

impl Places {
    /// Creates `window` places of job `app` among `aggregators`, all different. There must be at least as many aggregators as places.
    pub(crate) fn new(app: u16, window: u16, aggregators: u16) -> Self {
        let mut places = Places { aggregator_of: Vec::new(), taken: vec![false; usize::from(aggregators)] };
        for place in 0..window {
            let free = |salt: u16| {
                let ([a, b], [c, d], [e, f]) = (app.to_le_bytes(), place.to_le_bytes(), salt.to_le_bytes());
                (crc32(&[a, b, c, d, e, f]) % u32::from(aggregators)) as u16
            };
            let own = (0..=u16::MAX).map(free).find(|own| !places.taken[usize::from(*own)]);
            // This many attempts fail only by chance; then the first free one is used.
            let own = own.or_else(|| places.taken.iter().position(|taken| !taken).map(|own| own as u16)).unwrap_or(0);
            places.taken[usize::from(own)] = true;
            places.aggregator_of.push(own);
        }
        places
    }

    /// Returns the aggregator of packet `number`.
    #[inline]
    pub(crate) fn of(&self, number: u32) -> u16 {
        self.aggregator_of[number as usize % self.aggregator_of.len()]
    }

    /// Moves the place of packet `number` to `aggregator`, unless another place began there.
    pub(crate) fn moves(&mut self, number: u32, aggregator: u16) {
        if self.taken.get(usize::from(aggregator)) == Some(&false) {
            let place = number as usize % self.aggregator_of.len();
            self.aggregator_of[place] = aggregator;
        }
    }
}

/// The aggregators to which a server moves places after collisions: those that its job has not used, in a random order.
#[derive(Debug)]
pub(crate) struct Moves {
    /// For each aggregator: the destination after a collision there.
    next: Vec<Option<u16>>,
    seen: Vec<bool>,
    /// Remaining aggregators, the next one last.
    left: Vec<u16>,
    /// Number of moves.
    pub(crate) made: u64,
}

impl Moves {
    /// Creates the moves of job `app` among `aggregators`.
    pub(crate) fn new(app: u16, aggregators: u16, seed: Seed) -> Self {
        let mut left: Vec<u16> = (0..aggregators).collect();
        left.shuffle(&mut seed.stream("atp.moves", u64::from(app), 0));
        let count = usize::from(aggregators);
        Moves { next: vec![None; count], seen: vec![false; count], left, made: 0 }
    }

    /// Records that the job uses this aggregator.
    pub(crate) fn uses(&mut self, aggregator: u16) {
        if let Some(seen) = self.seen.get_mut(usize::from(aggregator)) {
            *seen = true;
        }
    }

    /// Returns the destination after a collision at `aggregator`: always the same, or the aggregator itself if none remains.
    pub(crate) fn next(&mut self, aggregator: u16) -> u16 {
        let Some(next) = self.next.get(usize::from(aggregator)) else { return aggregator };
        if let Some(next) = next {
            return *next;
        }
        while let Some(new) = self.left.pop() {
            if !std::mem::replace(&mut self.seen[usize::from(new)], true) {
                self.next[usize::from(aggregator)] = Some(new);
                self.made += 1;
                return new;
            }
        }
        aggregator
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn crc_is_that_of_ethernet() {
        assert_eq!(crc32(b"123456789"), 0xcbf4_3926);
    }

    #[test]
    fn places_of_a_job_are_apart_and_those_of_two_jobs_meet() {
        let places = |app, aggregators| Places::new(app, 100, aggregators).aggregator_of;
        for aggregators in [100, 128, 20_000] {
            let mut own = places(1, aggregators);
            assert_eq!(own, places(1, aggregators), "all workers of a job agree");
            own.sort_unstable();
            own.dedup();
            assert_eq!(own.len(), 100);
            assert!(own.iter().all(|own| *own < aggregators));
        }
        let (a, b) = (places(1, 128), places(2, 128));
        assert!(a.iter().any(|own| b.contains(own)));
        assert_ne!(a, b);
    }

    #[test]
    fn what_collides_moves_once_and_for_all_and_never_onto_another_place() {
        let mut moves = Moves::new(1, 200, Seed(4));
        let mut places = Places::new(1, 100, 200);
        places.aggregator_of.iter().for_each(|own| moves.uses(*own));
        let mut found = Vec::new();
        for number in 0..100 {
            let new = moves.next(places.of(number));
            assert_eq!(new, moves.next(places.of(number)));
            places.moves(number, new);
            assert_eq!(places.of(number + 100), new);
            found.push(new);
        }
        found.sort_unstable();
        found.dedup();
        assert_eq!((found.len(), moves.made), (100, 100));
        // All 200 are in use: after a collision, places stay.
        let last = places.of(3);
        assert_eq!((moves.next(last), moves.next(60_000)), (last, 60_000));
        places.moves(3, Places::new(1, 100, 200).of(7));
        assert_eq!(places.of(3), last, "another place began there");
    }
}
