//! Compares the program with a simple model, and tests its rules one by one.

mod hierarchy;
mod naive;
mod properties;
mod rig;
mod rules;
mod straggling;
