//! The keys of `[format]` about lanes.

use std::sync::Arc;

use super::{Ask, Detail, Lanes, Layout, Merge};
use crate::config::{FromValue, Section, Value};
use crate::wire::update::{FRAME_MIN, elements_in};
use crate::wire::{Format, Formats};
use crate::workload::Source;
use crate::{Error, Result};

/// Updates of a worker that lanes tell apart unless the experiment says otherwise.
pub const WINDOW: u32 = 64;

/// What `format.lanes` says.
struct Wanted(Option<Detail>);

impl FromValue for Wanted {
    fn takes() -> String {
        "off, count, who, which; true is which".to_owned()
    }

    fn from_value(value: &Value) -> Result<Self, String> {
        Ok(Wanted(match value {
            Value::Bool(false) => None,
            Value::Bool(true) => Some(Detail::Which),
            Value::Text(text) if text == "off" => None,
            Value::Text(text) if text == "count" => Some(Detail::Count),
            Value::Text(text) if text == "who" => Some(Detail::Who),
            Value::Text(text) if text == "which" => Some(Detail::Which),
            other => {
                return Err(format!(
                    "{} is not known; there are: off, count, who, which (true is which)",
                    other.to_toml()
                ));
            }
        }))
    }
}

/// Reads `lanes`, `lanes_window` and `lanes_merge` for packets of `format` with what `source` makes; none if lanes are off.
/// `all` are the formats that there are.
pub fn read(
    section: &mut Section,
    format: &dyn Format,
    all: Formats,
    source: &dyn Source,
) -> Result<Option<Arc<Lanes>>> {
    let wanted = section.get_opt::<Wanted>("lanes")?.and_then(|wanted| wanted.0);
    let window = section.get_opt::<u32>("lanes_window")?.unwrap_or(WINDOW);
    let merge = section.get_opt::<String>("lanes_merge")?;
    let merge = match merge.as_deref() {
        None | Some("sum") => Merge::Sum,
        Some("mean") => Merge::Mean,
        Some("running_mean") => Merge::RunningMean,
        Some(other) => {
            return Err(Error::config(format!(
                "{}: \"{other}\" is not known; there are: sum, mean, running_mean",
                section.place("lanes_merge")
            )));
        }
    };
    let Some(detail) = wanted else { return Ok(None) };
    let place = section.place("lanes");
    let workers = source.population();
    let form = format.facts().lanes.ok_or_else(|| {
        let able: Vec<_> = all.iter().filter(|one| one.facts().lanes.is_some()).map(|one| one.name()).collect();
        Error::config(format!(
            "{place}: packets of format \"{}\" have no lanes; formats that do: {}",
            format.name(),
            able.join(", ")
        ))
    })?;
    if !workers.moves.is_empty() {
        return Err(Error::config(format!(
            "{place}: lanes tell workers apart within their cluster, and workload.moves changes it; leave one of them out"
        )));
    }
    let elements = match source.known().dense() {
        Some(dense) if form.filled => dense.elements_per_packet().into(),
        Some(dense) => dense.elements_of(dense.blocks() - 1).into(),
        None => elements_in((source.known().update_max as usize).max(FRAME_MIN)),
    };
    let most = super::ranks(&workers.cluster_of).into_iter().filter(|rank| *rank != super::NOBODY).max();
    let most = most.map_or(1, |rank| rank + 1);
    let layout = Layout::plan((form.number, form.shared), Ask { detail, merge, window }, most, elements)
        .map_err(|refusal| Error::config(format!("{}: {}", section.place(refusal.key), refusal.why)))?;
    Ok(Some(Arc::new(Lanes::new(layout, form, workers))))
}
