//! Processing time of aggregation packets in a Trio chip (Trio §2, §3.1, §4, §6.3), in virtual time.
//!
//! A packet gets a thread, or waits for one in the order of arrival (§2.1). The thread runs to completion: it executes the fixed part of
//! the program, looks up the block's record, reads the packet's tail piece by piece and adds every gradient in memory. The adds of all
//! threads share the read-modify-write engines, whose backlog delays threads (§2.3). The thread that completes a block also creates the
//! Result. Parameters have the paper's values if it gives any; otherwise they are our readings, and docs/trio.md lists what each reading
//! predicts. Nothing here is fitted. Called by the device program `trio_ml`.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use crate::format::frame_bytes;
use pktgen_core::config::{Section, settings, spans};
use pktgen_core::time::{MS, Time};
use pktgen_core::units::{Size, Span};
use pktgen_core::{Error, Result};

/// Maximum of counts.
const NUMBER_MAX: u32 = 1 << 20;

/// Whether a thread waits for the reply to each of its adds. §3.1 has both kinds of external transactions; the paper
/// does not state which one Trio-ML uses.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Adds {
    /// The thread is suspended until the reply arrives.
    Synchronous,
    /// The thread continues, and waits only for the last reply.
    Asynchronous,
}

/// The memory of the aggregation buffers (§2.3). §4 mentions the Shared Memory System, which has both kinds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum BufferMemory {
    /// On the chip.
    Sram,
    /// Off the chip.
    Dram,
}

/// Parameters of a chip.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct ChipSettings {
    /// Number of instructions outside loops (§6.3: about 60).
    pub instructions: u32,
    /// Number of loop instructions for 1000 gradients (§6.3: 1.2 for one).
    pub instructions_per_1000: u32,
    /// Time of one instruction in a thread: several cycles (§2.2); the number is our reading.
    pub instruction_time: Time,
    /// Duration of a clock cycle (§6.3: 1 GHz).
    pub clock: Time,
    /// Number of read-modify-write engines (§6.3: 12).
    pub rmw_engines: u32,
    /// Number of cycles of an engine per add (§6.3: 2).
    pub add_cycles: u32,
    /// Access latency of on-chip memory (§2.3: about 70 ns).
    pub sram_latency: Time,
    /// Access latency of off-chip memory (§2.3: 300 to 400 ns).
    pub dram_latency: Time,
    /// Access latency of a packet's tail in the packet buffer; our reading.
    pub tail_latency: Time,
    /// Additional time per packet, not explained by the paper's numbers: 0 unless fitted.
    pub overhead: Time,
    /// Length of a packet's head, which its thread holds locally (§4: 192 bytes).
    pub head_bytes: u32,
    /// Length of a read from the tail (§4: 64 bytes).
    pub tail_chunk: u32,
    /// Length of a write of a Result (§4: 256 bytes).
    pub result_chunk: u32,
    /// Total number of threads of all processing engines (§1: thousands; the number is our reading).
    pub threads: u32,
    /// Whether threads wait for adds.
    pub adds: Adds,
    /// Memory that holds the sums.
    pub buffer: BufferMemory,
}

settings! {
    /// What says whether a device has a chip that takes time.
    pub(crate) keys Which {
        /// Chip model that determines processing times; not simulated in real time.
        chip: bool = "trio" of [("trio", true, ""), ("none", false, "packets take no time")];
    }
}

settings! {
    /// What says which chip that is.
    pub(crate) struct Written {
        /// Loop instructions per gradient (§6.3: 1.2).
        chip_instructions_per_gradient: f64 = 1.2 in 0.0..=1000.0;
        /// Instructions of the program outside its loops (§6.3: about 60).
        chip_instructions: u32 = 60 in 0..=NUMBER_MAX;
        /// Time of one instruction in a thread: several cycles (§2.2); the number is our reading.
        chip_instruction_time: Span = "8ns" in spans(0..=MS);
        /// Duration of a clock cycle (§6.3: 1 GHz).
        chip_clock: Span = "1ns" in spans(0..=MS);
        /// Read-modify-write engines (§6.3: 12).
        chip_rmw_engines: u32 = 12 in 1..=NUMBER_MAX;
        /// Cycles per addition of a read-modify-write engine (§6.3: 2).
        chip_add_cycles: u32 = 2 in 0..=NUMBER_MAX;
        /// Access latency of on-chip memory (§2.3: about 70 ns).
        chip_sram_latency: Span = "70ns" in spans(0..=MS);
        /// Access latency of off-chip memory (§2.3: 300 to 400 ns).
        chip_dram_latency: Span = "350ns" in spans(0..=MS);
        /// Access latency of a packet's tail in the packet buffer; our reading.
        chip_tail_latency: Span = "70ns" in spans(0..=MS);
        /// Additional time per packet, not explained by the paper's numbers; 0 unless fitted.
        chip_overhead: Span = "0ns" in spans(0..=MS);
        /// Size of a packet's head, which its thread holds locally (§4: 192 bytes).
        chip_head: Size = "192B";
        /// Size of a read from a packet's tail (§4: 64 bytes).
        chip_tail_chunk: Size = "64B";
        /// Size of a write of a Result (§4: 256 bytes).
        chip_result_chunk: Size = "256B";
        /// Total threads of all processing engines (§1: thousands; the number is our reading).
        chip_threads: u32 = 2048 in 1..=NUMBER_MAX;
        /// Whether a thread waits for the reply to each of its adds.
        chip_adds: Adds = "synchronous" of [
            ("synchronous", Adds::Synchronous, ""), ("asynchronous", Adds::Asynchronous, "waits for the last reply only")
        ];
        /// Memory that holds the sums.
        chip_buffer: BufferMemory = "dram" of [("dram", BufferMemory::Dram, ""), ("sram", BufferMemory::Sram, "")];
    }
}

#[cfg(test)]
impl Default for ChipSettings {
    fn default() -> Self {
        ChipSettings::read(&mut Section::of("target", &[]), false).unwrap().unwrap()
    }
}

impl ChipSettings {
    /// Reads the keys of `[target]`; `None` for `chip = "none"` and in real time, where the host's own time passes.
    pub fn read(section: &mut Section, real_time: bool) -> Result<Option<Self>> {
        let wanted = Which::chip(section)?;
        if real_time {
            section.settle("chip", "none");
        }
        if real_time || !wanted {
            return Ok(None);
        }
        let chip = Written::read(section)?;
        Ok(Some(ChipSettings {
            instructions: chip.chip_instructions,
            instructions_per_1000: (chip.chip_instructions_per_gradient * 1000.0).round() as u32,
            instruction_time: chip.chip_instruction_time.ps(),
            clock: chip.chip_clock.ps(),
            rmw_engines: chip.chip_rmw_engines,
            add_cycles: chip.chip_add_cycles,
            sram_latency: chip.chip_sram_latency.ps(),
            dram_latency: chip.chip_dram_latency.ps(),
            tail_latency: chip.chip_tail_latency.ps(),
            overhead: chip.chip_overhead.ps(),
            head_bytes: bytes(section, "chip_head", chip.chip_head)?,
            tail_chunk: bytes(section, "chip_tail_chunk", chip.chip_tail_chunk)?,
            result_chunk: bytes(section, "chip_result_chunk", chip.chip_result_chunk)?,
            threads: chip.chip_threads,
            adds: chip.chip_adds,
            buffer: chip.chip_buffer,
        }))
    }

    fn buffer_latency(&self) -> Time {
        match self.buffer {
            BufferMemory::Sram => self.sram_latency,
            BufferMemory::Dram => self.dram_latency,
        }
    }

    /// Returns a thread's time up to the record: the program's fixed part, and the lookup in on-chip memory, which
    /// holds frequently used data (§2.3).
    pub(crate) fn lookup_time(&self) -> Time {
        self.overhead + Time::from(self.instructions) * self.instruction_time + self.sram_latency
    }

    /// Returns a thread's time for a packet with this many gradients without contention: the lookup, the loop over head
    /// and tail (§4), the adds in requests of 8 bytes (§2.3), and the check whether the block is complete.
    pub(crate) fn packet_time(&self, gradients: u16) -> Time {
        let tail = (frame_bytes(gradients) as u32).saturating_sub(self.head_bytes);
        let reads = Time::from(tail.div_ceil(self.tail_chunk)) * self.tail_latency;
        let per_1000 = Time::from(self.instructions_per_1000) * self.instruction_time;
        let instructions = Time::from(gradients) * per_1000 / 1000;
        let waits = match self.adds {
            Adds::Synchronous => Time::from(gradients.div_ceil(2)),
            Adds::Asynchronous => Time::from(gradients.min(1)),
        };
        self.lookup_time() + reads + instructions + waits * self.buffer_latency() + self.sram_latency
    }

    /// Returns the time to create a Result: each piece is read from the buffer and written to the new tail (§4).
    /// Instructions of this loop are not stated in the paper and not counted.
    pub(crate) fn result_time(&self, gradients: u16) -> Time {
        let chunks = (u32::from(gradients) * 4).div_ceil(self.result_chunk);
        Time::from(chunks) * (self.buffer_latency() + self.tail_latency)
    }
}

fn bytes(section: &Section, key: &str, value: Size) -> Result<u32> {
    match value.bytes().and_then(|bytes| u32::try_from(bytes).ok()) {
        Some(bytes) if (1..=1 << 16).contains(&bytes) => Ok(bytes),
        _ => Err(Error::config(format!(
            "{}: {value} is not a whole number of bytes from 1B to 65536B",
            section.place(key)
        ))),
    }
}

/// State shared by all threads.
pub(crate) struct Chip {
    settings: ChipSettings,
    /// End times of the threads in use.
    threads: BinaryHeap<Reverse<Time>>,
    /// When the engines finish all requests: whole picoseconds, and fractions with the number of engines as
    /// denominator, so that rounding errors do not accumulate.
    engines_free: (Time, u64),
}

impl Chip {
    /// Creates an idle chip.
    pub fn new(settings: ChipSettings) -> Self {
        let threads = BinaryHeap::with_capacity(settings.threads as usize);
        Chip { settings, threads, engines_free: (0, 0) }
    }

    /// Begins a thread for a packet that arrived at `t`: then, or when the first thread ends (§2.1, by availability).
    /// It must be returned with [`end`](Self::end) before the next one begins.
    fn begin(&mut self, t: Time) -> Time {
        match self.threads.peek() {
            Some(&Reverse(free)) if free <= t || self.threads.len() >= self.settings.threads as usize => {
                self.threads.pop();
                free.max(t)
            }
            _ => t,
        }
    }

    /// Ends the last started thread at `t`.
    pub fn end(&mut self, t: Time) {
        self.threads.push(Reverse(t));
    }

    /// Adds a contribution that arrived at `t`; returns when its gradients are added. Its thread is held until [`end`](Self::end).
    pub fn add(&mut self, t: Time, gradients: u16) -> Time {
        let start = self.begin(t);
        let settings = &self.settings;
        if self.engines_free.0 < start {
            self.engines_free = (start, 0);
        }
        let cycles = u64::from(gradients) * u64::from(settings.add_cycles);
        let work = cycles * settings.clock as u64 + self.engines_free.1;
        let engines = u64::from(settings.rmw_engines);
        self.engines_free = (self.engines_free.0 + (work / engines) as Time, work % engines);
        let engines_done = self.engines_free.0 + Time::from(self.engines_free.1 > 0);
        engines_done.max(start + settings.packet_time(gradients))
    }

    /// Handles a packet that arrived at `t` and contributes nothing: its thread ends after the lookup.
    pub fn refuse(&mut self, t: Time) {
        let end = self.begin(t) + self.settings.lookup_time();
        self.end(end);
    }

    /// Returns when the current thread has created a Result, beginning at `t`.
    pub fn result(&self, t: Time, gradients: u16) -> Time {
        t + self.settings.result_time(gradients)
    }

    /// Creates a Result in a thread of its own: requested at `t`, with sums that are complete at `summed`.
    pub(crate) fn result_apart(&mut self, t: Time, summed: Time, gradients: u16) -> Time {
        let end = self.begin(t).max(summed) + self.settings.result_time(gradients);
        self.end(end);
        end
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use pktgen_core::time::US;

    /// Adds a single contribution.
    fn add(chip: &mut Chip, t: Time, gradients: u16) -> Time {
        let done = chip.add(t, gradients);
        chip.end(done);
        done
    }

    #[test]
    fn latency_grows_linearly_with_gradients() {
        for adds in [Adds::Synchronous, Adds::Asynchronous] {
            for buffer in [BufferMemory::Sram, BufferMemory::Dram] {
                let settings = ChipSettings { adds, buffer, ..Default::default() };
                // Beyond the head, each 16 gradients are one piece of the tail.
                let times: Vec<_> = (4..=64u16).map(|pieces| settings.packet_time(16 * pieces)).collect();
                let step = times[1] - times[0];
                assert!(step > 0 && times.windows(2).all(|pair| pair[1] - pair[0] == step));
                assert_eq!(add(&mut Chip::new(settings), 5, 1024), 5 + times[60], "alone it meets no other");
            }
        }
    }

    #[test]
    fn a_packet_by_hand() {
        // 60 · 8 ns, two accesses of 70 ns, 1.2 · 1024 · 8 ns, 512 · 350 ns, 62 · 70 ns.
        let settings = ChipSettings::default();
        assert_eq!(settings.packet_time(1024), 480_000 + 140_000 + 9_830_400 + 179_200_000 + 4_340_000);
        assert_eq!(settings.result_time(1024), 16 * 420_000);
        let overlapped = ChipSettings { adds: Adds::Asynchronous, buffer: BufferMemory::Sram, ..settings };
        assert_eq!(overlapped.packet_time(1024), 480_000 + 140_000 + 9_830_400 + 70_000 + 4_340_000);
    }

    #[test]
    fn engines_saturate_at_six_billion_adds_per_second() {
        // 12 engines, 2 cycles of 1 ns each: 6 adds per nanosecond, so 6·10⁹ gradients take 10¹² ps.
        let mut chip = Chip::new(ChipSettings { threads: 1 << 20, ..Default::default() });
        let ends: Vec<_> = (0..30_000).map(|_| add(&mut chip, 0, 1024)).collect();
        for (i, end) in ends.iter().enumerate().skip(2000) {
            let gradients = (i as i64 + 1) * 1024;
            assert_eq!(*end, (gradients * 1000 + 5) / 6, "exactly, without drift");
        }
        // With fewer threads than necessary, the threads are the limit.
        let few = 100;
        let mut chip = Chip::new(ChipSettings { threads: few, ..Default::default() });
        let alone = chip.settings.packet_time(1024);
        let last = (0..10 * few).map(|_| add(&mut chip, 0, 1024)).last().unwrap();
        assert_eq!(last, 10 * alone);
    }

    #[test]
    fn packets_wait_for_a_thread_in_order() {
        let settings = ChipSettings { threads: 2, ..Default::default() };
        let alone = settings.packet_time(64);
        let mut chip = Chip::new(settings);
        let ends: Vec<_> = [0, 1, 2, 3].map(|t| add(&mut chip, t, 64)).to_vec();
        assert_eq!(ends, [alone, 1 + alone, 2 * alone, 1 + 2 * alone]);
        chip.refuse(4);
        assert_eq!(add(&mut chip, 5, 64), 1 + 3 * alone, "what is refused holds its thread for the lookup only");
        assert_eq!(add(&mut chip, 100 * alone, 64), 101 * alone);
    }

    #[test]
    fn readings_of_the_text() {
        // The rows of docs/trio.md: mean time of a block's packets from four sources that send one at a time.
        let mean = |adds, buffer, gradients| {
            let settings = ChipSettings { adds, buffer, ..Default::default() };
            let ps = settings.packet_time(gradients) + settings.result_time(gradients) / 4;
            (ps as f64 / US as f64 * 10.0).round() / 10.0
        };
        use {Adds::*, BufferMemory::*};
        for (gradients, expected) in TABLE {
            let row = [(Synchronous, Dram), (Synchronous, Sram), (Asynchronous, Dram), (Asynchronous, Sram)]
                .map(|(adds, buffer)| mean(adds, buffer, gradients));
            assert_eq!(row, expected, "{gradients} gradients");
        }
    }

    /// In microseconds.
    const TABLE: [(u16, [f64; 4]); 5] = [
        (64, [12.7, 3.6, 1.8, 1.5]),
        (128, [24.9, 6.8, 2.8, 2.4]),
        (256, [49.3, 13.2, 4.8, 4.3]),
        (512, [98.1, 25.8, 8.8, 8.0]),
        (1024, [195.7, 51.2, 16.8, 15.4]),
    ];

    #[test]
    fn what_is_out_of_range_is_refused_by_name() {
        let read = |key: &str, value: &str| {
            let mut section = Section::of("target", &[(key, value.into())]);
            ChipSettings::read(&mut section, false)
        };
        assert_eq!(
            ChipSettings::read(&mut Section::of("target", &[]), false).unwrap(),
            Some(ChipSettings::default()),
            "what is written nowhere is the default"
        );
        assert_eq!(read("chip", "none").unwrap(), None);
        for (key, value) in [
            ("chip", "tofino"),
            ("chip_adds", "maybe"),
            ("chip_buffer", "tape"),
            ("chip_clock", "1s"),
            ("chip_head", "0B"),
            ("chip_tail_chunk", "3bit"),
        ] {
            let message = read(key, value).unwrap_err().to_string();
            assert!(message.contains(&format!("target.{key}")), "{message}");
        }
        assert_eq!(ChipSettings::read(&mut Section::of("target", &[]), true).unwrap(), None);
    }
}
