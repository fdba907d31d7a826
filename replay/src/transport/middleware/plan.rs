//! Which middleware an experiment asks for, and how it goes around a wire.

use std::sync::Arc;

use pktgen_generator::Result;
use pktgen_generator::config::Section;
use pktgen_generator::time::Time;

use super::{Layer, MIDDLEWARE, Site};
use crate::transport::{End, Wire};

/// The middleware of `[transport]`, read.
#[derive(Clone, Default)]
pub struct MiddlewarePlan {
    /// Names and layers, from the cable outwards.
    layers: Vec<(&'static str, Arc<dyn Layer>)>,
}

impl MiddlewarePlan {
    /// Reads the keys of every kind; those that nobody needs in this run stay valid.
    pub(crate) fn read(section: &mut Section, linger: Time) -> Result<Self> {
        let mut layers = Vec::new();
        for kind in MIDDLEWARE {
            if let Some(layer) = kind.read(section, linger)? {
                layers.push((kind.name(), layer));
            }
            section.allow(kind.keys());
        }
        Ok(MiddlewarePlan { layers })
    }

    /// Names of what is asked for, from the cable outwards.
    pub fn names(&self) -> impl Iterator<Item = &'static str> {
        self.layers.iter().map(|(name, _)| *name)
    }
}

/// Puts what `plan` asks for around the wire of `end`.
pub fn wrap(plan: &MiddlewarePlan, end: End, site: &Site, wire: Box<dyn Wire>) -> Result<Box<dyn Wire>> {
    plan.layers.iter().try_fold(wire, |wire, (_, layer)| layer.wrap(end, site, wire))
}
