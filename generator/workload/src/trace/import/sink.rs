//! Where imported updates go: into a trace without a name yet, held against the rules of traces.

use std::path::Path;

use super::Notes;
use crate::trace::manifest::TraceManifest;
use crate::trace::rules::Rules;
use crate::trace::write::Writer;
use crate::workload::Update;
use crate::{Error, Result};

/// Takes updates in the order of time. Dropped before [`Sink::finish`], it leaves nothing behind.
pub struct Sink {
    writer: Writer,
    rules: Rules,
    /// Where in the input each problem of the rules is.
    places: Vec<String>,
}

impl Sink {
    pub(super) fn create(output: &Path) -> Result<Self> {
        Ok(Sink { writer: Writer::create(output)?, rules: Rules::default(), places: Vec::new() })
    }

    /// Takes an update without keys.
    pub(super) fn push(&mut self, update: &Update, values: &[f32], place: impl FnOnce() -> String) -> Result<()> {
        self.push_pairs(update, &[], values, place)
    }

    /// Takes an update. `place` says where in the input it is, beside its row; empty where the row says it all.
    pub(super) fn push_pairs(
        &mut self,
        update: &Update,
        keys: &[u64],
        values: &[f32],
        place: impl FnOnce() -> String,
    ) -> Result<()> {
        self.rules.update(update, values);
        self.rules.pairs(update.bytes, keys, values);
        let new = self.rules.problems().len() - self.places.len();
        if new > 0 {
            let place = place();
            self.places.extend(std::iter::repeat_n(if place.is_empty() { place } else { place + ": " }, new));
        }
        // What is refused anyway need not be written.
        if self.places.is_empty() { self.writer.push_pairs(update, keys, values) } else { Ok(()) }
    }

    /// Gives the trace its name, if no rule is broken; `input` is what an error is about.
    pub(super) fn finish(self, input: &Path, details: Notes, licence: &str) -> Result<TraceManifest> {
        let (_, problems) = self.rules.finish();
        if problems.is_empty() {
            return self.writer.finish("converted", details, licence);
        }
        let place = |i: usize| self.places.get(i).map_or("", String::as_str);
        let said: Vec<_> = problems.iter().enumerate().map(|(i, what)| format!("{}{what}", place(i))).collect();
        Err(Error::data(input, format!("{}; rows count from 0, without a header", said.join("; "))))
    }
}
