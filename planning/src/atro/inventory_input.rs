//! Parses inventories from the options of `pktgen place atro` or from a file (docs/atro.md).

use std::collections::BTreeMap;
use std::path::Path;
use std::str::FromStr;

use pktgen_core::object::Object;
use pktgen_core::regular::check_regular;
use pktgen_core::units::Rate;
use pktgen_core::{Error, Result};
use serde::{Deserialize, Deserializer};

use super::cluster::{Cluster, SIZE_MAX, within};
use super::inventory::{Host, Inventory, SERVER_NAME, Switch, switch_name};

const LAYERS: u64 = 5;

/// Command-line options.
#[derive(Debug, Clone)]
pub struct Flags<'a> {
    /// Number of workers, one per host.
    pub workers: u64,
    /// Number of switches, including those that aggregate.
    pub switches: u64,
    /// Number of switches that aggregate, the first ones.
    pub aggregators: u64,
    /// Ports of each switch: one number, or runs such as `2x16,4x8`.
    pub ports: &'a str,
    /// Rate of each switch, in the same form.
    pub capacity: &'a str,
    /// Rate of each host, if it differs from that of its switch.
    pub host_rate: Option<Rate>,
    /// Rate of the server, if it differs from that of its switch.
    pub server_rate: Option<Rate>,
    /// Slower links, such as `agg0-cs2=10Gbps`.
    pub links: &'a [String],
    /// Number of layers, L.
    pub layers: u64,
    /// Number of ports of the optical device.
    pub device_ports: Option<u64>,
}

impl Inventory {
    /// Creates the inventory that options describe.
    pub fn of_flags(flags: &Flags) -> Result<Self> {
        let Flags { workers, switches, aggregators, layers, .. } = *flags;
        within("workers", workers, 1, SIZE_MAX)?;
        within("switches", switches, 1, SIZE_MAX)?;
        let ports = runs::<u64>("--ports", flags.ports, switches)?;
        let rates = runs::<Rate>("--capacity", flags.capacity, switches)?;
        let (least, rate) = (ports.iter().min().copied().unwrap_or(0), rates[0].bps());
        Cluster { switches, aggregators, ports: least, layers, capacity_bps: rate }.check()?;
        let switch = |(number, (&ports, rate)): (u64, (&u64, &Rate))| Switch {
            name: switch_name(number, aggregators),
            ports,
            rate_bps: rate.bps(),
            aggregates: number < aggregators,
        };
        let fastest = rates.iter().max().map_or(0, |rate| rate.bps());
        let host_bps = flags.host_rate.map_or(fastest, Rate::bps);
        let mut inventory = Inventory {
            switches: (0..).zip(ports.iter().zip(&rates)).map(switch).collect(),
            hosts: (0..workers).map(|number| Host { name: format!("host{number}"), rate_bps: host_bps }).collect(),
            server_bps: flags.server_rate.map_or(fastest, Rate::bps),
            links: BTreeMap::new(),
            layers,
            device_ports: flags.device_ports,
        };
        for text in flags.links {
            let wrong = || Error::config(format!("--link {text}: it is no pair with a rate; write agg0-cs2=10Gbps"));
            let (ends, rate) = text.split_once('=').ok_or_else(wrong)?;
            let rate: Rate = rate.parse().map_err(|why| Error::config(format!("--link {text}: {why}")))?;
            // Names may contain hyphens, so every split that gives two known ends is accepted.
            let found = ends.match_indices('-').find_map(|(at, _)| inventory.pair(&ends[..at], &ends[at + 1..]).ok());
            let pair = match found {
                Some(pair) => pair,
                None => {
                    let (a, b) = ends.split_once('-').ok_or_else(wrong)?;
                    inventory.pair(a, b).map_err(|why| Error::config(format!("--link {text}: {why}")))?
                }
            };
            inventory.limit(pair, rate).map_err(|why| Error::config(format!("--link {text}: {why}")))?;
        }
        inventory.check()?;
        Ok(inventory)
    }

    /// Reads a file. `workers` is the number of hosts if the file has none; giving both is an error.
    pub fn read(path: &Path, workers: Option<u64>) -> Result<Self> {
        check_regular(path)?;
        let text = std::fs::read_to_string(path).map_err(Error::io("read", path))?;
        Self::parse(&text, &path.display().to_string(), workers)
    }

    /// Parses the text of a file; `name` is used in errors.
    pub fn parse(text: &str, name: &str, workers: Option<u64>) -> Result<Self> {
        let Object(file): Object<File> = serde_json::from_str(text).map_err(|why| {
            Error::config(format!(
                "{name}: {why}; a cluster is {{\"switches\":[{{\"name\":\"leaf\",\"count\":4,\"ports\":24,\"rate\":\"100Gbps\",\
                 \"aggregates\":false}}, …],\"hosts\":[{{\"name\":\"gpu\",\"count\":40,\"rate\":\"25Gbps\"}}]}}"
            ))
        })?;
        let at = |why: String| Error::config(format!("{name}: {why}"));
        file.inventory(workers)
            .and_then(|inventory| inventory.check().map(|()| inventory))
            .map_err(|e| at(e.to_string()))
    }

    /// Sets the maximum rate of a pair, which has only one.
    fn limit(&mut self, pair: (usize, usize), rate: Rate) -> Result<(), String> {
        match self.links.insert(pair, rate.bps()) {
            Some(other) if other != rate.bps() => Err(format!(
                "the same pair has {} already; a pair has one rate, whichever end is named first",
                Rate::from_bps(other)
            )),
            _ => Ok(()),
        }
    }

    /// Returns the two ends of a link by their names, in order.
    fn pair(&self, a: &str, b: &str) -> Result<(usize, usize), String> {
        let find = |name: &str| match self.switches.iter().position(|switch| switch.name == name) {
            Some(number) => Ok(number),
            None if name == SERVER_NAME => Ok(self.server()),
            None => Err(format!("there is no switch \"{name}\"; name two switches, or one and \"{SERVER_NAME}\"")),
        };
        let (a, b) = (find(a)?, find(b)?);
        if a == b {
            return Err("a link has two ends; name two switches".into());
        }
        Ok((a.min(b), a.max(b)))
    }
}

/// Parses a value for each switch: one for all, or runs that add up to their number.
fn runs<T: FromStr + Clone>(flag: &str, text: &str, switches: u64) -> Result<Vec<T>>
where
    T::Err: std::fmt::Display,
{
    let value = |each: &str| match each {
        "" => {
            let why = "a value is missing; write one for all switches, or groups as 4xVALUE,16xVALUE";
            Err(Error::config(format!("{flag} \"{text}\": {why}")))
        }
        each => each.parse::<T>().map_err(|why| Error::config(format!("{flag} {each}: {why}"))),
    };
    if !text.contains([',', 'x']) {
        return Ok(vec![value(text)?; switches as usize]);
    }
    let mut values = Vec::new();
    for run in text.split(',') {
        let (count, each) = run.split_once('x').unwrap_or(("1", run));
        let own = value(each)?;
        let count = count.parse::<u64>().ok().filter(|count| (1..=SIZE_MAX).contains(count)).ok_or_else(|| {
            Error::config(format!("{flag} {run}: it does not begin with a number of switches; write 4x{each}"))
        })?;
        values.extend(std::iter::repeat_n(own, count as usize));
    }
    if values.len() as u64 != switches {
        return Err(Error::config(format!(
            "{flag} {text}: it is of {} switches and --switches is {switches}; make them equal",
            values.len()
        )));
    }
    Ok(values)
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    switches: Vec<Object<SwitchGroup>>,
    #[serde(default)]
    hosts: Vec<Object<HostGroup>>,
    server: Option<Object<ServerPort>>,
    #[serde(default)]
    links: Vec<Object<Slower>>,
    layers: Option<u64>,
    device_ports: Option<u64>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct SwitchGroup {
    name: String,
    count: Option<u64>,
    ports: u64,
    #[serde(deserialize_with = "rate")]
    rate: Rate,
    #[serde(default)]
    aggregates: bool,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct HostGroup {
    name: String,
    count: Option<u64>,
    #[serde(deserialize_with = "rate")]
    rate: Rate,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct ServerPort {
    #[serde(deserialize_with = "rate")]
    rate: Rate,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Slower {
    between: [String; 2],
    #[serde(deserialize_with = "rate")]
    rate: Rate,
}

fn rate<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Rate, D::Error> {
    String::deserialize(deserializer)?.parse().map_err(serde::de::Error::custom)
}

/// Returns the names of a group: its own, or numbered names for several.
fn names(name: &str, count: Option<u64>) -> Result<Vec<String>> {
    if name.is_empty() || name.chars().any(char::is_control) {
        return Err(Error::config(format!(
            "name: {name:?}; a name has a character or more, and no line break or other control character"
        )));
    }
    within(&format!("count of {name}"), count.unwrap_or(1), 1, SIZE_MAX)?;
    Ok(match count {
        None | Some(1) => vec![name.to_owned()],
        Some(count) => (0..count).map(|number| format!("{name}{number}")).collect(),
    })
}

impl File {
    fn inventory(self, workers: Option<u64>) -> Result<Inventory> {
        let mut switches = Vec::new();
        for Object(group) in &self.switches {
            for name in names(&group.name, group.count)? {
                let (ports, rate_bps, aggregates) = (group.ports, group.rate.bps(), group.aggregates);
                switches.push(Switch { name, ports, rate_bps, aggregates });
            }
            within("switches", switches.len() as u64, 1, SIZE_MAX)?;
        }
        switches.sort_by_key(|switch| !switch.aggregates);
        let fastest = switches.iter().map(|switch| switch.rate_bps).max().unwrap_or(0);
        let mut hosts = Vec::new();
        for Object(group) in &self.hosts {
            for name in names(&group.name, group.count)? {
                hosts.push(Host { name, rate_bps: group.rate.bps() });
            }
            within("hosts", hosts.len() as u64, 1, SIZE_MAX)?;
        }
        match (workers, hosts.len()) {
            (None, 0) => return Err(Error::config("hosts: there are none; list them, or give --workers")),
            (Some(_), 1..) => {
                return Err(Error::config(format!(
                    "hosts: there are {}, one worker each; leave --workers out",
                    hosts.len()
                )));
            }
            (Some(workers), 0) => {
                within("workers", workers, 1, SIZE_MAX)?;
                hosts.extend((0..workers).map(|number| Host { name: format!("host{number}"), rate_bps: fastest }));
            }
            (None, 1..) => {}
        }
        let mut inventory = Inventory {
            switches,
            hosts,
            server_bps: self.server.map_or(fastest, |Object(server)| server.rate.bps()),
            links: BTreeMap::new(),
            layers: self.layers.unwrap_or(LAYERS),
            device_ports: self.device_ports,
        };
        for Object(Slower { between: [a, b], rate }) in &self.links {
            let pair = inventory.pair(a, b).map_err(|why| Error::config(format!("links: {a}, {b}: {why}")))?;
            inventory.limit(pair, *rate).map_err(|why| Error::config(format!("links: {a}, {b}: {why}")))?;
        }
        Ok(inventory)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FILE: &str = r#"{"switches": [{"name": "leaf", "count": 2, "ports": 8, "rate": "40Gbps"},
        {"name": "agg", "ports": 16, "rate": "100Gbps", "aggregates": true}],
        "hosts": [{"name": "gpu", "count": 3, "rate": "25Gbps"}], "server": {"rate": "50Gbps"},
        "links": [{"between": ["agg", "leaf1"], "rate": "10Gbps"}], "layers": 3, "device_ports": 384}"#;

    const GBPS: u64 = 1_000_000_000;

    fn flags<'a>(ports: &'a str, capacity: &'a str, links: &'a [String]) -> Flags<'a> {
        let (host_rate, server_rate, device_ports) = (None, None, None);
        let (workers, switches, aggregators, layers) = (9, 3, 1, 5);
        Flags { workers, switches, aggregators, ports, capacity, host_rate, server_rate, links, layers, device_ports }
    }

    #[test]
    fn a_file_is_read() {
        let inventory = Inventory::parse(FILE, "c.json", None).unwrap();
        let names: Vec<_> = inventory.switches.iter().map(|switch| switch.name.as_str()).collect();
        assert_eq!(names, ["agg", "leaf0", "leaf1"], "those that aggregate come first");
        let rates = [(0, 1), (0, 2), (1, 0), (0, 3), (1, 3)].map(|(a, b)| inventory.link_bps(a, b) / GBPS);
        assert_eq!(rates, [40, 10, 40, 50, 40]);
        assert_eq!((inventory.host_bps(2, 0), inventory.hosts[2].name.as_str()), (25 * GBPS, "gpu2"));
        assert_eq!((inventory.layers, inventory.device_ports, inventory.ports()), (3, Some(384), 36));
        assert_eq!(inventory.cluster(), None);
    }

    #[test]
    fn flags_are_runs_or_one_for_all() {
        let links = ["agg0-cs2=10Gbps".to_owned(), "ps-cs1=1Gbps".to_owned()];
        let inventory = Inventory::of_flags(&flags("16,2x8", "1x100Gbps,2x40Gbps", &links)).unwrap();
        let ports: Vec<_> = inventory.switches.iter().map(|switch| switch.ports).collect();
        assert_eq!((ports, inventory.link_bps(2, 0), inventory.link_bps(1, 3)), (vec![16, 8, 8], 10 * GBPS, GBPS));
        let plain = Inventory::of_flags(&flags("8", "40Gbps", &[])).unwrap();
        let cluster = plain.cluster().unwrap();
        assert_eq!(plain, Inventory::of_cluster(&cluster, 9));
        let slower = Inventory { server_bps: 1, ..plain };
        assert_eq!(slower.cluster(), None);
    }

    #[test]
    fn names_without_a_character_or_with_line_breaks_are_refused() {
        for (from, to) in [("\"leaf\"", "\"\""), ("\"agg\", \"ports\"", "\"a\\ngg\", \"ports\""), ("\"gpu\"", "\"\"")] {
            let why = Inventory::parse(&FILE.replace(from, to), "c.json", None).unwrap_err().to_string();
            assert!(why.contains("c.json: name: \"") && why.contains("no line break"), "{why}");
        }
    }

    #[test]
    fn lists_in_place_of_objects_are_refused() {
        let switches = r#""switches": [{"name": "a", "ports": 4, "rate": "10Gbps"}]"#;
        let of = |text: &str| Inventory::parse(text, "c.json", Some(3)).map_err(|why| why.to_string());
        let with = |more: &str| of(&format!("{{{switches}{more}}}"));
        assert!(with("").is_ok() && with(r#", "server": {"rate": "10Gbps"}, "links": []"#).is_ok());
        for refused in [
            of(r#"[[{"name": "a", "ports": 4, "rate": "10Gbps"}]]"#),
            of(r#"{"switches": [["a", 1, 4, "10Gbps", true]]}"#),
            with(r#", "hosts": [["g", 3, "10Gbps"]]"#),
            with(r#", "server": ["10Gbps"]"#),
            with(r#", "links": [[["a", "ps"], "1Gbps"]]"#),
        ] {
            let why = refused.unwrap_err();
            assert!(why.contains("c.json: invalid type: sequence, expected an object"), "{why}");
        }
    }

    #[test]
    fn a_rate_of_0_is_named_where_it_was_given() {
        let switch = |rate: &str| format!(r#""switches": [{{"name": "a", "ports": 4, "rate": "{rate}"}}]"#);
        let why = |switches: &str, rest: &str| {
            Inventory::parse(&format!("{{{switches}{rest}}}"), "c.json", Some(3)).unwrap_err().to_string()
        };
        let of_switch = why(&switch("0bps"), "");
        assert!(of_switch.contains("c.json: rate of a in bit/s: 0 is not from 1"), "{of_switch}");
        let of_server = why(&switch("10Gbps"), r#", "server": {"rate": "0bps"}"#);
        assert!(of_server.contains("c.json: rate of the server in bit/s: 0 is not from 1"), "{of_server}");
    }

    #[test]
    fn what_is_wrong_is_named() {
        let fails = |ports: &str, capacity: &str, link: &[&str], parts: &[&str]| {
            let links: Vec<String> = link.iter().map(|text| (*text).to_owned()).collect();
            let message = Inventory::of_flags(&flags(ports, capacity, &links)).unwrap_err().to_string();
            assert!(parts.iter().all(|part| message.contains(part)), "{message}");
        };
        fails("2x8", "1Gbps", &[], &["--ports 2x8", "of 2 switches", "--switches is 3"]);
        fails("3x1", "1Gbps", &[], &["ports", "1 is not from 2"]);
        fails("8", "3x1Gb", &[], &["--capacity", "1Gb"]);
        fails("yx8", "1Gbps", &[], &["--ports yx8", "write 4x8"]);
        for ports in ["", "4,", ",4", "2x8,1x"] {
            fails(ports, "1Gbps", &[], &[&format!("--ports \"{ports}\": a value is missing"), "4xVALUE,16xVALUE"]);
        }
        fails("8", "1Gbps,", &[], &["--capacity \"1Gbps,\": a value is missing"]);
        fails("8", "1Gbps", &["agg0-cs9=1Gbps"], &["--link agg0-cs9", "no switch \"cs9\""]);
        fails("8", "1Gbps", &["agg0-agg0=1Gbps"], &["two ends"]);
        fails("8", "1Gbps", &["agg0"], &["write agg0-cs2=10Gbps"]);
        fails("8", "1Gbps", &["agg0-ps=2Gbps", "ps-agg0=1Gbps"], &["--link ps-agg0=1Gbps", "has 2Gbps already"]);
        let parse = |from: &str, to: &str, workers| {
            Inventory::parse(&FILE.replace(from, to), "c.json", workers).unwrap_err().to_string()
        };
        for (from, to, part) in [
            ("\"count\": 2", "\"number\": 2", "c.json: unknown field"),
            ("\"leaf1\"", "\"leaf7\"", "no switch \"leaf7\""),
            ("\"gpu\"", "\"leaf\"", "\"leaf0\" is taken"),
            ("\"ports\": 16", "\"ports\": 1", "ports of agg: 1 is not from 2"),
            ("40Gbps", "40Gb", "40Gb"),
        ] {
            let message = parse(from, to, None);
            assert!(message.contains("c.json") && message.contains(part), "{message}");
        }
        assert!(parse("", "", Some(3)).contains("leave --workers out"));
        assert!(parse(r#"{"name": "gpu", "count": 3, "rate": "25Gbps"}"#, "", None).contains("give --workers"));
    }
}
