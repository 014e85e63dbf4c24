use std::io::Read;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use crate::error::{Context, Error, Result};
use crate::patience::PATIENCE;

/// Interval for polling things without events.
pub(crate) const POLL_INTERVAL: Duration = Duration::from_millis(2);

/// A running program. It is killed on drop; its output is kept and can be read at any time.
#[derive(Debug)]
pub struct Process {
    command: String,
    child: Child,
    stdout: Output,
    stderr: Output,
}

impl Process {
    /// Start `command` with its output captured and no input.
    pub fn spawn(mut command: Command) -> Result<Process> {
        let text = describe(&command);
        let mut child = command
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .context("start", &text)?;
        let stdout = Output::collect(child.stdout.take());
        let stderr = Output::collect(child.stderr.take());
        Ok(Process {
            command: text,
            child,
            stdout,
            stderr,
        })
    }

    /// The process id of the program itself.
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// Return its standard output so far.
    pub fn stdout(&self) -> String {
        self.stdout.text()
    }

    /// Return its standard error so far.
    pub fn stderr(&self) -> String {
        self.stderr.text()
    }

    /// Send a signal.
    pub fn signal(&self, signal: Signal) -> Result<()> {
        kill(as_pid(self.id()), signal).context("signal", &self.command)
    }

    /// Return true if it still runs.
    pub fn is_running(&mut self) -> Result<bool> {
        Ok(self
            .child
            .try_wait()
            .context("wait for", &self.command)?
            .is_none())
    }

    /// Wait until standard output contains `text`.
    pub fn wait_for_stdout(&mut self, text: &str, timeout: Duration) -> Result<()> {
        self.wait_for(text, Process::stdout, timeout)
    }

    /// Wait until standard error contains `text`.
    pub fn wait_for_stderr(&mut self, text: &str, timeout: Duration) -> Result<()> {
        self.wait_for(text, Process::stderr, timeout)
    }

    fn wait_for(
        &mut self,
        text: &str,
        output: fn(&Process) -> String,
        timeout: Duration,
    ) -> Result<()> {
        let start = Instant::now();
        while !output(self).contains(text) {
            if let Some(status) = self.child.try_wait().context("wait for", &self.command)? {
                self.finish_output();
                if output(self).contains(text) {
                    break;
                }
                return Err(self.failed(status));
            }
            if start.elapsed() > timeout {
                return Err(Error::Timeout {
                    what: format!("{text:?} in the output of `{}`", self.command),
                    after: timeout,
                });
            }
            thread::sleep(POLL_INTERVAL);
        }
        Ok(())
    }

    /// Wait for its end, `timeout` at most, whatever the exit status.
    pub fn wait_status(&mut self, timeout: Duration) -> Result<ExitStatus> {
        let start = Instant::now();
        loop {
            if let Some(status) = self.child.try_wait().context("wait for", &self.command)? {
                self.finish_output();
                return Ok(status);
            }
            if start.elapsed() > timeout {
                return Err(Error::Timeout {
                    what: format!("the end of `{}`", self.command),
                    after: timeout,
                });
            }
            thread::sleep(POLL_INTERVAL);
        }
    }

    /// Wait for its successful end, `timeout` at most, and return its standard output.
    pub fn wait(mut self, timeout: Duration) -> Result<String> {
        let status = self.wait_status(timeout)?;
        if status.success() {
            Ok(self.stdout())
        } else {
            Err(self.failed(status))
        }
    }

    /// Kills it with SIGKILL and waits for its end.
    pub fn kill(&mut self) -> Result<()> {
        self.child.kill().context("kill", &self.command)?;
        self.child.wait().context("wait for", &self.command)?;
        Ok(())
    }

    fn finish_output(&mut self) {
        self.stdout.finish();
        self.stderr.finish();
    }

    fn failed(&self, status: ExitStatus) -> Error {
        Error::Command {
            command: self.command.clone(),
            status,
            stderr: self.stderr().trim_end().to_owned(),
        }
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // No remedy exists for a failure here, and a process that has ended is no failure.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// An output stream, read by its own thread so that the program never blocks on a full pipe.
#[derive(Debug)]
struct Output {
    bytes: Arc<Mutex<Vec<u8>>>,
    reader: Option<JoinHandle<()>>,
}

impl Output {
    fn collect(stream: Option<impl Read + Send + 'static>) -> Output {
        let bytes = Arc::new(Mutex::new(Vec::new()));
        let reader = stream.map(|mut stream| {
            let bytes = Arc::clone(&bytes);
            thread::spawn(move || {
                let mut chunk = [0; 4096];
                while let Ok(len @ 1..) = stream.read(&mut chunk) {
                    bytes
                        .lock()
                        .unwrap_or_else(PoisonError::into_inner)
                        .extend_from_slice(&chunk[..len]);
                }
            })
        });
        Output { bytes, reader }
    }

    fn text(&self) -> String {
        String::from_utf8_lossy(&self.bytes.lock().unwrap_or_else(PoisonError::into_inner))
            .into_owned()
    }

    /// Wait until all output has been read. A grandchild that inherited the pipe can keep it open
    /// past the end of the program: then use what has come within some rounds. Count rounds, not
    /// time: while this process stands still, its reader reads nothing either.
    fn finish(&mut self) {
        /// One second in all, where nothing else runs.
        const ROUNDS: usize = 500;
        if let Some(reader) = self.reader.take() {
            for _ in 0..ROUNDS {
                if reader.is_finished() {
                    break;
                }
                thread::sleep(POLL_INTERVAL);
            }
        }
    }
}

/// Run `command` to its end and return its standard output.
pub(crate) fn run(mut command: Command) -> Result<String> {
    let text = describe(&command);
    let output = command
        .stdin(Stdio::null())
        .output()
        .context("start", &text)?;
    if !output.status.success() {
        let stderr = String::from_utf8_lossy(&output.stderr)
            .trim_end()
            .to_owned();
        return Err(Error::Command {
            command: text,
            status: output.status,
            stderr,
        });
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

/// Run `ip` with `arguments`, which hold no white space within one argument.
pub(crate) fn ip(arguments: &str) -> Result<String> {
    run_with("ip", &arguments.split_whitespace().collect::<Vec<_>>())
}

/// Run a program with these arguments to its end and return its standard output.
pub(crate) fn run_with(program: &str, arguments: &[&str]) -> Result<String> {
    let mut command = Command::new(program);
    command.args(arguments);
    run(command)
}

pub(crate) fn as_pid(id: u32) -> Pid {
    Pid::from_raw(i32::try_from(id).expect("the kernel keeps process ids below 2^22"))
}

fn describe(command: &Command) -> String {
    let mut text = command.get_program().to_string_lossy().into_owned();
    for argument in command.get_args() {
        text.push(' ');
        text.push_str(&argument.to_string_lossy());
    }
    text
}

/// Kills the processes that `list` finds until it finds none: a process may fork while it is being
/// killed.
pub(crate) fn kill_all(list: impl Fn() -> Vec<u32>, place: &str) -> Result<()> {
    let start = Instant::now();
    loop {
        let pids = list();
        if pids.is_empty() {
            return Ok(());
        }
        if start.elapsed() > PATIENCE {
            return Err(Error::Timeout {
                what: format!("the end of {pids:?} in {place}"),
                after: PATIENCE,
            });
        }
        for pid in pids {
            // Ignore the error: the process may have ended meanwhile.
            let _ = kill(as_pid(pid), Signal::SIGKILL);
        }
        thread::sleep(POLL_INTERVAL);
    }
}
