//! `pktgen dissector`: a Wireshark dissector of the formats, or their layouts as tables.

use pktgen_generator::Result;
use pktgen_generator::wire::dissector;

use crate::args::Dissector;
use crate::ui::Ui;

pub(super) fn run(args: &Dissector, ui: &Ui) -> Result<u8> {
    let text = if args.tables { dissector::tables() } else { dissector::lua() };
    ui.result(text.trim_end());
    Ok(0)
}
