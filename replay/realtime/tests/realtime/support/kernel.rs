//! Queries the kernel for existing BPF programs and maps.
#![expect(unsafe_code, reason = "talks to the kernel; every block says why it is sound")]

use std::collections::BTreeSet;
use std::os::fd::{FromRawFd, OwnedFd};
use std::process::Child;

/// Commands of bpf(2) that open a program or a map by its number.
const PROG_GET_FD_BY_ID: i64 = 13;
const MAP_GET_FD_BY_ID: i64 = 14;

/// A kernel object that exists as long as a process holds it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kept {
    Program(u32),
    Map(u32),
}

impl Kept {
    /// Returns whether it still exists.
    pub fn exists(self) -> bool {
        let (command, id) = match self {
            Kept::Program(id) => (PROG_GET_FD_BY_ID, id),
            Kept::Map(id) => (MAP_GET_FD_BY_ID, id),
        };
        let mut attributes = [id, 0, 0];
        // SAFETY: the kernel reads 12 bytes of attributes without addresses; a result that is not negative is a new
        // descriptor, which nobody else owns.
        unsafe {
            let fd = libc::syscall(libc::SYS_bpf, command, attributes.as_mut_ptr(), size_of_val(&attributes));
            if fd < 0 {
                let error = std::io::Error::last_os_error();
                assert_eq!(error.raw_os_error(), Some(libc::ENOENT), "{self:?}: {error}");
                return false;
            }
            drop(OwnedFd::from_raw_fd(fd as i32));
        }
        true
    }
}

/// Returns the objects that a process holds, from the kernel's information on its descriptors.
pub fn held_by(process: &Child) -> BTreeSet<Kept> {
    let folder = format!("/proc/{}/fdinfo", process.id());
    let texts = std::fs::read_dir(folder).expect("procfs").filter_map(|f| std::fs::read_to_string(f.ok()?.path()).ok());
    let lines: Vec<String> = texts.flat_map(|text| text.lines().map(str::to_owned).collect::<Vec<_>>()).collect();
    let number = |line: &str, key: &str| line.strip_prefix(key)?.trim().parse().ok();
    let programs = lines.iter().filter_map(|line| number(line, "prog_id:").map(Kept::Program));
    programs.chain(lines.iter().filter_map(|line| number(line, "map_id:").map(Kept::Map))).collect()
}
