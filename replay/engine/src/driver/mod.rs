//! Virtual time: a discrete-event simulation that carries frames between endpoints, devices and links.

pub mod admit;
pub mod calendar;
pub mod fates;
mod faults;
mod uplink;
pub mod virtual_time;
