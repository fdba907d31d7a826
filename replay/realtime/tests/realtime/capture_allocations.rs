//! The receiving thread allocates nothing: per frame, per burst or per block.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use crate::support::counting;
use pktgen_core::Result;
use pktgen_core::arrow::ipc::reader::StreamReader;
use pktgen_realtime::capture::frames::{RecordingLimits, RecordingPlan, capture_from};
use pktgen_realtime::transport::{Arrival, Found, Listen, ListenKind, Listener, Submitted, Wait, Wire, WireCounters};

/// Frames after which counting begins: by then the first blocks are in use.
const WARM: u64 = 50_000;
/// Number of all frames: many blocks, more than there are buffers.
const FRAMES: u64 = 1_000_000;

/// Supplies frames without end, and records its thread's allocations after the first frames and after the last one.
struct Endless {
    handed: u64,
    frame: [u8; 300],
    marks: Arc<[AtomicU64; 2]>,
}

impl Wire for Endless {
    fn send(&mut self, _frames: &[&[u8]]) -> Result<Submitted> {
        Ok(Submitted::default())
    }

    fn receive(&mut self, most: usize, each: &mut dyn FnMut(Arrival<'_>)) -> Result<Found> {
        for _ in 0..most {
            self.frame[..8].copy_from_slice(&self.handed.to_le_bytes());
            let len = 60 + (self.handed % 240) as usize;
            each(Arrival { bytes: &self.frame[..len], len, stamp_ns: Some(self.handed), lost: false });
            self.handed += 1;
            if self.handed == WARM {
                self.marks[0].store(counting::of_this_thread(), Ordering::Relaxed);
            }
            self.marks[1].store(counting::of_this_thread(), Ordering::Relaxed);
        }
        Ok(Found::some(most))
    }

    fn wait(&mut self, _timeout_ns: u64) -> Result<()> {
        Ok(())
    }

    fn counters(&mut self) -> WireCounters {
        WireCounters { received: self.handed, ..WireCounters::default() }
    }

    fn mode(&self) -> String {
        "endless".into()
    }
}

#[test]
fn receiving_allocates_nothing() {
    let listen = Listen {
        queues: 1,
        card_stamps: false,
        interface: "none".into(),
        kind: ListenKind::AfPacket,
        snap: 128,
        ring: 64,
        allow_default_route: false,
    };
    // So few buffers that each is reused many times and some frames find none free.
    let limits = RecordingLimits { count: Some(FRAMES), length: None, idle: None, wait: Wait::Spin };
    let plan = RecordingPlan { listen, limits, buffer_bytes: 8 << 20, pcapng: false, parquet: false };
    let marks = Arc::new([AtomicU64::new(0), AtomicU64::new(0)]);
    let wire = Endless { handed: 0, frame: [7; 300], marks: marks.clone() };
    let folder = tempfile::tempdir().expect("a folder");
    let stop = AtomicBool::new(false);
    let captured =
        capture_from(Listener::over(Box::new(wire)), &plan, folder.path(), &stop, &mut |_, _| {}).expect("a capture");
    assert_eq!(captured.totals.counts.captured, FRAMES);
    let [before, after] = [0, 1].map(|at| marks[at].load(Ordering::Relaxed));
    assert!(before > 0, "this test sees allocations");
    assert_eq!(after - before, 0, "allocations by the receiving thread");
}

/// Supplies a number of frames at once, then nothing; a look at the wire fails from one on. With the path of the capture's stream, its
/// ring drops a frame for each one that the writer has written. With an obstacle, a folder of that name is made during the capture.
#[derive(Default)]
struct Burst {
    left: u64,
    looks: u64,
    stream: Option<PathBuf>,
    obstacle: Option<PathBuf>,
}

impl Wire for Burst {
    fn send(&mut self, _frames: &[&[u8]]) -> Result<Submitted> {
        Ok(Submitted::default())
    }

    fn receive(&mut self, most: usize, each: &mut dyn FnMut(Arrival<'_>)) -> Result<Found> {
        if let Some(path) = self.obstacle.take() {
            std::fs::create_dir(path).expect("a folder");
        }
        let found = (most as u64).min(self.left);
        self.left -= found;
        (0..found).for_each(|_| each(Arrival { bytes: &[7; 60], len: 60, stamp_ns: None, lost: false }));
        Ok(Found::some(found as usize))
    }

    fn wait(&mut self, _timeout_ns: u64) -> Result<()> {
        self.looks = self.looks.saturating_sub(1);
        if self.looks == 0 { Err(pktgen_core::Error::Host("the interface went down".into())) } else { Ok(()) }
    }

    fn counters(&mut self) -> WireCounters {
        let written = |path: &PathBuf| -> u64 {
            let stream = StreamReader::try_new(File::open(path).expect("a stream"), None).expect("a schema");
            stream.map(|batch| batch.expect("a batch").num_rows() as u64).sum()
        };
        let receive_dropped = self.stream.as_ref().map_or(0, written);
        WireCounters { receive_dropped, ..WireCounters::default() }
    }

    fn mode(&self) -> String {
        "burst".into()
    }
}

/// Captures from a burst with these limits; returns the outcome, and the manifest.
fn captured(wire: Burst, limits: RecordingLimits) -> (Result<u64>, serde_json::Value) {
    let folder = tempfile::tempdir().expect("a folder");
    captured_in(folder.path(), wire, limits, false)
}

fn captured_in(folder: &Path, wire: Burst, limits: RecordingLimits, parquet: bool) -> (Result<u64>, serde_json::Value) {
    let listen = Listen {
        queues: 1,
        card_stamps: false,
        interface: "none".into(),
        kind: ListenKind::AfPacket,
        snap: 64,
        ring: 64,
        allow_default_route: false,
    };
    let plan = RecordingPlan { listen, limits, buffer_bytes: 256 << 20, pcapng: false, parquet };
    let ended = capture_from(Listener::over(Box::new(wire)), &plan, folder, &AtomicBool::new(false), &mut |_, _| {});
    let manifest = std::fs::read(folder.join("manifest.json")).expect("a manifest");
    let counted = |totals: pktgen_realtime::capture::frames::RecordingTotals| {
        totals.counts.captured + totals.counts.writer_dropped
    };
    (ended.map(|ended| counted(ended.totals)), serde_json::from_slice(&manifest).expect("JSON"))
}

/// A receiver that had no core at the end finds much in the ring.
#[test]
fn what_waits_in_the_ring_at_the_end_is_taken() {
    let limits = RecordingLimits { count: None, length: Some(1), idle: None, wait: Wait::Spin };
    let wire = Burst { left: 500_000, looks: u64::MAX, ..Burst::default() };
    assert_eq!(captured(wire, limits).0.expect("a capture"), 500_000);
}

/// The socket stays open until the files are written, and its ring overflows meanwhile.
#[test]
fn what_a_ring_drops_after_the_last_frame_is_no_loss() {
    let folder = tempfile::tempdir().expect("a folder");
    let limits = RecordingLimits { count: Some(10), length: None, idle: None, wait: Wait::Spin };
    let wire =
        Burst { left: 20, looks: u64::MAX, stream: Some(folder.path().join("frames.arrows")), ..Burst::default() };
    let (ended, manifest) = captured_in(folder.path(), wire, limits, false);
    assert_eq!((ended.expect("a capture"), &manifest["capture"]["kernel_dropped"]), (10, &0.into()), "{manifest}");
    assert_eq!(manifest["validity"]["valid"], true, "{manifest}");
}

/// Where it cannot be converted, the stream stays, whole and with its digest.
#[test]
fn what_is_not_converted_stays_as_a_stream() {
    let folder = tempfile::tempdir().expect("a folder");
    let limits = RecordingLimits { count: Some(10), length: None, idle: None, wait: Wait::Spin };
    let obstacle = Some(folder.path().join("frames.parquet"));
    let wire = Burst { left: 10, looks: u64::MAX, obstacle, ..Burst::default() };
    let (ended, manifest) = captured_in(folder.path(), wire, limits, true);
    let stream = folder.path().join("frames.arrows");
    assert!(ended.is_err_and(|why| why.to_string().contains(&stream.display().to_string())), "it stays");
    assert_eq!((&manifest["state"], &manifest["validity"]["valid"]), (&"finished".into(), &true.into()));
    let bytes = stream.metadata().expect("a stream").len();
    assert_eq!(manifest["files"]["frames.arrows"]["bytes"], bytes, "{manifest}");
}

/// Whether it waits or not: what was taken is recorded, and the manifest says why it ended.
#[test]
fn a_wire_that_fails_ends_the_capture_with_what_it_had() {
    for wait in [Wait::Block, Wait::Spin] {
        let limits = RecordingLimits { count: None, length: Some(3_600_000_000_000_000), idle: None, wait };
        let (ended, manifest) = captured(Burst { left: 100, looks: 1, ..Burst::default() }, limits);
        assert!(ended.is_err_and(|why| why.to_string().contains("went down")));
        assert_eq!((&manifest["state"], &manifest["capture"]["captured"]), (&"interrupted".into(), &100.into()));
        assert!(manifest["validity"]["faults"].to_string().contains("went down"), "{manifest}");
    }
}
