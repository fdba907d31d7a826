//! The table of fates: what became of every packet, when, and in which packet.
//!
//! Its rows are those of [`pktgen_records::fates::frames`]; this gives them the columns and types of the table.

use pktgen_core::Result;
use pktgen_core::record::Reason;
use pktgen_records::fates::frames;
use pktgen_records::run::RunData;
use polars::prelude::*;

use crate::source::{Sink, broken, data_type};
use crate::tables::{FATES, QueryColumn as Asked};

/// Gives the requested columns of all packets to `sink`, in the order of `sent`.
pub(crate) fn read(run: &RunData, columns: &[&Asked], sink: &mut Sink) -> Result<()> {
    let (trains, mut wanted) = (run.rounds.is_some(), true);
    frames(run, &mut |rows| {
        if wanted {
            let cells = columns.iter().map(|column| cell(&rows, column, trains)).collect::<PolarsResult<_>>();
            let asked = cells.and_then(|cells| DataFrame::new(rows.height(), cells)).map_err(broken)?;
            wanted = sink(asked)?;
        }
        Ok(())
    })
}

/// A column of `rows`; the cluster of training is its job.
fn cell(rows: &DataFrame, asked: &Asked, trains: bool) -> PolarsResult<Column> {
    let kind = data_type(asked.kind);
    let codes = |source: &str, code_of: &dyn Fn(&str) -> Option<usize>| -> PolarsResult<Column> {
        let names = rows.column(source)?.str()?;
        let codes = names.iter().map(|name| code_of(name?).map(|code| code as i64));
        Ok(Int64Chunked::from_iter_options(PlSmallStr::EMPTY, codes).into_column())
    };
    let cells = match asked.name.as_str() {
        "cluster" | "job" if (asked.name == "job") != trains => {
            Column::full_null(PlSmallStr::EMPTY, rows.height(), &kind)
        }
        "job" => rows.column("cluster")?.clone(),
        "fate_code" => codes("fate", &|name| FATES.iter().position(|fate| *fate == name))?,
        "reason_code" => {
            codes("reason", &|name| Reason::ALL.iter().find(|of| of.name() == name).map(|of| *of as usize))?
        }
        name => rows.column(name)?.clone(),
    };
    Ok(cells.strict_cast(&kind)?.with_name(asked.name.as_str().into()))
}
