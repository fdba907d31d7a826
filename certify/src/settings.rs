//! `[certify]`: how long benches wait, and how often clauses are carried out.

use pktgen_core::Result;
use pktgen_core::config::{Document, above, settings, spans};
use pktgen_core::time::{MS, SECOND, Time};
use pktgen_core::units::Span;

/// How long a late worker stays away, where nothing is said: on wires, and in virtual time.
const LATE: [Time; 2] = [500 * MS, 100 * MS];

settings! {
    /// What `[certify]` says.
    #[derive(Debug, Clone, Copy)]
    pub struct CertifySettings {
        /// On wires, the device is silent when no frame has come for so long.
        silence: Span = "20ms" in spans(MS..=10 * SECOND), "a shorter one ends while a device still answers";
        /// How long a late worker stays away.
        late: Option<Span> said "500ms on wires, 100ms in virtual time" in spans(MS..=3600 * SECOND);
        /// On wires, how long frames that must come are awaited.
        patience: Span = "1s" in spans(..=600 * SECOND);
        /// Repeats of each clause; `--repeats` wins.
        repeats: Option<u32> said "what each clause says" in 1..=1_000_000;
        /// A device that sends for so long after the last frame went in is not silent, and is not waited for.
        flood: Span = "5s" in spans(above(0));
    }
}

impl CertifySettings {
    /// What an experiment says.
    pub fn of(document: &mut Document) -> Result<Self> {
        let mut section = document.section("certify")?;
        let own = Self::read(&mut section)?;
        document.close(section)?;
        Ok(own)
    }

    /// How long a late worker stays away, on wires or in virtual time.
    pub fn late(&self, on_wires: bool) -> Time {
        self.late.map_or(LATE[usize::from(!on_wires)], Span::ps)
    }
}
