//! Trio-ML's frames are already those of the device: no conversion is needed.

use pktgen_engine::dialect::DialectKind;

/// Its entry in listings.
pub(crate) static KIND: DialectKind = DialectKind {
    word: "strict",
    format: "trio_ml",
    on_wire: "trio_ml",
    device: "trio_ml",
    growth: 0,
    length: |bytes| bytes,
    headless: false,
    open: |_| Ok(None),
};
