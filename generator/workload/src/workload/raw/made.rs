//! Frames that are made: UDP of several flows and sizes, or patterns of a capture, with fields that vary.

use core::net::Ipv4Addr;
use std::sync::Arc;

use rand::RngExt;

use super::recorded::patterns;
use super::vary::Vary;
use super::{FlowSurvey, RawFrames, RawSettings, RawSource};
use crate::config::Section;
use crate::schedule::{Pace, Timeline};
use crate::seed::Seed;
use crate::time::Time;
use crate::wire::frame::{HEAD, Template, has_udp_checksum, set_ip_checksum, set_udp_checksum};
use crate::{Error, Result, schedule};

/// UDP port that they go to: discard; and the first that they come from, of so many.
const TO_PORT: u16 = 9;
const FROM_PORT: u16 = 49152;
const FROM_PORTS: u32 = 16384;
/// Bytes of frames, if nothing says it: with FCS the 64 of RFC 2544.
const SIZE: u32 = 60;
/// Most frames of a round of sizes.
pub(super) const ROUND_MAX: u32 = 10_000;

/// What is read.
pub(super) struct MadeSettings {
    flows: u32,
    packets: u32,
    sizes: Vec<u32>,
    weights: Vec<u32>,
    pattern: Option<String>,
    vary: Vec<Vary>,
    from: Ipv4Addr,
    to: Ipv4Addr,
    from_mac: [u8; 6],
    to_mac: [u8; 6],
}

impl MadeSettings {
    pub(super) fn read(section: &mut Section) -> Result<Self> {
        let address = |key: &str, text: String, section: &Section| {
            text.parse().map_err(|_| {
                Error::config(format!("{}: \"{text}\" is no IPv4 address, as 198.18.0.1", section.place(key)))
            })
        };
        let mac_of = |key: &str, text: &str, section: &Section| {
            mac(text).ok_or_else(|| {
                Error::config(format!(
                    "{}: \"{text}\" is no Ethernet address, as 02:00:00:00:00:01",
                    section.place(key)
                ))
            })
        };
        let (from, to) = (RawSettings::from(section)?, RawSettings::to(section)?);
        let (from_mac, to_mac) = (RawSettings::from_mac(section)?, RawSettings::to_mac(section)?);
        let vary = RawSettings::vary(section)?;
        let vary = vary.iter().map(|text| Vary::read(text)).collect::<Result<_, _>>();
        Ok(MadeSettings {
            flows: RawSettings::flows(section)?,
            packets: RawSettings::packets(section)?,
            sizes: Some(RawSettings::sizes(section)?).filter(|sizes| !sizes.is_empty()).unwrap_or_else(|| vec![SIZE]),
            weights: RawSettings::weights(section)?,
            pattern: RawSettings::pattern(section)?,
            vary: vary.map_err(|why| Error::config(format!("{}: {why}", section.place("vary"))))?,
            from: address("from", from, section)?,
            to: address("to", to, section)?,
            from_mac: mac_of("from_mac", &from_mac, section)?,
            to_mac: mac_of("to_mac", &to_mac, section)?,
        })
    }

    /// Refuses values that change nothing beside `frames`, or beside a pattern.
    pub(super) fn check_used(&self, section: &Section, beside_frames: bool) -> Result<()> {
        let unset = MadeSettings::read(&mut Section::of("workload", &[]))?;
        let beside_pattern = self.pattern.is_some();
        // Whether each is set, and used with a pattern.
        let keys = [
            ("sizes", self.sizes != unset.sizes, false),
            ("weights", self.weights != unset.weights, false),
            ("flows", self.flows != unset.flows, false),
            ("packets", self.packets != unset.packets, true),
            ("pattern", beside_pattern, true),
            ("vary", !self.vary.is_empty(), true),
            ("from", self.from != unset.from, false),
            ("to", self.to != unset.to, false),
            ("from_mac", self.from_mac != unset.from_mac, false),
            ("to_mac", self.to_mac != unset.to_mac, false),
        ];
        let is_unused = |is_used: bool| beside_frames || beside_pattern && !is_used;
        let Some((key, ..)) = keys.into_iter().find(|(_, is_set, is_used)| *is_set && is_unused(*is_used)) else {
            return Ok(());
        };
        let why = match beside_frames {
            true => {
                "frames of workload.frames are sent unchanged; leave it out, or name the capture as workload.pattern instead"
            }
            false => "frames of workload.pattern have their own; leave it out, or use vary",
        };
        Err(Error::config(format!("{}: {why}", section.place(key))))
    }

    /// The sizes of a round, each as often as it weighs, spread over the round.
    fn round(&self, section: &Section) -> Result<Vec<u32>> {
        let weights = if self.weights.is_empty() { vec![1; self.sizes.len()] } else { self.weights.clone() };
        let total: u64 = weights.iter().map(|weight| u64::from(*weight)).sum();
        if weights.len() != self.sizes.len() || total > u64::from(ROUND_MAX) {
            return Err(Error::config(format!(
                "{}: {} weights for {} sizes, {total} in all; give one for each size, at most {ROUND_MAX} in all",
                section.place("weights"),
                weights.len(),
                self.sizes.len()
            )));
        }
        let mut due = vec![0i64; weights.len()];
        let next = |_| {
            due.iter_mut().zip(&weights).for_each(|(due, weight)| *due += i64::from(*weight));
            let most = (0..due.len()).max_by_key(|i| (due[*i], std::cmp::Reverse(*i))).unwrap_or(0);
            due[most] -= total as i64;
            self.sizes[most]
        };
        Ok((0..total).map(next).collect())
    }
}

fn mac(text: &str) -> Option<[u8; 6]> {
    let bytes: Option<Vec<u8>> =
        text.split(':').map(|byte| u8::from_str_radix(byte, 16).ok().filter(|_| byte.len() == 2)).collect();
    bytes?.try_into().ok()
}

/// What frames are made of.
enum Patterns {
    /// UDP of these sizes, by flow.
    Udp(Vec<Template>, Vec<u32>),
    /// One of these after the other.
    Given(Vec<Vec<u8>>),
}

/// Frames that are made, on a timeline.
pub(super) struct Made {
    timeline: Box<dyn Timeline + Send>,
    patterns: Arc<Patterns>,
    vary: Arc<[Vary]>,
    /// Their number.
    n: u64,
}

impl Made {
    /// Frame `n`, which is of this flow, behind what `frame` holds.
    fn make(&self, n: u64, flow: u32, frame: &mut Vec<u8>) {
        match &*self.patterns {
            Patterns::Udp(heads, sizes) => {
                let len = sizes[(n % sizes.len() as u64) as usize] as usize;
                frame.resize(len, 0);
                let mut head = heads[flow as usize].clone();
                head.emit_to_fit(frame);
                let number = n.to_be_bytes();
                let room = (len - HEAD).min(number.len());
                frame[HEAD..HEAD + room].copy_from_slice(&number[8 - room..]);
            }
            Patterns::Given(patterns) => {
                frame.extend_from_slice(&patterns[(n % patterns.len() as u64) as usize]);
            }
        }
        if self.vary.is_empty() {
            return;
        }
        self.vary.iter().for_each(|vary| vary.write(n, frame));
        // The checksums of what has our fixed headers; others are as the pattern has them.
        if frame.len() >= HEAD && frame[12..15] == [0x08, 0x00, 0x45] {
            set_ip_checksum(frame);
            // A fragment has no checksum of its own, and what pads a datagram is none of it.
            let is_whole = (frame[20] & 0x3f) | frame[21] == 0;
            if frame[23] == 17 && is_whole && has_udp_checksum(frame) {
                let end = 34 + usize::from(u16::from_be_bytes([frame[38], frame[39]]));
                let end = end.clamp(HEAD, frame.len());
                set_udp_checksum(&mut frame[..end]);
            }
        }
    }
}

impl RawFrames for Made {
    fn next(&mut self, frame: &mut Vec<u8>) -> Option<Time> {
        let (t, flow) = self.timeline.next()?;
        self.make(self.n, flow, frame);
        self.n += 1;
        Some(t)
    }

    fn failure(&self) -> Option<&str> {
        self.timeline.failure()
    }
}

pub(super) fn open(
    made: MadeSettings,
    section: &mut Section,
    schedule: &mut Section,
    seed: Seed,
) -> Result<RawSource<Made>> {
    let place = section.place("vary");
    let (patterns, flows, bits) = match &made.pattern {
        Some(path) => {
            let given = patterns(path, &section.place("pattern"))?;
            let bits = given.iter().map(|frame| frame.len() as u64 * 8).sum::<u64>() / given.len() as u64;
            (Patterns::Given(given), 1, bits)
        }
        None => {
            let sizes = made.round(section)?;
            let bits = sizes.iter().map(|size| u64::from(*size) * 8).sum::<u64>() / sizes.len() as u64;
            let heads = (0..made.flows).map(|flow| head(&made, flow, sizes[0] as usize)).collect();
            (Patterns::Udp(heads, sizes), made.flows, bits)
        }
    };
    let mut salts = seed.stream("vary", 0, 0);
    let vary: Vec<Vary> = made.vary.iter().map(|vary| vary.salted(salts.random())).collect();
    let pace = Pace { period: vec![1.0; flows as usize], updates: made.packets, update_bits: bits };
    let (patterns, vary): (_, Arc<[Vary]>) = (Arc::new(patterns), vary.into());
    let mut again = schedule.clone();
    let made = |timeline| Made { timeline, patterns: patterns.clone(), vary: vary.clone(), n: 0 };
    let frames = made(schedule::open(schedule, "constant", &pace, seed)?);
    let mut survey = FlowSurvey::default();
    let mut frame = Vec::new();
    if vary.iter().any(Vary::is_in_headers) || matches!(*patterns, Patterns::Given(_)) {
        let mut all = made(schedule::open(&mut again, "constant", &pace, seed)?);
        while all.next(&mut frame).is_some() {
            survey.add(&frame, &place)?;
            frame.clear();
        }
    } else if let Patterns::Udp(heads, sizes) = &*patterns {
        for flow in 0..heads.len() as u32 {
            frames.make(0, flow, &mut frame);
            survey.add(&frame, &place)?;
            frame.clear();
        }
        survey.frame_max = sizes.iter().copied().max().unwrap_or(0);
    }
    Ok(RawSource::new(frames, Arc::new(survey.flows), survey.frame_max))
}

/// The headers of a flow, for frames of `bytes`: only others need another checksum.
fn head(made: &MadeSettings, flow: u32, bytes: usize) -> Template {
    let from = u32::from(made.from).wrapping_add(flow / FROM_PORTS);
    let port = FROM_PORT + (flow % FROM_PORTS) as u16;
    Template::new((from, port), (u32::from(made.to), TO_PORT), bytes).between(made.from_mac, made.to_mac)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headers_are_those_of_the_first_size() {
        let text = "[workload]\nsizes = [1514, 60]\n[schedule]\noffered = \"1Gbps\"\n";
        let mut document = crate::config::Document::parse(text, "x.toml").unwrap();
        let (mut section, mut schedule) =
            (document.section("workload").unwrap(), document.section("schedule").unwrap());
        let made = MadeSettings::read(&mut section).unwrap();
        let source = open(made, &mut section, &mut schedule, Seed(1)).unwrap();
        let Patterns::Udp(heads, _) = &*source.frames.patterns else { panic!("no pattern is given") };
        assert!(heads.iter().all(|head| head.frame_bytes() == 1514));
    }
}
