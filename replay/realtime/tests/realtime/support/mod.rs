//! Code shared by the tests of the transports.

pub mod cases;
pub mod counting;
pub mod frames;
pub mod kernel;
pub mod namespace;
