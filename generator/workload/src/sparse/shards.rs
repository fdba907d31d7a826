//! Parameters at several servers, none at two (LIBRA §2.1: they manage "globally shared but non-overlapped" parameters), and
//! hot ones on the switches of their racks (§6, "Multi-rack switches").
//!
//! The key says which server has a parameter; the switch that its server is connected to sums it if it is hot. Asked by
//! workers, by switches, and by the ledger through what workers send.

use super::Sparse;
use super::layout::Layout;
use crate::seed::mix;

/// Which server has a key. The paper does not say.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Partition {
    /// By a hash of the key: equal shares of keys of any kind.
    #[default]
    Hash,
    /// Equal ranges of the 63 bits below the top one, as PS-lite has: of small numbers in a row all are at the first server.
    Ranges,
}

impl Partition {
    /// The number of the server of a key, of `servers`.
    #[inline]
    pub fn server_of(self, key: u64, servers: u32) -> u32 {
        let spread = match self {
            Partition::Hash => mix(key),
            Partition::Ranges => key << 1,
        };
        ((u128::from(spread) * u128::from(servers)) >> 64) as u32
    }
}

/// What the switch of a rack has of one job.
#[derive(Debug, Clone)]
struct Held {
    /// How many hot parameters.
    hot: u32,
    layout: Layout,
}

/// Servers, racks, and which parameters they have.
#[derive(Debug, Clone, Default)]
pub struct Shards {
    partition: Partition,
    /// The rack of each server; empty where there is one server.
    rack_of: Vec<u16>,
    racks: u32,
    /// By job: the rack of each hot index; empty where there is one rack.
    hot: Vec<Vec<u16>>,
    /// By job and rack.
    held: Vec<Vec<Held>>,
}

impl Shards {
    /// Of servers in the racks that `rack_of` says, whose switches are laid out like `layout`.
    pub fn new(sparse: &Sparse, layout: &Layout, partition: Partition, rack_of: &[u16]) -> Self {
        let racks = rack_of.iter().max().map_or(1, |last| u32::from(*last) + 1);
        let mut shards = Shards { partition, rack_of: rack_of.to_vec(), racks, hot: Vec::new(), held: Vec::new() };
        if rack_of.len() < 2 {
            shards.rack_of.clear();
        }
        if racks < 2 {
            return shards;
        }
        for known in (0..sparse.jobs()).map(|job| sparse.hot_of(job)) {
            let mut of_rack: Vec<Vec<u32>> = vec![Vec::new(); racks as usize];
            let rack = |index| rack_of[shards.server_of(known.key_of(index)) as usize];
            let hot: Vec<u16> = (0..known.len()).map(rack).collect();
            (0..).zip(&hot).for_each(|(index, rack)| of_rack[usize::from(*rack)].push(index));
            let held = |own: &Vec<u32>| Held { hot: own.len() as u32, layout: layout.among(own) };
            shards.held.push(of_rack.iter().map(held).collect());
            shards.hot.push(hot);
        }
        shards
    }

    /// How many servers there are.
    pub fn servers(&self) -> u32 {
        self.rack_of.len().max(1) as u32
    }

    /// How many racks have one.
    pub fn racks(&self) -> u32 {
        self.racks.max(1)
    }

    /// The server of a key.
    #[inline]
    pub fn server_of(&self, key: u64) -> u32 {
        if self.rack_of.is_empty() { 0 } else { self.partition.server_of(key, self.rack_of.len() as u32) }
    }

    /// Number of the first server of a rack.
    pub fn first_server(&self, rack: u32) -> u32 {
        self.rack_of.iter().position(|of| u32::from(*of) == rack).unwrap_or(0) as u32
    }

    /// The rack whose switch sums a hot parameter of a job.
    #[inline]
    pub fn rack_of(&self, job: u16, index: u32) -> u32 {
        let hot = self.hot.get(usize::from(job)).and_then(|hot| hot.get(index as usize));
        hot.map_or(0, |rack| u32::from(*rack))
    }

    /// How many hot parameters of a job, of the job with most, the switch of a rack has; none if it has all.
    pub fn hot_most(&self, rack: u32) -> Option<u32> {
        self.held.iter().map(|held| held[rack as usize].hot).max()
    }

    /// Where the hot parameters of a job lie on the switch of a rack; none if it has all.
    pub fn layout(&self, job: u16, rack: u32) -> Option<&Layout> {
        Some(&self.held.get(usize::from(job))?.get(rack as usize)?.layout)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::seed::Seed;
    use crate::sparse::SparsePlan;
    use proptest::prelude::*;

    fn sparse(jobs: u16) -> Sparse {
        Sparse::new(SparsePlan { jobs, workers_per_job: 2, ..SparsePlan::of("oa", 0.01).unwrap() }, Seed(3)).unwrap()
    }

    proptest! {
        /// By hand: of `servers` servers the one whose part of all numbers the key, or its hash, is in.
        #[test]
        fn every_key_is_at_one_server(key: u64, servers in 1u32..40) {
            let range = Partition::Ranges.server_of(key, servers);
            let width = (1u128 << 63).div_ceil(u128::from(servers));
            prop_assert!((u128::from(key & (u64::MAX >> 1)) / width).abs_diff(u128::from(range)) <= 1);
            prop_assert!(range < servers && Partition::Hash.server_of(key, servers) < servers);
        }

        /// Beside lists made parameter by parameter.
        #[test]
        fn switches_hold_what_their_servers_have(rack_of in prop::collection::vec(0u16..3, 2..7), ranges: bool) {
            // Racks are numbered in the order of their first servers.
            let mut names: Vec<u16> = Vec::new();
            let rack_of: Vec<u16> = rack_of.iter().map(|rack| {
                names.iter().position(|name| name == rack).unwrap_or_else(|| { names.push(*rack); names.len() - 1 }) as u16
            }).collect();
            let (sparse, layout) = (sparse(2), Layout::heat(7));
            let partition = if ranges { Partition::Ranges } else { Partition::Hash };
            let shards = Shards::new(&sparse, &layout, partition, &rack_of);
            prop_assert_eq!((shards.servers() as usize, shards.racks() as usize), (rack_of.len(), names.len()));
            for job in 0..2 {
                let mut counts = vec![0u32; names.len()];
                for index in 0..sparse.hot().len() {
                    let server = partition.server_of(sparse.hot_of(job).key_of(index), rack_of.len() as u32);
                    let rack = rack_of[server as usize];
                    prop_assert_eq!(shards.rack_of(job, index), u32::from(rack));
                    // The hottest of a rack is in register 0, the next in register 1.
                    let own = &mut counts[usize::from(rack)];
                    let register = shards.layout(job, rack.into()).unwrap_or(&layout).register_of(index);
                    prop_assert_eq!(register, *own % 7);
                    *own += 1;
                }
                for (rack, count) in (0..).zip(counts) {
                    prop_assert!(shards.hot_most(rack).is_none_or(|most| most >= count));
                    prop_assert_eq!(u32::from(rack_of[shards.first_server(rack) as usize]), rack);
                }
            }
        }
    }

    #[test]
    fn shares_are_equal() {
        let sparse = sparse(1);
        for partition in [Partition::Hash, Partition::Ranges] {
            let mut counts = [0u32; 4];
            (0..40_000).for_each(|rank| counts[partition.server_of(sparse.keys_of(0).sparse(rank), 4) as usize] += 1);
            assert!(counts.iter().all(|n| (9_500..10_500).contains(n)), "{counts:?}");
        }
        assert_eq!(Partition::Ranges.server_of(77, 4), 0);
    }

    #[test]
    fn one_server_has_all() {
        for rack_of in [&[][..], &[0]] {
            let shards = Shards::new(&sparse(1), &Layout::heat(7), Partition::Hash, rack_of);
            assert_eq!((shards.servers(), shards.racks(), shards.server_of(u64::MAX)), (1, 1, 0));
            assert!(shards.layout(0, 0).is_none() && shards.hot_most(0).is_none());
        }
        // Several around one switch: it sums for all of them.
        let shards = Shards::new(&sparse(1), &Layout::heat(7), Partition::Hash, &[0, 0]);
        assert_eq!((shards.servers(), shards.racks(), shards.rack_of(0, 5)), (2, 1, 0));
    }
}
