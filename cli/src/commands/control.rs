//! `pktgen control`: steers a run in progress, from a shell.

use std::io::{self, BufRead, BufReader, ErrorKind, Lines, Write};
use std::os::unix::fs::FileTypeExt;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::Duration;

use pktgen_core::{Error, Result};
use serde_json::{Value, json};

use crate::args::{Control, ControlCommand};
use crate::commands::live::CONTROL_VERSION;
use crate::schemas::{CONTROL_EVENT, CONTROL_REPLY};
use crate::ui::Ui;

/// Timeout of a reply.
const REPLY: Duration = Duration::from_secs(10);

pub(super) fn run(args: &Control, ui: &Ui) -> Result<u8> {
    let path = socket(&args.run)?;
    let stream = UnixStream::connect(&path).map_err(|e| {
        Error::Host(format!(
            "{}: no run is steered there: {e}; is it in progress, and was it started with --control?",
            path.display()
        ))
    })?;
    let (cmd, given) = request(&args.command);
    let request = json!({ "v": CONTROL_VERSION, "id": 1, "cmd": cmd, "args": given });
    let (line, mut lines) = ask(&path, &stream, &request)?;
    let reply: Value = serde_json::from_str(&line).map_err(|e| Error::data(&path, format!("no reply: {e}")))?;
    if reply["ok"] != true {
        ui.error(&format!("{cmd}: {}", reply["error"].as_str().unwrap_or("refused")));
        return Ok(1);
    }
    if ui.json() {
        ui.object(&CONTROL_REPLY, &reply.to_string());
    } else if let Some(state) = reply["state"].as_object() {
        state
            .iter()
            .filter(|(_, value)| !value.is_null())
            .for_each(|(name, value)| ui.result(&format!("{name} {value}")));
    } else if let Some(applied) = reply["applied_ps"].as_i64() {
        ui.result(&format!("in force from {:.6} s on", applied as f64 / 1e12));
    }
    if matches!(args.command, ControlCommand::Events) {
        stream.set_read_timeout(None).map_err(|e| unusable(&path, &e))?;
        while !ui.is_closed()
            && let Some(Ok(line)) = lines.next()
        {
            if ui.json() { ui.object(&CONTROL_EVENT, &line) } else { ui.result(&line) }
        }
    }
    Ok(0)
}

/// Returns the error of a request to a run without a reply.
fn unanswered(path: &Path, e: &io::Error) -> Error {
    let shown = path.display();
    match e.kind() {
        ErrorKind::InvalidData => Error::data(path, format!("no reply: {e}")),
        ErrorKind::WouldBlock | ErrorKind::TimedOut => Error::Host(format!(
            "{shown}: the run did not answer within {} s; the command may still take effect",
            REPLY.as_secs()
        )),
        _ => Error::Host(format!(
            "{shown}: the connection ended before the reply: {e}; the command may have taken effect"
        )),
    }
}

/// Returns the error of a request that did not reach the run completely: the run executes whole lines only.
fn unsent(path: &Path, e: &io::Error) -> Error {
    Error::Host(format!("{}: the connection ended before the command was sent: {e}; it has no effect", path.display()))
}

/// Returns the error of a connection that cannot be set up.
fn unusable(path: &Path, e: &io::Error) -> Error {
    Error::Host(format!("{}: this host cannot set up the connection: {e}", path.display()))
}

/// Sends a request. Returns the reply, and the lines after it.
fn ask(path: &Path, mut stream: &UnixStream, request: &Value) -> Result<(String, Lines<BufReader<UnixStream>>)> {
    stream.set_read_timeout(Some(REPLY)).map_err(|e| unusable(path, &e))?;
    let mut lines = BufReader::new(stream.try_clone().map_err(|e| unusable(path, &e))?).lines();
    let sent = writeln!(stream, "{request}");
    // A run that refuses a client says why and closes the connection without reading.
    match (lines.next(), sent) {
        (Some(Ok(line)), _) => Ok((line, lines)),
        (_, Err(e)) => Err(unsent(path, &e)),
        (Some(Err(e)), Ok(())) => Err(unanswered(path, &e)),
        (None, Ok(())) => Err(unanswered(path, &ErrorKind::UnexpectedEof.into())),
    }
}

fn request(command: &ControlCommand) -> (&'static str, Value) {
    match command {
        ControlCommand::Status => ("status", json!({})),
        ControlCommand::Start => ("start", json!({})),
        ControlCommand::Stop => ("stop", json!({})),
        ControlCommand::Pause => ("pause", json!({})),
        ControlCommand::Resume => ("resume", json!({})),
        ControlCommand::Reset => ("reset", json!({})),
        ControlCommand::Events => ("events", json!({})),
        ControlCommand::Rate { pps } => {
            let (packets, seconds) = pps.ratio();
            ("rate", json!({ "pps": packets as f64 / seconds as f64 }))
        }
        ControlCommand::Factor { factor } => ("rate", json!({ "factor": factor })),
    }
}

/// Returns the socket of a run: the path itself, the one in the manifest of its run dir, or that of the only run in
/// progress in a folder of run dirs.
fn socket(run: &Path) -> Result<PathBuf> {
    if std::fs::metadata(run).is_ok_and(|found| found.file_type().is_socket()) {
        return Ok(run.to_owned());
    }
    let below = std::fs::read_dir(run).into_iter().flatten().flatten().map(|entry| entry.path());
    let dirs = std::iter::once(run.to_owned()).chain(below);
    let mut found: Vec<_> = dirs.filter_map(|dir| Some((noted(&dir)?, dir))).collect();
    // The runs of a sweep share a socket; that of a killed run may still be there.
    found.sort();
    found.dedup_by(|(a, _), (b, _)| a == b);
    found.retain(|(path, _)| UnixStream::connect(path).is_ok());
    match &found[..] {
        [(path, _)] => Ok(path.clone()),
        [] => Err(Error::config(format!(
            "{}: it is no socket, and no run dir of a run in progress that was started with --control",
            run.display()
        ))),
        [(_, first), ..] => Err(Error::config(format!(
            "{}: {} runs are in progress there; name one, as {}",
            run.display(),
            found.len(),
            first.display()
        ))),
    }
}

/// Returns the socket noted in the manifest in `dir`.
fn noted(dir: &Path) -> Option<PathBuf> {
    let text = std::fs::read(dir.join("manifest.json")).ok()?;
    let manifest: Value = serde_json::from_slice(&text).ok()?;
    // A later run may have the same path.
    let socket = manifest["host"]["control.socket"].as_str().filter(|_| manifest["state"] == "running");
    socket.map(PathBuf::from)
}

#[cfg(test)]
mod tests {
    use std::io::Read;

    use super::*;

    #[test]
    fn a_request_without_a_reply_may_take_effect() {
        let (client, mut run) = UnixStream::pair().unwrap();
        let (path, request) = (Path::new("run.sock"), json!({ "cmd": "stop" }));
        run.write_all(b"\xff\n").unwrap();
        assert!(matches!(ask(path, &client, &request).err().unwrap(), Error::Data { .. }));
        // What the client reads from a run that is stopped: nothing, up to its time limit.
        client.set_nonblocking(true).unwrap();
        let late = (&client).read(&mut [0]).err().unwrap();
        let said = unanswered(path, &late).to_string();
        assert_eq!(said, "run.sock: the run did not answer within 10 s; the command may still take effect");
        client.set_nonblocking(false).unwrap();
        // The run reads both requests, and answers neither.
        let read = std::thread::spawn(move || BufReader::new(run).lines().take(2).map_while(io::Result::ok).count());
        let said = ask(path, &client, &request).err().unwrap().to_string();
        assert!(said.contains("ended before the reply") && said.contains("may have taken effect"), "{said}");
        assert_eq!(read.join().unwrap(), 2);
    }

    #[test]
    fn the_reason_of_a_run_that_refuses_a_client_is_read() {
        let (client, mut run) = UnixStream::pair().unwrap();
        run.write_all(b"no room\n").unwrap();
        drop(run);
        let (path, request) = (Path::new("run.sock"), json!({ "cmd": "status" }));
        assert_eq!(ask(path, &client, &request).unwrap().0, "no room");
        // The run executes nothing of a request that it did not get.
        let said = ask(path, &client, &request).err().unwrap().to_string();
        assert!(said.contains("before the command was sent") && said.ends_with("it has no effect"), "{said}");
    }
}
