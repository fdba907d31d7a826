//! The control socket of a run: requests and replies with one JSON object per line, and events on separate connections (docs/control.md).

use std::fs::{self, DirBuilder};
use std::os::unix::fs::{DirBuilderExt, FileTypeExt, MetadataExt};
use std::os::unix::net::{UnixListener as Listener, UnixStream as Stream};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use pktgen_core::object::Object;
use pktgen_core::time::Time;
use pktgen_core::{Error, Result};
use pktgen_realtime::driver::real_time::drop_privileges;
use pktgen_realtime::socket;
use pktgen_realtime::steer::{SteerCommand, SteerState, Steering};
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader, Interest};
use tokio::net::unix::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{UnixListener, UnixStream};
use tokio::sync::broadcast;
use tokio::time::timeout;

/// Version of requests, replies and events.
pub(crate) const VERSION: u64 = 1;
/// Maximum length of a request.
const REQUEST_MAX: usize = 4096;
/// Maximum number of connections; further ones are closed immediately.
const CONNECTIONS: usize = 16;
/// Timeouts of a connection without requests, and of an unfinished request.
const IDLE: Duration = Duration::from_secs(600);
const UNENDED: Duration = Duration::from_secs(5);
/// Timeout of writing a reply or an event; then the connection is closed.
const WRITE: Duration = Duration::from_secs(2);
/// Maximum number of events waiting for a client.
const EVENTS: usize = 4096;
/// Pause after a connection could not be accepted, and between looks whether a client of events is still there.
const PAUSE: Duration = Duration::from_secs(1);

/// A bound socket that is not yet served.
pub(super) struct ControlSocket {
    path: PathBuf,
    listener: Listener,
    events: broadcast::Sender<Arc<str>>,
}

/// Serves until it is dropped.
pub(super) struct ControlServer {
    path: PathBuf,
    /// Dropping it ends the thread.
    runtime: Option<tokio::runtime::Runtime>,
}

impl ControlSocket {
    /// Binds the socket at `chosen`, or one in the user's runtime folder.
    pub(super) fn bind(chosen: Option<&Path>) -> Result<Self> {
        let path = match chosen {
            Some(path) => std::path::absolute(path).map_err(Error::io("find", path))?,
            None => {
                let folder = runtime_folder()?;
                remove_left(&folder);
                folder.join(format!("{}.sock", std::process::id()))
            }
        };
        let listener = bind(&path)?;
        Ok(ControlSocket { path, listener, events: broadcast::Sender::new(EVENTS) })
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Returns the function that publishes changes.
    pub(super) fn events(&self) -> impl Fn(&SteerState, Option<Time>) + Send + Sync + 'static {
        let events = self.events.clone();
        // Without clients, nobody receives it.
        move |state, applied| drop(events.send(event(state, applied).into()))
    }

    /// Serves `steering`.
    pub(super) fn serve(self, steering: Arc<Steering>) -> Result<ControlServer> {
        let ControlSocket { path, listener, events } = self;
        let fails = |e: std::io::Error| Error::Host(format!("--control {}: it cannot be served: {e}", path.display()));
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .thread_name("control")
            .on_thread_start(|| drop(drop_privileges(&[])))
            .enable_all()
            .build()
            .map_err(fails)?;
        listener.set_nonblocking(true).map_err(fails)?;
        let inside = runtime.enter();
        let listener = UnixListener::from_std(listener).map_err(fails)?;
        drop(inside);
        runtime.spawn(accept(listener, steering, events));
        Ok(ControlServer { path, runtime: Some(runtime) })
    }
}

impl Drop for ControlServer {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.path);
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}

/// Returns `$XDG_RUNTIME_DIR/pktgen`, or a private folder of this user in the folder of temporary files.
fn runtime_folder() -> Result<PathBuf> {
    let own = fs::metadata("/proc/self").map_err(Error::io("read", Path::new("/proc/self")))?.uid();
    let given = std::env::var_os("XDG_RUNTIME_DIR").map(PathBuf::from).filter(|path| path.is_dir());
    let folder =
        given.map_or_else(|| std::env::temp_dir().join(format!("pktgen-{own}")), |runtime| runtime.join("pktgen"));
    match DirBuilder::new().mode(0o700).create(&folder) {
        Err(e) if e.kind() != std::io::ErrorKind::AlreadyExists => return Err(Error::io("create folder", &folder)(e)),
        _ => {}
    }
    let found = fs::symlink_metadata(&folder).map_err(Error::io("read", &folder))?;
    if !found.is_dir() || found.uid() != own || found.mode() & 0o077 != 0 {
        return Err(Error::Host(format!(
            "--control: {} is open to others, or not this user's folder; chmod 700 it, or give a path: --control PATH",
            folder.display()
        )));
    }
    Ok(folder)
}

/// Returns whether a killed run left this socket. Other errors than a refusal are those of sockets in use: of another type, or another
/// user's.
fn is_left(path: &Path) -> bool {
    let is_socket = fs::symlink_metadata(path).is_ok_and(|found| found.file_type().is_socket());
    is_socket && Stream::connect(path).is_err_and(|e| e.kind() == std::io::ErrorKind::ConnectionRefused)
}

/// Removes the sockets in `folder` that killed runs left. What cannot be removed stays.
fn remove_left(folder: &Path) {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.path());
    let is_ours = |path: &PathBuf| path.extension().is_some_and(|extension| extension == "sock") && is_left(path);
    entries.filter(is_ours).for_each(|path| drop(fs::remove_file(path)));
}

/// Binds a socket that nobody else may use.
fn bind(path: &Path) -> Result<Listener> {
    match fs::symlink_metadata(path) {
        Ok(_) if is_left(path) => fs::remove_file(path).map_err(Error::io("remove", path))?,
        Ok(_) => {
            return Err(Error::config(format!("--control {}: it is there already; choose another", path.display())));
        }
        Err(_) => {}
    }
    socket::listen(path).map_err(|e| {
        Error::config(format!(
            "--control {}: it cannot be bound: {e}; give another path, of at most 80 bytes",
            path.display()
        ))
    })
}

async fn accept(listener: UnixListener, steering: Arc<Steering>, events: broadcast::Sender<Arc<str>>) {
    // Each connection holds one more reference.
    let open = Arc::new(());
    loop {
        match listener.accept().await {
            Ok((stream, _)) if Arc::strong_count(&open) > CONNECTIONS => {
                let text = failed(&Value::Null, &format!("{CONNECTIONS} clients are connected; close one"));
                let _ = stream.try_write(text.as_bytes());
            }
            Ok((stream, _)) => {
                let (steering, events, own) = (steering.clone(), events.clone(), open.clone());
                drop(tokio::spawn(async move {
                    converse(stream, &steering, &events).await;
                    drop(own);
                }));
            }
            // The process may have too many open files, which will be fewer later.
            Err(_) => tokio::time::sleep(PAUSE).await,
        }
    }
}

/// Handles the requests of one client until it disconnects or makes an error.
async fn converse(stream: UnixStream, steering: &Steering, events: &broadcast::Sender<Arc<str>>) {
    let (reader, mut writer) = stream.into_split();
    let mut reader = BufReader::with_capacity(REQUEST_MAX, reader);
    loop {
        let line = match line(&mut reader).await {
            Ok(Some(line)) => line,
            Ok(None) => return,
            Err(why) => {
                write(&mut writer, &failed(&Value::Null, &why)).await;
                return;
            }
        };
        let mut told = events.subscribe();
        let Answer { text, listens } = answer(&line, steering);
        if !write(&mut writer, &text).await {
            return;
        }
        if listens {
            // A client that is too slow or gone is disconnected, even if there is no event.
            loop {
                let stays = match timeout(PAUSE, told.recv()).await {
                    Ok(Ok(event)) => write(&mut writer, &event).await,
                    Ok(Err(_)) => false,
                    Err(_) => writer.ready(Interest::WRITABLE).await.is_ok_and(|ready| !ready.is_write_closed()),
                };
                if !stays {
                    return;
                }
            }
        }
    }
}

/// Returns the next line; `None` at the end.
async fn line(reader: &mut BufReader<OwnedReadHalf>) -> Result<Option<Vec<u8>>, String> {
    match timeout(IDLE, reader.fill_buf()).await {
        Ok(Ok(begun)) if !begun.is_empty() => {}
        _ => return Ok(None),
    }
    let whole = async {
        let mut line = Vec::new();
        loop {
            let Ok(part) = reader.fill_buf().await else { return Ok(None) };
            let end = part.iter().position(|byte| *byte == b'\n');
            let taken = end.unwrap_or(part.len());
            if part.is_empty() {
                return Err("the request has no line break at its end".to_owned());
            }
            if line.len() + taken > REQUEST_MAX {
                return Err(format!("a request has at most {REQUEST_MAX} bytes"));
            }
            line.extend_from_slice(&part[..taken]);
            reader.consume(taken + usize::from(end.is_some()));
            if end.is_some() {
                return Ok(Some(line));
            }
        }
    };
    timeout(UNENDED, whole).await.unwrap_or_else(|_| Err(format!("the request did not end within {UNENDED:?}")))
}

/// Writes a line; returns false if the client does not accept it.
async fn write(writer: &mut OwnedWriteHalf, text: &str) -> bool {
    matches!(timeout(WRITE, writer.write_all(text.as_bytes())).await, Ok(Ok(())))
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Request {
    v: u64,
    #[serde(default)]
    id: Value,
    cmd: String,
    #[serde(default)]
    args: Object<Arguments>,
}

#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct Arguments {
    pps: Option<f64>,
    factor: Option<f64>,
}

struct Answer {
    text: String,
    /// Whether the connection is used for events from now on.
    listens: bool,
}

/// Executes a request.
fn answer(line: &[u8], steering: &Steering) -> Answer {
    let Object(request): Object<Request> = match serde_json::from_slice(line) {
        Ok(request) => request,
        Err(why) => {
            // The request's id, if it can be parsed.
            let id = serde_json::from_slice::<Value>(line).ok().and_then(|value| value.get("id").cloned());
            let why = format!(
                "no request: {why}; a request is {{\"v\":1,\"id\":7,\"cmd\":\"rate\",\"args\":{{\"pps\":50000}}}}"
            );
            return Answer { text: failed(&id.unwrap_or_default(), &why), listens: false };
        }
    };
    let Request { v, id, cmd, args: Object(args) } = request;
    if v != VERSION {
        let why = format!("version {v} of requests is not known; this is version {VERSION}");
        return Answer { text: failed(&id, &why), listens: false };
    }
    let command = match (cmd.as_str(), args.pps, args.factor) {
        ("status", None, None) => {
            let mut reply = json!({ "v": VERSION, "id": id, "ok": true, "applied_ps": null });
            reply["state"] = state(&steering.state());
            return Answer { text: format!("{reply}\n"), listens: false };
        }
        ("events", None, None) => {
            let reply = json!({ "v": VERSION, "id": id, "ok": true, "applied_ps": null });
            return Answer { text: format!("{reply}\n"), listens: true };
        }
        ("start" | "resume", None, None) => Ok(SteerCommand::Resume),
        ("pause", None, None) => Ok(SteerCommand::Pause),
        ("stop", None, None) => Ok(SteerCommand::Stop),
        ("reset", None, None) => Ok(SteerCommand::Reset),
        ("rate", Some(pps), None) => Ok(SteerCommand::Rate(pps)),
        ("rate", None, Some(factor)) => Ok(SteerCommand::Factor(factor)),
        ("rate", ..) => {
            Err("rate: give args.pps (packets per second) or args.factor (of the present rate), one of them".to_owned())
        }
        (known @ ("status" | "events" | "start" | "resume" | "pause" | "stop" | "reset"), ..) => {
            Err(format!("{known}: it takes no args"))
        }
        (other, ..) => {
            Err(format!("\"{other}\" is not known; there are: status, start, stop, pause, resume, rate, reset, events"))
        }
    };
    let text = match command.and_then(|command| steering.apply(command)) {
        Ok(applied) => format!("{}\n", json!({ "v": VERSION, "id": id, "ok": true, "applied_ps": applied })),
        Err(why) => failed(&id, &why),
    };
    Answer { text, listens: false }
}

fn failed(id: &Value, why: &str) -> String {
    format!("{}\n", json!({ "v": VERSION, "id": id, "ok": false, "error": why }))
}

fn state(state: &SteerState) -> Value {
    let SteerState { run, t, held, speed, pps, changes } = state;
    json!({ "run": run, "t_ps": t, "held": held, "speed": speed, "pps": pps, "changes": changes })
}

/// Formats the event that a run began, was changed, or ended.
fn event(now: &SteerState, applied: Option<Time>) -> String {
    let what = match (applied, &now.run) {
        (Some(_), _) => "change",
        (None, Some(_)) => "begin",
        (None, None) => "end",
    };
    format!("{}\n", json!({ "v": VERSION, "event": what, "applied_ps": applied, "state": state(now) }))
}

#[cfg(test)]
mod tests {
    use std::os::unix::net::UnixDatagram;

    use super::*;

    #[test]
    fn a_socket_in_use_stays() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("s");
        let others = UnixDatagram::bind(&path).unwrap();
        assert!(bind(&path).unwrap_err().to_string().contains("there already"));
        assert!(UnixDatagram::unbound().unwrap().connect(&path).is_ok());
        drop(others);
        // Nobody listens any more.
        drop(bind(&folder.path().join("killed")).unwrap());
        assert!(bind(&folder.path().join("killed")).is_ok());
    }

    #[test]
    fn sockets_of_killed_runs_are_removed() {
        let folder = tempfile::tempdir().unwrap();
        let [killed, live, other] = ["1.sock", "2.sock", "3.txt"].map(|name| folder.path().join(name));
        drop(bind(&killed).unwrap());
        let _serving = bind(&live).unwrap();
        fs::write(&other, "").unwrap();
        remove_left(folder.path());
        assert_eq!([&killed, &live, &other].map(|path| path.exists()), [false, true, true]);
    }
}
