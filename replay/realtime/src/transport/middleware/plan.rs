//! The middleware that an experiment configures, and its nesting around a wire.

use std::sync::Arc;

use pktgen_core::Result;
use pktgen_core::config::Section;
use pktgen_core::time::Time;

use super::{Declared, Layer, MIDDLEWARE, Middleware, Site};
use crate::dialect::{DialectKind, Dialects};
use crate::transport::{End, Wire};

/// The configured middleware of `[transport]`.
#[derive(Clone, Default)]
pub struct MiddlewarePlan {
    /// From the cable outwards.
    layers: Vec<(&'static dyn Middleware, Arc<dyn Layer>)>,
}

impl MiddlewarePlan {
    /// Reads the keys of all kinds; those that this run does not need stay valid.
    pub(crate) fn read(section: &mut Section, linger: Time) -> Result<Self> {
        let mut layers = Vec::new();
        for kind in MIDDLEWARE {
            if let Some(layer) = kind.read(section, linger)? {
                layers.push((*kind, layer));
            }
            section.allow(kind.keys());
        }
        Ok(MiddlewarePlan { layers })
    }

    /// Returns the plan without the kind of this name.
    pub fn without(&self, name: &str) -> Self {
        MiddlewarePlan { layers: self.layers.iter().filter(|(kind, _)| kind.name() != name).cloned().collect() }
    }

    /// Returns whether the kind of this name is configured.
    pub fn has(&self, name: &str) -> bool {
        self.layers.iter().any(|(kind, _)| kind.name() == name)
    }

    /// Returns the names of configured kinds that declare this, from the cable outwards.
    pub(crate) fn declaring(&self, declares: impl Fn(Declared) -> bool) -> impl Iterator<Item = &'static str> {
        self.layers.iter().filter(move |(kind, _)| declares(kind.declares())).map(|(kind, _)| kind.name())
    }

    /// Refuses workers whose largest frame has `frame_max` bytes on the wire, if it could never leave.
    pub(crate) fn check(&self, frame_max: usize) -> Result<()> {
        self.layers.iter().try_for_each(|(_, layer)| layer.check(frame_max))
    }

    /// Returns the names of the files that are written, each with the kind that writes it.
    pub(crate) fn files(&self) -> impl Iterator<Item = (&'static str, String)> {
        self.layers.iter().filter_map(|(kind, layer)| Some((kind.name(), layer.file()?)))
    }

    /// Returns the dialect of `format` on the wire, if one is configured.
    pub(crate) fn dialect(&self, format: &str, all: Dialects) -> Result<Option<&'static DialectKind>> {
        self.layers.iter().find_map(|(_, layer)| layer.dialect(format, all).transpose()).transpose()
    }
}

/// Wraps the wire of `end` in the middleware of `plan`.
pub fn wrap(plan: &MiddlewarePlan, end: End, site: &Site, wire: Box<dyn Wire>) -> Result<Box<dyn Wire>> {
    plan.layers.iter().try_fold(wire, |wire, (_, layer)| layer.wrap(end, site, wire))
}
