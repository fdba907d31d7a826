//! What happens to frames, and who answers for them: devices, workers and servers, the account of every update, virtual time.
//!
//! Programs, queues and endpoints are state machines without I/O: a driver passes time and frames in and takes frames out. This
//! crate opens no socket and no file, starts no thread, reads no clock and has no `unsafe` code.
//!
//! Map: [`frame`] has frames and their memory; [`target`] what devices do; [`endpoint`] what hosts do; [`dialect`] how devices write
//! frames; [`driver`] moves virtual time; [`ledger`] closes the balance; [`recorder`] takes rows; [`parts`] is all of a run before a
//! driver takes it; [`clause`] has what devices under test must do; [`groups`], [`racks`] and [`reduction`] say what a network means for its devices.
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
