use std::error;
use std::fmt;
use std::io;

use crate::refusal::Refusal;

/// The result of everything here that calls the kernel.
pub type Result<T> = std::result::Result<T, Error>;

/// A failed call: its name, its object and the kernel's answer.
#[derive(Debug)]
#[non_exhaustive]
pub enum Error {
    /// A system call failed.
    Call {
        /// The system call, with its request or option: `"ioctl(ETHTOOL_GET_TS_INFO)"`.
        call: &'static str,
        /// The object: an interface, a clock, a kind of socket.
        on: String,
        /// The kernel's answer; on Linux it always has a raw OS error.
        errno: io::Error,
    },

    /// No interface can have this name: it is empty, longer than 15 bytes or holds a zero byte.
    InterfaceName {
        /// The name as it was given.
        name: String,
    },

    /// The server of completions refuses the request.
    Refused {
        /// The path of its socket.
        server: String,
        /// The reason.
        refusal: Refusal,
    },

    /// Another user than expected listens where the server of completions should.
    Untrusted {
        /// The path of its socket.
        server: String,
        /// The user.
        user: u32,
    },

    /// The server of completions has ended, or talks another version of the protocol.
    NoAnswer {
        /// The path of its socket.
        server: String,
    },
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Call { call, on, errno } => write!(f, "{call} on {on}: {errno}"),
            Self::InterfaceName { name } => {
                write!(f, "{name:?} cannot be the name of a network interface")
            }
            Self::Refused { server, refusal } => write!(f, "{server} refuses: {refusal}"),
            Self::Untrusted { server, user } => write!(
                f,
                "{server} is served by the user with id {user}, which is not trusted with sockets"
            ),
            Self::NoAnswer { server } => {
                write!(f, "this version does not understand the answer of {server}")
            }
        }
    }
}

/// Their text has the text of what they hold, so they have no source.
impl error::Error for Error {}

impl Error {
    #[cfg(target_os = "linux")]
    pub(crate) fn call(
        call: &'static str,
        on: impl Into<String>,
    ) -> impl FnOnce(nix::Error) -> Self {
        move |errno| Self::Call {
            call,
            on: on.into(),
            errno: errno.into(),
        }
    }

    #[cfg(all(feature = "tokio", target_os = "linux"))]
    pub(crate) fn io(call: &'static str, on: impl Into<String>, errno: io::Error) -> Self {
        Self::Call {
            call,
            on: on.into(),
            errno,
        }
    }
}

/// Keep the kind of error, and its description as text.
impl From<Error> for io::Error {
    fn from(error: Error) -> Self {
        let kind = match &error {
            Error::Call { errno, .. } => errno.kind(),
            Error::InterfaceName { .. } => io::ErrorKind::InvalidInput,
            Error::Refused { .. } => io::ErrorKind::Other,
            Error::Untrusted { .. } => io::ErrorKind::PermissionDenied,
            Error::NoAnswer { .. } => io::ErrorKind::ConnectionAborted,
        };
        Self::new(kind, error)
    }
}

#[cfg(test)]
mod tests {
    use nix::errno::Errno;

    use super::*;

    #[test]
    fn errors_name_the_call_and_its_object() {
        let error = Error::call("ioctl(ETHTOOL_GET_TS_INFO)", "eth7")(Errno::ENODEV);
        assert_eq!(
            error.to_string(),
            "ioctl(ETHTOOL_GET_TS_INFO) on eth7: No such device (os error 19)"
        );
        let denied = io::Error::from(Error::call("socket", "IPv4 UDP")(Errno::EACCES));
        assert_eq!(denied.kind(), io::ErrorKind::PermissionDenied);
        assert_eq!(
            denied.to_string(),
            "socket on IPv4 UDP: Permission denied (os error 13)"
        );
    }
}
