//! MOVING frames through real time: transports, threads, run dirs, and plans of runs in either time.
//!
//! Devices, workers, servers and the account of updates are those of [`pktgen_engine`]. This crate never imports analysis, and
//! reads a clock only in [`clock`].
//!
//! Map: [`transport`] lists the ways out of the process; [`driver`] moves frames by threads on wires; [`capture`] writes run dirs;
//! [`plan`] turns an experiment into what a driver moves and [`run`] runs it; [`settle`] closes the balance from records; [`live`]
//! has live statistics, [`steer`] changes a run in progress; [`launch`] starts a device that is a command; [`external`] is about hardware as the device, [`lockstep`] about
//! a device of another process in virtual time, [`draft`] about what a run would send.

pub mod capture;
pub mod clock;
pub mod draft;
pub mod driver;
pub mod external;
pub mod launch;
pub mod live;
pub mod lockstep;
pub mod plan;
pub mod run;
pub mod settle;
pub mod socket;
pub mod steer;
pub mod transport;

use pktgen_engine::{catalogue, dialect, endpoint, frame, groups, ledger, parts, racks, recorder, reduction, target};
