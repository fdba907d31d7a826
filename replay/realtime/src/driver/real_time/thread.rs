//! Kernel settings of a thread: a separate core, and fewer privileges than at the start.
#![expect(unsafe_code, reason = "talks to the kernel; every block says why it is sound")]

use std::io;
use std::marker::PhantomData;
use std::mem;

/// Version 3 of the kernel's capability calls: 64 bits in two halves.
const CAPABILITY_VERSION: u32 = 0x2008_0522;

#[repr(C)]
struct CapabilityHead {
    version: u32,
    pid: i32,
}

#[repr(C)]
#[derive(Clone, Copy, Default)]
struct CapabilityHalf {
    effective: u32,
    permitted: u32,
    inheritable: u32,
}

/// Returns the cores on which this thread may run.
pub(super) fn cores() -> io::Result<Vec<usize>> {
    // SAFETY: all zeros is an empty set; the kernel writes at most its size.
    let set = unsafe {
        let mut set: libc::cpu_set_t = mem::zeroed();
        if libc::sched_getaffinity(0, mem::size_of::<libc::cpu_set_t>(), &raw mut set) < 0 {
            return Err(io::Error::last_os_error());
        }
        set
    };
    // SAFETY: the index is below the set's size.
    Ok((0..libc::CPU_SETSIZE as usize).filter(|core| unsafe { libc::CPU_ISSET(*core, &set) }).collect())
}

/// Restricts this thread, and those that it starts from now on, to these cores.
pub(crate) fn run_on(cores: &[usize]) -> io::Result<()> {
    // SAFETY: all zeros is an empty set; indexes beyond it are left out; the kernel only reads it.
    let code = unsafe {
        let mut set: libc::cpu_set_t = mem::zeroed();
        for core in cores.iter().filter(|core| **core < libc::CPU_SETSIZE as usize) {
            libc::CPU_SET(*core, &mut set);
        }
        libc::sched_setaffinity(0, mem::size_of::<libc::cpu_set_t>(), &raw const set)
    };
    if code == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Makes sleeps of this thread end on time: by default the kernel adds 50 µs, to wake several threads at once.
pub(super) fn wake_on_time() -> io::Result<()> {
    // SAFETY: takes numbers only; concerns this thread.
    if unsafe { libc::prctl(libc::PR_SET_TIMERSLACK, 1, 0, 0, 0) } < 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(())
}

/// Gives this thread the lowest priority that still makes progress beside busy processes (nice 19). It cannot revoke this.
pub(super) fn give_way() -> io::Result<()> {
    // SAFETY: takes numbers only; 0 is this thread, and only this thread.
    let code = unsafe { libc::setpriority(libc::PRIO_PROCESS, 0, 19) };
    if code == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Returns the capabilities of this thread.
fn capabilities() -> io::Result<[CapabilityHalf; 2]> {
    let mut head = CapabilityHead { version: CAPABILITY_VERSION, pid: 0 };
    let mut halves = [CapabilityHalf::default(); 2];
    // SAFETY: the kernel reads the head and fills two halves, which version 3 has.
    match unsafe { libc::syscall(libc::SYS_capget, &raw mut head, halves.as_mut_ptr()) } {
        0 => Ok(halves),
        _ => Err(io::Error::last_os_error()),
    }
}

/// Sets the capabilities of this thread.
fn set_capabilities(halves: &[CapabilityHalf; 2]) -> io::Result<()> {
    let mut head = CapabilityHead { version: CAPABILITY_VERSION, pid: 0 };
    // SAFETY: the kernel reads a head and two halves.
    match unsafe { libc::syscall(libc::SYS_capset, &raw mut head, halves.as_ptr()) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

/// Suspends all capabilities of the thread that made it, until it is dropped.
pub(crate) struct Resting {
    before: [CapabilityHalf; 2],
    /// Capabilities are per thread, so it must not move to another.
    _here: PhantomData<*const ()>,
}

/// Capabilities for files in folders of other users: CAP_DAC_OVERRIDE and CAP_DAC_READ_SEARCH.
pub(crate) const FOR_FILES: [u32; 2] = [1, 2];

/// Suspends the capabilities of this thread until the result is dropped. Threads started meanwhile could reactivate theirs.
pub(crate) fn rest_privileges() -> io::Result<Resting> {
    let before = capabilities()?;
    set_capabilities(&before.map(|half| CapabilityHalf { effective: 0, ..half }))?;
    Ok(Resting { before, _here: PhantomData })
}

impl Drop for Resting {
    fn drop(&mut self) {
        // They are permitted, so the kernel has no reason to refuse; if it does, opening the next wires fails with a message.
        let _ = set_capabilities(&self.before);
    }
}

/// Drops all capabilities of this thread except `keep` (kernel numbers), for good.
pub fn drop_privileges(keep: &[u32]) -> io::Result<()> {
    let mut halves = capabilities()?;
    for (i, half) in halves.iter_mut().enumerate() {
        let keep = keep.iter().filter(|number| **number as usize / 32 == i).fold(0, |bits, n| bits | 1 << (n % 32));
        half.permitted &= keep;
        half.effective = half.permitted;
        half.inheritable = 0;
    }
    // SAFETY: takes numbers only; concerns this thread, and what it executes.
    if unsafe { libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) } < 0 {
        return Err(io::Error::last_os_error());
    }
    set_capabilities(&halves)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_gives_up_what_it_does_not_keep_and_no_other_does() {
        let effective = |path: &str| -> u64 {
            let text = std::fs::read_to_string(path).unwrap();
            let line = text.lines().find_map(|line| line.strip_prefix("CapEff:")).unwrap();
            u64::from_str_radix(line.trim(), 16).unwrap()
        };
        let before = effective("/proc/thread-self/status");
        std::thread::spawn(move || {
            let resting = rest_privileges().unwrap();
            assert_eq!(effective("/proc/thread-self/status"), 0);
            drop(resting);
            assert_eq!(effective("/proc/thread-self/status"), before);
            drop_privileges(&[12]).unwrap();
            assert_eq!(effective("/proc/thread-self/status"), before & 1 << 12);
            drop_privileges(&[]).unwrap();
            assert_eq!(effective("/proc/thread-self/status"), 0);
        })
        .join()
        .unwrap();
        assert_eq!(effective("/proc/thread-self/status"), before);
    }

    #[test]
    fn threads_stay_where_they_are_put() {
        std::thread::spawn(|| {
            let all = cores().unwrap();
            run_on(&all[..1]).unwrap();
            assert_eq!(cores().unwrap(), all[..1]);
            assert!(run_on(&[]).is_err());
        })
        .join()
        .unwrap();
    }
}
