//! Sizes of messages (SOAR appendix A): an aggregate contains every key of its messages.
//!
//! Sizes are counted in keys: an entry of a message is a key and a value of fixed size, and all figures are ratios.

use rand::RngExt;

use pktgen_core::seed::{Seed, Stream};
use pktgen_core::tree::{ROOT, Tree};

use super::gather::MEMORY;

/// Number of words in the text, and of different ones (appendix A: a Wikipedia dump with 54M and 800K; ours is random).
const WORDS: u64 = 54_000_000;
const UNIQUE: usize = 800_000;
/// Number of features of the model, and the share that a worker's dropout keeps (appendix A).
const FEATURES: usize = 10_000;
const KEPT: f64 = 0.5;
/// Maximum number of servers whose messages are drawn, one after another.
const SERVERS_MAX: u64 = 1_000_000;

/// The contents of servers' messages.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum UseCase {
    /// Word counts of an equal part of a Zipf-distributed text in which every word occurs.
    WordCount,
    /// Gradients of the features kept by dropout.
    ParameterServer,
}

impl UseCase {
    /// All use cases with their names.
    pub const ALL: [(&'static str, UseCase); 2] =
        [("word_count", UseCase::WordCount), ("parameter_server", UseCase::ParameterServer)];

    fn keys(self) -> usize {
        match self {
            UseCase::WordCount => UNIQUE,
            UseCase::ParameterServer => FEATURES,
        }
    }

    /// Refuses what would take too long or too much memory: at least `servers` messages are drawn, and joined along `tree`.
    pub(super) fn check(self, tree: &Tree, servers: u64) -> Result<(), String> {
        if servers > SERVERS_MAX {
            return Err(format!(
                "the messages of {servers} servers would be drawn; at most {SERVERS_MAX} are supported: give a smaller tree or \
                 smaller loads, or \"none\""
            ));
        }
        let sets = sets_at_once(tree);
        let bytes = (sets * Keys::words(self.keys()) * size_of::<u64>()) as u64;
        if bytes > MEMORY {
            return Err(format!(
                "{sets} sets of {} keys take {:.1} GiB at once, above the limit of {:.1} GiB; give a smaller tree, or \"none\"",
                self.keys(),
                bytes as f64 / (1u64 << 30) as f64,
                MEMORY as f64 / (1u64 << 30) as f64
            ));
        }
        Ok(())
    }
}

/// Returns the maximum number of sets that [`Sizes::draw`] holds at once.
fn sets_at_once(tree: &Tree) -> usize {
    let mut begun = vec![false; tree.len()];
    let (mut held, mut most) = (0, 0);
    for &v in tree.order().iter().rev() {
        held += usize::from(!begun[v as usize]);
        // And that of a server's message.
        most = most.max(held + 1);
        let parent = tree.parent(v);
        let joins = parent == ROOT || std::mem::replace(&mut begun[parent as usize], true);
        held -= usize::from(joins);
    }
    most
}

/// A set of keys.
struct Keys(Vec<u64>);

impl Keys {
    fn new(keys: usize) -> Self {
        Keys(vec![0; Keys::words(keys)])
    }

    /// Returns the number of words of a set.
    fn words(keys: usize) -> usize {
        keys.div_ceil(64)
    }

    #[inline]
    fn insert(&mut self, key: usize) {
        self.0[key / 64] |= 1 << (key % 64);
    }

    fn len(&self) -> u64 {
        self.0.iter().map(|word| u64::from(word.count_ones())).sum()
    }

    fn join(&mut self, other: &Keys) {
        self.0.iter_mut().zip(&other.0).for_each(|(own, other)| *own |= other);
    }
}

/// Sizes of messages in a tree, in keys.
#[derive(Debug, Clone, PartialEq)]
pub struct Sizes {
    /// Total of all messages of a switch's own servers.
    own: Vec<u64>,
    /// Size of the aggregate of everything below a switch.
    union: Vec<u64>,
}

impl Sizes {
    /// Draws the messages of all servers.
    pub fn draw(tree: &Tree, case: UseCase, seed: Seed) -> Self {
        let mut own = vec![0; tree.len()];
        let mut union = vec![0; tree.len()];
        let mut sets: Vec<Option<Keys>> = (0..tree.len()).map(|_| None).collect();
        let mut servers = Servers::new(case, tree.below(tree.order()[0]), seed);
        for &v in tree.order().iter().rev() {
            let mut all = sets[v as usize].take().unwrap_or_else(|| Keys::new(case.keys()));
            for _ in 0..tree.load(v) {
                let message = servers.next();
                own[v as usize] += message.len();
                all.join(&message);
            }
            union[v as usize] = all.len();
            if tree.parent(v) != ROOT {
                match &mut sets[tree.parent(v) as usize] {
                    Some(above) => above.join(&all),
                    above => *above = Some(all),
                }
            }
        }
        Sizes { own, union }
    }

    /// Returns the number of keys on all links if `blue` switches aggregate.
    pub(crate) fn on_links(&self, tree: &Tree, blue: &[bool]) -> u64 {
        let mut out = vec![0u64; tree.len()];
        for &v in tree.order().iter().rev() {
            let v = v as usize;
            out[v] = if blue[v] { self.union[v] } else { out[v] + self.own[v] };
            let parent = tree.parent(v as u32);
            if parent != ROOT {
                out[parent as usize] += out[v];
            }
        }
        out.iter().sum()
    }
}

/// Draws the messages of servers one after another.
struct Servers {
    case: UseCase,
    stream: Stream,
    /// For each word, the server that contains it at least once, so that all words occur in the text.
    first: Vec<Vec<u32>>,
    words: u64,
    next: usize,
}

impl Servers {
    fn new(case: UseCase, servers: u64, seed: Seed) -> Self {
        let mut stream = seed.stream("soar.bytes", case as u64, 0);
        let mut first = Vec::new();
        if case == UseCase::WordCount && servers > 0 {
            first.resize(servers as usize, Vec::new());
            (0..UNIQUE as u32).for_each(|word| first[stream.random_range(0..servers as usize)].push(word));
        }
        let words = (WORDS - UNIQUE as u64).checked_div(servers).unwrap_or(0);
        Servers { case, stream, first, words, next: 0 }
    }

    fn next(&mut self) -> Keys {
        let mut keys = Keys::new(self.case.keys());
        match self.case {
            UseCase::ParameterServer => {
                (0..FEATURES).filter(|_| self.stream.random_bool(KEPT)).for_each(|key| keys.insert(key));
            }
            UseCase::WordCount => {
                self.first[self.next].iter().for_each(|word| keys.insert(*word as usize));
                // A continuous 1/x distribution between 1 and the number of words plus one, rounded down: Zipf's law.
                let scale = (UNIQUE as f64 + 1.0).ln();
                for _ in 0..self.words {
                    let rank = (pktgen_core::seed::unit(&mut self.stream) * scale).exp();
                    keys.insert((rank as usize - 1).min(UNIQUE - 1));
                }
                self.next += 1;
            }
        }
        keys
    }
}
