//! What pktgen and the keeper of a device say to each other: one JSON value a line, over a stream that both end with.

use std::fmt;
use std::io::{self, Write};

use serde::{Deserialize, Serialize};

/// What the keeper is to do.
#[derive(Debug, Serialize, Deserialize)]
pub(super) enum Request {
    /// Makes the place that the device runs in: its mounts, its network, its cores, its rights.
    Settle {
        /// Interfaces in the device's network.
        ports: Vec<String>,
        /// Whether it has a network of its own.
        network: bool,
        /// Cores of the device; all where there are none.
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
        /// Longest time for it.
        timeout_ms: u64,
    },
    /// Looks for a file.
    Look {
        /// Its path.
        path: String,
    },
    /// Asks the device to end, and waits for it.
    End {
        /// Longest time for it.
        timeout_ms: u64,
    },
}

/// What the keeper says.
#[derive(Debug, Serialize, Deserialize)]
pub(super) enum Reply {
    /// It did what was requested; what it could not do, and did without.
    Done(Vec<String>),
    /// It could not.
    Failed(String),
    /// A command ran.
    Ran(CommandOutput),
    /// Whether there is such a file.
    Seen(bool),
    /// Whether the device ended in time.
    Over(bool),
    /// The device's command ended, at any time.
    Ended(Exit),
}

/// How a command ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum Exit {
    /// By itself, with this code.
    Code(i32),
    /// By a signal.
    Signal(i32),
    /// It did not within its time, and was ended.
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

/// What a command came to.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct CommandOutput {
    pub(super) exit: Exit,
    /// What it printed, up to a limit.
    pub(super) printed: String,
    /// The same of its errors.
    pub(super) complained: String,
}

/// Writes a value as a line.
pub(super) fn say(to: &mut impl Write, what: &impl Serialize) -> io::Result<()> {
    let mut line = serde_json::to_vec(what)?;
    line.push(b'\n');
    to.write_all(&line)
}
