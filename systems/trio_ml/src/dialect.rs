//! Trio-ML's frames are those of the device already: nothing is translated.

use pktgen_engine::dialect::DialectKind;

/// How it is listed.
pub(crate) static KIND: DialectKind = DialectKind {
    word: "strict",
    format: "trio_ml",
    on_wire: "trio_ml",
    device: "trio_ml",
    growth: 0,
    headless: false,
    open: |_| Ok(None),
};
