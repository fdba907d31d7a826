//! `tap`: writes every frame that an end sends and receives to a file.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use pktgen_core::config::{KeyTables, Section, Value, settings};
use pktgen_core::registry::Named;
use pktgen_core::time::Time;
use pktgen_core::{Error, Result};
use pktgen_wire::pcap::{Form, Writer, WriterOptions};

use super::filter::{Fetch, Filter, Filtered, Offer};
use super::{Declared, Layer, Middleware, Site};
use crate::clock::RunClock;
use crate::transport::Submitted;
use crate::transport::{Arrival, End, Wire};

/// `tap = "FILE.pcapng"`.
pub(crate) struct Tap;

/// Required suffix of the file's name.
const SUFFIX: &str = ".pcapng";

impl Named for Tap {
    fn name(&self) -> &'static str {
        "tap"
    }
    fn about(&self) -> &'static str {
        "capture of all frames sent and received at each end, as pcapng with ns"
    }
}

settings! {
    /// What it reads from `[transport]`.
    keys Settings {
        /// Capture file of all frames sent and received, with a name ending in `.pcapng`; each end writes its own file.
        tap: Option<String>;
    }
}

impl Middleware for Tap {
    fn keys(&self) -> KeyTables {
        &[Settings::KEYS]
    }

    fn declares(&self) -> Declared {
        Declared { one_wire: true, ..Declared::default() }
    }

    fn sample(&self) -> Vec<(&'static str, Value)> {
        vec![("tap", "tap.pcapng".into())]
    }

    fn read(&self, section: &mut Section, _linger: Time) -> Result<Option<Arc<dyn Layer>>> {
        let Some(file) = Settings::tap(section)? else { return Ok(None) };
        match file.strip_suffix(SUFFIX) {
            Some(stem) if !stem.is_empty() && !stem.ends_with('/') => {
                Ok(Some(Arc::new(Files { stem: stem.to_owned() })))
            }
            _ => Err(Error::config(format!(
                "{}: \"{file}\" does not end in a name and {SUFFIX}, as taps{SUFFIX}; each end writes one of its own, as \
                 taps-workers{SUFFIX}",
                section.place("tap")
            ))),
        }
    }
}

/// The names of the files.
struct Files {
    stem: String,
}

impl Files {
    fn path(&self, end: End, folder: &Path) -> PathBuf {
        folder.join(format!("{}-{}{SUFFIX}", self.stem, end.name().replace('.', "-")))
    }
}

impl Layer for Files {
    fn file(&self) -> Option<String> {
        Some(format!("{}{SUFFIX}", self.stem))
    }

    fn wrap(&self, end: End, site: &Site, wire: Box<dyn Wire>) -> Result<Box<dyn Wire>> {
        let path = self.path(end, site.folder);
        if path.exists() {
            return Err(Error::config(format!(
                "transport.tap: {} exists, and may be in use; remove it, or choose another name",
                path.display()
            )));
        }
        let anchor_unix_ns = site.clock.anchor_unix_ns();
        let file = Writer::create_new(&path, WriterOptions { anchor_unix_ns, ..WriterOptions::new(Form::Pcapng) })?;
        let place = path.display().to_string();
        let tap = Tapped { clock: site.clock.clone(), file: Some(file), place, end, frames: 0 };
        Ok(Box::new(Filtered::new(wire, tap)))
    }
}

/// Writes frames to its file.
struct Tapped {
    clock: RunClock,
    file: Option<Writer>,
    place: String,
    end: End,
    frames: u64,
}

impl Filter for Tapped {
    fn outward(&mut self, frames: &[&[u8]], offer: &mut Offer<'_>) -> Result<Submitted> {
        // Before the submitting call, like the workers' own time of sending.
        let t = self.clock.now();
        let sent = offer(frames)?;
        if let Some(file) = &mut self.file {
            frames[..sent.taken].iter().try_for_each(|frame| file.packet(0, t, frame, frame.len() as u32))?;
            self.frames += sent.taken as u64;
        }
        Ok(sent)
    }

    fn inward(&mut self, most: usize, fetch: &mut Fetch<'_>, each: &mut dyn FnMut(Arrival<'_>)) -> Result<usize> {
        let Some(file) = &mut self.file else { return fetch(most, each) };
        let (clock, frames) = (&self.clock, &mut self.frames);
        let (mut t, mut written) = (None, Ok(()));
        let found = fetch(most, &mut |arrival| {
            if !arrival.lost && written.is_ok() {
                // Once per call, and after the first was found, so that no arrival precedes its departure.
                written = file.packet(0, *t.get_or_insert_with(|| clock.now()), arrival.bytes, arrival.len as u32);
                *frames += 1;
            }
            each(arrival);
        })?;
        written.map(|()| found)
    }

    fn mode(&self) -> String {
        format!("tap to {}", self.place)
    }

    fn notes(&mut self) -> Vec<(String, String)> {
        let Some(file) = self.file.take() else { return Vec::new() };
        let end = file.finish().map_or_else(|e| format!("not written to its end: {e}"), |_| "complete".to_owned());
        vec![(format!("tap.{}", self.end.name()), format!("{}: {} frames, {end}", self.place, self.frames))]
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{Memory, frame, site, within};
    use super::*;
    use pktgen_testing::{Need, skip};
    use std::process::Command;

    /// Returns time and bytes of every packet of a pcapng file with one interface in ns.
    fn packets(file: &[u8]) -> Vec<(u64, Vec<u8>)> {
        let word = |at: usize| u32::from_le_bytes(file[at..at + 4].try_into().unwrap());
        let (mut at, mut found) = (0, Vec::new());
        while at < file.len() {
            let len = word(at + 4) as usize;
            assert_eq!(word(at + len - 4) as usize, len, "a block says its length at both ends");
            if word(at) == 6 {
                let stamp = u64::from(word(at + 12)) << 32 | u64::from(word(at + 16));
                assert_eq!(word(at + 20), word(at + 24), "nothing is cut");
                found.push((stamp, file[at + 28..at + 28 + word(at + 20) as usize].to_vec()));
            }
            at += len;
        }
        found
    }

    #[test]
    fn both_directions_are_in_a_file_that_can_be_read_back() {
        let folder = tempfile::tempdir().unwrap();
        let (memory, bench) = Memory::new();
        let site = within(folder.path());
        let layer = Files { stem: "taps".into() };
        let mut wire = layer.wrap(End::DeviceDown, &site, Box::new(memory)).unwrap();
        let frames: Vec<_> = (0..5).map(|i| frame(i, 60 + i as usize)).collect();
        let slices: Vec<_> = frames.iter().map(Vec::as_slice).collect();
        bench.lock().unwrap().room = 3;
        assert_eq!(wire.send(&slices).unwrap().taken, 3, "two were not taken, so they are not in the file");
        bench.lock().unwrap().incoming.extend([frame(10, 70), frame(11, 71)]);
        let mut heard = Vec::new();
        assert_eq!(wire.receive(64, &mut |arrival| heard.push(arrival.bytes.to_vec())).unwrap().frames, 2);
        assert_eq!(heard, [frame(10, 70), frame(11, 71)]);
        let path = folder.path().join("taps-device-down.pcapng");
        let notes = wire.notes();
        assert_eq!(notes[1].0, "tap.device.down");
        assert!(notes[1].1.ends_with("5 frames, complete"), "{notes:?}");
        let found = packets(&std::fs::read(&path).unwrap());
        let bytes: Vec<_> = found.iter().map(|(_, bytes)| bytes.clone()).collect();
        assert_eq!(bytes, [frame(0, 60), frame(1, 61), frame(2, 62), frame(10, 70), frame(11, 71)]);
        let (from, to) = (site.clock.anchor_unix_ns(), site.clock.anchor_unix_ns() + site.clock.now() as u64 / 1000);
        assert!(
            found.windows(2).all(|pair| pair[0].0 <= pair[1].0) && found.iter().all(|(t, _)| (from..=to).contains(t))
        );
        let again = layer.wrap(End::DeviceDown, &site, Box::new(Memory::new().0)).err().unwrap();
        assert!(again.to_string().contains("exists"), "{again}");
        read_with_tcpdump(&path);
    }

    fn read_with_tcpdump(path: &Path) {
        match Command::new("tcpdump").args(["-e", "-n", "-r"]).arg(path).output() {
            Err(error) => skip(Need::Tcpdump, "a tap that tcpdump reads", error),
            Ok(output) => {
                assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
                // Undecodable content is dumped in indented lines.
                let text = String::from_utf8_lossy(&output.stdout).into_owned();
                assert_eq!(text.lines().filter(|line| !line.starts_with(char::is_whitespace)).count(), 5, "{text}");
            }
        }
    }

    #[test]
    fn a_name_without_its_ending_is_refused_and_frames_that_a_fault_took_are_not_written() {
        for name in ["taps", ".pcapng", "folder/.pcapng", "taps.pcap"] {
            let mut section = Section::of("transport", &[("tap", name.into())]);
            let error = Tap.read(&mut section, 0).err().unwrap().to_string();
            assert!(error.contains("transport.tap") && error.contains(name), "{error}");
        }
        assert!(Tap.read(&mut Section::of("transport", &[]), 0).unwrap().is_none());
        let folder = tempfile::tempdir().unwrap();
        let (memory, bench) = Memory::new();
        let layer = Files { stem: "taps".into() };
        let mut wire = layer.wrap(End::Server, &Site { folder: folder.path(), ..site() }, Box::new(memory)).unwrap();
        bench.lock().unwrap().incoming.extend([frame(1, 64), frame(2, 64)]);
        bench.lock().unwrap().marks = 0b01;
        let mut lost = Vec::new();
        wire.receive(64, &mut |arrival| lost.push(arrival.lost)).unwrap();
        assert_eq!(lost, [true, false]);
        wire.notes();
        let found = packets(&std::fs::read(folder.path().join("taps-server.pcapng")).unwrap());
        assert_eq!(found.iter().map(|(_, bytes)| bytes.clone()).collect::<Vec<_>>(), [frame(2, 64)]);
    }
}
