//! Properties that must hold for every system in the catalogue; one module per subject.

mod device;
mod dissector;
mod formats;
mod golden;
mod import;
mod rounds;
mod strict;
mod support;
mod theory;
