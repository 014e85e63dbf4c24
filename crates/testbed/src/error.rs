use std::io;
use std::process::ExitStatus;
use std::time::Duration;

/// A failure: the action, its subject and the system's answer.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A system call failed.
    #[error("{action} {subject}: {source}")]
    System {
        /// The action, for example `open` or `ioctl TUNSETIFF on`.
        action: &'static str,
        /// The subject: a path, an interface, a program.
        subject: String,
        /// The errno.
        source: io::Error,
    },
    /// A program ran and did not succeed.
    #[error("`{command}` ended with {status}: {stderr}")]
    Command {
        /// The program and its arguments.
        command: String,
        /// Its exit status.
        status: ExitStatus,
        /// Its standard error.
        stderr: String,
    },
    /// Something did not happen in time.
    #[error("{what} did not happen within {after:?}")]
    Timeout {
        /// The awaited event.
        what: String,
        /// The time waited (monotonic clock).
        after: Duration,
    },
    /// A configuration that makes no sense.
    #[error("{field} = {value}: {reason}")]
    Config {
        /// The field of the configuration.
        field: &'static str,
        /// Its value.
        value: String,
        /// The reason of the refusal.
        reason: &'static str,
    },
    /// The machine lacks something that has no substitute.
    #[error("not available here: {0}")]
    Missing(&'static str),
}

/// A result whose error is [`Error`].
pub type Result<T> = std::result::Result<T, Error>;

/// Turns an I/O error into [`Error::System`] with its context.
pub(crate) trait Context<T> {
    fn context(self, action: &'static str, subject: impl Into<String>) -> Result<T>;
}

impl<T, E: Into<io::Error>> Context<T> for std::result::Result<T, E> {
    fn context(self, action: &'static str, subject: impl Into<String>) -> Result<T> {
        self.map_err(|error| Error::System {
            action,
            subject: subject.into(),
            source: error.into(),
        })
    }
}
