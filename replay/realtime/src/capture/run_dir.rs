//! A run dir from its creation to its end.

use std::path::{Path, PathBuf};
use std::str::FromStr;

use pktgen_core::record::{
    Book, Facts, Fault, FileDigests, ITERATIONS, Iteration, LANES, LaneWords, Manifest, NAMES, NO_CLUSTER, PAYLOADS,
    PayloadPart, RESULTS, Received, Reply, Row, RunState, STAMPS, STATES, STREAMS, Sent, Stamp, State, SteeredRow,
    Words, digest, judge,
};
use pktgen_core::time::{NS, Time};
use pktgen_core::whole::{copy_whole, write_whole};
use pktgen_core::{Error, Result};
use pktgen_wire::pcap::{Form, Writer, WriterOptions};
use pktgen_wire::wire::frame::{ETHERNET_MIN, padded};
use pktgen_workload::lanes::{self, LANES_MAX};
use serde::Serialize;

use super::claim::{Claim, hold};
use super::lateness::LATENESS;
use super::ordered::OrderedWriter;
use super::stream::{Stream, convert, convert_both, finished_rows, merge_shifted, removed, running_path};
use crate::clock::RunClock;
use crate::recorder::Recorder;
use crate::transport::Departure;

/// The packets at the server.
pub(crate) const CAPTURE: &str = "capture.pcapng";
const CAPTURE_SENT: &str = "sent.pcapng";
/// File stem of what the server received, where workers receive results too: part of `received` when the run is finished.
const RECEIVED_SERVER: &str = "received_server";

/// The rows that are recorded. Counters are always complete.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Records {
    /// All.
    Full,
    /// Those of every N-th update of each worker.
    Every(u32),
    /// None.
    None,
}

impl FromStr for Records {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "full" => Ok(Records::Full),
            "none" => Ok(Records::None),
            other => match other.strip_prefix("every:").map(str::parse) {
                Some(Ok(n)) if n > 0 => Ok(Records::Every(n)),
                _ => Err(format!("\"{other}\" is not known; there are: full, every:N with N above 0, none")),
            },
        }
    }
}

impl std::fmt::Display for Records {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Records::Full => f.write_str("full"),
            Records::Every(n) => write!(f, "every:{n}"),
            Records::None => f.write_str("none"),
        }
    }
}

impl Records {
    #[inline]
    fn keeps(self, seq: u32) -> bool {
        match self {
            Records::Full => true,
            Records::Every(n) => seq.is_multiple_of(n),
            Records::None => false,
        }
    }

    /// Returns whether a received row is kept; for sums by key, by its part.
    #[inline]
    fn keeps_received(self, row: &Received) -> bool {
        self.keeps(row.part.unwrap_or(row.newest_seq))
    }
}

/// The content of a run dir.
#[derive(Debug, Clone, Copy)]
pub struct Wanted {
    /// Rows of the streams.
    pub records: Records,
    /// Whether to record the states of workers that use queue status.
    pub states: bool,
    /// Whether to record all iterations of synchronous training, and results at workers according to `records`.
    pub rounds: bool,
    /// Whether there is a server that receives.
    pub server: bool,
    /// Whether to record the packets at the server.
    pub pcap: bool,
    /// Whether to record the packets as workers send them.
    pub pcap_sent: bool,
    /// Position and number of the lanes of received packets, if recorded.
    pub lanes: Option<(lanes::LaneForm, usize)>,
    /// Whether to record all gradients of received packets, because only lanes identify their members.
    pub payloads: bool,
    /// Whether to record arrival stamps of the kernel or a card.
    pub stamps: bool,
    /// Whether to record departure stamps.
    pub departures: bool,
    /// Whether streams are compressed during the run: time is virtual, and no thread waits for a core.
    pub at_once: bool,
}

/// Writes the control changes of the run in `dir`.
pub(crate) fn write_controls(dir: &Path, changes: &[SteeredRow], files: &mut FileDigests) -> Result<()> {
    let mut stream = Stream::create(dir)?;
    changes.iter().try_for_each(|row| stream.push(row))?;
    stream.finish(dir, files).map(drop)
}

/// A run dir being written.
pub struct RunDir {
    dir: PathBuf,
    clock: RunClock,
    records: Records,
    sent: Stream<Sent>,
    books: Stream<Book>,
    received: Stream<Received>,
    /// Rows of the server, if workers write `received` at the same time.
    received_server: Option<Stream<Received>>,
    server: bool,
    states: Option<Stream<State>>,
    rounds: Option<Rounds>,
    lanes: Option<LaneRows>,
    stamps: Option<Stream<Stamp>>,
    /// Whether stamps include those of packets at the server.
    stamps_received: bool,
    pcap: Option<Writer>,
    pcap_sent: Option<OrderedWriter>,
    /// Whether updates are generated in another process, with another anchor.
    sent_elsewhere: bool,
}

/// The lanes of received packets.
struct LaneRows {
    stream: Stream<LaneWords>,
    form: lanes::LaneForm,
    count: usize,
    payloads: Option<Stream<PayloadPart>>,
}

impl LaneRows {
    /// Appends the lanes of `frame`, which belongs to `row`.
    #[inline]
    fn push(&mut self, row: &Received, frame: &[u8]) -> Result<()> {
        let room = if row.tenant() == NO_CLUSTER { 0 } else { self.count.min(LANES_MAX) };
        let words = Words::new(|words| self.form.words(frame, &mut words[..room]));
        self.stream.push(&LaneWords { t_recv: row.t_recv, cluster: row.cluster, job: row.job, words })?;
        let Some(payloads) = &mut self.payloads else { return Ok(()) };
        let values = if room == 0 { &[] } else { self.form.values(frame) };
        // An empty payload has one part as well: parts are counted.
        let parts = values.chunks(LANES_MAX).chain(values.is_empty().then_some(&[][..]));
        for (part, values) in (0..).zip(parts) {
            let words = Words::new(|words| {
                words.iter_mut().zip(values).for_each(|(word, bytes)| *word = u32::from_le_bytes(*bytes));
                values.len()
            });
            payloads.push(&PayloadPart { t_recv: row.t_recv, part, words })?;
        }
        Ok(())
    }
}

/// The streams of synchronous training.
struct Rounds {
    iterations: Stream<Iteration>,
    replies: Stream<Reply>,
}

impl RunDir {
    /// Begins the claimed run dir, with a manifest in the state "running".
    pub fn create(claim: Claim, manifest: &Manifest, wanted: Wanted) -> Result<Self> {
        let dir = claim.dir();
        write_manifest(dir, manifest)?;
        // Exact times, so that an analysis of the packets gives the same numbers as the run.
        let anchor_unix_ns = manifest.anchor_unix_ns;
        let options =
            WriterOptions { anchor_unix_ns, remainders: true, hashed: true, ..WriterOptions::new(Form::Pcapng) };
        let pcap = |wanted: bool, name| wanted.then(|| Writer::create(&dir.join(name), options.clone())).transpose();
        Ok(RunDir {
            records: wanted.records,
            sent: Stream::create(dir)?.at_once(wanted.at_once),
            books: Stream::create(dir)?.at_once(wanted.at_once),
            received: Stream::create(dir)?.at_once(wanted.at_once),
            received_server: None,
            server: wanted.server,
            states: wanted.states.then(|| Stream::create(dir)).transpose()?,
            rounds: wanted.rounds.then(|| Rounds::create(dir, wanted.at_once)).transpose()?,
            lanes: wanted.lanes.map(|lanes| LaneRows::create(dir, lanes, wanted.payloads)).transpose()?,
            stamps: (wanted.stamps || wanted.departures).then(|| Stream::create(dir)).transpose()?,
            stamps_received: wanted.stamps,
            pcap: pcap(wanted.pcap, CAPTURE)?,
            pcap_sent: pcap(wanted.pcap_sent, CAPTURE_SENT)?.map(OrderedWriter::new),
            // Ranks share the anchor.
            sent_elsewhere: manifest.part.as_deref() == Some("server") && manifest.rank.is_none(),
            clock: RunClock::start(),
            dir: dir.to_owned(),
        })
    }

    /// Returns the folder.
    pub fn path(&self) -> &Path {
        &self.dir
    }

    /// Returns the clock of a run in real time.
    pub fn clock(&self) -> RunClock {
        self.clock.clone()
    }

    /// Starts the clock, which begins after `lead`; called when everything is open.
    pub(crate) fn start_clock(&mut self, lead: Time) -> RunClock {
        self.use_clock(RunClock::start_in(lead))
    }

    /// Uses this clock, for wires with a separate time; called when everything is open.
    pub(crate) fn use_clock(&mut self, clock: RunClock) -> RunClock {
        if let Some(pcap) = &mut self.pcap {
            pcap.set_anchor(clock.anchor_unix_ns(), !self.sent_elsewhere || clock.file().is_some());
        }
        self.clock = clock;
        self.clock()
    }

    /// Records the departures of marked frames.
    pub fn departed(&mut self, departures: &[Departure]) -> Result<()> {
        let Some(stamps) = &mut self.stamps else { return Ok(()) };
        for departure in departures {
            let t = (departure.call_ns - self.clock.anchor_monotonic_ns()).saturating_mul(NS);
            stamps.push(&Stamp { t, packet: None, received_ns: None, sent_ns: departure.stamp_ns })?;
        }
        Ok(())
    }

    /// Ends the streams; the state in the manifest remains "running". Returns the folder and the digests of its files.
    pub fn close(self) -> Result<(PathBuf, FileDigests)> {
        let (dir, mut files) = (self.dir, FileDigests::new());
        self.sent.finish(&dir, &mut files)?;
        self.books.finish(&dir, &mut files)?;
        match self.received_server {
            None => self.received.finish(&dir, &mut files).map(drop)?,
            Some(server) => {
                self.received.end()?;
                server.end()?;
                convert_both::<Received>(&dir, RECEIVED_SERVER, &mut files)?;
            }
        }
        if let Some(states) = self.states {
            states.finish(&dir, &mut files)?;
        }
        if let Some(rounds) = self.rounds {
            rounds.iterations.finish(&dir, &mut files)?;
            rounds.replies.finish(&dir, &mut files)?;
        }
        if let Some(lanes) = self.lanes {
            lanes.stream.finish(&dir, &mut files)?;
            lanes.payloads.map(|payloads| payloads.finish(&dir, &mut files)).transpose()?;
        }
        if let Some(stamps) = self.stamps {
            stamps.finish(&dir, &mut files)?;
        }
        let (received, sent) = (self.pcap.map(Writer::finish), self.pcap_sent.map(OrderedWriter::finish));
        for (name, digest) in [(CAPTURE, received), (CAPTURE_SENT, sent)] {
            files.extend(digest.transpose()?.flatten().map(|digest| (name.to_owned(), digest)));
        }
        Ok((dir, files))
    }

    /// Ends the streams and writes the final manifest.
    pub fn finish(self, manifest: &mut Manifest) -> Result<()> {
        let (dir, files) = self.close()?;
        manifest.files = files;
        write_manifest(&dir, manifest)
    }
}

impl LaneRows {
    fn create(dir: &Path, (form, count): (lanes::LaneForm, usize), payloads: bool) -> Result<Self> {
        let payloads = payloads.then(|| Stream::create(dir)).transpose()?;
        Ok(LaneRows { stream: Stream::create(dir)?, form, count, payloads })
    }

    /// Starts the writing threads.
    fn start(&mut self) -> Result<()> {
        self.payloads.as_mut().map_or(Ok(()), Stream::start)?;
        self.stream.start()
    }
}

impl Rounds {
    fn create(dir: &Path, at_once: bool) -> Result<Self> {
        let (iterations, replies) = (Stream::create(dir)?, Stream::create(dir)?);
        Ok(Rounds { iterations: iterations.at_once(at_once), replies: replies.at_once(at_once) })
    }
}

/// The parts of a run dir for three threads.
pub struct Sides<'a> {
    /// Rows of the workers.
    pub workers: WorkerRows<'a>,
    /// Rows of the device.
    pub device: DeviceRows<'a>,
    /// Rows of the server, if there is one. Workers that aggregate in iterations receive themselves.
    pub server: Option<ServerRows<'a>>,
}

/// Rows written by workers.
pub struct WorkerRows<'a> {
    records: Records,
    sent: &'a mut Stream<Sent>,
    states: Option<&'a mut Stream<State>>,
    rounds: Option<&'a mut Rounds>,
    /// For workers that receive results themselves.
    received: Option<ServerRows<'a>>,
}

/// Rows written by a device.
pub struct DeviceRows<'a> {
    records: Records,
    books: &'a mut Stream<Book>,
}

/// Rows written by a receiver.
pub struct ServerRows<'a> {
    records: Records,
    received: &'a mut Stream<Received>,
    lanes: Option<&'a mut LaneRows>,
    stamps: Option<&'a mut Stream<Stamp>>,
    pcap: Option<&'a mut Writer>,
}

impl RunDir {
    /// Splits the run dir for three threads. The writing threads are started here, by a thread without a role.
    pub fn sides(&mut self) -> Result<Sides<'_>> {
        let records = self.records;
        if self.rounds.is_some() && self.server {
            self.received_server = Some(Stream::create_as(&self.dir, RECEIVED_SERVER)?);
        }
        if records != Records::None {
            self.sent.start()?;
            self.books.start()?;
            self.received.start()?;
            self.received_server.as_mut().map_or(Ok(()), Stream::start)?;
            self.lanes.as_mut().map_or(Ok(()), LaneRows::start)?;
            self.stamps.as_mut().map_or(Ok(()), Stream::start)?;
        }
        let main = &mut self.received;
        let own = |received, lanes, pcap| Some(ServerRows { records, received, lanes, stamps: None, pcap });
        let (pcap, lanes, stamps) = (self.pcap.as_mut(), self.lanes.as_mut(), self.stamps.as_mut());
        let (workers_own, server) = match (&self.rounds, &mut self.received_server) {
            // The packets at the server are captured.
            (Some(_), Some(stream)) => (own(main, None, None), own(stream, lanes, pcap)),
            (Some(_), None) => (own(main, lanes, pcap), None),
            (None, _) => (None, own(main, lanes, pcap)),
        };
        let stamps = stamps.filter(|_| self.stamps_received);
        let server = server.map(|rows| ServerRows { stamps, ..rows });
        Ok(Sides {
            workers: WorkerRows {
                records,
                sent: &mut self.sent,
                states: self.states.as_mut(),
                rounds: self.rounds.as_mut(),
                received: workers_own,
            },
            device: DeviceRows { records, books: &mut self.books },
            server,
        })
    }
}

impl WorkerRows<'_> {
    /// Records an update that left its worker, or was withheld.
    #[inline]
    pub fn sent(&mut self, row: &Sent) -> Result<()> {
        if self.records.keeps(row.seq) { self.sent.push(row) } else { Ok(()) }
    }

    /// Returns whether updates get no rows.
    pub(crate) fn keeps_none(&self) -> bool {
        self.records == Records::None
    }

    /// Records a state or decision of a worker under transmission control.
    pub fn state(&mut self, row: &State) -> Result<()> {
        self.states.as_mut().map_or(Ok(()), |states| states.push(row))
    }

    /// Returns whether packets are recorded.
    pub(crate) fn keeps_packets(&self) -> bool {
        self.received.as_ref().is_some_and(ServerRows::keeps_packets)
    }

    /// Records the packet of a result as on the cable, where it has `len` bytes.
    pub fn packet(&mut self, t: Time, on_cable: &[u8], len: u32) -> Result<()> {
        self.received.as_mut().map_or(Ok(()), |received| received.packet(t, on_cable, len))
    }

    /// Records a result that reached a worker for the first time.
    pub fn received(&mut self, row: &Received, frame: &[u8]) -> Result<()> {
        self.received.as_mut().map_or(Ok(()), |received| received.received(row, frame))
    }

    /// Records the end of an iteration of synchronous training.
    pub fn iteration(&mut self, row: &Iteration) -> Result<()> {
        self.rounds.as_mut().map_or(Ok(()), |rounds| rounds.iterations.push(row))
    }

    /// Records a result at a worker of synchronous training.
    #[inline]
    pub fn reply(&mut self, row: &Reply) -> Result<()> {
        match &mut self.rounds {
            Some(rounds) if self.records.keeps(row.seq) => rounds.replies.push(row),
            _ => Ok(()),
        }
    }
}

impl DeviceRows<'_> {
    /// Records a device's action.
    #[inline]
    pub fn book(&mut self, row: &Book) -> Result<()> {
        if self.records.keeps(row.packet_in.seq()) { self.books.push(row) } else { Ok(()) }
    }
}

impl ServerRows<'_> {
    /// Returns whether packets are recorded.
    #[inline]
    pub(crate) fn keeps_packets(&self) -> bool {
        self.pcap.is_some()
    }

    /// Records a packet as on the cable, where it has `len` bytes: with the padding that a short one lost on arrival.
    pub fn packet(&mut self, t: Time, on_cable: &[u8], len: u32) -> Result<()> {
        let (Some(pcap), mut room) = (&mut self.pcap, [0; ETHERNET_MIN]) else { return Ok(()) };
        let frame = if on_cable.len() < len as usize { padded(on_cable, &mut room) } else { on_cable };
        pcap.packet(0, t, frame, frame.len() as u32)
    }

    /// Returns whether stamps are recorded.
    pub(crate) fn keeps_stamps(&self) -> bool {
        self.stamps.is_some()
    }

    /// Records the arrival stamp of a packet of [`received`](Self::received), if there is one.
    #[inline]
    pub fn stamped(&mut self, row: &Received, received_ns: Option<i64>) -> Result<()> {
        match &mut self.stamps {
            Some(stamps) if self.records.keeps_received(row) => {
                stamps.push(&Stamp { t: row.t_recv, packet: Some(row.packet), received_ns, sent_ns: None })
            }
            _ => Ok(()),
        }
    }

    /// Records a packet at the server; `frame` is the whole frame, with our header.
    #[inline]
    pub fn received(&mut self, row: &Received, frame: &[u8]) -> Result<()> {
        if !self.records.keeps_received(row) {
            return Ok(());
        }
        if let Some(lanes) = &mut self.lanes {
            lanes.push(row, frame)?;
        }
        self.received.push(row)
    }
}

impl Recorder for RunDir {
    #[inline]
    fn sent(&mut self, row: &Sent) -> Result<()> {
        if self.records.keeps(row.seq) { self.sent.push(row) } else { Ok(()) }
    }

    #[inline]
    fn book(&mut self, row: &Book) -> Result<()> {
        if self.records.keeps(row.packet_in.seq()) { self.books.push(row) } else { Ok(()) }
    }

    #[inline]
    fn left(&mut self, now: Time, leaves: Time, frame: &[u8]) -> Result<()> {
        self.pcap_sent.as_mut().map_or(Ok(()), |pcap| pcap.packet(now, leaves, frame))
    }

    fn state(&mut self, row: &State) -> Result<()> {
        self.states.as_mut().map_or(Ok(()), |states| states.push(row))
    }

    fn iteration(&mut self, row: &Iteration) -> Result<()> {
        self.rounds.as_mut().map_or(Ok(()), |rounds| rounds.iterations.push(row))
    }

    #[inline]
    fn reply(&mut self, row: &Reply) -> Result<()> {
        match &mut self.rounds {
            Some(rounds) if self.records.keeps(row.seq) => rounds.replies.push(row),
            _ => Ok(()),
        }
    }

    #[inline]
    fn received(&mut self, row: &Received, frame: &[u8]) -> Result<()> {
        if let Some(pcap) = &mut self.pcap {
            pcap.packet(0, row.t_recv, frame, frame.len() as u32)?;
        }
        if !self.records.keeps_received(row) {
            return Ok(());
        }
        if let Some(lanes) = &mut self.lanes {
            lanes.push(row, frame)?;
        }
        self.received.push(row)
    }
}

/// The parts of a run, each with the offset of its anchor from that of the workers.
pub(crate) struct PartDirs<'a> {
    /// The workers' parts, all in the time of the schedule.
    pub workers: Vec<&'a Path>,
    /// The device's part, if it keeps books.
    pub device: Option<(&'a Path, Time)>,
    /// The server's part, if there is one.
    pub server: Option<(&'a Path, Time)>,
    /// Whether workers receive results. Without a server they always do.
    pub workers_receive: bool,
}

/// Copies the records of the parts to `out`, in the workers' time. Returns the digests of its files.
pub(crate) fn join_records(parts: &PartDirs, out: &Path) -> Result<FileDigests> {
    let mut files = FileDigests::new();
    // Rows of `sent` are already in the workers' time and are not shifted, as packets contain generation times.
    let workers: Vec<_> = parts.workers.iter().map(|dir| (*dir, 0)).collect();
    merge_shifted::<Sent>(&workers, out, &mut files)?;
    merge_shifted::<Book>(&Vec::from_iter(parts.device), out, &mut files)?;
    let mut receivers = Vec::from_iter(parts.server);
    if receivers.is_empty() || parts.workers_receive {
        receivers.splice(0..0, workers.iter().copied());
    }
    merge_shifted::<Received>(&receivers, out, &mut files)?;
    let having = |name: &str| {
        let has = |(dir, _): &&(&Path, Time)| dir.join(format!("{name}.parquet")).exists();
        workers.iter().filter(has).copied().collect::<Vec<_>>()
    };
    if !having(STATES).is_empty() {
        merge_shifted::<State>(&having(STATES), out, &mut files)?;
    }
    if !having(ITERATIONS).is_empty() {
        merge_shifted::<Iteration>(&having(ITERATIONS), out, &mut files)?;
        merge_shifted::<Reply>(&having(RESULTS), out, &mut files)?;
    }
    let lanes: Vec<_> =
        receivers.iter().filter(|(dir, _)| dir.join(format!("{LANES}.parquet")).exists()).copied().collect();
    if !lanes.is_empty() {
        merge_shifted::<LaneWords>(&lanes, out, &mut files)?;
    }
    if let Some(from) = parts.server.filter(|(dir, _)| dir.join(format!("{PAYLOADS}.parquet")).exists()) {
        merge_shifted::<PayloadPart>(&[from], out, &mut files)?;
    }
    let stamped = |(dir, _): &(&Path, Time)| dir.join(format!("{STAMPS}.parquet")).exists();
    // Stamps of several senders have several clocks: they stay in their folders.
    let senders = if workers.len() == 1 { &workers[..] } else { &[] };
    let stamps: Vec<_> = senders.iter().copied().chain(parts.server).filter(stamped).collect();
    if !stamps.is_empty() {
        merge_shifted::<Stamp>(&stamps, out, &mut files)?;
    }
    let packets = receivers.last().map(|(dir, _)| dir.join(CAPTURE));
    if let Some(from) = packets.filter(|path| path.exists()) {
        files.insert(CAPTURE.to_owned(), copy_whole(&from, &out.join(CAPTURE))?);
    }
    join_lateness(&parts.workers, out, &mut files)?;
    Ok(files)
}

/// Concatenates logs of lateness: intervals of several senders form one log.
fn join_lateness(workers: &[&Path], out: &Path, files: &mut FileDigests) -> Result<()> {
    let mut logs = Vec::new();
    for from in workers.iter().map(|dir| dir.join(LATENESS)).filter(|path| path.exists()) {
        logs.extend(std::fs::read(&from).map_err(Error::io("read", &from))?);
    }
    if !logs.is_empty() {
        files.insert(LATENESS.to_owned(), write_whole(&out.join(LATENESS), logs)?);
    }
    Ok(())
}

/// Writes the manifest of the run in `dir`, sealed: a [`Manifest`], perhaps with additional entries.
pub(crate) fn write_manifest(dir: &Path, manifest: &impl Serialize) -> Result<()> {
    let path = dir.join("manifest.json");
    let text = serde_json::to_string_pretty(manifest).map_err(|e| Error::data(&path, e.to_string()))?;
    write_whole(&path, digest::seal(&text)).map(drop)
}

/// Makes the run dir of a killed run readable: converts its streams to Parquet up to their last whole batch, and
/// updates the manifest: state "interrupted", digests of all files. Returns the rows of each stream. With `no_verify`,
/// ignores the manifest's digest. Refuses a run that is still under way, one that has ended, and what `check` refuses.
pub(super) fn recover_with(dir: &Path, no_verify: bool, check: fn(&Path) -> Result<()>) -> Result<[u64; 3]> {
    let _held = hold(dir)?;
    let path = dir.join("manifest.json");
    let text = std::fs::read(&path).map_err(Error::io("read", &path))?;
    let mut manifest: Manifest =
        serde_json::from_slice(&text).map_err(|e| Error::data(&path, format!("not a run manifest: {e}")))?;
    if !no_verify {
        digest::is_sealed(&path, &text)?;
    }
    if manifest.part.as_deref() == Some(super::frames::FRAMES) {
        let what = "it has the frames of an interface, which can be read as they are, also of a killed capture: pktgen analyze DIR";
        return Err(Error::data(dir, what));
    }
    if manifest.state != RunState::Running {
        return Err(Error::data(dir, "the run has ended: there is nothing to recover"));
    }
    check(dir)?;
    let files = &mut manifest.files;
    let rows =
        [recover_or_empty::<Sent>(dir, files)?, recover_or_empty::<Book>(dir, files)?, recover_received(dir, files)?];
    recover_stream::<State>(dir, files)?;
    recover_stream::<Iteration>(dir, files)?;
    recover_stream::<Reply>(dir, files)?;
    recover_stream::<LaneWords>(dir, files)?;
    recover_stream::<PayloadPart>(dir, files)?;
    recover_stream::<Stamp>(dir, files)?;
    // Settling restarts when parts are joined; a killed run cannot be settled. Older versions began Parquet files under these names.
    let partial = STREAMS.iter().map(|stream| dir.join(format!("{}.parquet.partial", stream.name)));
    for left in partial.chain([running_path(dir, NAMES)]).filter(|path| path.is_file()) {
        std::fs::remove_file(&left).map_err(Error::io("remove", &left))?;
    }
    // Files that were complete when it was killed have no digest yet.
    let streams = STREAMS.iter().map(|stream| format!("{}.parquet", stream.name));
    for name in streams.chain([CAPTURE, CAPTURE_SENT, LATENESS].map(str::to_owned)) {
        let path = dir.join(&name);
        if !files.contains_key(&name) && path.is_file() {
            files.insert(name, digest::file_digest(&path)?);
        }
    }
    manifest.state = RunState::Interrupted;
    match manifest.version {
        // Their verdict is read, not their incidents.
        0 | 1 => manifest.validity.faults.push(Fault::Killed {}),
        _ => manifest.incidents.faults.push(Fault::Killed {}),
    }
    manifest.validity = judge(&Facts::of(&manifest));
    write_manifest(dir, &manifest)?;
    Ok(rows)
}

/// Recovers received rows, from workers and server if both received.
fn recover_received(dir: &Path, files: &mut FileDigests) -> Result<u64> {
    let server = running_path(dir, RECEIVED_SERVER);
    for name in [Received::STREAM.name, RECEIVED_SERVER] {
        // The run was killed before the schema was on disk.
        if running_path(dir, name).metadata().is_ok_and(|about| about.len() == 0) {
            drop(Stream::<Received>::create_as(dir, name)?);
        }
    }
    match (running_path(dir, Received::STREAM.name).exists(), server.exists()) {
        (true, true) => convert_both::<Received>(dir, RECEIVED_SERVER, files),
        // Both are already in the Parquet file: the run was killed while it removed them.
        (false, true) => finished_rows::<Received>(dir).and_then(|rows| removed(&server, rows)),
        (_, false) => recover_or_empty::<Received>(dir, files),
    }
}

/// Recovers a stream that every run has: one killed before its first row gets an empty stream.
fn recover_or_empty<R: Row>(dir: &Path, files: &mut FileDigests) -> Result<u64> {
    if dir.join(format!("{}.parquet", R::STREAM.name)).exists() || running_path(dir, R::STREAM.name).exists() {
        recover_stream::<R>(dir, files)
    } else {
        merge_shifted::<R>(&[], dir, files)
    }
}

fn recover_stream<R: Row>(dir: &Path, files: &mut FileDigests) -> Result<u64> {
    let path = running_path(dir, R::STREAM.name);
    // A Parquet file has its name when it is whole: the other one, if it was not removed yet, may have fewer rows.
    if dir.join(format!("{}.parquet", R::STREAM.name)).exists() {
        let rows = finished_rows::<R>(dir)?;
        return if path.exists() { removed(&path, rows) } else { Ok(rows) };
    }
    match path.metadata() {
        // The run was killed before the schema was on disk.
        Ok(about) if about.len() == 0 => merge_shifted::<R>(&[], dir, files).and_then(|rows| removed(&path, rows)),
        Ok(_) => convert::<R>(dir, files),
        Err(_) => Ok(0),
    }
}

#[cfg(test)]
mod tests;
