//! Maps, programs and links of the kernel's BPF, over the one system call `bpf(2)`.
//!
//! Called by the transports that work with XDP. Everything made here is held by file descriptors and nothing is
//! pinned: the kernel removes maps, programs and attachments when the process ends, however it ends.
#![expect(unsafe_code, reason = "talks to the kernel; every block says why it is sound")]

use super::insn::Insn;
use pktgen_core::{Error, Result};
use std::ffi::c_long;
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU64, Ordering};

const MAP_CREATE: c_long = 0;
const MAP_UPDATE_ELEM: c_long = 2;
const PROG_LOAD: c_long = 5;
const PROG_TEST_RUN: c_long = 10;
const LINK_CREATE: c_long = 28;

const MAP_ARRAY: u32 = 2;
const MAP_DEVMAP: u32 = 14;
const MAP_XSKMAP: u32 = 17;
const F_MMAPABLE: u32 = 1 << 10;

const PROG_TYPE_XDP: u32 = 6;
const F_XDP_HAS_FRAGS: u32 = 1 << 5;
const ATTACH_XDP: u32 = 37;
const XDP_FLAGS_SKB_MODE: u32 = 1 << 1;
const XDP_FLAGS_DRV_MODE: u32 = 1 << 2;
const F_TEST_XDP_LIVE_FRAMES: u32 = 1 << 1;

const LICENSE: &std::ffi::CStr = c"Dual MIT/GPL";
const LOG_SIZE: usize = 64 * 1024;

// The parts of `union bpf_attr` in use, as in the kernel's uapi/linux/bpf.h, without padding.

#[repr(C)]
#[derive(Default)]
struct MapCreate {
    map_type: u32,
    key_size: u32,
    value_size: u32,
    max_entries: u32,
    map_flags: u32,
    inner_map_fd: u32,
    numa_node: u32,
    name: [u8; 16],
}

#[repr(C)]
struct MapUpdate {
    map_fd: u32,
    zero: u32,
    key: u64,
    value: u64,
    flags: u64,
}

#[repr(C)]
#[derive(Default)]
struct ProgLoad {
    prog_type: u32,
    insn_count: u32,
    insns: u64,
    license: u64,
    log_level: u32,
    log_size: u32,
    log_buf: u64,
    kern_version: u32,
    prog_flags: u32,
    name: [u8; 16],
    ifindex: u32,
    expected_attach_type: u32,
}

#[repr(C)]
struct LinkCreate {
    prog_fd: u32,
    target_ifindex: u32,
    attach_type: u32,
    flags: u32,
}

#[repr(C)]
#[derive(Default)]
struct TestRun {
    prog_fd: u32,
    retval: u32,
    data_size_in: u32,
    data_size_out: u32,
    data_in: u64,
    data_out: u64,
    repeat: u32,
    duration: u32,
    ctx_size_in: u32,
    ctx_size_out: u32,
    ctx_in: u64,
    ctx_out: u64,
    flags: u32,
    cpu: u32,
    batch_size: u32,
    zero: u32,
}

/// Calls `bpf(2)` and returns its result.
///
/// # Safety
/// `T` is the attribute struct of `command`, and the addresses in it are valid for what the command does with them.
unsafe fn bpf<T>(command: c_long, attr: &mut T) -> io::Result<c_long> {
    // SAFETY: the kernel reads `size_of::<T>()` bytes of attributes; the caller vouches for the addresses in them.
    let got = unsafe { libc::syscall(libc::SYS_bpf, command, std::ptr::from_mut(attr), size_of::<T>()) };
    if got < 0 { Err(io::Error::last_os_error()) } else { Ok(got) }
}

/// Like [`bpf`], for commands that return a file descriptor.
///
/// # Safety
/// As [`bpf`].
unsafe fn bpf_fd<T>(command: c_long, attr: &mut T) -> io::Result<OwnedFd> {
    // SAFETY: passed on to the caller; a non-negative result of these commands is a new descriptor nobody else owns.
    unsafe { Ok(OwnedFd::from_raw_fd(bpf(command, attr)? as i32)) }
}

fn name16(name: &str) -> [u8; 16] {
    let mut out = [0; 16];
    // The last byte stays zero.
    for (to, from) in out[..15].iter_mut().zip(name.bytes()) {
        *to = from;
    }
    out
}

/// Returns the error "this host cannot …", with the usual remedy.
pub(crate) fn host_error(what: &str, error: &io::Error) -> Error {
    let remedy = match error.raw_os_error() {
        Some(libc::EPERM | libc::EACCES) => "; run as root or with CAP_BPF, CAP_NET_ADMIN and CAP_NET_RAW",
        Some(libc::ENOSYS) => "; the kernel has no bpf(2)",
        _ => "",
    };
    Error::Host(format!("this host cannot {what}: {error}{remedy}"))
}

/// A map.
#[derive(Debug)]
pub struct Map {
    fd: OwnedFd,
}

impl Map {
    fn create(map_type: u32, name: &str, value_size: u32, entries: u32, map_flags: u32) -> Result<Self> {
        let mut attr = MapCreate {
            map_type,
            key_size: 4,
            value_size,
            max_entries: entries,
            map_flags,
            name: name16(name),
            ..MapCreate::default()
        };
        // SAFETY: the attributes of MAP_CREATE hold no addresses.
        let fd = unsafe { bpf_fd(MAP_CREATE, &mut attr) };
        fd.map(|fd| Map { fd }).map_err(|e| host_error(&format!("create the BPF map {name}"), &e))
    }

    /// Makes an array map with one value of `size` bytes, and its memory, shared with the program.
    pub fn shared(name: &str, size: usize) -> Result<(Self, Memory)> {
        let value_size =
            u32::try_from(size).map_err(|_| Error::config(format!("{name}: {size} B is above 4 GiB less one")))?;
        let map = Self::create(MAP_ARRAY, name, value_size, 1, F_MMAPABLE)?;
        let memory = Memory::of(&map, size).map_err(|e| host_error(&format!("map {size} B of {name}"), &e))?;
        Ok((map, memory))
    }

    /// Makes a map from queues to AF_XDP sockets.
    pub(crate) fn of_sockets(entries: u32) -> Result<Self> {
        Self::create(MAP_XSKMAP, "pktgen_xsk", 4, entries, 0)
    }

    /// Makes a map from numbers to interfaces.
    pub(crate) fn of_interfaces(entries: u32) -> Result<Self> {
        Self::create(MAP_DEVMAP, "pktgen_dev", 4, entries, 0)
    }

    /// Sets the value of `key`: a socket's file descriptor or an interface's index.
    pub fn set(&self, key: u32, value: u32) -> io::Result<()> {
        let mut attr = MapUpdate {
            map_fd: self.fd() as u32,
            zero: 0,
            key: (&raw const key).expose_provenance() as u64,
            value: (&raw const value).expose_provenance() as u64,
            flags: 0,
        };
        // SAFETY: key and value are 4 bytes, as every map with single values is created here, and live until return.
        unsafe { bpf(MAP_UPDATE_ELEM, &mut attr) }.map(|_| ())
    }

    /// Returns the file descriptor, for instructions.
    pub fn fd(&self) -> i32 {
        self.fd.as_raw_fd()
    }
}

/// Memory of a map, shared with the kernel and its programs until dropped. There is no lock: the code that reads or
/// writes it decides when the program may run.
#[derive(Debug)]
pub struct Memory {
    start: NonNull<u8>,
    size: usize,
}

// SAFETY: the mapping belongs to this value alone; nothing in it is tied to a thread.
unsafe impl Send for Memory {}

impl Memory {
    fn of(map: &Map, size: usize) -> io::Result<Self> {
        let flags = libc::MAP_SHARED | libc::MAP_POPULATE;
        // SAFETY: a new mapping at an address of the kernel's choice touches no memory of ours.
        let start =
            unsafe { libc::mmap(std::ptr::null_mut(), size, libc::PROT_READ | libc::PROT_WRITE, flags, map.fd(), 0) };
        if start == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        let start = NonNull::new(start.cast()).ok_or_else(|| io::Error::other("mapped at address 0"))?;
        Ok(Memory { start, size })
    }

    /// Returns its start: page aligned, readable and writable for [`Memory::size`] bytes.
    pub fn start(&self) -> NonNull<u8> {
        self.start
    }

    /// Returns the number at `at`, a multiple of 8, as last written by a program.
    pub fn number(&self, at: usize) -> u64 {
        assert!(at.is_multiple_of(8) && at + 8 <= self.size, "a number of {at} in {}", self.size);
        // SAFETY: inside the mapping and aligned, as was just checked; atomic because the kernel writes meanwhile.
        unsafe { AtomicU64::from_ptr(self.start.as_ptr().add(at).cast()) }.load(Ordering::Relaxed)
    }

    /// Returns its size in bytes.
    pub fn size(&self) -> usize {
        self.size
    }
}

impl Drop for Memory {
    fn drop(&mut self) {
        // SAFETY: mapped in `of` with this size; no reference into it outlives self.
        unsafe { libc::munmap(self.start.as_ptr().cast(), self.size) };
    }
}

/// The attachment point of a program in the path of a frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Attach {
    /// In the driver, before the kernel makes a packet: needs the driver's support.
    Driver,
    /// After the driver: works everywhere, but slower.
    Generic,
}

/// A loaded XDP program.
#[derive(Debug)]
pub(crate) struct BpfProgram {
    fd: OwnedFd,
}

impl BpfProgram {
    /// Loads the instructions after verification by the kernel; an error shows the verifier's log. With `frags`, the
    /// program may be attached where frames span buffers; it must then never assume a single buffer.
    pub fn load(name: &str, insns: &[Insn], frags: bool) -> Result<Self> {
        let mut attr = ProgLoad {
            prog_type: PROG_TYPE_XDP,
            insn_count: insns.len() as u32,
            insns: insns.as_ptr().expose_provenance() as u64,
            license: LICENSE.as_ptr().expose_provenance() as u64,
            prog_flags: if frags { F_XDP_HAS_FRAGS } else { 0 },
            name: name16(name),
            expected_attach_type: ATTACH_XDP,
            ..ProgLoad::default()
        };
        // SAFETY: `insns` holds `insn_count` instructions and the license ends in a zero; both outlive the call.
        let first = match unsafe { bpf_fd(PROG_LOAD, &mut attr) } {
            Ok(fd) => return Ok(BpfProgram { fd }),
            Err(error) => error,
        };
        // A second attempt for the log only: always requesting it would slow down every load.
        let mut log = vec![0u8; LOG_SIZE];
        attr.log_level = 1;
        attr.log_size = LOG_SIZE as u32;
        attr.log_buf = log.as_mut_ptr().expose_provenance() as u64;
        // SAFETY: as above; the kernel writes at most `log_size` bytes to `log`.
        if let Ok(fd) = unsafe { bpf_fd(PROG_LOAD, &mut attr) } {
            return Ok(BpfProgram { fd });
        }
        let end = log.iter().position(|b| *b == 0).unwrap_or(LOG_SIZE);
        let log = String::from_utf8_lossy(&log[..end]);
        let what = format!("load the XDP program {name}");
        Err(match log.trim() {
            "" => host_error(&what, &first),
            log => Error::Host(format!("this host cannot {what}: {first}; the verifier says:\n{log}")),
        })
    }

    /// Attaches it to an interface of this thread's network namespace, until the link is dropped.
    pub fn attach(&self, ifindex: u32, attach: Attach) -> io::Result<BpfLink> {
        let flags = match attach {
            Attach::Driver => XDP_FLAGS_DRV_MODE,
            Attach::Generic => XDP_FLAGS_SKB_MODE,
        };
        let mut attr =
            LinkCreate { prog_fd: self.fd.as_raw_fd() as u32, target_ifindex: ifindex, attach_type: ATTACH_XDP, flags };
        // SAFETY: the attributes of LINK_CREATE hold no addresses.
        let fd = unsafe { bpf_fd(LINK_CREATE, &mut attr) }?;
        Ok(BpfLink { _fd: fd })
    }

    /// Runs it on `repeat` live frames that start as `data`, `batch` at a time: redirected frames really leave.
    pub(crate) fn run_live(&self, data: &[u8], repeat: u32, batch: u32) -> io::Result<()> {
        let mut attr = TestRun {
            prog_fd: self.fd.as_raw_fd() as u32,
            data_size_in: data.len() as u32,
            data_in: data.as_ptr().expose_provenance() as u64,
            repeat,
            flags: F_TEST_XDP_LIVE_FRAMES,
            batch_size: batch,
            ..TestRun::default()
        };
        // SAFETY: the kernel reads `data_size_in` bytes of `data`, and writes nothing but the attributes themselves.
        unsafe { bpf(PROG_TEST_RUN, &mut attr) }.map(|_| ())
    }
}

/// A program attached to an interface. Dropping it, or the end of the process, detaches it.
#[derive(Debug)]
pub(crate) struct BpfLink {
    _fd: OwnedFd,
}
