//! Requests to the kernel over netlink(7), and its answers.

use std::io;
use std::os::fd::{AsRawFd, OwnedFd};

use nix::errno::Errno;
use nix::sys::socket::{
    AddressFamily, MsgFlags, NetlinkAddr, SockFlag, SockProtocol, SockType, bind, recv, sendto,
    socket,
};

// include/uapi/linux/netlink.h
const NLMSG_ERROR: u16 = 2;
const NLMSG_DONE: u16 = 3;
const NLM_F_REQUEST: u16 = 1;
const NLM_F_DUMP: u16 = 0x300;
/// Bytes of `struct nlmsghdr`.
pub(crate) const HEADER: usize = 16;

/// Open a socket to the kernel of the calling thread's network namespace.
pub(crate) fn open(protocol: SockProtocol) -> io::Result<OwnedFd> {
    let socket = socket(
        AddressFamily::Netlink,
        SockType::Raw,
        SockFlag::SOCK_CLOEXEC,
        protocol,
    )?;
    Ok(socket)
}

/// Open a socket that the kernel of the calling thread's network namespace tells of what happens in
/// some groups.
pub(crate) fn listen(protocol: SockProtocol, groups: u32) -> io::Result<OwnedFd> {
    let socket = open(protocol)?;
    bind(socket.as_raw_fd(), &NetlinkAddr::new(0, groups))?;
    Ok(socket)
}

/// Pass what follows the header of each message of a kind that has come.
pub(crate) fn events(socket: &OwnedFd, kind: u16, found: &mut impl FnMut(&[u8])) {
    let mut buffer = vec![0; 64 << 10];
    loop {
        let length = match recv(socket.as_raw_fd(), &mut buffer, MsgFlags::MSG_DONTWAIT) {
            Ok(length) => length,
            // Some were lost, and others wait.
            Err(Errno::ENOBUFS) => continue,
            Err(_) => return,
        };
        let mut rest = &buffer[..length];
        while let Some((of, body, next)) = message(rest) {
            if of == kind {
                found(body);
            }
            rest = next;
        }
    }
}

/// Ask for a list, and pass what follows the header of each of its messages.
pub(crate) fn dump(
    socket: &OwnedFd,
    kind: u16,
    body: &[u8],
    found: &mut impl FnMut(&[u8]),
) -> io::Result<()> {
    send(socket, kind, NLM_F_REQUEST | NLM_F_DUMP, body)?;
    let mut buffer = vec![0; 64 << 10];
    loop {
        let length = recv(socket.as_raw_fd(), &mut buffer, MsgFlags::empty())?;
        let mut rest = &buffer[..length];
        while let Some((kind, body, next)) = message(rest) {
            match kind {
                NLMSG_DONE => return Ok(()),
                NLMSG_ERROR => return Err(refusal(body)),
                _ => found(body),
            }
            rest = next;
        }
        if length == 0 {
            return Ok(());
        }
    }
}

/// Ask for one message, and return what follows its header.
pub(crate) fn ask(socket: &OwnedFd, kind: u16, body: &[u8]) -> io::Result<Vec<u8>> {
    send(socket, kind, NLM_F_REQUEST, body)?;
    let mut buffer = vec![0; 16 << 10];
    let length = recv(socket.as_raw_fd(), &mut buffer, MsgFlags::empty())?;
    match message(&buffer[..length]) {
        Some((NLMSG_ERROR, body, _)) => Err(refusal(body)),
        Some((_, body, _)) => Ok(body.to_vec()),
        None => Err(io::ErrorKind::InvalidData.into()),
    }
}

fn send(socket: &OwnedFd, kind: u16, flags: u16, body: &[u8]) -> io::Result<()> {
    let length = u32::try_from(HEADER + body.len()).unwrap_or(u32::MAX);
    let mut request = Vec::with_capacity(HEADER + body.len());
    request.extend_from_slice(&length.to_ne_bytes());
    request.extend_from_slice(&kind.to_ne_bytes());
    request.extend_from_slice(&flags.to_ne_bytes());
    request.extend_from_slice(&[0; 8]);
    request.extend_from_slice(body);
    let kernel = NetlinkAddr::new(0, 0);
    sendto(socket.as_raw_fd(), &request, &kernel, MsgFlags::empty())?;
    Ok(())
}

/// Return the error of a `struct nlmsgerr`, which begins with a negative errno.
fn refusal(body: &[u8]) -> io::Error {
    let errno = word(body, 0).map_or(0, |errno| errno.cast_signed().wrapping_neg());
    io::Error::from_raw_os_error(errno)
}

/// Split the first message off: its type, what follows its header, and the next ones.
fn message(bytes: &[u8]) -> Option<(u16, &[u8], &[u8])> {
    let length = usize::try_from(word(bytes, 0)?).ok()?;
    let body = bytes.get(HEADER..length)?;
    let next = bytes.get(length.next_multiple_of(4)..).unwrap_or_default();
    Some((half(bytes, 4)?, body, next))
}

/// Split the first attribute off: its type, its value, and the next ones.
pub(crate) fn attribute(bytes: &[u8]) -> Option<(u16, &[u8], &[u8])> {
    let length = usize::from(half(bytes, 0)?);
    let value = bytes.get(4..length)?;
    let next = bytes.get(length.next_multiple_of(4)..).unwrap_or_default();
    Some((half(bytes, 2)?, value, next))
}

pub(crate) fn word(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_ne_bytes(bytes.get(at..at + 4)?.try_into().ok()?))
}

fn half(bytes: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_ne_bytes(bytes.get(at..at + 2)?.try_into().ok()?))
}

/// Return the value of the first attribute of a kind.
pub(crate) fn value(mut attributes: &[u8], wanted: u16) -> Option<&[u8]> {
    while let Some((kind, value, next)) = attribute(attributes) {
        if kind == wanted {
            return Some(value);
        }
        attributes = next;
    }
    None
}

#[cfg(test)]
mod tests {
    use nix::libc;

    use super::*;

    #[test]
    fn what_is_cut_short_is_no_message() {
        assert_eq!(message(&[]), None);
        assert_eq!(message(&[200, 0, 0, 0, 20, 0, 0, 0]), None);
        assert_eq!(attribute(&[9, 0, 7, 0, 1]), None);
        // A message shorter than its own header would never end.
        assert_eq!(attribute(&[0, 0, 7, 0, 1, 2, 3, 4]), None);
        assert_eq!(message(&[0; 32]), None);
    }

    /// As of a kernel without tcp_diag: -ENOENT, and the request.
    #[test]
    fn a_refused_request_has_the_kernels_errno() {
        let answer = (-libc::ENOENT).to_ne_bytes();
        assert_eq!(refusal(&answer).raw_os_error(), Some(libc::ENOENT));
    }
}
