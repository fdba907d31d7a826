//! The table of fates: how every packet ended, when, and in which packet.
//!
//! Its rows are those of [`pktgen_records::fates::frames`]; this module converts them to the columns and types of the table.

use pktgen_core::Result;
use pktgen_records::fates::frames;
use pktgen_records::run::RunData;
use polars::prelude::*;

use crate::source::{Sink, broken, data_type, made};
use crate::tables::{Made, QueryColumn as Asked};

/// Passes the requested columns of all packets to `sink`, in the order of `sent`.
pub(crate) fn read(run: &RunData, columns: &[&Asked], sink: &mut Sink) -> Result<()> {
    let (trains, mut wanted, mut at) = (run.rounds.is_some(), true, 0);
    frames(run, &mut |rows| {
        if wanted {
            let height = rows.height();
            // In training, the cluster is the job.
            let cell = |asked: &&Asked| match asked.name.as_str() {
                name @ ("cluster" | "job") if (name == "job") != trains => {
                    Ok(Column::full_null(name.into(), height, &data_type(asked.kind)))
                }
                "job" => made(&run.dir, &rows, &Asked { made: Made::Of("cluster"), ..(**asked).clone() }, at),
                _ => made(&run.dir, &rows, asked, at),
            };
            let cells = columns.iter().map(cell).collect::<Result<Vec<_>>>()?;
            at += height;
            wanted = sink(DataFrame::new(height, cells).map_err(broken)?)?;
        }
        Ok(())
    })
}
