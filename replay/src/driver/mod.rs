//! Drivers move time: they carry frames between endpoints, devices and links.
//!
//! [`virtual_time`] is a discrete-event simulation; [`real_time`] runs the same programs, queues and endpoints as
//! threads on wires.

pub mod calendar;
mod faults;
pub mod real_time;
mod uplink;
pub mod virtual_time;
