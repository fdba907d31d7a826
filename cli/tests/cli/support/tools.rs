//! Captures read by other tools and by our reader.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use pktgen_testing::{Need, skip};

use pktgen_wire::pcap::Reader;

/// Runs a tool, which must succeed; none if it is not installed, and then it says so.
pub fn run(command: &mut Command) -> Option<Output> {
    command.env("LC_ALL", "C.UTF-8");
    match command.output() {
        Err(error) => {
            let program = command.get_program().to_string_lossy();
            let need = Need::of_program(&program).unwrap_or_else(|| panic!("{program}: {error}"));
            skip(need, &format!("captures read by {program}"), error);
            None
        }
        Ok(output) => {
            assert!(output.status.success(), "{command:?}: {}", String::from_utf8_lossy(&output.stderr));
            Some(output)
        }
    }
}

/// What a tool of Wireshark prints of a file, without a word on stderr but that it should not be root.
pub fn quiet(tool: &str, args: &[&str], file: &Path) -> Option<String> {
    let mut command = Command::new(tool);
    let none = std::env::temp_dir().join("pktgen-no-such-settings");
    command.env("WIRESHARK_CONFIG_DIR", none).args(args).arg(file);
    let output = run(&mut command)?;
    for line in String::from_utf8_lossy(&output.stderr).lines().filter(|line| !line.is_empty()) {
        assert!(line.starts_with("Running as user \"root\""), "{command:?}: {line}");
    }
    Some(String::from_utf8(output.stdout).expect("UTF-8"))
}

/// tshark reads the file without a warning, and finds nothing to warn of in its packets. `folder` has the
/// dissector: without it Wireshark guesses what payloads are, and takes some for DNS.
pub fn is_clean(file: &Path, folder: &Path) -> Option<()> {
    let script = format!("lua_script:{}", dissector(folder).display());
    let checks = ["-o", "ip.check_checksum:TRUE", "-o", "udp.check_checksum:TRUE", "-q", "-z", "expert", "-r"];
    let text = quiet("tshark", &[&["-n", "-X", &script][..], &checks].concat(), file)?;
    assert!(!text.contains("Errors (") && !text.contains("Warn"), "{}: {text}", file.display());
    Some(())
}

/// Writes the dissector to a file in `folder`.
pub fn dissector(folder: &Path) -> PathBuf {
    let path = folder.join("pktgen.lua");
    if !path.exists() {
        std::fs::write(&path, pktgen_wire::wire::dissector::lua(pktgen_registry::all().protocols.formats))
            .expect("writable");
    }
    path
}

/// Returns the number of packets that our reader finds.
pub fn packets(file: &Path) -> usize {
    let mut reader = Reader::open(file).expect("a capture");
    let mut count = 0;
    while reader.next().unwrap_or_else(|e| panic!("packet {count}: {e}")).is_some() {
        count += 1;
    }
    count
}

/// Our reader, tshark and capinfos find the same packets: number, lengths, captured lengths, times to the nanosecond and interfaces.
/// Returns how many.
pub fn agree(file: &Path) -> Option<usize> {
    let fields = ["frame.time_epoch", "frame.len", "frame.cap_len", "frame.interface_id"];
    let args: Vec<&str> = ["-n", "-T", "fields"].into_iter().chain(fields.iter().flat_map(|f| ["-e", f])).collect();
    let text = quiet("tshark", &[&args[..], &["-r"]].concat(), file)?;
    let mut reader = Reader::open(file).unwrap_or_else(|e| panic!("{e}"));
    let (mut lines, mut count) = (text.lines(), 0);
    while let Some(packet) = reader.next().unwrap_or_else(|e| panic!("packet {count}: {e}")) {
        let ns = packet.time.expect("a time").unix_ns();
        let (seconds, fraction) = (ns.div_euclid(1_000_000_000), ns.rem_euclid(1_000_000_000));
        let ours = format!("{seconds}.{fraction:09}\t{}\t{}", packet.len, packet.bytes.len());
        let theirs = lines.next().unwrap_or_else(|| panic!("{}: tshark has no packet {count}", file.display()));
        // For plain pcap, tshark shows no interface.
        let interface = format!("{ours}\t{}", packet.interface);
        assert!(theirs.trim_end() == ours || theirs == interface, "{}: {count}: {interface} {theirs}", file.display());
        count += 1;
    }
    assert_eq!(lines.next(), None, "{}: tshark has more than {count} packets", file.display());
    let text = quiet("capinfos", &["-M", "-c", "-s"], file)?;
    let said = text.lines().find_map(|line| line.strip_prefix("Number of packets:")).expect("a number").trim();
    assert_eq!(said, count.to_string(), "{}", file.display());
    Some(count)
}
