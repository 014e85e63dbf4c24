use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};
use std::{env, fs, thread};

use crate::error::{Error, Result};
use crate::patience::PATIENCE;
use crate::process::run;

/// Programs answer keys within a screen refresh; on a busy machine some.
const POLL_INTERVAL: Duration = Duration::from_millis(20);

/// Interactive, for job control; its prompt is known, and no colours are forbidden.
const SHELL: &str = "env -u NO_COLOR -u ENV PS1='ready> ' sh -i";

/// A terminal with a shell, driven by tmux(1): send keys, read the screen. Ends on drop.
#[derive(Debug)]
pub struct Tmux {
    /// The socket of our own server.
    socket: PathBuf,
}

impl Tmux {
    /// A terminal of this size, with an interactive `sh` that has job control.
    pub fn new(width: u16, height: u16) -> Result<Tmux> {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let count = COUNT.fetch_add(1, Ordering::Relaxed);
        let tmux = Tmux {
            socket: env::temp_dir().join(format!("testbed-tmux-{}-{count}", std::process::id())),
        };
        let (width, height) = (width.to_string(), height.to_string());
        tmux.run(&["new-session", "-d", "-x", &width, "-y", &height, SHELL])?;
        tmux.wait_for("ready>", PATIENCE)?;
        Ok(tmux)
    }

    /// Type a line and Enter.
    pub fn type_line(&self, line: &str) -> Result<()> {
        self.run(&["send-keys", "-l", line])?;
        self.press(&["Enter"])
    }

    /// Presses keys, by the names that tmux has for them: `a`, `Enter`, `Escape`, `Down`, `C-z`.
    pub fn press(&self, keys: &[&str]) -> Result<()> {
        self.run(&[&["send-keys"], keys].concat()).map(drop)
    }

    /// Return the present screen.
    pub fn screen(&self) -> Result<String> {
        self.run(&["capture-pane", "-p"])
    }

    /// Return the present screen, with the escape sequences for colours and attributes.
    pub fn coloured_screen(&self) -> Result<String> {
        self.run(&["capture-pane", "-p", "-e"])
    }

    /// Wait until `text` is seen; returns the screen.
    pub fn wait_for(&self, text: &str, timeout: Duration) -> Result<String> {
        let start = Instant::now();
        loop {
            let screen = self.screen()?;
            if screen.contains(text) {
                return Ok(screen);
            }
            if start.elapsed() > timeout {
                return Err(Error::Timeout {
                    what: format!("{text:?} on the screen:\n{screen}"),
                    after: timeout,
                });
            }
            thread::sleep(POLL_INTERVAL);
        }
    }

    /// Return tmux's variable of this name (tmux(1), FORMATS), for example `alternate_on`.
    pub fn state(&self, name: &str) -> Result<String> {
        let format = format!("#{{{name}}}");
        Ok(self
            .run(&["display-message", "-p", &format])?
            .trim_end()
            .to_owned())
    }

    /// Change the size.
    pub fn resize(&self, width: u16, height: u16) -> Result<()> {
        let (width, height) = (width.to_string(), height.to_string());
        self.run(&["resize-window", "-x", &width, "-y", &height])
            .map(drop)
    }

    fn run(&self, arguments: &[&str]) -> Result<String> {
        let mut command = Command::new("tmux");
        // UTF-8 whatever the locale, and none of the user's settings.
        command.args(["-u", "-f"]).arg(Path::new("/dev/null"));
        command.arg("-S").arg(&self.socket).args(arguments);
        run(command)
    }
}

impl Drop for Tmux {
    fn drop(&mut self) {
        // Ignore the error: the server may have ended.
        let _ = self.run(&["kill-server"]);
        // The server leaves it behind.
        let _ = fs::remove_file(&self.socket);
    }
}
