//! Runs tshark with the dissector and parses its output field by field.

use std::path::Path;
use std::process::Command;

use pktgen_wire::wire::layout::Value;

use super::Said;
use pktgen_testing::{Need, skip};

/// Returns tshark's standard output; none, with a note, if it is not installed. Standard error may contain only the
/// warning against running as root.
pub fn tshark(folder: &Path, capture: &Path, args: &[&str]) -> Option<String> {
    let script = format!("lua_script:{}", folder.join("pktgen.lua").display());
    let mut command = Command::new("tshark");
    // Without user settings.
    command.env("WIRESHARK_CONFIG_DIR", folder.join("none")).env("LC_ALL", "C.UTF-8");
    command.args(["-n", "-X", &script, "-r"]).arg(capture).args(args);
    let output = match command.output() {
        Err(error) => {
            skip(Need::Tshark, "the dissector in tshark", error);
            return None;
        }
        Ok(output) => output,
    };
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{args:?}: {said}");
    for line in said.lines().filter(|line| !line.is_empty()) {
        assert!(line.starts_with("Running as user \"root\""), "{args:?}: {line}");
    }
    Some(String::from_utf8(output.stdout).expect("UTF-8"))
}

/// Returns settings that show all items of every packet.
pub fn show_all(names: &[&'static str]) -> Vec<String> {
    names.iter().flat_map(|name| ["-o".to_owned(), format!("{name}.items:100000")]).collect()
}

/// A field shown by tshark.
#[derive(Debug, Clone)]
pub struct Shown {
    pub name: String,
    pub show: String,
    pub value: String,
}

/// The fields of one protocol that tshark shows of a packet.
#[derive(Debug, Clone, Default)]
pub struct Packet {
    pub fields: Vec<Shown>,
    /// Expert infos of the protocol: the last parts of their names.
    pub experts: Vec<String>,
}

fn attribute(line: &str, name: &str) -> String {
    let mark = format!(" {name}=\"");
    let text = line.split_once(&mark).and_then(|(_, rest)| rest.split_once('"')).map_or("", |(text, _)| text);
    text.replace("&lt;", "<").replace("&gt;", ">").replace("&quot;", "\"").replace("&apos;", "'").replace("&amp;", "&")
}

/// Returns the fields of `format` of every packet in PDML.
pub fn packets(pdml: &str, format: &str) -> Vec<Packet> {
    assert!(!pdml.contains("Lua Error"), "{}", pdml.lines().find(|line| line.contains("Lua Error")).unwrap_or(""));
    let prefix = format!("{format}.");
    let mut all: Vec<Packet> = Vec::new();
    for line in pdml.lines().map(str::trim_start) {
        if line.starts_with("<packet>") {
            all.push(Packet::default());
        }
        let (name, Some(packet)) = (attribute(line, "name"), all.last_mut()) else { continue };
        // If hidden, it is how Wireshark finds our own expert infos; otherwise a dissector read past the end.
        assert!(name != "_ws.malformed" || attribute(line, "hide") == "yes", "{line}");
        let Some(short) = name.strip_prefix(&prefix).filter(|_| line.starts_with("<field ")) else { continue };
        if ["malformed", "snapped", "unknown"].contains(&short) {
            packet.experts.push(short.to_owned());
        } else {
            let (show, value) = (attribute(line, "show"), attribute(line, "value"));
            packet.fields.push(Shown { name: short.to_owned(), show, value });
        }
    }
    all
}

/// Compares the shown fields with the packet's contents. `items` names the fields of items.
pub fn compare(shown: &Packet, said: &Said, items: &[&str], what: &str) {
    let mut shown = shown.fields.iter();
    let flat = said.items.iter().flat_map(|item| items.iter().copied().zip(item.iter().copied()));
    for (name, value) in said.fields.iter().copied().chain(flat).chain(said.tail.iter().copied()) {
        let found = shown.next().unwrap_or_else(|| panic!("{what}: {name} is not shown"));
        // Fields that identify a message, which the reader does not return.
        let found = if found.name == name { found } else { shown.find(|other| other.name == name).unwrap_or(found) };
        assert_eq!(found.name, name, "{what}");
        match value {
            Value::Int(number) => {
                let seen = match found.show.as_str() {
                    "True" => 1,
                    "False" => 0,
                    text => text.parse::<i128>().unwrap_or_else(|e| panic!("{what}: {name} {text}: {e}")),
                };
                assert_eq!(seen, number, "{what}: {name}");
            }
            Value::Float(bits) => {
                let value = f32::from_bits(bits);
                let seen: f32 = found.show.parse().unwrap_or_else(|e| panic!("{what}: {name} {}: {e}", found.show));
                let near =
                    (seen - value).abs() <= value.abs() * 1e-5 || seen == value || (seen.is_nan() && value.is_nan());
                assert!(near, "{what}: {name} is {value}, shown as {}", found.show);
                let raw = u32::from_str_radix(&found.value, 16).unwrap_or_else(|e| panic!("{what}: {e}"));
                assert!(raw == bits || raw.swap_bytes() == bits, "{what}: {name}: {raw:#x} {bits:#x}");
            }
        }
    }
    let state: String = said.bytes.iter().map(|byte| format!("{byte:02x}")).collect();
    let rest: Vec<_> = shown.collect();
    let seen: String = rest.iter().map(|field| field.value.as_str()).collect();
    assert_eq!(seen, state, "{what}: {rest:?}");
}
