//! Why the service of completions refuses a request.

/// The reason of a refusal.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, thiserror::Error)]
#[non_exhaustive]
pub enum Refusal {
    /// Another version, another length, an unknown request, or one out of order.
    #[error("it does not understand this version of the library")]
    Malformed,
    /// Its limit of applications is reached, in all or of this user.
    #[error("its limit of applications is reached")]
    TooManyApplications,
    /// Its limit of sockets per application is reached.
    #[error("its limit of sockets per application is reached")]
    TooManySockets,
    /// The descriptor is not a socket, or none came.
    #[error("the descriptor is not a socket")]
    NotASocket,
    /// Neither TCP nor UDP, of IPv4 or IPv6.
    #[error("it is neither a TCP nor a UDP socket")]
    WrongSocket,
    /// This application or another has done so.
    #[error("the socket is registered already")]
    AlreadyRegistered,
    /// Memory or privileges are missing; see its log.
    #[error("it failed; see its log")]
    Failed,
    /// Applications, including former ones, keep as much memory as it may give, in all or to this
    /// user.
    #[error("its limit of memory areas is reached, including those of applications that have left")]
    MemoryInUse,
}

impl Refusal {
    pub(crate) const ALL: [Self; 8] = [
        Self::Malformed,
        Self::TooManyApplications,
        Self::TooManySockets,
        Self::NotASocket,
        Self::WrongSocket,
        Self::AlreadyRegistered,
        Self::Failed,
        Self::MemoryInUse,
    ];
}
