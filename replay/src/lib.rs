//! MOVING frames through time.
//!
//! Targets (device programs and queues), endpoints (workers and servers), transports, the drivers,
//! the ledger that accounts for every update, and capture into run dirs. Programs, queues and endpoints
//! are state machines without I/O: a driver passes time and frames in and takes frames out.
//!
//! This crate never imports analysis, and reads a clock only in [`clock`].
//!
//! Map: [`frame`] has frames and their memory; [`target`] what devices do; [`endpoint`] what hosts do;
//! [`driver`] moves time; [`ledger`] closes the balance; [`capture`] writes run dirs; [`plan`] turns an
//! experiment into all of these and [`run`] runs it; [`transport`] lists the ways out of the process;
//! [`live`] what somebody sees who looks on; [`external`] is about hardware as the
//! device, [`draft`] about what a run would send.

pub mod capture;
pub mod clock;
pub mod draft;
pub mod driver;
pub mod external;
pub mod live;
pub mod plan;
pub mod run;
pub mod settle;
pub mod transport;

pub use pktgen_engine::{catalogue, dialect, endpoint, frame, groups, ledger, parts, racks, recorder, target};

use pktgen_engine::reduction;
