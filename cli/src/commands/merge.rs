//! `pktgen merge`: the parts of a run become one.

use pktgen_analysis::capture::replay::{is_tables, merge_tables};
use pktgen_generator::Result;
use pktgen_replay::run::merge;

use crate::args::Merge;
use crate::commands::replay::say_validity;
use crate::ui::Ui;

pub(super) fn run(args: &Merge, ui: &Ui) -> Result<u8> {
    if args.parts.iter().any(|part| is_tables(part)) {
        let index = merge_tables(&args.parts, &args.out)?;
        ui.note(&format!("{}: the updates of {} captures", args.out.display(), index.inputs.len()));
        ui.result(&args.out.display().to_string());
        return Ok(0);
    }
    let finished = merge(&args.parts, &args.out)?;
    let balance = &finished.balance;
    ui.note(&format!(
        "{}: {} sent, {} delivered, {} dropped, {} in flight, {} unknown",
        args.out.display(),
        balance.sent,
        balance.delivered_alone + balance.delivered_merged,
        balance.dropped_total(),
        balance.in_flight,
        balance.unknown
    ));
    let valid = say_validity(std::slice::from_ref(&finished), ui);
    ui.result(&args.out.display().to_string());
    Ok(u8::from(!valid))
}
