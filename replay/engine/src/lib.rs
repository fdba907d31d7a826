//! The path of frames and their account: devices, workers and servers, the account of every update, virtual time.
//!
//! Programs, queues and endpoints are state machines without I/O: a driver passes time and frames in and takes frames out. This
//! crate opens no socket and no file, starts no thread, reads no clock and has no `unsafe` code.
//!
//! Map: [`frame`] has frames and their memory; [`target`] devices; [`endpoint`] hosts; [`dialect`] translates frames
//! for foreign devices; [`driver`] runs virtual time; [`ledger`] closes the balance; [`recorder`] receives rows;
//! [`parts`] is a run before a driver takes it; [`clause`] has conformance clauses for devices under test; [`groups`],
//! [`racks`] and [`reduction`] derive the devices' configuration from the network.
#![forbid(unsafe_code)]

pub mod catalogue;
pub mod clause;
pub mod dialect;
pub mod driver;
pub mod endpoint;
pub mod frame;
pub mod groups;
pub mod ledger;
pub mod parts;
pub mod plain;
pub mod racks;
pub mod recorder;
pub mod reduction;
pub mod target;
