//! Plain forwarding: every frame to the port of its destination.

use pktgen_core::Result;
use pktgen_core::config::Section;
use pktgen_core::registry::Named;

use super::{Place, Program, ProgramKind};
use crate::frame::Frame;
use crate::target::context::Context;

/// `program = "forward"`.
pub(crate) struct ForwardKind;

impl Named for ForwardKind {
    fn name(&self) -> &'static str {
        "forward"
    }
    fn about(&self) -> &'static str {
        "forwards every frame to the port of its destination"
    }
}

impl ProgramKind for ForwardKind {
    fn queue(&self) -> &'static str {
        "fifo"
    }

    fn open(&self, _section: &mut Section, place: Place) -> Result<Box<dyn Program>> {
        Ok(Box::new(Forward { place }))
    }
}

struct Forward {
    place: Place,
}

impl Program for Forward {
    fn on_burst(&mut self, burst: &[Frame], context: &mut Context) {
        for frame in burst {
            let port = self.place.routes.port(frame.flow);
            context.emit(port, *frame);
        }
    }
}
