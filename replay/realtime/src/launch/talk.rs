//! Messages between pktgen and the keeper of a device: one JSON value per line, over a stream that ends with either.

use std::fmt;
use std::io::{self, Write};

use serde::{Deserialize, Serialize};

/// A request to the keeper.
#[derive(Debug, Serialize, Deserialize)]
pub(super) enum Request {
    /// Sets up the environment of the device: mounts, network, cores, privileges.
    Settle {
        /// Interfaces in the device's network.
        ports: Vec<String>,
        /// Whether it has a separate network namespace.
        network: bool,
        /// Cores of the device; empty for all.
        cores: Vec<usize>,
    },
    /// Starts the device.
    Start {
        /// Its command.
        command: Vec<String>,
    },
    /// Runs a command to its end.
    Run {
        /// The command.
        command: Vec<String>,
        /// Timeout.
        timeout_ms: u64,
    },
    /// Looks for a file.
    Look {
        /// Its path.
        path: String,
    },
    /// Requests the device to end, and waits for it.
    End {
        /// Timeout.
        timeout_ms: u64,
    },
}

/// A message of the keeper.
#[derive(Debug, Serialize, Deserialize)]
pub(super) enum Reply {
    /// The request succeeded, without these dispensable parts.
    Done(Vec<String>),
    /// The request failed.
    Failed(String),
    /// A command ran.
    Ran(CommandOutput),
    /// Whether the file exists.
    Seen(bool),
    /// Whether the device ended in time.
    Over(bool),
    /// The device's command ended, at any time.
    Ended(Exit),
}

/// The end of a command.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum Exit {
    /// By itself, with this code.
    Code(i32),
    /// By a signal.
    Signal(i32),
    /// It exceeded its timeout, and was ended.
    Late,
}

impl fmt::Display for Exit {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        match self {
            Exit::Code(code) => write!(f, "exit code {code}"),
            Exit::Signal(signal) => write!(f, "signal {signal}"),
            Exit::Late => f.write_str("no end within its time"),
        }
    }
}

/// The result of a command.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct CommandOutput {
    pub(super) exit: Exit,
    /// Its output, up to a limit.
    pub(super) printed: String,
    /// Its error output, up to a limit.
    pub(super) complained: String,
}

/// Writes a value as a line.
pub(super) fn say(to: &mut impl Write, what: &impl Serialize) -> io::Result<()> {
    let mut line = serde_json::to_vec(what)?;
    line.push(b'\n');
    to.write_all(&line)
}
