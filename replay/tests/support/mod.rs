//! What the tests of the transports share.
#![allow(dead_code, reason = "each test binary uses its part")]

pub mod cases;
pub mod frames;
pub mod kernel;
pub mod namespace;
