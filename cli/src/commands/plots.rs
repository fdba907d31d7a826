//! `pktgen report --plots`: writes every chart of a report to a file.

use std::fs;
use std::path::PathBuf;

use pktgen_core::whole::write_whole;
use pktgen_core::{Error, Result};
use pktgen_report::Model;
use pktgen_report::plot::png::Painter;
use pktgen_report::plot::{file_name, standalone};

use crate::ui::Ui;

/// Destination and formats of plots.
pub(super) struct Plots {
    dir: PathBuf,
    svg: bool,
    /// Draws PNG images, if requested.
    painter: Option<Painter>,
}

impl Plots {
    /// Refuses PNG plots in advance on a host that cannot draw them, if PNG was requested explicitly; otherwise writes only the others.
    pub(super) fn of(dir: Option<PathBuf>, formats: &[String], ui: &Ui) -> Result<Option<Plots>> {
        let Some(dir) = dir else { return Ok(None) };
        let named = |format: &str| formats.iter().any(|other| other == format);
        let painter = match Painter::new() {
            _ if !formats.is_empty() && !named("png") => None,
            Err(fault) if formats.is_empty() => {
                ui.note(&format!("plots as SVG only: {fault}"));
                None
            }
            painter => Some(painter?),
        };
        Ok(Some(Plots { dir, svg: formats.is_empty() || named("svg"), painter }))
    }

    pub(super) fn write(&self, model: &Model, ui: &Ui) -> Result<()> {
        fs::create_dir_all(&self.dir).map_err(Error::io("create the folder", &self.dir))?;
        for (number, chart) in model.charts.iter().enumerate() {
            let name = file_name(number + 1, chart);
            if self.svg {
                let path = self.dir.join(format!("{name}.svg"));
                write_whole(&path, standalone(chart))?;
            }
            if let Some(painter) = &self.painter {
                let path = self.dir.join(format!("{name}.png"));
                write_whole(&path, painter.paint(chart)?)?;
            }
        }
        ui.note(&format!("plots: {} in {}", model.charts.len(), self.dir.display()));
        Ok(())
    }
}
