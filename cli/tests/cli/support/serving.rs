//! A serving part of a run in a separate process: ready when it is returned, ended when it goes out of scope.

use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};

/// The process.
pub struct Serving(Child);

impl Serving {
    /// Starts it and waits until it says that it is ready; `what` is what a message calls it.
    pub fn start(mut command: Command, what: &str) -> Serving {
        let mut serving = Serving(command.stderr(Stdio::piped()).stdout(Stdio::null()).spawn().expect("starts"));
        let mut stderr = BufReader::new(serving.0.stderr.take().expect("stderr"));
        let (mut line, mut said) = (String::new(), String::new());
        while stderr.read_line(&mut line).is_ok_and(|n| n > 0) {
            if line.starts_with("ready") {
                // What comes later must not block it.
                std::thread::spawn(move || std::io::copy(&mut stderr, &mut std::io::sink()));
                return serving;
            }
            said += &std::mem::take(&mut line);
        }
        panic!("{what} is not ready: {said}");
    }

    /// Waits for its end; returns the exit code.
    pub fn end(mut self) -> i32 {
        self.0.wait().expect("it ends").code().unwrap_or(-1)
    }

    /// The process that serves: `ip netns exec` becomes it.
    pub fn pid(&self) -> u32 {
        self.0.id()
    }
}

impl Drop for Serving {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}
