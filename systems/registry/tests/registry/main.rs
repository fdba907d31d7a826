//! What must hold for every system, over the catalogue; one module per subject.

mod device;
mod dissector;
mod formats;
mod golden;
mod import;
mod rounds;
mod strict;
mod support;
mod theory;
