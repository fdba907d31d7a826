//! Recording of every frame of an interface to a run dir, as the stream `frames`.
//!
//! Two threads. One takes frames out of the socket's ring and copies their first bytes into columns ([`pump`](self)); the other writes
//! full columns as batches of an Arrow stream. They exchange blocks through two rings, so that a slow disk never delays receiving: frames
//! that do not fit are counted as lost. At the end of the capture the stream stays Arrow, because conversion to Parquet takes about as
//! long again (0.5 s per million frames); it is converted on request.

mod block;
mod direct;
mod pump;
mod writer;

use std::collections::BTreeMap;
use std::fs::File;
use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

use pktgen_core::arrow::datatypes::SchemaRef;
use pktgen_core::column::{Column, Data, StreamTable};
use pktgen_core::record::{Fault, MANIFEST_VERSION, Manifest, Note, RunState, SCHEMA_VERSION, Validity};
use pktgen_core::time::{NS, Time};
use pktgen_core::{Error, Result};
use pktgen_wire::pcap::Drops;
use rtrb::RingBuffer;
use serde::{Deserialize, Serialize};

use super::claim::{claim, hold};
use super::run_dir::write_manifest;
use crate::clock::{self, RunClock};
use crate::driver::real_time::{FOR_FILES, drop_privileges, rest_privileges};
use crate::transport::gather::{Over, Receiver, Tally, imbalance};
use crate::transport::{Dropped, Listen, ListenKind, Listener, Wait, Wire};
use block::Block;
use pump::{Blocks, Pump, Pumped, blocks_in};
use writer::Files;

pub(crate) use pump::CaptureEnd;

/// Bytes kept free for the last manifest: several times its size with many queues.
const MANIFEST_ROOM: usize = 32 << 10;

/// Stream name of the frames received; the file is `frames.arrows`, or `frames.parquet`.
pub const FRAMES: &str = "frames";

static COLUMNS: [Column; 4] = [
    Column::new("t_recv_ps", Data::Int64, "ps", "When it was found, since the run's anchor."),
    Column::maybe("stamp_ns", Data::Int64, "ns", "The socket's own time stamp, since 1970; empty if it has none."),
    Column::new("len", Data::UInt32, "bytes", "Length on the wire."),
    Column::new("bytes", Data::Binary, "bytes", "The first bytes, as many as were kept."),
];

/// The columns of `frames`.
pub static STREAM: StreamTable =
    StreamTable { name: FRAMES, row: "one frame on an interface (`pktgen capture --iface`)", columns: &COLUMNS };

/// Returns the columns of `frames` in files.
pub fn schema() -> SchemaRef {
    STREAM.schema(SCHEMA_VERSION)
}

/// The end of a capture, and its behaviour while nothing arrives.
#[derive(Debug, Clone, Copy)]
pub struct RecordingLimits {
    /// Maximum number of frames.
    pub count: Option<u64>,
    /// Maximum duration.
    pub length: Option<Time>,
    /// Maximum time without a frame; before the first one at least [`crate::driver::real_time::FIRST_WAIT`].
    pub idle: Option<Time>,
    /// Method of waiting.
    pub wait: Wait,
}

/// The capture's own counts.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct RecordingCounts {
    /// Frames in the stream.
    pub captured: u64,
    /// Their bytes on the wire.
    pub bytes: u64,
    /// Frames of which only a part was kept.
    pub cut: u64,
    /// Frames that were received and not written because no buffer was free.
    pub writer_dropped: u64,
    /// The longest time between two polls of the ring while frames kept coming, which the ring must bridge, from when it is open. After a
    /// wait it begins with the stamp of the first frame or, without one of the host's clock, 10 ms after the wait did.
    pub longest_away_ps: i64,
    /// End of the capture.
    pub end_ps: i64,
}

/// All counts of a capture. The kernel's counts begin when the socket is opened, including frames already in its ring.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct RecordingTotals {
    /// Its own.
    #[serde(flatten)]
    pub counts: RecordingCounts,
    /// Frames for this socket that the kernel dropped: the ring was full, or they were too long for it.
    pub kernel_dropped: u64,
    /// Frames that the interface dropped, of any destination. Many drivers include those of `kernel_dropped`.
    pub interface_dropped: u64,
}

impl RecordingTotals {
    /// Returns the frames that reached the socket and are not in the stream.
    pub fn lost(&self) -> u64 {
        self.kernel_dropped + self.counts.writer_dropped
    }
}

/// A manifest with the totals of a capture.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct CaptureManifest {
    /// The manifest common to all run dirs.
    #[serde(flatten)]
    pub manifest: Manifest,
    /// Received and lost frames.
    pub capture: RecordingTotals,
}

/// The settings of a capture.
#[derive(Debug, Clone)]
pub struct RecordingPlan {
    /// The socket.
    pub listen: Listen,
    /// The end of the capture.
    pub limits: RecordingLimits,
    /// Size of the buffers between receiving and writing, in bytes.
    pub buffer_bytes: usize,
    /// Whether to write `capture.pcapng`, too.
    pub pcapng: bool,
    /// Whether to convert the stream to Parquet at the end.
    pub parquet: bool,
}

impl RecordingPlan {
    fn check(&self) -> Result<()> {
        let snap = self.listen.snap;
        if !(14..=65_549).contains(&snap) {
            return Err(Error::config(format!("--snap {snap}: 14 (an Ethernet header) to 65549 bytes can be kept")));
        }
        if self.limits.count == Some(0) {
            return Err(Error::config("--count 0: there is nothing to capture; leave it out for no limit"));
        }
        Ok(())
    }

    /// Returns the settings for the manifest, sufficient to repeat the capture.
    fn describe(&self) -> String {
        let Listen { interface, kind, snap, ring, queues, .. } = &self.listen;
        let (kind, buffer) = (kind.name(), self.buffer_bytes);
        format!(
            "[capture]\niface = \"{interface}\"\nkind = \"{kind}\"\nsnap = {snap}\nring = {ring}\nbuffer = {buffer}\n\
             queues = {queues}\n"
        )
    }
}

/// The result of a capture.
pub struct RecordedFrames {
    /// Its counts.
    pub totals: RecordingTotals,
    /// Whether its numbers may be used.
    pub validity: Validity,
    /// Its progress.
    pub state: RunState,
    /// Mode of the socket.
    pub mode: String,
}

/// Captures into `dir` until a limit or `stop`. `progress` is called about once per second with the counts so far.
pub fn capture(
    plan: &RecordingPlan,
    dir: &Path,
    stop: &AtomicBool,
    progress: &mut dyn FnMut(Time, &RecordingTotals),
) -> Result<RecordedFrames> {
    plan.check()?;
    // Memory first: allocation takes a while, during which the socket's ring would overflow.
    let buffers = buffers(plan);
    record(plan, buffers, Listener::open(&plan.listen)?, dir, stop, progress)
}

/// Captures from an open wire that has counted nothing yet.
pub fn capture_from(
    listener: Listener,
    plan: &RecordingPlan,
    dir: &Path,
    stop: &AtomicBool,
    progress: &mut dyn FnMut(Time, &RecordingTotals),
) -> Result<RecordedFrames> {
    plan.check()?;
    record(plan, buffers(plan), listener, dir, stop, progress)
}

fn record(
    plan: &RecordingPlan,
    (blocks, back): Buffers,
    mut listener: Listener,
    dir: &Path,
    stop: &AtomicBool,
    progress: &mut dyn FnMut(Time, &RecordingTotals),
) -> Result<RecordedFrames> {
    let claim = claim(dir)?;
    let _held = hold(dir)?;
    let mut manifest = CaptureManifest { manifest: manifest(plan, &listener), capture: RecordingTotals::default() };
    write_manifest(dir, &manifest)?;
    drop(claim);
    let mut files = Files::create(dir, plan.pcapng)?;
    manifest.manifest.host.insert("writing".into(), files.way().into());
    let clock = RunClock::start();
    files.set_anchor(clock.anchor_unix_ns());
    manifest.manifest.anchor_unix_ns = clock.anchor_unix_ns();
    manifest.manifest.host.extend(clock.facts());
    // Written again, so that a killed capture has its anchor.
    write_manifest(dir, &manifest)?;
    let room = room_for_the_end(dir);
    let mut watch = |t: Time, counts: &RecordingCounts, wire: &mut dyn Wire| {
        let kernel_dropped = wire.counters().receive_dropped;
        progress(t, &RecordingTotals { counts: *counts, kernel_dropped, interface_dropped: 0 });
    };
    // The socket is open: frames that arrive from now on are read. For the files of the end, whose folder may be another user's, this
    // thread takes up what files need again. Threads started now drop theirs for good.
    drop_privileges(&FOR_FILES).map_err(no_rights_dropped)?;
    let resting = rest_privileges().map_err(no_rights_dropped)?;
    let (mut receivers, over) = (std::mem::take(&mut listener.receivers), listener.over.take());
    let opened = (listener.opened_ns - clock.anchor_monotonic_ns()) * NS;
    let mut dropped = Dropped::default();
    let ((ended, counts), written) =
        both(blocks, back, files, dir, (&mut receivers, over), (&clock, plan.limits.wait), &mut |blocks, failed| {
            let pump = Pump { wire: listener.wire.as_mut(), clock: &clock, limits: &plan.limits, blocks, opened };
            let pumped = pump.run([stop, failed], &mut watch);
            // The socket stays open: what its ring drops from now on came after the capture.
            dropped = listener.dropped();
            pumped
        })?;
    drop(resting);
    let end = *ended.as_ref().unwrap_or(&CaptureEnd::Failed);
    let failures = (written.err(), ended.err());
    manifest.capture = RecordingTotals {
        counts,
        kernel_dropped: listener.tally.as_ref().map_or(dropped.by_socket, Tally::receive_dropped),
        interface_dropped: dropped.by_interface,
    };
    manifest.manifest.queues = listener.tally.as_ref().map(Tally::queues).unwrap_or_default();
    manifest.manifest.validity.notes.extend(imbalance(&manifest.manifest.queues));
    conclude(&mut manifest, plan, end, [failures.0.as_ref(), failures.1.as_ref()], listener.doubt());
    drop(room);
    let noted = write_manifest(dir, &manifest);
    // What ended the capture comes first: the manifest may fail for the same reason.
    if let Some(failure) = failures.0.or(failures.1) {
        return Err(failure);
    }
    noted?;
    // Slow work is done after the manifest states that the capture is complete.
    finish_files(&mut manifest, plan, dir)?;
    let Manifest { validity, state, .. } = manifest.manifest;
    Ok(RecordedFrames { totals: manifest.capture, validity, state, mode: listener.wire.mode() })
}

/// Completes the files of a capture whose frames are written, and adds their digests to the manifest. If the stream cannot be converted,
/// it stays, and has its digest.
fn finish_files(manifest: &mut CaptureManifest, plan: &RecordingPlan, dir: &Path) -> Result<()> {
    let by_host = manifest.capture.lost();
    let by_interface = manifest.capture.interface_dropped.saturating_sub(among_interfaces(plan, &manifest.capture));
    writer::note_drops(dir, Drops { unix_ns: clock::unix_ns(), by_interface, by_host })?;
    let files = &mut manifest.manifest.files;
    let converted = if plan.parquet { writer::convert(dir, files) } else { Ok(()) };
    writer::sign(dir, files)?;
    write_manifest(dir, manifest)?;
    let stream = writer::stream_path(dir);
    converted.map_err(|why| match why {
        Error::Io { action, path, source } if path != stream => {
            let what = format!("{source}; all recorded frames are in {}", stream.display());
            Error::Io { action, path, source: std::io::Error::new(source.kind(), what) }
        }
        other => other,
    })
}

/// Takes room on the disk for the last manifest, which a disk filled by the capture would refuse. The file has no name, so its room is
/// free again when it is dropped, or the process is killed. `None` if the file system has no such files, or no room.
fn room_for_the_end(dir: &Path) -> Option<File> {
    let mut file = File::options().read(true).write(true).custom_flags(libc::O_TMPFILE).open(dir).ok()?;
    file.write_all(&[1; MANIFEST_ROOM]).ok()?;
    Some(file)
}

/// Runs `pump` in this thread, and concurrently the writer, until nothing is left to write, and the receivers of other
/// queues, until the pump ends. Returns the results of the first two.
fn both(
    mut blocks: Blocks,
    (full, empty): WriterEnds,
    files: Files,
    dir: &Path,
    (receivers, over): (&mut [Receiver], Option<Over>),
    (clock, wait): (&RunClock, Wait),
    pump: &mut dyn FnMut(&mut Blocks, &AtomicBool) -> Pumped,
) -> Result<(Pumped, Result<()>)> {
    let drop_rights = || drop_privileges(&[]).map_err(no_rights_dropped);
    let failed = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let begin = |name: &str| std::thread::Builder::new().name(name.into());
        let writer = begin(FRAMES).spawn_scoped(scope, || {
            // Dropped when this thread ends, also by a failure: `pump` then ends, too.
            let (mut full, mut empty) = (full, empty);
            drop_rights()?;
            files.work(&mut full, &mut empty)
        });
        let writer = writer.map_err(Error::io("start the writer of", dir))?;
        blocks.writer = Some(writer.thread().clone());
        let mut others = Vec::new();
        for receiver in receivers {
            let other = begin("receiver").spawn_scoped(scope, || {
                let ended = drop_rights().and_then(|()| receiver.run(clock, wait, &failed));
                failed.fetch_or(ended.is_err(), Ordering::Relaxed);
                ended
            });
            others.push(other.map_err(Error::io("start a receiver of", dir))?);
        }
        let (mut pumped, counts) = pump(&mut blocks, &failed);
        drop(over);
        // The writer ends when all of its inputs are closed.
        blocks.close();
        writer.thread().unpark();
        let gone = |who| Error::Invalid(format!("{who} of the capture stopped unexpectedly; please report this"));
        for other in others {
            let ended = other.join().unwrap_or_else(|_| Err(gone("a receiver")));
            pumped = pumped.and_then(|value| ended.map(|()| value));
        }
        Ok(((pumped, counts), writer.join().unwrap_or_else(|_| Err(gone("the writer")))))
    })
}

fn no_rights_dropped(why: std::io::Error) -> Error {
    Error::Host(format!("this host does not let a capture give up its privileges: {why}"))
}

/// The writer's ends of the rings: filled blocks in, empty ones out.
type WriterEnds = (rtrb::Consumer<Block>, rtrb::Producer<Block>);
type Buffers = (Blocks, WriterEnds);

/// Makes all blocks, empty, and the two rings between receiver and writer.
fn buffers(plan: &RecordingPlan) -> Buffers {
    let (snap, stamped) = (plan.listen.snap as usize, plan.listen.stamps().is_some());
    let (count, rows) = blocks_in(plan.buffer_bytes, snap);
    let (full, filled) = RingBuffer::new(count);
    let (mut emptied, empty) = RingBuffer::new(count);
    for _ in 0..count {
        // The ring has room for all blocks.
        let _ = emptied.push(Block::new(rows, snap, stamped));
    }
    (Blocks::new(full, empty, snap), (filled, emptied))
}

/// Returns the manifest of a capture that is about to start.
fn manifest(plan: &RecordingPlan, listener: &Listener) -> Manifest {
    let mut host: BTreeMap<String, String> = listener.facts().into_iter().collect();
    let read = |path: &str| std::fs::read_to_string(path).map(|text| text.trim().to_owned());
    for (name, path) in [
        ("kernel", "/proc/sys/kernel/osrelease"),
        ("clock_source", "/sys/devices/system/clocksource/clocksource0/current_clocksource"),
        ("governor", "/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor"),
    ] {
        host.extend(read(path).map(|text| (name.to_owned(), text)));
    }
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    host.insert("cores".into(), cores.to_string());
    let stamps = plan.listen.stamps().unwrap_or_else(|| "none".into());
    let clocks = [("frames.t_recv_ps", "monotonic".to_owned()), ("frames.stamp_ns", stamps)];
    Manifest {
        version: MANIFEST_VERSION,
        tool: crate::run::tool(),
        experiment: "capture".into(),
        created_unix_ns: clock::unix_ns(),
        config: plan.describe(),
        uses_chance: true,
        clocks: clocks.map(|(column, domain)| (column.to_owned(), domain)).into(),
        host,
        // It refers to transmissions; `frames` are all received frames, of any sender.
        records: "none".into(),
        part: Some(FRAMES.into()),
        validity: Validity { faults: vec![Fault::UnderWay {}], notes: remarks(listener) },
        ..Manifest::default()
    }
}

fn remarks(listener: &Listener) -> Vec<Note> {
    let short = listener.too_short_for().map(|(most, mtu)| Note::ShortSocket { most: most as u64, mtu: mtu as u64 });
    short.into_iter().collect()
}

/// Returns the socket's drops that the interface's count includes: those of an AF_XDP socket, not those of a packet socket.
fn among_interfaces(plan: &RecordingPlan, totals: &RecordingTotals) -> u64 {
    if plan.listen.kind == ListenKind::AfXdp { totals.kernel_dropped } else { 0 }
}

/// Fills in what is known only at the end, and judges the validity of the capture.
fn conclude(
    manifest: &mut CaptureManifest,
    plan: &RecordingPlan,
    end: CaptureEnd,
    [writer, receiver]: [Option<&Error>; 2],
    doubt: Option<&str>,
) {
    let RecordingTotals { counts, kernel_dropped, interface_dropped } = manifest.capture;
    let mut faults = Vec::new();
    if manifest.capture.lost() > 0 {
        let (writer, longest_away_ps) = (counts.writer_dropped, counts.longest_away_ps);
        faults.push(Fault::CaptureLost { kernel: kernel_dropped, writer, longest_away_ps });
    }
    let among = among_interfaces(plan, &manifest.capture);
    if interface_dropped > among {
        faults.push(Fault::InterfaceDropped { frames: interface_dropped - among });
    }
    faults.extend(doubt.map(|why| Fault::CaptureDoubt { why: why.to_owned() }));
    faults.extend(writer.map(|why| Fault::WriterFailed { why: why.to_string() }));
    faults.extend(receiver.map(|why| Fault::RoleFailed { why: why.to_string() }));
    let limited = plan.limits.count.is_some() || plan.limits.length.is_some();
    let interrupted = end == CaptureEnd::Stopped && limited
        || matches!(end, CaptureEnd::WriterGone | CaptureEnd::Failed)
        || writer.is_some();
    if interrupted {
        faults.push(Fault::CaptureInterrupted {});
    }
    let own = &mut manifest.manifest;
    own.state = if interrupted { RunState::Interrupted } else { RunState::Finished };
    own.validity.faults = faults;
    own.counters.end_ps = counts.end_ps;
}
