//! `pktgen dissector`: a Wireshark dissector of the formats, or their layouts as tables.

use pktgen_core::Result;
use pktgen_registry::all;
use pktgen_wire::wire::dissector;

use crate::args::Dissector;
use crate::ui::Ui;

pub(super) fn run(args: &Dissector, ui: &Ui) -> Result<u8> {
    let formats = all().protocols.formats;
    let text = if args.tables { dissector::tables(formats) } else { dissector::lua(formats) };
    ui.result(text.trim_end());
    Ok(0)
}
