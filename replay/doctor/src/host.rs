//! The host that is looked at: a file system with `/proc` and `/sys`, and what only the kernel can answer.

use std::fs;
use std::path::PathBuf;

use pktgen_core::{Error, Result};

use super::answers::{HostQueries, Live};

/// Capabilities that are asked about, by their bit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Capability {
    NetAdmin = 12,
    NetRaw = 13,
    IpcLock = 14,
    SysAdmin = 21,
    Perfmon = 38,
    Bpf = 39,
}

impl Capability {
    /// As it is written.
    pub(super) fn name(self) -> &'static str {
        match self {
            Capability::NetAdmin => "CAP_NET_ADMIN",
            Capability::NetRaw => "CAP_NET_RAW",
            Capability::IpcLock => "CAP_IPC_LOCK",
            Capability::SysAdmin => "CAP_SYS_ADMIN",
            Capability::Perfmon => "CAP_PERFMON",
            Capability::Bpf => "CAP_BPF",
        }
    }
}

/// A host.
pub struct Host {
    root: PathBuf,
    answers: Box<dyn HostQueries>,
    /// Why files of interfaces are not of those that its kernel knows, if so.
    elsewhere: Option<String>,
}

impl Host {
    /// The one this runs on.
    pub fn this() -> Self {
        Host::new("/", Box::new(Live))
    }

    /// One whose files lie below `root`, and whose kernel says `answers`.
    pub fn new(root: impl Into<PathBuf>, answers: Box<dyn HostQueries>) -> Self {
        let elsewhere = answers.check_namespace().err().map(|error| error.to_string());
        Host { root: root.into(), answers, elsewhere }
    }

    /// Where its files lie.
    pub(super) fn root(&self) -> &std::path::Path {
        &self.root
    }

    /// A file or folder of it.
    pub(super) fn path(&self, path: &str) -> PathBuf {
        self.root.join(path)
    }

    /// What its kernel says.
    pub(super) fn answers(&self) -> &dyn HostQueries {
        &*self.answers
    }

    /// Refuses its interfaces if its files are those of another network namespace.
    pub(super) fn check_namespace(&self) -> Result<()> {
        self.elsewhere.as_ref().map_or(Ok(()), |why| Err(Error::Host(why.clone())))
    }

    /// A file's text without the line end; none if it cannot be read.
    pub(super) fn read(&self, path: &str) -> Option<String> {
        fs::read_to_string(self.path(path)).ok().map(|text| text.trim().to_owned())
    }

    /// A file that holds a number.
    pub(super) fn number<T: std::str::FromStr>(&self, path: &str) -> Option<T> {
        self.read(path)?.parse().ok()
    }

    /// Names in a folder that start so, in order.
    pub(super) fn names(&self, folder: &str, prefix: &str) -> Vec<String> {
        let entries = fs::read_dir(self.path(folder)).into_iter().flatten().flatten();
        let mut names: Vec<_> = entries.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect();
        names.retain(|name| name.starts_with(prefix));
        names.sort_by_key(|name| (name.len(), name.clone()));
        names
    }

    /// Its interfaces but the loopback.
    pub(super) fn interfaces(&self) -> Vec<String> {
        let mut names = self.names("sys/class/net", "");
        // Some drivers put plain files beside the interfaces.
        names.retain(|name| name != "lo" && self.exists(name));
        names
    }

    /// Whether there is such an interface, and its files are its own.
    pub(super) fn exists(&self, interface: &str) -> bool {
        let plain = !interface.is_empty() && !interface.contains('/') && interface != "." && interface != "..";
        self.elsewhere.is_none() && plain && self.path(&format!("sys/class/net/{interface}")).is_dir()
    }

    /// A file of an interface.
    pub(super) fn of_interface(&self, interface: &str, file: &str) -> Option<String> {
        self.read(&format!("sys/class/net/{interface}/{file}"))
    }

    /// Whether the interface is set up.
    pub(super) fn is_up(&self, interface: &str) -> bool {
        let flags = self.of_interface(interface, "flags").unwrap_or_default();
        u32::from_str_radix(flags.trim_start_matches("0x"), 16).is_ok_and(|flags| flags & 1 != 0)
    }

    /// Driver of an interface: by its device, or by what the kernel says where there is no device.
    pub(super) fn driver(&self, interface: &str) -> Option<String> {
        let link = fs::read_link(self.path(&format!("sys/class/net/{interface}/device/driver"))).ok();
        let by_device = link.and_then(|to| Some(to.file_name()?.to_string_lossy().into_owned()));
        self.answers.card(interface).driver.or(by_device)
    }

    /// Major and minor number of its kernel.
    pub(super) fn kernel(&self) -> Option<(u32, u32)> {
        let text = self.read("proc/sys/kernel/osrelease")?;
        let mut numbers = text.split(|c: char| !c.is_ascii_digit()).map(str::parse);
        Some((numbers.next()?.ok()?, numbers.next()?.ok()?))
    }

    /// Whether the effective user of this process is root, as in `/proc/self/status`.
    pub(super) fn is_root(&self) -> bool {
        let status = self.read("proc/self/status").unwrap_or_default();
        let users = status.lines().find_map(|line| line.strip_prefix("Uid:"));
        users.and_then(|users| users.split_whitespace().nth(1)) == Some("0")
    }

    /// Whether this process has this capability in effect.
    pub(super) fn may(&self, capability: Capability) -> bool {
        self.capabilities("CapEff:").unwrap_or(0) >> (capability as u32) & 1 != 0
    }

    /// Returns which of these this process can never have, since its bounding set lacks them, as in containers. Kernels before 5.8 do not know
    /// CAP_PERFMON and CAP_BPF, and ignore them in the capabilities of a file.
    pub(super) fn beyond(&self, all: &[Capability]) -> Vec<Capability> {
        let bounding = self.capabilities("CapBnd:").unwrap_or(u64::MAX);
        let last: u32 = self.number("proc/sys/kernel/cap_last_cap").unwrap_or(u32::MAX);
        let beyond = |own: &Capability| (*own as u32) <= last && bounding >> (*own as u32) & 1 == 0;
        all.iter().copied().filter(beyond).collect()
    }

    /// Returns a set of capabilities of this process, as in `/proc/self/status`.
    fn capabilities(&self, set: &str) -> Option<u64> {
        let status = self.read("proc/self/status")?;
        let mask = status.lines().find_map(|line| line.strip_prefix(set))?;
        u64::from_str_radix(mask.trim(), 16).ok()
    }
}
