//! Resources of a switch that the program uses (LIBRA §5.7).
//!
//! Computed like the paper's sum: the registers of the hot parameters and the tables of the adder. Quoted: the logic,
//! which only the paper's compiler knows. 118 + 408.5 + 130 = 656.5 KB is "3.21 %" of 20 MB, so a KB has 1024 bytes and
//! 20 MB are 20480 KB. 30,000 parameters of 4 bytes are 117.2 KB: its 118 is rounded up to whole KB.
//!
//! Computed in addition, and not in the paper's sum (or in its 130 KB, which it does not state): a Bloom filter, the exact records of
//! `strict`, and the table of positions of §3.5. Instructions and hash units do not follow from the configuration.
//!
//! Stages are estimated from the capacity of a Tofino's stage and from dependencies: see [`Layouts::stages`].

use pktgen_workload::sparse::hot::{BYTES_PER_PARAMETER, MEMORY_BYTES};

use super::settings::Writes;

/// Size of a register's slot in bytes: a 32-bit float.
pub(crate) const PARAMETER_BYTES: u64 = BYTES_PER_PARAMETER;
/// Memory of the paper's logic in addition to parameters and tables (published).
pub(crate) const LOGIC_CONTROL_BYTES: u64 = 130 << 10;
/// Number of stages of the paper's program (published, §5.7).
pub(crate) const PUBLISHED_STAGES: u32 = 9;

/// Number of stages of a pipeline (§4).
pub(crate) const STAGES: u32 = 12;
/// Number of registers that a stage of a Tofino can operate on for one packet: its stateful ALUs.
pub(crate) const REGISTERS_PER_STAGE: u32 = 4;
/// Number of dependent look-ups of a sum (§3.5, Figure 9): epoTable and logTables in parallel, expTable(u), miTable,
/// expTable(t). Additions between these are actions of the preceding tables.
const LOOK_UPS: u32 = 4;
/// Size of an index as a key of the table of positions, in bytes.
const INDEX_BYTES: u64 = 4;

/// The configuration whose resources are computed.
#[derive(Debug, Clone, Copy)]
pub struct Layouts {
    /// Number of hot parameters of a job.
    pub hot: u32,
    /// Number of tables of their positions: one if all jobs have the same indices, otherwise one per job.
    pub position_tables: u32,
    /// Number of jobs.
    pub jobs: u32,
    /// Number of registers.
    pub registers: u32,
    /// Size of the adder's tables in bytes.
    pub tables: u64,
    /// Number of workers of all jobs.
    pub workers: u32,
    /// Number of packets that a worker may have without an ACK.
    pub window: u32,
    /// How repeated writes are detected.
    pub writes: Writes,
    /// Number of bits of a job's filter.
    pub bloom_bits: u32,
}

impl Layouts {
    /// Returns the number of stages: one for the position of an index, in parallel with detecting repeated writes; then the chain of
    /// look-ups of a sum, if tables are used; then registers, as many per stage as it can operate on. A pipeline has [`STAGES`].
    fn stages(&self) -> u32 {
        let chain = if self.tables > 0 { LOOK_UPS } else { 0 };
        1 + chain + self.registers.div_ceil(REGISTERS_PER_STAGE)
    }

    /// Returns the size of the position tables: an entry for every hot index (§3.5: "a hash table to map the index of
    /// one parameter into the position") with the index and a position in whole bytes.
    fn positions(&self) -> u64 {
        let bits = u64::from(self.hot.max(2) - 1).ilog2() + 1;
        let entry = INDEX_BYTES + u64::from(bits.div_ceil(8));
        u64::from(self.position_tables) * u64::from(self.hot) * entry
    }
}

/// Memory on the chip in bytes, and stages.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Resources {
    /// Registers of the hot parameters of all jobs.
    pub registers: u64,
    /// Tables of the adder, once for all jobs (§6).
    pub tables: u64,
    /// Bloom filters of all jobs.
    pub filters: u64,
    /// Exact records of accepted packets of all workers: a bit for each number of a window, since only these can still
    /// arrive. The paper's are in the CPU.
    pub records: u64,
    /// The table of positions, once for all jobs if they have the same indices.
    pub positions: u64,
    /// Number of stages, estimated.
    pub stages: u32,
}

impl Resources {
    /// Computes the resources of a configuration.
    pub fn of(layouts: &Layouts) -> Self {
        let (jobs, writes) = (u64::from(layouts.jobs), layouts.writes);
        let only = |mode: Writes, bytes: u64| if writes == mode { bytes } else { 0 };
        let window = u64::from(layouts.window.div_ceil(8));
        Resources {
            registers: u64::from(layouts.hot) * jobs * PARAMETER_BYTES,
            tables: layouts.tables,
            filters: only(Writes::Bloom, u64::from(layouts.bloom_bits).div_ceil(8) * jobs),
            records: only(Writes::Strict, u64::from(layouts.workers) * window),
            positions: layouts.positions(),
            stages: layouts.stages(),
        }
    }

    /// Returns the paper's sum, including logic.
    pub const fn total(&self) -> u64 {
        self.registers + self.tables + LOGIC_CONTROL_BYTES
    }

    /// Returns the total.
    pub const fn all(&self) -> u64 {
        self.total() + self.filters + self.records + self.positions
    }

    /// Returns the share of the chip's memory in the paper's sum, in millionths.
    pub const fn share_ppm(&self) -> u64 {
        share_ppm(self.total())
    }

    /// Returns the share of the total.
    pub(crate) const fn all_share_ppm(&self) -> u64 {
        share_ppm(self.all())
    }
}

const fn share_ppm(bytes: u64) -> u64 {
    (bytes * 1_000_000 + MEMORY_BYTES / 2) / MEMORY_BYTES
}

#[cfg(test)]
mod tests {
    use super::*;
    use pktgen_workload::sparse::float::Tables;

    /// Online advertising, one job, with the nine registers required by Figure 16.
    fn layouts() -> Layouts {
        let tables = Tables::new().bytes() as u64;
        let writes = Writes::Paper;
        let position_tables = 1;
        Layouts {
            hot: 30_000,
            position_tables,
            jobs: 1,
            registers: 9,
            tables,
            workers: 8,
            window: 512,
            writes,
            bloom_bits: 1 << 17,
        }
    }

    /// LIBRA §5.7: online advertising, 30,000 hot parameters, one job.
    #[test]
    fn the_papers_configuration_takes_656_5_kb() {
        let ours = Resources::of(&layouts());
        assert_eq!((ours.registers, ours.tables), (120_000, 418_304), "117.2 and 408.5 KB");
        assert_eq!(ours.total(), 671_424, "655.7 KB");
        assert_eq!(ours.share_ppm(), 32_016);
        // As published: registers in whole KB.
        let printed = Resources { registers: ours.registers.next_multiple_of(1024), ..ours };
        assert_eq!((printed.registers / 1024, printed.total()), (118, 656 * 1024 + 512));
        assert_eq!((printed.share_ppm() + 50) / 100, 321, "3.21 %");
    }

    #[test]
    fn what_the_paper_leaves_out_is_counted_beside_it() {
        let paper = Resources::of(&layouts());
        // 15 bits of position in two bytes, four of index.
        assert_eq!((paper.positions, paper.records, paper.filters), (180_000, 0, 0));
        let strict = Resources::of(&Layouts { writes: Writes::Strict, workers: 32, ..layouts() });
        assert_eq!((strict.records, strict.filters), (32 * 512 / 8, 0));
        let bloom = Resources::of(&Layouts { writes: Writes::Bloom, jobs: 2, ..layouts() });
        assert_eq!((bloom.records, bloom.filters), (0, 2 * 16_384));
        assert_eq!(strict.total(), paper.total(), "the paper's sum is the same");
        assert_eq!(strict.all(), strict.total() + 2048 + 180_000);
        assert_eq!(strict.all_share_ppm(), 40_697, "4.07 %");
    }

    #[test]
    fn stages_follow_from_registers_and_the_chain_of_look_ups() {
        let stages = |registers, tables| Resources::of(&Layouts { registers, tables, ..layouts() }).stages;
        // Position, four look-ups, nine registers in groups of four: one less than published.
        assert_eq!(stages(9, 418_304), 8);
        assert_eq!((stages(12, 418_304), stages(13, 418_304)), (8, 9));
        assert_eq!((stages(32, 418_304), stages(32, 0)), (13, 9));
    }
}
