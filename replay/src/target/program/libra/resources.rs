//! What the program takes of a switch (LIBRA §5.7).
//!
//! Computed: the registers of the hot parameters, the tables of the adder, a Bloom filter if there is one. Quoted: what
//! logic takes, since only the paper's compiler knows that. Nothing is said of stages (published: 9), instructions and hash units,
//! which do not follow from the configuration.
//!
//! The paper adds up 118 + 408.5 + 130 = 656.5 KB, "3.21 %" of 20 MB, so that a KB has 1024 bytes and 20 MB are 20480
//! KB. 30,000 parameters of 4 bytes are 117.2 KB: its 118 is rounded up to whole KB.

/// Bytes of a register's slot: a 32-bit float.
pub const PARAMETER_BYTES: u64 = 4;
/// On-chip memory of the paper's switch.
pub const CHIP_BYTES: u64 = 20 << 20;
/// What the paper's logic takes besides parameters and tables (published).
pub const LOGIC_CONTROL_BYTES: u64 = 130 << 10;

/// Bytes on the chip.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Resources {
    /// Registers of hot parameters, of all jobs.
    pub registers: u64,
    /// Tables of the adder, once for all jobs (§6).
    pub tables: u64,
    /// Bloom filters, of all jobs.
    pub filters: u64,
}

impl Resources {
    /// For so many hot parameters of all jobs, tables and filters of so many bytes.
    pub const fn of(parameters: u64, tables: u64, filters: u64) -> Self {
        Resources { registers: parameters * PARAMETER_BYTES, tables, filters }
    }

    /// All of it, with logic.
    pub const fn total(&self) -> u64 {
        self.registers + self.tables + self.filters + LOGIC_CONTROL_BYTES
    }

    /// Share of the chip's memory, in millionths.
    pub const fn share_ppm(&self) -> u64 {
        (self.total() * 1_000_000 + CHIP_BYTES / 2) / CHIP_BYTES
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use pktgen_generator::sparse::float::Tables;

    /// LIBRA §5.7: online advertising, 30,000 hot parameters, one job.
    #[test]
    fn the_papers_configuration_takes_656_5_kb() {
        let ours = Resources::of(30_000, Tables::new().bytes() as u64, 0);
        assert_eq!((ours.registers, ours.tables), (120_000, 418_304), "117.2 and 408.5 KB");
        assert_eq!(ours.total(), 671_424, "655.7 KB");
        assert_eq!(ours.share_ppm(), 32_016);
        // As printed: registers in whole KB.
        let printed = Resources { registers: ours.registers.next_multiple_of(1024), ..ours };
        assert_eq!((printed.registers / 1024, printed.total()), (118, 656 * 1024 + 512));
        assert_eq!((printed.share_ppm() + 50) / 100, 321, "3.21 %");
    }
}
