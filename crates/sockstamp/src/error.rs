use std::io;

use crate::refusal::Refusal;

/// The result of everything here that calls the kernel.
pub type Result<T> = std::result::Result<T, Error>;

/// A failed call: its name, its object and the kernel's answer.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A system call failed.
    #[error("{call} on {on}: {errno}")]
    Call {
        /// The system call, with its request or option: `"ioctl(ETHTOOL_GET_TS_INFO)"`.
        call: &'static str,
        /// The object: an interface, a clock, a kind of socket.
        on: String,
        /// The kernel's answer; always has a raw OS error.
        errno: io::Error,
    },

    /// No interface can have this name: it is empty, longer than 15 bytes or holds a zero byte.
    #[error("{name:?} cannot be the name of a network interface")]
    InterfaceName {
        /// The name as it was given.
        name: String,
    },

    /// The server of completions refuses the request.
    #[error("{server} refuses: {refusal}")]
    Refused {
        /// The path of its socket.
        server: String,
        /// The reason.
        refusal: Refusal,
    },

    /// Another user than expected listens where the server of completions should.
    #[error("{server} is served by the user with id {user}, which is not trusted with sockets")]
    Untrusted {
        /// The path of its socket.
        server: String,
        /// The user.
        user: u32,
    },

    /// The server of completions has ended, or talks another version of the protocol.
    #[error("this version does not understand the answer of {server}")]
    NoAnswer {
        /// The path of its socket.
        server: String,
    },
}

impl Error {
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

    #[cfg(feature = "tokio")]
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
