//! Kernel operations for launching: a process in separate namespaces, its mounts, privileges and end.
#![expect(unsafe_code, reason = "talks to the kernel; every block says why it is sound")]

use std::ffi::{CStr, CString};
use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};
use std::os::unix::net::UnixStream;
use std::ptr;

/// Descriptor for the communication of a device's first process with pktgen.
pub(super) const CONTROL: RawFd = 3;
/// Descriptors from here on do not collide with those with which a process begins.
const BEYOND: RawFd = 16;
/// Upper bound of capability numbers.
const CAPABILITIES: libc::c_int = 64;
/// Capabilities of a device, in its own network only: raw sockets, interfaces, ports below 1024.
const KEPT: [libc::c_int; 3] = [10, 12, 13];

/// The isolation of a process.
pub(super) struct Apart {
    /// Whether it has a separate network namespace.
    pub(super) network: bool,
    /// Its user, if pktgen is root.
    pub(super) user: u32,
}

/// A process in separate namespaces, the first one there: all others end with it. It ends on drop.
pub(super) struct Contained {
    pid: libc::pid_t,
}

/// Converts words for the kernel.
fn pointers(words: &[CString]) -> Vec<*const libc::c_char> {
    words.iter().map(|word| word.as_ptr()).chain([ptr::null()]).collect()
}

impl Contained {
    /// Starts this program again under the name `name`, with the stream `control` and the output `output`.
    pub(super) fn start(apart: &Apart, name: &str, control: &UnixStream, output: &OwnedFd) -> io::Result<Contained> {
        let program = File::open("/proc/self/exe")?;
        let nothing = File::open("/dev/null")?;
        let path = std::env::var("PATH").unwrap_or_else(|_| "/usr/sbin:/usr/bin:/sbin:/bin".into());
        let text = |text: String| CString::new(text).map_err(io::Error::other);
        let (words, variables) = ([text(name.to_owned())?], [text(format!("PATH={path}"))?]);
        let (words, variables) = (pointers(&words), pointers(&variables));
        let (mut here, there) = UnixStream::pair()?;
        let child = Child {
            program: program.as_raw_fd(),
            streams: [nothing.as_raw_fd(), output.as_raw_fd(), output.as_raw_fd(), control.as_raw_fd()],
            sync: there.as_raw_fd(),
            sync_here: here.as_raw_fd(),
            words: words.as_ptr(),
            variables: variables.as_ptr(),
        };
        let network = if apart.network { libc::CLONE_NEWNET } else { 0 };
        let spaces = libc::CLONE_NEWUSER | libc::CLONE_NEWPID | libc::CLONE_NEWNS | libc::CLONE_NEWIPC;
        let flags = (spaces | network | libc::SIGCHLD) as libc::c_ulong;
        // SAFETY: without CLONE_VM and with no stack this is a fork; the child calls nothing that allocates or locks, and ends by
        // executing a program or by _exit.
        let pid = unsafe { libc::syscall(libc::SYS_clone, flags, 0usize, 0usize, 0usize, 0usize) };
        match pid {
            0 => child.become_program(),
            -1 => return Err(io::Error::last_os_error()),
            _ => {}
        }
        let contained = Contained { pid: pid as libc::pid_t };
        drop(there);
        here.read_exact(&mut [0])?;
        contained.map(apart.user)?;
        here.write_all(&[1])?;
        // Closed when the program runs; otherwise the child writes the error.
        let mut code = [0; 4];
        match here.read(&mut code)? {
            4 => Err(io::Error::from_raw_os_error(i32::from_ne_bytes(code))),
            _ => Ok(contained),
        }
    }

    /// Returns its PID in this namespace.
    pub(super) fn pid(&self) -> u32 {
        self.pid as u32
    }

    /// Maps its root user to `user` outside if we are root, else to our user.
    fn map(&self, user: u32) -> io::Result<()> {
        // SAFETY: these calls take nothing and cannot fail.
        let (uid, gid) = unsafe { (libc::geteuid(), libc::getegid()) };
        let put = |file: &str, text: &str| std::fs::write(format!("/proc/{}/{file}", self.pid), text);
        let (uid, gid) = if uid == 0 { (user, user) } else { (uid, gid) };
        if uid != user {
            put("setgroups", "deny")?;
        }
        let unknown = |why: io::Error| match (is_mapped("uid_map", uid), is_mapped("gid_map", gid)) {
            (true, true) => why,
            _ => io::Error::other(format!(
                "this user namespace has no user and group {uid}; set target.launch.user to one that it has, such as 0"
            )),
        };
        put("gid_map", &format!("0 {gid} 1")).map_err(unknown)?;
        put("uid_map", &format!("0 {uid} 1")).map_err(unknown)
    }
}

/// Returns whether this user namespace has a user or group; true if that is unknown.
fn is_mapped(file: &str, id: u32) -> bool {
    let map = std::fs::read_to_string(format!("/proc/self/{file}"));
    map.map_or(true, |map| has_id(&map, id))
}

/// Returns whether a map of a user namespace (`/proc/self/uid_map`) has a user or group.
pub fn has_id(map: &str, id: u32) -> bool {
    map.lines().any(|line| {
        let numbers: Vec<u64> = line.split_whitespace().filter_map(|word| word.parse().ok()).collect();
        matches!(numbers[..], [first, _, count] if (first..first + count).contains(&u64::from(id)))
    })
}

impl Drop for Contained {
    fn drop(&mut self) {
        // SAFETY: takes numbers; the process is our child, and not yet waited for, so the number is still its own.
        unsafe {
            libc::kill(self.pid, libc::SIGKILL);
            while libc::waitpid(self.pid, ptr::null_mut(), 0) < 0
                && io::Error::last_os_error().raw_os_error() == Some(libc::EINTR)
            {}
        }
    }
}

/// Data that the child needs before it executes its program; prepared in advance, since it may not allocate.
struct Child {
    program: RawFd,
    streams: [RawFd; 4],
    sync: RawFd,
    sync_here: RawFd,
    words: *const *const libc::c_char,
    variables: *const *const libc::c_char,
}

impl Child {
    /// Waits until its user mapping is set, becomes root in it, and executes the program.
    fn become_program(&self) -> ! {
        // SAFETY: plain system calls on numbers and on memory that this process has its own copy of.
        unsafe {
            libc::close(self.sync_here);
            // Otherwise another user could not write the mapping.
            libc::prctl(libc::PR_SET_DUMPABLE, 1, 0, 0, 0);
            let mut byte = [0u8];
            let ready = libc::write(self.sync, byte.as_ptr().cast(), 1) == 1
                && libc::read(self.sync, byte.as_mut_ptr().cast(), 1) == 1;
            if !ready {
                libc::_exit(1);
            }
            // Not by library functions, which would wait for threads that this process does not have. If groups may not
            // be changed, they remain those of the user.
            libc::syscall(libc::SYS_setgroups, 0usize, 0usize);
            let us =
                libc::syscall(libc::SYS_setresgid, 0, 0, 0) == 0 && libc::syscall(libc::SYS_setresuid, 0, 0, 0) == 0;
            let us = us && libc::setsid() >= 0;
            let mut moved = [0; 4];
            for (to, from) in moved.iter_mut().zip(self.streams) {
                *to = libc::fcntl(from, libc::F_DUPFD_CLOEXEC, BEYOND);
            }
            let placed = moved.iter().enumerate().all(|(i, from)| libc::dup2(*from, i as RawFd) >= 0);
            if us && placed {
                let empty = c"".as_ptr();
                libc::syscall(libc::SYS_execveat, self.program, empty, self.words, self.variables, libc::AT_EMPTY_PATH);
            }
            let code = (*libc::__errno_location()).to_ne_bytes();
            libc::write(self.sync, code.as_ptr().cast(), 4);
            libc::_exit(1)
        }
    }
}

/// Returns the stream that pktgen passed to this process.
pub(super) fn control() -> UnixStream {
    // SAFETY: whoever started this process under its name put the stream there, and nobody else in it owns the descriptor.
    unsafe { UnixStream::from_raw_fd(CONTROL) }
}

/// Returns the process at the other end of a stream, if the kernel names it.
pub(super) fn peer_pid(stream: &UnixStream) -> Option<i32> {
    let mut peer = libc::ucred { pid: 0, uid: 0, gid: 0 };
    let mut len = size_of::<libc::ucred>() as libc::socklen_t;
    // SAFETY: both are of this frame, and `len` is the size of the first.
    let code = unsafe {
        let peer = (&raw mut peer).cast();
        libc::getsockopt(stream.as_raw_fd(), libc::SOL_SOCKET, libc::SO_PEERCRED, peer, &raw mut len)
    };
    (code == 0 && peer.pid > 0).then_some(peer.pid)
}

/// Lets this process end with its parent, and closes its stream in programs that it starts.
pub(super) fn end_with_parent() -> io::Result<()> {
    // SAFETY: take numbers only.
    let code = unsafe {
        libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL, 0, 0, 0)
            | libc::fcntl(CONTROL, libc::F_SETFD, libc::FD_CLOEXEC)
    };
    if code == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Restricts the processes that this one starts to the privileges that a device needs in its network, for good.
pub(super) fn give_up_rights() -> io::Result<()> {
    // SAFETY: take numbers only; concern this process and those that it starts.
    unsafe {
        for number in (0..CAPABILITIES).filter(|number| !KEPT.contains(number)) {
            // Numbers that the kernel does not know are refused.
            libc::prctl(libc::PR_CAPBSET_DROP, number, 0, 0, 0);
        }
        let none = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
        libc::setrlimit(libc::RLIMIT_CORE, &raw const none);
        if libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0 {
            return Err(io::Error::last_os_error());
        }
    }
    Ok(())
}

/// Mounts a file system of this kind.
pub(super) fn mount(kind: &CStr, at: &CStr, options: &str) -> io::Result<()> {
    let options = CString::new(options).map_err(io::Error::other)?;
    let flags = libc::MS_NOSUID | libc::MS_NODEV;
    // SAFETY: strings that outlive the call.
    let code = unsafe { libc::mount(kind.as_ptr(), at.as_ptr(), kind.as_ptr(), flags, options.as_ptr().cast()) };
    if code == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Makes all mounts read-only, and hides them from other namespaces.
pub(super) fn mounts_are_read_only() -> io::Result<()> {
    // Set flags (read-only), cleared flags, propagation, user namespace: struct mount_attr of linux/mount.h.
    let set = [1u64, 0, libc::MS_PRIVATE, 0];
    let (root, flags) = (c"/", libc::AT_RECURSIVE as libc::c_uint);
    // SAFETY: the kernel reads a string and as many numbers as it is told.
    let code = unsafe {
        libc::syscall(libc::SYS_mount_setattr, libc::AT_FDCWD, root.as_ptr(), flags, &raw const set, size_of_val(&set))
    };
    if code == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Sends a signal to a group of processes that this one started.
pub(super) fn signal_group(leader: u32, signal: libc::c_int) {
    // SAFETY: takes numbers only.
    unsafe { libc::kill(-(leader as libc::pid_t), signal) };
}

/// Sends a signal to all other processes of the PID namespace whose first process this is; none if it is not the first.
pub(super) fn signal_all(signal: libc::c_int) {
    // SAFETY: take numbers only; in a namespace of its own, -1 means the processes of the namespace.
    unsafe {
        if libc::getpid() == 1 {
            libc::kill(-1, signal);
        }
    }
}

/// Returns whether no other process is left in the PID namespace whose first process this is; reaps those that became its children.
pub(super) fn all_are_over() -> bool {
    // SAFETY: takes nothing.
    unsafe { libc::getpid() != 1 || are_over(-1) }
}

/// Returns whether no process is left in a group whose leader was waited for; reaps those that became children of this process.
pub(super) fn group_is_over(leader: u32) -> bool {
    are_over(-(leader as libc::pid_t))
}

/// Reaps children among `these` (as `kill` takes them) and returns whether no process of them is left.
fn are_over(these: libc::pid_t) -> bool {
    // SAFETY: these calls take numbers, and nobody wants the exit codes.
    unsafe {
        while libc::waitpid(these, ptr::null_mut(), libc::WNOHANG) > 0 {}
        libc::kill(these, 0) != 0
    }
}

/// Opens a netlink socket for the interfaces of this thread's network.
pub(super) fn route_socket() -> io::Result<File> {
    // SAFETY: takes numbers only.
    let fd = unsafe { libc::socket(libc::AF_NETLINK, libc::SOCK_RAW | libc::SOCK_CLOEXEC, libc::NETLINK_ROUTE) };
    if fd < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the descriptor is new and nobody else's.
    Ok(File::from(unsafe { OwnedFd::from_raw_fd(fd) }))
}

/// Returns whether data can be read, or the other side is gone, within `ms`.
pub(super) fn readable(of: BorrowedFd<'_>, ms: i32) -> bool {
    let mut entry = libc::pollfd { fd: of.as_fd().as_raw_fd(), events: libc::POLLIN, revents: 0 };
    // SAFETY: the kernel writes one entry, which is there.
    unsafe { libc::poll(&raw mut entry, 1, ms) > 0 }
}
