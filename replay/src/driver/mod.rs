//! Drivers move time: they carry frames between endpoints, devices and links.
//!
//! [`virtual_time`] is a discrete-event simulation; a driver over real interfaces will run the same
//! programs, queues and endpoints.

pub mod calendar;
pub mod virtual_time;
