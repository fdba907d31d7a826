//! How a card spreads what arrives over its receive queues (RSS): how many there are, which of them its table names, and
//! which fields its hash covers.

use pktgen_core::registry::Named;

use super::{Check, Finding, Level, Spread, View};

const NAME: &str = "rss";

/// Bits of the fields that are hashed, as the kernel numbers them.
const FIELDS: [(u64, &str); 4] = [
    (1 << 4, "source address"),
    (1 << 5, "destination address"),
    (1 << 6, "source port"),
    (1 << 7, "destination port"),
];
/// Workers differ by their source addresses.
const SOURCE: u64 = 1 << 4;

/// See the head of this file.
pub(super) struct Rss;

impl Named for Rss {
    fn name(&self) -> &'static str {
        NAME
    }
    fn about(&self) -> &'static str {
        "distribution of received frames over a card's queues"
    }
}

impl Check for Rss {
    fn look(&self, view: &View<'_>) -> Vec<Finding> {
        let one = |name| {
            let queues = view.host.names(&format!("sys/class/net/{name}/queues"), "rx-").len();
            look(name, queues, &view.host.answers().card(name).spread)
        };
        view.present().map(one).collect()
    }
}

fn look(name: &str, queues: usize, spread: &Spread) -> Finding {
    if queues < 2 {
        return Finding::new(NAME, name, Level::Note, "one receive queue")
            .why("one core takes all that arrives; transport.queues above 1 is refused")
            .remedy(format!(
                "sudo ethtool -L {name} combined N (a veth: rx N tx N), where its driver has more: ethtool -l {name}"
            ));
    }
    let mut named = spread.table.clone();
    named.sort_unstable();
    named.dedup();
    let table = match named.len() {
        0 => "no table available".to_owned(),
        count => format!("its table names {count}"),
    };
    let fields: Vec<_> =
        FIELDS.iter().filter(|(bit, _)| spread.fields.unwrap_or(0) & bit != 0).map(|(_, name)| *name).collect();
    let by =
        if spread.fields.is_none() { "hash not available".to_owned() } else { format!("UDP by {}", fields.join(", ")) };
    let value = format!("{queues} receive queues, {table}, {by}");
    let new = |level| Finding::new(NAME, name, level, value.clone());
    match (named.len(), spread.fields) {
        (1.., _) if named.len() < queues => new(Level::Warning)
            .why("queues that the table does not name get nothing")
            .remedy(format!("sudo ethtool -X {name} equal {queues}")),
        (_, Some(fields)) if fields & SOURCE == 0 => new(Level::Warning)
            .why("workers differ by their source addresses: all of their frames come to one queue")
            .remedy(format!("sudo ethtool -N {name} rx-flow-hash udp4 sdfn")),
        (0, _) => new(Level::Note)
            .why("a veth has no table: a frame comes to the queue of the number that it was sent from")
            .remedy("no setting changes it; queues.* of a run say what came to each"),
        _ => new(Level::Ok),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::Fixture;

    #[test]
    fn what_keeps_queues_empty_is_named() {
        let two = || Spread { table: vec![0, 1, 0, 1], fields: Some(0xf0) };
        for (spread, level, value, remedy) in [
            (two(), Level::Ok, "2 receive queues, its table names 2, UDP by source address, destination address", ""),
            (Spread { table: vec![1, 1], ..two() }, Level::Warning, "its table names 1", "ethtool -X eth1 equal 2"),
            (
                Spread { fields: Some(0xe0), ..two() },
                Level::Warning,
                "UDP by destination address",
                "rx-flow-hash udp4 sdfn",
            ),
            (Spread::default(), Level::Note, "no table available, hash not available", "say what came to each"),
        ] {
            let mut fixture = Fixture::good();
            fixture.answers.card.spread = spread;
            let found = fixture.look(&Rss);
            assert_eq!((found.len(), found[0].level), (1, level), "{found:?}");
            assert!(found[0].value.contains(value) && found[0].remedy.contains(remedy), "{found:?}");
        }
        let one = Fixture::good().remove("sys/class/net/eth1/queues/rx-1").look(&Rss);
        assert_eq!((one[0].level, one[0].value.as_str()), (Level::Note, "one receive queue"));
    }
}
