use std::os::fd::OwnedFd;

use nix::sys::socket::{AddressFamily, SockFlag, SockType, socket};

use crate::{Error, Result};

/// A UDP socket of IPv4 that nothing is sent by: for options, and for questions to interfaces.
pub(crate) fn unbound() -> Result<OwnedFd> {
    socket(
        AddressFamily::Inet,
        SockType::Datagram,
        SockFlag::SOCK_CLOEXEC,
        None,
    )
    .map_err(Error::call("socket(SOCK_DGRAM)", "IPv4 UDP"))
}
