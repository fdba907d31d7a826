//! What the tests of the transports share.

pub mod cases;
pub mod counting;
pub mod frames;
pub mod kernel;
pub mod namespace;
