use std::io;

use crate::Namespace;

/// A failed call: its name, its object and the kernel's answer.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A system call failed.
    #[error("{call} on {on}: {errno}")]
    Call {
        /// The system call, with its option.
        call: &'static str,
        /// The object of the call.
        on: &'static str,
        /// The kernel's answer.
        errno: io::Error,
    },

    /// Neither kind of socket for ICMP is allowed.
    #[error(
        "no socket for ICMP: net.ipv4.ping_group_range of this network namespace leaves our group out, and a raw socket \
         needs CAP_NET_RAW"
    )]
    NoIcmpSocket,

    /// A network namespace cannot be entered.
    #[error("cannot enter {namespace}: {errno}")]
    Namespace {
        /// The setting.
        namespace: Namespace,
        /// The kernel's answer: EPERM without CAP_SYS_ADMIN, ENOENT if there is none.
        errno: io::Error,
    },

    /// A setting cannot be.
    #[error("invalid {setting}: {reason}")]
    Setting {
        /// The setting.
        setting: &'static str,
        /// The reason.
        reason: &'static str,
    },

    /// The kernel refuses a setting.
    #[error("the kernel refuses the {setting} {value}: {errno}")]
    Refused {
        /// The setting.
        setting: &'static str,
        /// Its value.
        value: String,
        /// The kernel's answer.
        errno: io::Error,
    },

    /// The library of stamps failed.
    #[error(transparent)]
    Stamps(#[from] sockstamp::Error),

    /// No targets are taken after [`Engine::finish`](crate::Engine::finish).
    #[error("the engine accepts no more targets")]
    Finished,

    /// The thread of a namespace has ended: the namespace was removed, or the engine was stopped.
    #[error("the prober in {0} has ended")]
    Ended(Namespace),
}

/// The result of everything here that calls the kernel.
pub type Result<T> = std::result::Result<T, Error>;

impl Error {
    pub(crate) fn call<E: Into<io::Error>>(
        call: &'static str,
        on: &'static str,
    ) -> impl FnOnce(E) -> Self {
        move |errno| Self::Call {
            call,
            on,
            errno: errno.into(),
        }
    }
}
