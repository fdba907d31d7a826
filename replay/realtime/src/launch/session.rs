//! A launched device: its start, commands, end, and output.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, BufRead, BufReader, Read};
use std::net::Shutdown;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use pktgen_core::time::MS;
use pktgen_core::{Error, Result};

use super::cable::{self, Cable};
use super::held;
use super::keeper::NAME;
use super::kernel::{Apart, Contained, readable};
use super::settings::Launch;
use super::talk::{CommandOutput, Exit, Reply, Request, say};
use crate::clock::Stopwatch;
use crate::counters;
use crate::driver::real_time::drop_privileges;

/// Timeout of the keeper's own operations.
const KEEPER_MS: u64 = 10_000;
/// Timeout of a command beside the device.
const COMMAND_MS: u64 = 10_000;
/// Timeout of the end of the device.
const END_MS: u64 = 2000;
/// Kept length of the longest line, its length in messages, and number of kept lines, of a device's output.
const LINE_MAX: usize = 1 << 16;
const SAID_MAX: usize = 400;
const LINES_MAX: usize = 5;
/// Pause between reads of a device that prints endlessly.
const READ_PAUSE: Duration = Duration::from_millis(10);
/// Bytes per read, and number of reads after which a device counts as printing endlessly.
const READ: usize = 1 << 14;
const READS_MAX: usize = 16;
/// The interface of a previous run may still be under removal.
const PLUG_TRIES: u32 = 100;
const PLUG_PAUSE: Duration = Duration::from_millis(30);

/// The last lines that a device printed.
#[derive(Default)]
struct Printed {
    lines: Vec<String>,
    open: Vec<u8>,
}

impl Printed {
    /// Reads once; returns false at the end.
    fn read(&mut self, mut from: &File) -> bool {
        let mut part = [0; READ];
        let Ok(got @ 1..) = from.read(&mut part) else { return false };
        self.take(&part[..got]);
        true
    }

    fn take(&mut self, part: &[u8]) {
        for byte in part {
            match byte {
                b'\n' => self.close(),
                _ if self.open.len() < LINE_MAX => self.open.push(*byte),
                _ => {}
            }
        }
    }

    fn close(&mut self) {
        let line = String::from_utf8_lossy(&std::mem::take(&mut self.open)).trim_end().to_owned();
        if !line.is_empty() {
            if self.lines.len() == LINES_MAX {
                self.lines.remove(0);
            }
            self.lines.push(line);
        }
    }
}

/// The output of a device. Reading requires the lock, so that everything read from the pipe is among the lines.
struct Output {
    from: File,
    printed: Mutex<Printed>,
}

impl Output {
    /// Reads a part of the pipe's content; returns false at its end.
    fn take(&self) -> bool {
        let mut printed = self.printed.lock().unwrap_or_else(PoisonError::into_inner);
        // Another thread may have read it meanwhile.
        !readable(self.from.as_fd(), 0) || printed.read(&self.from)
    }

    /// Returns the last lines, including what is in the pipe now (a part of it if the device prints endlessly).
    fn lines(&self) -> Vec<String> {
        let mut printed = self.printed.lock().unwrap_or_else(PoisonError::into_inner);
        for _ in 0..READS_MAX {
            if !(readable(self.from.as_fd(), 0) && printed.read(&self.from)) {
                break;
            }
        }
        printed.close();
        printed.lines.clone()
    }
}

/// A device in separate namespaces. It ends on drop.
pub(crate) struct Launched {
    /// First, so that the ends here are removed before the others.
    _ends: Ends,
    _contained: Contained,
    stream: UnixStream,
    replies: Mutex<Receiver<Reply>>,
    end: Arc<Mutex<Option<Exit>>>,
    ended: Arc<AtomicBool>,
    output: Arc<Output>,
    stays: bool,
    stop: Vec<String>,
    /// Parts of the environment that are not available.
    pub(crate) without: Vec<String>,
    /// Time since its start.
    pub(crate) watch: Stopwatch,
}

/// Reserves the name of an interface for this process. An ending process may hold it for a moment.
fn take(here: &str) -> Result<()> {
    let mut tries = 0;
    while let Err(holder) = held::hold(here) {
        tries += 1;
        if tries == PLUG_TRIES {
            let who = holder.map_or("another process".to_owned(), |pid| format!("process {pid}"));
            return Err(Error::config(format!(
                "transport.interfaces: {here} is held by {who}, a pktgen that launches a device by the same names; wait for its end, or use \
                 other names"
            )));
        }
        std::thread::sleep(PLUG_PAUSE);
    }
    Ok(())
}

/// Ends of cables in this namespace.
struct Ends(Vec<String>);

impl Drop for Ends {
    fn drop(&mut self) {
        for end in &self.0 {
            // One that is gone already was removed with the device's network.
            let _ = cable::unplug(end);
        }
    }
}

fn host(what: &str, why: &io::Error) -> Error {
    let remedy = match why.raw_os_error() {
        Some(libc::EPERM | libc::EACCES) => format!("; {}", crate::transport::SETCAP),
        Some(libc::ENOSPC | libc::EUSERS) => {
            "; raise sysctl user.max_user_namespaces and user.max_net_namespaces".to_owned()
        }
        Some(libc::EINVAL | libc::ENOSYS) => {
            "; the kernel needs user, process and network namespaces, and veth".to_owned()
        }
        _ => String::new(),
    };
    Error::Host(format!("this host cannot {what} for a launched device: {why}{remedy}"))
}

impl Launched {
    /// Sets up the environment of a device with these cables, for packets of `mtu` bytes, and starts it there.
    pub(crate) fn start(launch: &Launch, cables: &[(String, String)], mtu: u32) -> Result<Launched> {
        let (stream, theirs) = UnixStream::pair().map_err(|e| host("make a stream", &e))?;
        let (output, written) = io::pipe().map_err(|e| host("make a pipe", &e))?;
        let apart = Apart { network: !launch.ports.is_empty(), user: launch.user };
        let contained = Contained::start(&apart, NAME, &theirs, &OwnedFd::from(written))
            .map_err(|e| host("make namespaces", &e))?;
        drop(theirs);
        let output = Output { from: File::from(OwnedFd::from(output)), printed: Mutex::default() };
        let (output, end) = (Arc::new(output), Arc::new(Mutex::new(None)));
        let ended = Arc::new(AtomicBool::new(false));
        follow(output.clone());
        let replies = listen(&stream, end.clone(), ended.clone()).map_err(|e| host("listen", &e))?;
        let mut launched = Launched {
            _ends: Ends(Vec::new()),
            _contained: contained,
            stream,
            replies: Mutex::new(replies),
            end,
            ended,
            output,
            stays: launch.stays,
            stop: launch.stop.clone(),
            without: Vec::new(),
            watch: Stopwatch::start(),
        };
        launched.plug(cables, mtu)?;
        launched.settle(launch)?;
        for (here, _) in cables.iter().filter(|_| apart.network) {
            cable::take_up(here).map_err(|e| host(&format!("take {here} up"), &e))?;
        }
        launched.watch = Stopwatch::start();
        match launched.ask(&Request::Start { command: launch.command.clone() }, KEEPER_MS)? {
            Reply::Done(_) => {}
            Reply::Failed(why) => return Err(Error::config(format!("target.launch.command: {why}"))),
            other => return Err(unexpected(&other)),
        }
        Ok(launched)
    }

    fn plug(&mut self, cables: &[(String, String)], mtu: u32) -> Result<()> {
        for (here, there) in cables {
            take(here)?;
            let cable = Cable { here, there, mtu };
            let mut tries = 0;
            while let Err(why) = cable::plug(&cable, self._contained.pid()) {
                tries += 1;
                match why.kind() {
                    io::ErrorKind::AlreadyExists if tries < PLUG_TRIES => std::thread::sleep(PLUG_PAUSE),
                    io::ErrorKind::AlreadyExists if !cable::exists(here) => {
                        return Err(Error::config(format!(
                            "target.launch.ports: the kernel has made an interface {there} of its own in the device's network; give this \
                             port another name"
                        )));
                    }
                    io::ErrorKind::AlreadyExists => {
                        return Err(Error::config(format!(
                            "transport.interfaces: {here} exists, and no pktgen that launches devices holds it: something else made it \
                             (ip -details link show dev {here}); a launched device with ports needs names that are free, or no \
                             target.launch.ports"
                        )));
                    }
                    _ => return Err(host(&format!("make the interfaces {here} and {there}"), &why)),
                }
            }
            self._ends.0.push(here.clone());
        }
        Ok(())
    }

    fn settle(&mut self, launch: &Launch) -> Result<()> {
        let cores = launch.cores.iter().map(|core| usize::from(*core)).collect();
        let request = Request::Settle { ports: launch.ports.clone(), network: !launch.ports.is_empty(), cores };
        match self.ask(&request, KEEPER_MS)? {
            Reply::Done(without) => self.without = without,
            Reply::Failed(why) => {
                return Err(Error::Host(format!("this host cannot make a place for a launched device: {why}")));
            }
            other => return Err(unexpected(&other)),
        }
        Ok(())
    }

    /// Sends a request, and waits for its reply.
    fn ask(&self, request: &Request, within_ms: u64) -> Result<Reply> {
        let gone = || Error::Host("the keeper of the launched device is gone (it may have been killed)".into());
        // Locked from the request to its reply.
        let replies = self.replies.lock().unwrap_or_else(PoisonError::into_inner);
        say(&mut &self.stream, request).map_err(|_| gone())?;
        replies.recv_timeout(Duration::from_millis(within_ms)).map_err(|why| match why {
            RecvTimeoutError::Disconnected => gone(),
            RecvTimeoutError::Timeout => Error::Host("the keeper of the launched device does not answer".into()),
        })
    }

    /// Runs a command beside the device. Returns its output, or why it cannot be used.
    pub(crate) fn run(&self, key: &str, command: &[String]) -> Result<Result<String, String>> {
        self.run_within(key, command, COMMAND_MS, &format!("{} s", COMMAND_MS / 1000))
    }

    /// Fills the device's tables within the time until it has to be ready. Returns why they are not filled, if so.
    pub(crate) fn fill_tables(&self, launch: &Launch) -> Result<Result<(), String>> {
        let limit_ms = (launch.timeout.ps() / MS).max(0) as u64;
        let left_ms = limit_ms.saturating_sub(self.watch.elapsed().as_millis() as u64).max(1);
        let limit = format!("{} of the device's start (target.launch.timeout)", launch.timeout);
        let ran = self.run_within("target.launch.tables", &launch.tables, left_ms, &limit)?;
        Ok(ran.map(drop))
    }

    /// Runs a command for at most `within_ms`, a time that messages call `limit`.
    fn run_within(&self, key: &str, command: &[String], within_ms: u64, limit: &str) -> Result<Result<String, String>> {
        let request = Request::Run { command: command.to_vec(), timeout_ms: within_ms };
        Ok(match self.ask(&request, within_ms.saturating_add(KEEPER_MS))? {
            Reply::Ran(CommandOutput { exit: Exit::Code(0), printed, .. }) => Ok(printed),
            Reply::Ran(CommandOutput { exit, complained, printed }) => {
                let said = [complained, printed].join("\n");
                let last = said.trim().lines().last().map_or(String::new(), |line| format!(": {}", line.trim()));
                let end = if exit == Exit::Late { format!("no end within {limit}") } else { exit.to_string() };
                Err(format!("{key}: {end}{last}"))
            }
            Reply::Failed(why) => Err(format!("{key}: {why}")),
            other => return Err(unexpected(&other)),
        })
    }

    /// Returns whether the device sees a file at `path`.
    pub(crate) fn has_file(&self, path: &str) -> Result<bool> {
        match self.ask(&Request::Look { path: path.to_owned() }, KEEPER_MS)? {
            Reply::Seen(there) => Ok(there),
            other => Err(unexpected(&other)),
        }
    }

    /// Returns whether its command ended although it should still run.
    pub(crate) fn is_dead(&self) -> bool {
        self.ended.load(Ordering::Relaxed)
            && match *self.end.lock().unwrap_or_else(PoisonError::into_inner) {
                Some(Exit::Code(0)) => self.stays,
                _ => true,
            }
    }

    /// Returns how it ended, with its last output.
    pub(crate) fn obituary(&self) -> String {
        let end = *self.end.lock().unwrap_or_else(PoisonError::into_inner);
        let end = end.map_or("its keeper was ended".to_owned(), |end| end.to_string());
        format!("the device ended: {end}{}", self.last_words())
    }

    /// Returns its last output, for messages.
    pub(crate) fn last_words(&self) -> String {
        let cut = |line: &String| line.chars().take(SAID_MAX).collect::<String>();
        match &self.output.lines()[..] {
            [] => "; it printed nothing".to_owned(),
            lines => format!("; it printed: {}", lines.iter().map(cut).collect::<Vec<_>>().join(" | ")),
        }
    }

    /// Ends the device as configured. Returns what was wrong with its end, if anything.
    pub(crate) fn stop(self) -> Result<Option<String>> {
        self.end_device()
    }

    /// Ends the device; returns the last printed line that is a JSON object of whole numbers. `None` also if a name comes twice in it.
    pub(crate) fn stop_for_counts(self) -> Option<BTreeMap<String, u64>> {
        self.end_device().ok()?;
        let is_object = |line: &&String| serde_json::from_str::<BTreeMap<String, u64>>(line).is_ok();
        self.output.lines().iter().rfind(is_object).and_then(|line| counters::parse(line.as_bytes()).ok())
    }

    fn end_device(&self) -> Result<Option<String>> {
        if self.is_dead() {
            return Ok(None);
        }
        let mut wrong = None;
        if !self.stop.is_empty() {
            wrong = self.run("target.launch.stop", &self.stop)?.err();
        }
        match self.ask(&Request::End { timeout_ms: END_MS }, END_MS + KEEPER_MS)? {
            Reply::Over(true) => {}
            Reply::Over(false) => {
                wrong = Some(format!("the device did not end within {END_MS} ms of SIGTERM, and was killed"))
            }
            other => return Err(unexpected(&other)),
        }
        Ok(wrong)
    }
}

impl Drop for Launched {
    fn drop(&mut self) {
        let _ = self.stream.shutdown(Shutdown::Both);
    }
}

fn unexpected(reply: &Reply) -> Error {
    Error::Host(format!("the keeper of the launched device answered something else: {reply:?}"))
}

/// Receives the keeper's messages. Stores the end of the device, or of the keeper, at `end`.
fn listen(stream: &UnixStream, end: Arc<Mutex<Option<Exit>>>, ended: Arc<AtomicBool>) -> io::Result<Receiver<Reply>> {
    let (pass, replies) = channel();
    let stream = stream.try_clone()?;
    std::thread::Builder::new().name("keeper".into()).spawn(move || {
        let _ = drop_privileges(&[]);
        for line in BufReader::new(stream).lines().map_while(Result::ok) {
            match serde_json::from_str(&line) {
                Ok(Reply::Ended(exit)) => {
                    *end.lock().unwrap_or_else(PoisonError::into_inner) = Some(exit);
                    ended.store(true, Ordering::Release);
                }
                Ok(reply) => drop(pass.send(reply)),
                Err(_) => break,
            }
        }
        ended.store(true, Ordering::Release);
    })?;
    Ok(replies)
}

/// Reads the device's output, and keeps its last lines.
fn follow(output: Arc<Output>) {
    let read = move || {
        let _ = drop_privileges(&[]);
        while readable(output.from.as_fd(), -1) && output.take() {
            std::thread::sleep(READ_PAUSE);
        }
    };
    // Without this thread the device's pipe fills up, and the device may block: still better than no device.
    let _ = std::thread::Builder::new().name("device output".into()).spawn(read);
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A device may count more than a message shows.
    #[test]
    fn a_long_last_line_is_whole() {
        let counters: BTreeMap<String, u64> = (0..40).map(|n| (format!("counter_number_{n}"), n)).collect();
        let mut printed = Printed::default();
        printed.take(format!("{{\"old\": 1}}\n{}\n", serde_json::to_string(&counters).unwrap()).as_bytes());
        let last = printed.lines.last().expect("a line");
        assert_eq!(serde_json::from_str::<BTreeMap<String, u64>>(last).unwrap(), counters);
    }
}
