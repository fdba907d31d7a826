//! Runs a solver as a process with a time limit: SMT-LIB 2 is written to a pipe, and the answer is read from another.
//!
//! Used by [`super::decide`]. Z3 by default; any command that reads a script from its standard input is supported.

use std::collections::HashMap;
use std::io::{ErrorKind, Read, Write};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::time::Duration;

use pktgen_core::{Error, Result};

use super::sexpr::{self, Value};

/// How to run a solver.
pub struct Solver {
    /// The command and its arguments, separated by spaces.
    pub command: String,
    /// Time limit of one question (all queries of "do all behaviours", or the one of "does any").
    pub timeout: Duration,
    /// Returns the time since some moment: this crate does not read clocks.
    pub clock: Box<dyn Fn() -> Duration>,
}

/// The answer of a solver.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Reply {
    /// There is a behaviour, with its values.
    Sat(HashMap<String, Value>),
    /// There is none.
    Unsat,
    /// Undecided, with the reason.
    Unknown(String),
}

/// The default command.
pub const DEFAULT: &str = "z3";

impl Solver {
    /// Runs the solver on `script` within `limit`.
    pub fn ask(&self, script: String, limit: Duration) -> Result<Reply> {
        if limit.is_zero() {
            return Ok(Reply::Unknown("out of time".into()));
        }
        let mut child = self.start()?;
        let (Some(mut input), Some(mut output)) = (child.stdin.take(), child.stdout.take()) else {
            return Err(Error::Host(format!("the solver \"{}\" has no pipes", self.command)));
        };
        // Writing and reading use separate threads, so that neither side waits for the other for ever; both end with the process.
        std::thread::spawn(move || {
            // A solver that stops reading explains why in its answer.
            let _ = input.write_all(script.as_bytes());
        });
        let (send, receive) = channel();
        std::thread::spawn(move || {
            let mut answer = Vec::new();
            let read = output.read_to_end(&mut answer).map(|_| String::from_utf8_lossy(&answer).into_owned());
            let _ = send.send(read);
        });
        let answer = receive.recv_timeout(limit);
        // Whether it has ended or not, it is no longer needed.
        let _ = child.kill();
        let _ = child.wait();
        match answer {
            Ok(Ok(text)) => self.read(&text),
            Ok(Err(error)) => Err(Error::Host(format!("cannot read the answer of \"{}\": {error}", self.command))),
            Err(RecvTimeoutError::Timeout) => Ok(Reply::Unknown("out of time".into())),
            Err(RecvTimeoutError::Disconnected) => {
                Err(Error::Host(format!("the solver \"{}\" ended without an answer", self.command)))
            }
        }
    }

    fn start(&self) -> Result<Child> {
        let mut words = self.command.split_whitespace();
        let program = words.next().unwrap_or_default();
        let mut command = Command::new(program);
        command.args(words).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
        // Z3 requires this flag to read its standard input.
        let own_arguments = self.command.trim() != program;
        if program.rsplit('/').next() == Some("z3") && !own_arguments {
            command.arg("-in");
        }
        command.spawn().map_err(|error| {
            let why = if error.kind() == ErrorKind::NotFound { "it is not installed".to_owned() } else { error.to_string() };
            Error::Host(format!(
                "cannot run the solver \"{program}\": {why}; install Z3 with `apt-get install z3`, or name another SMT-LIB 2 solver \
                 that reads its standard input with --solver"
            ))
        })
    }

    fn read(&self, text: &str) -> Result<Reply> {
        let (verdict, rest) = text.trim_start().split_once(char::is_whitespace).unwrap_or((text.trim(), ""));
        match verdict {
            "sat" => sexpr::values(rest)
                .map(Reply::Sat)
                .map_err(|why| Error::Host(format!("cannot understand the model of \"{}\": {why}", self.command))),
            "unsat" => Ok(Reply::Unsat),
            "unknown" | "timeout" => Ok(Reply::Unknown("the solver gave up".into())),
            _ => {
                let shown: String = text.chars().take(200).collect();
                Err(Error::Host(format!(
                    "the solver \"{}\" answered neither sat nor unsat nor unknown but: {}; name a command that reads \
                     SMT-LIB 2 from its standard input with --solver",
                    self.command,
                    if shown.is_empty() { "nothing" } else { shown.trim() }
                )))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn solver(command: &str) -> Solver {
        Solver { command: command.into(), timeout: Duration::from_secs(10), clock: Box::new(Duration::default) }
    }

    #[test]
    fn answers_are_read() {
        let ask = |text: &str| solver(DEFAULT).ask(text.into(), Duration::from_secs(10));
        assert_eq!(
            ask("(declare-const a Int)(assert (= a (- 4)))(check-sat)(get-value (a))").unwrap(),
            Reply::Sat([("a".to_owned(), Value::Number(-4))].into())
        );
        assert_eq!(ask("(assert false)(check-sat)(get-value (a))").unwrap(), Reply::Unsat);
        let message = ask("nonsense").unwrap_err();
        assert!(message.exit_code() == 3 && message.to_string().contains("--solver"), "{message}");
    }

    #[test]
    fn a_missing_solver_is_named_with_the_remedy() {
        let error = solver("no-such-solver -x").ask(String::new(), Duration::from_secs(1)).unwrap_err();
        assert_eq!(error.exit_code(), 3);
        assert!(error.to_string().contains("apt-get install z3") && error.to_string().contains("--solver"), "{error}");
    }

    #[test]
    fn time_is_bounded() {
        let reply = solver("sleep 60").ask("(check-sat)".into(), Duration::from_millis(50)).unwrap();
        assert_eq!(reply, Reply::Unknown("out of time".into()));
        assert!(solver("true").ask(String::new(), Duration::from_secs(5)).unwrap_err().to_string().contains("nothing"));
        assert_eq!(
            solver("sleep 60").ask(String::new(), Duration::ZERO).unwrap(),
            Reply::Unknown("out of time".into())
        );
    }
}
