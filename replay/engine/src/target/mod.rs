//! Devices: what sits between workers and server.
//!
//! A device is a program (its packet processing) and, per output port, a queue discipline and a link. Programs and
//! queues are in [`program`] and [`queue`]; [`port`] has the timing of a link in virtual time, [`books`] a device's
//! records, [`context`] the operations of a program; [`remote`] is a device in another process; [`flows`], [`gather`]
//! and [`sum`] implement reduction along a plan, and [`meter`] measures the load of links.

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
