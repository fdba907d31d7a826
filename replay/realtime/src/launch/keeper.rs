//! The first process of a device's namespaces: it sets up the environment of the device, starts it, and runs commands in it. When it ends,
//! the kernel ends all other processes there and frees their resources. It ends with pktgen, however that ends.
//!
//! Called by the binary when it is started under the keeper's name; requests come from [`super::session`].

use std::io::{self, BufRead, BufReader, Read};
use std::os::unix::net::UnixStream;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::Duration;

use super::talk::{CommandOutput, Exit, Reply, Request, say};
use super::{cable, kernel};
use crate::clock::Stopwatch;
use crate::driver::real_time::thread::run_on;
use crate::transport::ethtool::write_checksums;

/// The name under which this program is started as a keeper.
pub(super) const NAME: &str = "pktgen-keeper";
/// Maximum bytes of a command's output that are kept.
pub(super) const OUTPUT_MAX: usize = 64 << 10;
/// Interval of checks of a command.
const PAUSE: Duration = Duration::from_millis(5);
/// Space for the files of a device.
const FILES_MAX: &str = "mode=755,size=256m";

/// Serves until the stream ends, and exits, if this program was started as a keeper.
pub fn keep() {
    if std::env::args_os().next().is_some_and(|name| name == NAME) {
        std::process::exit(i32::from(serve().is_err()));
    }
}

fn serve() -> io::Result<()> {
    kernel::end_with_parent()?;
    let stream = kernel::control();
    let keeper =
        Arc::new(Keeper { voice: Mutex::new(stream.try_clone()?), device: Mutex::new(None), ended: Condvar::new() });
    for line in BufReader::new(stream).lines() {
        let request: Request = serde_json::from_str(&line?)?;
        let keeper = keeper.clone();
        // Privileges and cores are per thread and inherited: this is the first thread.
        if matches!(request, Request::Settle { .. }) {
            let reply = keeper.clone().carry_out(request);
            keeper.say(&reply);
            continue;
        }
        // A long request must not keep this loop from noticing the end of the stream.
        std::thread::spawn(move || {
            let reply = keeper.clone().carry_out(request);
            keeper.say(&reply);
        });
    }
    Ok(())
}

struct Keeper {
    voice: Mutex<UnixStream>,
    /// The device's process, and how it ended.
    device: Mutex<Option<(u32, Option<Exit>)>>,
    ended: Condvar,
}

impl Keeper {
    fn say(&self, reply: &Reply) {
        let mut voice = self.voice.lock().unwrap_or_else(PoisonError::into_inner);
        // If nobody listens any more, this process ends.
        let _ = say(&mut *voice, reply);
    }

    fn carry_out(self: Arc<Self>, request: Request) -> Reply {
        match request {
            Request::Settle { ports, network, cores } => match settle(&ports, network, &cores) {
                Ok(without) => Reply::Done(without),
                Err(why) => Reply::Failed(why),
            },
            Request::Start { command } => match self.start(&command) {
                Ok(()) => Reply::Done(Vec::new()),
                Err(why) => Reply::Failed(why),
            },
            Request::Run { command, timeout_ms } => match run(&command, Duration::from_millis(timeout_ms)) {
                Ok(output) => Reply::Ran(output),
                Err(why) => Reply::Failed(why),
            },
            Request::Look { path } => Reply::Seen(std::path::Path::new(&path).exists()),
            Request::End { timeout_ms } => Reply::Over(self.end(Duration::from_millis(timeout_ms))),
        }
    }

    fn start(self: &Arc<Self>, words: &[String]) -> Result<(), String> {
        let mut child = command(words).spawn().map_err(|e| unable(words, &e))?;
        *self.device.lock().unwrap_or_else(PoisonError::into_inner) = Some((child.id(), None));
        let keeper = self.clone();
        std::thread::spawn(move || {
            let exit = child.wait().map_or(Exit::Late, exit);
            if let Some((_, end)) = &mut *keeper.device.lock().unwrap_or_else(PoisonError::into_inner) {
                *end = Some(exit);
            }
            keeper.ended.notify_all();
            keeper.say(&Reply::Ended(exit));
        });
        Ok(())
    }

    /// Requests the device's process group to end; returns whether it did in time.
    fn end(&self, within: Duration) -> bool {
        let watch = Stopwatch::start();
        let device = self.device.lock().unwrap_or_else(PoisonError::into_inner);
        let Some((leader, exit)) = *device else { return true };
        if exit == Some(Exit::Code(0)) {
            drop(device);
            return end_daemons(within);
        }
        kernel::signal_group(leader, libc::SIGTERM);
        // First the leader: waiting for its group would take its exit code from the thread that waits for it.
        let runs = |device: &mut Option<(u32, Option<Exit>)>| matches!(device, Some((_, None)));
        let (device, waited) =
            self.ended.wait_timeout_while(device, within, runs).unwrap_or_else(PoisonError::into_inner);
        drop(device);
        if waited.timed_out() {
            return false;
        }
        while !kernel::group_is_over(leader) {
            if watch.elapsed() >= within {
                return false;
            }
            std::thread::sleep(PAUSE);
        }
        true
    }
}

/// Requests the end of the processes that a command left, in its group or in others; returns whether they ended in time.
fn end_daemons(within: Duration) -> bool {
    kernel::signal_all(libc::SIGTERM);
    let watch = Stopwatch::start();
    while !kernel::all_are_over() {
        if watch.elapsed() >= within {
            return false;
        }
        std::thread::sleep(PAUSE);
    }
    true
}

/// Sets up the environment of a device. Returns the parts that could not be set up and are dispensable.
fn settle(ports: &[String], network: bool, cores: &[usize]) -> Result<Vec<String>, String> {
    let failed = |what: &str| {
        let what = what.to_owned();
        move |e: io::Error| format!("{what}: {e}")
    };
    kernel::mounts_are_read_only().map_err(failed("make what is mounted read only (Linux 5.12 or newer)"))?;
    for at in [c"/run", c"/dev/shm"] {
        kernel::mount(c"tmpfs", at, FILES_MAX).map_err(failed("mount a file system in memory"))?;
    }
    let mut without = Vec::new();
    for folder in ["/run/lock", "/run/tmp", "/run/upper", "/run/work"] {
        std::fs::create_dir(folder).map_err(failed("create a folder in memory"))?;
    }
    let mut attempt = |what: &str, done: io::Result<()>| without.extend(done.err().map(|e| format!("{what}: {e}")));
    let layers = "lowerdir=/tmp,upperdir=/run/upper,workdir=/run/work";
    attempt("/tmp is read only, use $TMPDIR", kernel::mount(c"overlay", c"/tmp", layers));
    attempt("/proc shows the host's processes", kernel::mount(c"proc", c"/proc", ""));
    if network {
        attempt("/sys/class/net shows the host's interfaces", kernel::mount(c"sysfs", c"/sys", ""));
        for port in ["lo"].into_iter().chain(ports.iter().map(String::as_str)) {
            cable::take_up(port).map_err(failed(&format!("take interface {port} of the device up")))?;
        }
        for port in ports {
            attempt("UDP checksums of the device's sockets are not written", write_checksums(port));
        }
    }
    if !cores.is_empty() {
        run_on(cores).map_err(failed(&format!("put the device on cores {cores:?} (target.launch.cores)")))?;
    }
    kernel::give_up_rights().map_err(failed("give rights up"))?;
    Ok(without)
}

/// Makes a command whose output goes to the keeper's output.
fn command(words: &[String]) -> Command {
    let mut command = Command::new(words.first().map_or("", String::as_str));
    command.args(words.iter().skip(1)).stdin(Stdio::null()).process_group(0);
    for (name, value) in [("HOME", "/run"), ("TMPDIR", "/run/tmp"), ("XDG_RUNTIME_DIR", "/run"), ("LANG", "C.UTF-8")] {
        command.env(name, value);
    }
    command
}

/// Returns why a command did not start.
fn unable(words: &[String], why: &io::Error) -> String {
    let program = words.first().map_or("", String::as_str);
    let hint = match why.kind() {
        // The search ends like this, too, if a folder of PATH is closed to the user and no other has the program.
        io::ErrorKind::PermissionDenied if !program.contains('/') => {
            "; it is in no folder of PATH that the device's user may enter, or this user must not execute it (target.launch.user); give a path"
        }
        io::ErrorKind::PermissionDenied => {
            "; the device's user must be able to read and execute it (target.launch.user)"
        }
        io::ErrorKind::NotFound => "; give a path, or a program that is in PATH",
        _ => "",
    };
    format!("cannot execute {program}: {why}{hint}")
}

fn exit(status: ExitStatus) -> Exit {
    status.code().map_or(Exit::Signal(status.signal().unwrap_or_default()), Exit::Code)
}

/// Runs a command to its end, or ends it.
fn run(words: &[String], within: Duration) -> Result<CommandOutput, String> {
    let mut command = command(words);
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().map_err(|e| unable(words, &e))?;
    let (printed, complained) = (collect(child.stdout.take()), collect(child.stderr.take()));
    let exit = wait(&mut child, within);
    if exit == Exit::Late {
        kernel::signal_group(child.id(), libc::SIGKILL);
        let _ = child.wait();
    }
    let text =
        |of: &Collected| String::from_utf8_lossy(&of.lock().unwrap_or_else(PoisonError::into_inner)).into_owned();
    // Its readers may still be reading: processes that it left in the background may hold its output open.
    let watch = Stopwatch::start();
    while Arc::strong_count(&printed) + Arc::strong_count(&complained) > 2
        && watch.elapsed() < Duration::from_millis(200)
    {
        std::thread::sleep(PAUSE);
    }
    Ok(CommandOutput { exit, printed: text(&printed), complained: text(&complained) })
}

/// Waits for the end of a process.
fn wait(child: &mut Child, within: Duration) -> Exit {
    let watch = Stopwatch::start();
    loop {
        match child.try_wait() {
            Ok(Some(status)) => return exit(status),
            Ok(None) if watch.elapsed() < within => std::thread::sleep(PAUSE),
            _ => return Exit::Late,
        }
    }
}

type Collected = Arc<Mutex<Vec<u8>>>;

/// Reads all output and keeps the beginning; the excess is read and discarded, so that no writer blocks.
fn collect(from: Option<impl Read + Send + 'static>) -> Collected {
    let kept = Collected::default();
    if let Some(mut from) = from {
        let kept = kept.clone();
        std::thread::spawn(move || {
            let mut part = [0; 4096];
            while let Ok(got @ 1..) = from.read(&mut part) {
                let mut kept = kept.lock().unwrap_or_else(PoisonError::into_inner);
                let room = OUTPUT_MAX.saturating_sub(kept.len()).min(got);
                kept.extend_from_slice(&part[..room]);
            }
        });
    }
    kept
}
