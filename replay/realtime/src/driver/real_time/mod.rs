//! Real time: workers, device and server as threads on wires, with the programs, queues, endpoints and records of
//! virtual time. All three in one process, or each in its own.
//! Every thread reads the clock of the run, passes arrivals with their time to its state machine, and sends the output
//! when it is due. Fates and sums are settled afterwards, from the records ([`crate::settle`]).

mod attached;
mod cores;
mod device;
mod feed;
mod frames;
mod host_gaps;
mod outcome;
mod pump;
mod roles;
mod server;
mod shared;
mod start;
pub(crate) mod thread;
mod workers;

pub(crate) use attached::FrameSet;
pub use cores::core_list;
pub(crate) use outcome::FIRST_LATE;
pub use outcome::Progress;
pub(crate) use outcome::{RealOutcome, RoleTally};
pub(crate) use roles::FIRST_WAIT;
pub use roles::{Roles, Serve, THREADS, check_cores};
pub use start::threads;
pub(crate) use start::{OpenedRoles, RunOrder, only_device, open, run};
pub use thread::drop_privileges;
pub(crate) use thread::{FOR_FILES, rest_privileges};

/// Interval of checks of losses.
const LOOK: Time = 100 * MS;

use crate::acks::{AckTally, AcksByCluster, members};
use outcome::{Beside, first_late, histogram, lost, rate, tell_lost};
use pktgen_core::time::{MS, Time};
use shared::Shared;
