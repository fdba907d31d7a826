//! `[target.launch]`: the start of a device, and its readiness check (docs/launch.md).

use pktgen_core::config::{FromValue, Key, Section, Value, settings, spans};
use pktgen_core::units::Span;
use pktgen_core::{Error, Result};

use super::cable;
use crate::transport::TransportPlan;

/// The evidence that a device is ready.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Ready {
    /// A marked frame is forwarded correctly.
    Forward,
    /// Sums of marked contributions return, from both sets of a slot.
    Round,
    /// A file exists.
    File,
}

impl FromValue for Ready {
    fn takes() -> String {
        "forward, round, file".to_owned()
    }

    fn from_value(value: &Value) -> Result<Self, String> {
        match value {
            Value::Text(text) if text == "forward" => Ok(Ready::Forward),
            Value::Text(text) if text == "round" => Ok(Ready::Round),
            Value::Text(text) if text == "file" => Ok(Ready::File),
            other => Err(format!("{} is not a readiness check; there are: {}", other.to_toml(), Self::takes())),
        }
    }
}

/// The last user and group id: the one after it means none.
const USER_MAX: u32 = u32::MAX - 1;
/// The last slot of SwitchML's registers.
const SLOT_MAX: u32 = 8191;

settings! {
    /// How a device is started, and when it is ready.
    #[derive(Debug, Clone)]
    pub(crate) struct Launch {
        /// Command that runs the device: program and arguments.
        command: Vec<String> = [];
        /// Command that fills the device's tables after the start.
        tables: Vec<String> = [];
        /// Interfaces of the device, in the order of `transport.interfaces`; empty: the device uses existing interfaces.
        ports: Vec<String> = [];
        /// Readiness check: `forward`, a marked frame is forwarded; `round`, sums of contributions return; `file`, a file appears.
        ready: Ready = "forward";
        /// Slot used by `ready = "round"`; workers may use it as well.
        slot: u32 = 0 in 0..=SLOT_MAX;
        /// File of `ready = "file"`, as the device sees its path.
        file: Option<String>;
        /// Timeout from the start until the device is ready.
        timeout: Span = "10s" in spans((std::ops::Bound::Excluded(0), std::ops::Bound::Unbounded));
        /// Whether the command runs as long as the device; if false, it configures the kernel or starts daemons and exits with 0.
        stays: bool = true;
        /// Command that prints the device's counters: one JSON object of whole numbers that never decrease.
        counters: Vec<String> = [];
        /// Command that stops the device; SIGTERM if empty.
        stop: Vec<String> = [];
        /// CPU cores of the device; empty: all.
        cores: Vec<u16> = [];
        /// Numeric user and group id of the device on this host, if pktgen runs as root.
        user: u32 = 65534 in 0..=USER_MAX;
    }
}

/// The keys of `[target.launch]`.
pub const LAUNCH_KEYS: &[Key] = Launch::KEYS;

impl Launch {
    /// Reads `[target.launch]`, if it was written.
    pub(crate) fn of(target: &mut Section) -> Result<Option<Launch>> {
        let Some(mut section) = target.table("launch")? else { return Ok(None) };
        let launch = Launch::read(&mut section)?;
        // Unknown keys first: one may be the misspelt name of a key that is missed below.
        section.clone().end()?;
        let refuse = |key: &str, why: &str| Err(Error::config(format!("{}: {why}", section.place(key))));
        if launch.command.is_empty() {
            return refuse("command", "a launched device has a command, as [\"./device\", \"--port\", \"e0\"]");
        }
        if (launch.ready == Ready::File) != launch.file.is_some() {
            return refuse("file", "the path of a file belongs to ready = \"file\", and only to that");
        }
        let name = |port: &&String| {
            let fits = (1..=cable::NAME_MAX).contains(&port.len());
            !fits
                || port.contains(|c: char| c.is_whitespace() || c == '/' || c == ':')
                || ["lo", ".", ".."].contains(&port.as_str())
        };
        if let Some(port) = launch.ports.iter().find(name) {
            return refuse(
                "ports",
                &format!("\"{port}\" is no name of an interface (1 to {} characters)", cable::NAME_MAX),
            );
        }
        if let Some((_, port)) = launch.ports.iter().enumerate().find(|(i, port)| launch.ports[..*i].contains(port)) {
            return refuse(
                "ports",
                &format!(
                    "\"{port}\" is named twice; each cable ends in an interface of its own, so give different names"
                ),
            );
        }
        Ok(Some(launch))
    }

    /// Returns the cables of the device: interfaces here and in its network.
    pub(crate) fn cables(&self, transport: &TransportPlan) -> Result<Vec<(String, String)>> {
        let here: Vec<_> = transport.interfaces.iter().filter(|name| !name.is_empty()).cloned().collect();
        if !self.ports.is_empty() && here.len() != self.ports.len() {
            return Err(Error::config(format!(
                "target.launch.ports: there are {}, and {} interfaces that are not the device's in transport.interfaces ({}); name one \
                 port for each of these, in the same order",
                self.ports.len(),
                here.len(),
                here.join(", ")
            )));
        }
        Ok(here.into_iter().zip(self.ports.iter().cloned()).collect())
    }
}
