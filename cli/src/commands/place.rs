//! `pktgen place`: planners, their plans and pictures.

mod atro;
mod soar;

use std::path::{Path, PathBuf};

use pktgen_core::plan::Plan;
use pktgen_core::whole::write_whole;
use pktgen_core::{Error, Result};
use pktgen_planning::emit::{Emission, plan_beside, write as write_emission};
use pktgen_planning::picture;
use pktgen_wire::wire::frame::FRAME_MAX;
use pktgen_wire::wire::update::FRAME_MIN;

use crate::args::{Place, PlanFiles};
use crate::output::check_outputs;
use crate::ui::Ui;

pub(super) fn run(args: Place, ui: &Ui) -> Result<u8> {
    match args {
        Place::Soar(args) => soar::run(&args, ui),
        Place::Atro(args) => atro::run(&args, ui),
    }
}

impl PlanFiles {
    fn any(&self) -> bool {
        self.plan.is_some() || self.svg.is_some() || self.dot.is_some() || self.emit.is_some()
    }

    /// Returns `--bytes`, which is the length of a frame.
    fn message_bytes(&self) -> Result<Option<u32>> {
        let Some(size) = self.bytes else { return Ok(None) };
        let fits = |bytes: &u64| (FRAME_MIN as u64..=FRAME_MAX as u64).contains(bytes);
        match size.bytes().filter(fits) {
            Some(bytes) => Ok(Some(bytes as u32)),
            None => {
                // Bits would be printed as a fraction of a byte.
                let given = size.bytes().map_or_else(|| format!("{}bit", size.bits()), |_| size.to_string());
                Err(Error::config(format!("--bytes {given}: a message has {FRAME_MIN} to {FRAME_MAX} whole bytes")))
            }
        }
    }

    /// Refuses names of the `inputs`, a name of two outputs, of which `more` are written beside these, and a size that no message has.
    fn check(&self, more: Option<&PathBuf>, inputs: &[&Path]) -> Result<()> {
        self.message_bytes()?;
        let beside = self.emit.as_deref().map(plan_beside);
        let own = [&self.plan, &self.svg, &self.dot, &self.emit];
        let mut outputs: Vec<&PathBuf> = own.into_iter().flatten().chain(more).collect();
        check_outputs(outputs.iter().copied(), inputs.iter().copied())?;
        let (Some(path), Some(beside)) = (&self.emit, &beside) else { return Ok(()) };
        outputs.push(beside);
        check_outputs(outputs, inputs.iter().copied()).map_err(|why| {
            Error::config(format!("--emit {} also writes its plan to {}: {why}", path.display(), beside.display()))
        })
    }

    fn write(&self, plan: &Plan, ui: &Ui) -> Result<()> {
        if let Some(path) = &self.plan {
            let text = serde_json::to_string(plan).map_err(|e| Error::Invalid(e.to_string()))?;
            write(path, &text, ui)?;
        }
        if let Some(path) = &self.svg {
            write(path, &picture::svg(plan), ui)?;
        }
        if let Some(path) = &self.dot {
            write(path, &picture::dot(plan), ui)?;
        }
        let Some(path) = &self.emit else { return Ok(()) };
        let name = path.file_stem().unwrap_or_default().to_string_lossy();
        let usual = Emission::of(plan, &name);
        let bytes = self.message_bytes()?.unwrap_or(usual.bytes);
        let messages = self.messages.unwrap_or(usual.messages);
        write_emission(plan, path, &Emission { bytes, messages, factor: self.factor, ..usual })?;
        ui.note(&format!("wrote {}; run it with: pktgen replay {}", path.display(), path.display()));
        Ok(())
    }
}

fn write(path: &Path, text: &str, ui: &Ui) -> Result<()> {
    write_whole(path, text)?;
    ui.note(&format!("wrote {}", path.display()));
    Ok(())
}
