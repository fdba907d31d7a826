//! A device that is a command: `[target.launch]` (docs/launch.md).
//!
//! [`settings`] reads how it is started; [`session`] starts it in namespaces of its own, where [`keeper`] is the first process; [`probe`]
//! finds out when it is ready. Called by [`crate::run`].

mod cable;
pub(crate) mod device;
mod keeper;
mod kernel;
mod probe;
mod session;
mod settings;
mod talk;

pub(crate) use device::LaunchedDevice;
pub use keeper::keep;
pub use settings::LAUNCH_KEYS;
pub(crate) use settings::Launch;
