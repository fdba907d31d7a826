//! Runs in real time: transports, threads, run dirs, and plans of runs in either time.
//!
//! Devices, workers, servers and the account of updates are those of [`pktgen_engine`]. This crate never imports analysis, and
//! reads a clock only in [`clock`].
//!
//! Map: [`transport`] lists the transports; [`driver`] moves frames by threads on wires; [`capture`] writes run dirs; [`plan`] converts an
//! experiment into the parts of a driver and [`run`] runs it; [`settle`] closes the balance from records; [`live`] has live statistics,
//! [`steer`] changes a run in progress; [`launch`] starts a device by a command; [`external`] is for hardware devices, [`lockstep`] for a
//! device in another process in virtual time, [`draft`] previews what a run would send.

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

mod acks;
mod counters;

use pktgen_engine::{catalogue, dialect, endpoint, frame, groups, ledger, parts, racks, recorder, reduction, target};
