//! A device that is started by a command: `[target.launch]` (docs/launch.md).
//!
//! [`settings`] reads how it is started; [`session`] starts it in separate namespaces, where [`keeper`] is the first process; [`ready`]
//! determines when it is ready, by the probes `marks` and `rounds`. [`before`] probes an existing device. Called by [`crate::run`].

mod before;
mod cable;
pub(crate) mod device;
mod held;
mod keeper;
mod kernel;
mod marks;
mod probe;
mod ready;
mod rounds;
mod session;
mod settings;
mod talk;

pub use before::Probing;
pub(crate) use before::probe_before;
pub use device::LaunchedDevice;
pub use keeper::keep;
pub use kernel::has_id;
pub(crate) use marks::is_marked;
pub use settings::LAUNCH_KEYS;
pub(crate) use settings::Launch;
