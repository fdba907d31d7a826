//! What sits between workers and server: devices.
//!
//! A device is a program (what happens to a packet) and, per output port, a queue discipline and a
//! link. Programs and queues are registered in [`program`] and [`queue`]; [`port`] has the timing of a link in
//! virtual time, [`books`] what a device writes down, [`context`] what a program may do; [`remote`] is a device of another
//! process; [`flows`], [`gather`] and [`sum`] are reducing along a plan, and
//! [`meter`] what links carried.

pub mod activity;
pub mod books;
pub mod context;
pub mod device;
pub mod flows;
pub mod gather;
pub mod meter;
pub mod port;
pub mod program;
pub mod queue;
pub mod remote;
pub mod sparse;
pub mod sum;
