//! Packets by side, format and purpose, with names for files.

use std::collections::BTreeMap;

use pktgen_wire::wire::Formats;
use pktgen_wire::wire::sight::What;

use super::super::Side;
use super::{Kinds, Totals};

impl Totals {
    /// Returns packets by `side.format.kind`, for files.
    pub(crate) fn named_kinds(&self) -> BTreeMap<String, u64> {
        let mut named = BTreeMap::new();
        for side in Side::ALL {
            for (format, kinds) in self.formats.iter().zip(&self.kinds[side as usize]) {
                for what in What::ALL.iter().filter(|what| kinds[**what as usize] > 0) {
                    let name = format!("{}.{}.{}", side.name(), format.name(), what.name());
                    named.insert(name, kinds[*what as usize]);
                }
            }
        }
        named
    }

    /// Converts these names back; ignores unknown ones.
    pub(crate) fn kinds_of(formats: Formats, named: &BTreeMap<String, u64>) -> [Kinds; 2] {
        let mut kinds = [Kinds::default(); 2];
        for side in Side::ALL {
            for (format, row) in formats.iter().zip(&mut kinds[side as usize]) {
                for what in What::ALL {
                    let name = format!("{}.{}.{}", side.name(), format.name(), what.name());
                    row[what as usize] = named.get(&name).copied().unwrap_or(0);
                }
            }
        }
        kinds
    }
}
