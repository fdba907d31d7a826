//! The program against a naive model, and its rules one by one.

mod hierarchy;
mod naive;
mod properties;
mod rig;
mod rules;
mod straggling;
