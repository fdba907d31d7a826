//! `pktgen place`: planners, their plans and pictures.

mod atro;
mod soar;

use std::path::{Path, PathBuf};

use pktgen_core::plan::Plan;
use pktgen_core::whole::write_whole;
use pktgen_core::{Error, Result};
use pktgen_planning::emit::{self, Emission, MESSAGE_BYTES, plan_beside};
use pktgen_planning::picture;

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
        match size.bytes().filter(|bytes| MESSAGE_BYTES.contains(bytes)) {
            Some(bytes) => Ok(Some(bytes as u32)),
            None => {
                // Bits would be printed as a fraction of a byte.
                let given = size.bytes().map_or_else(|| format!("{}bit", size.bits()), |_| size.to_string());
                let (least, most) = (MESSAGE_BYTES.start(), MESSAGE_BYTES.end());
                Err(Error::config(format!("--bytes {given}: a message has {least} to {most} whole bytes")))
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

    /// Returns the files of `plan` with their texts: what cannot be written is refused before the first is.
    fn texts(&self, plan: &Plan) -> Result<Vec<(PathBuf, String)>> {
        let mut texts = Vec::new();
        if let Some(path) = &self.plan {
            texts.push((path.clone(), serde_json::to_string(plan).map_err(|e| Error::Invalid(e.to_string()))?));
        }
        texts.extend(self.svg.iter().map(|path| (path.clone(), picture::svg(plan))));
        texts.extend(self.dot.iter().map(|path| (path.clone(), picture::dot(plan))));
        let Some(path) = &self.emit else { return Ok(texts) };
        let name = path.file_stem().unwrap_or_default().to_string_lossy();
        let usual = Emission::of(plan, &name);
        let bytes = self.message_bytes()?.unwrap_or(usual.bytes);
        let messages = self.messages.unwrap_or(usual.messages);
        texts.extend(emit::files(plan, path, &Emission { bytes, messages, factor: self.factor, ..usual })?);
        Ok(texts)
    }

    /// Writes `texts` of these files.
    fn write(&self, texts: &[(PathBuf, String)], ui: &Ui) -> Result<()> {
        let beside = self.emit.as_deref().map(plan_beside);
        for (path, text) in texts {
            if Some(path) == beside.as_ref() {
                write_whole(path, text)?;
            } else if Some(path) == self.emit.as_ref() {
                write_whole(path, text)?;
                ui.note(&format!("wrote {}; run it with: pktgen replay {}", path.display(), path.display()));
            } else {
                write(path, text, ui)?;
            }
        }
        Ok(())
    }
}

fn write(path: &Path, text: &str, ui: &Ui) -> Result<()> {
    write_whole(path, text)?;
    ui.note(&format!("wrote {}", path.display()));
    Ok(())
}
