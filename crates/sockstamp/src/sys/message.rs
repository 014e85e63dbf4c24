//! sendmsg(2) and recvmsg(2), of one and of many, with control messages and addresses as bytes.

use std::io::{IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, AsRawFd};
use std::ptr;

use nix::errno::Errno;

use super::number;

/// The most messages that one call of [`send_many`] or [`receive_many`] takes.
pub(crate) const BATCH: usize = 32;

/// Send `parts` as one message. `to` is a socket address as bytes, empty for none.
pub(crate) fn send(
    socket: impl AsFd,
    parts: &[IoSlice<'_>],
    to: &[u8],
    control: &[u8],
    flags: i32,
) -> nix::Result<usize> {
    let socket = socket.as_fd();
    let header = outgoing(Outgoing { parts, to, control });
    // SAFETY: all pointers of `header` are null with a length of zero, or point to slices that are
    // borrowed for the call and have at least the length given with them. The kernel only reads
    // through them (the header is const, and so is what it points to for sendmsg(2)) and keeps
    // none: with MSG_ZEROCOPY it holds pages, and what may happen to these is the caller's matter,
    // not one of memory safety, as long as the caller keeps them mapped. An IoSlice has the layout
    // of `struct iovec` (its documentation). The descriptor is open, as it is borrowed for the
    // call.
    let sent = unsafe { libc::sendmsg(socket.as_raw_fd(), &raw const header, flags) };
    Errno::result(sent).map(isize::unsigned_abs)
}

/// Send `parts` as [`send`] does, with `control`, into which some kernel may write.
pub(crate) fn send_returning(
    socket: impl AsFd,
    parts: &[IoSlice<'_>],
    to: &[u8],
    control: &mut [u8],
    flags: i32,
) -> nix::Result<usize> {
    let socket = socket.as_fd();
    let mut header = empty_header();
    header.msg_name = pointer(to).cast_mut().cast();
    header.msg_namelen = short(to.len());
    header.msg_iov = parts.as_ptr().cast_mut().cast();
    header.msg_iovlen = number(parts.len());
    header.msg_control = pointer_mut(control).cast();
    header.msg_controllen = number(control.len());
    // SAFETY: as in `send`, but for the pointer to `control`, through which the kernel may write:
    // it is borrowed mutably for the call, and its length is given with it; any bytes are valid
    // there.
    let sent = unsafe { libc::sendmsg(socket.as_raw_fd(), &raw const header, flags) };
    Errno::result(sent).map(isize::unsigned_abs)
}

/// A message of [`send_many`], in the parts that [`send`] takes.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Outgoing<'a> {
    pub(crate) parts: &'a [IoSlice<'a>],
    pub(crate) to: &'a [u8],
    pub(crate) control: &'a [u8],
}

/// Send `messages` in one call, at most [`BATCH`], until one fails, and return how many were sent;
/// their lengths are in `lengths`, at the same index. The error is the first message's alone.
pub(crate) fn send_many<'a>(
    socket: impl AsFd,
    messages: impl Iterator<Item = Outgoing<'a>>,
    lengths: &mut [usize; BATCH],
    flags: i32,
) -> nix::Result<usize> {
    let socket = socket.as_fd();
    let mut headers = [const { MaybeUninit::<libc::mmsghdr>::uninit() }; BATCH];
    let mut count = 0;
    for (header, message) in headers.iter_mut().zip(messages) {
        header.write(libc::mmsghdr {
            msg_hdr: outgoing(message),
            msg_len: 0,
        });
        count += 1;
    }
    // SAFETY: the first `count` elements of `headers` were written, each as in `send`, of slices
    // that outlive the call (`'a`). The kernel writes to `msg_len` of these elements alone.
    let result = unsafe {
        libc::sendmmsg(
            socket.as_raw_fd(),
            headers.as_mut_ptr().cast(),
            short(count),
            number(flags),
        )
    };
    let sent = Errno::result(result).map(i32::unsigned_abs)? as usize;
    for (header, length) in headers.iter().zip(lengths).take(sent.min(count)) {
        // SAFETY: one of the first `count`, which were written.
        *length = unsafe { header.assume_init_ref() }.msg_len as usize;
    }
    Ok(sent)
}

/// The buffers of one message. Empty slices are for unused parts.
#[derive(Debug, Default)]
pub(crate) struct Buffers<'a> {
    pub(crate) payload: &'a mut [u8],
    pub(crate) address: &'a mut [u8],
    pub(crate) control: &'a mut [u8],
}

/// The result: the used length of each buffer, and the flags of the message (MSG_TRUNC, MSG_CTRUNC,
/// MSG_ERRQUEUE).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Received {
    pub(crate) payload: usize,
    pub(crate) address: usize,
    pub(crate) control: usize,
    pub(crate) flags: i32,
}

impl Received {
    /// Return the full length of each buffer.
    fn room(buffers: &Buffers<'_>) -> Self {
        Self {
            payload: buffers.payload.len(),
            address: buffers.address.len(),
            control: buffers.control.len(),
            flags: 0,
        }
    }

    /// The kernel gives the length that an address or a datagram has, even where that is more than
    /// the room.
    fn fill(&mut self, header: &libc::msghdr, payload: usize) {
        self.payload = payload.min(self.payload);
        self.address = (header.msg_namelen as usize).min(self.address);
        self.control = number::<_, usize>(header.msg_controllen).min(self.control);
        self.flags = header.msg_flags;
    }
}

/// Receive one message.
pub(crate) fn receive(
    socket: impl AsFd,
    buffers: &mut Buffers<'_>,
    flags: i32,
) -> nix::Result<Received> {
    let socket = socket.as_fd();
    let mut what = Received::room(buffers);
    let mut part = IoSliceMut::new(buffers.payload);
    let mut header = header_of(&mut part, buffers.address, buffers.control);
    // SAFETY: as in `receive_many`, for one header.
    let received = unsafe { libc::recvmsg(socket.as_raw_fd(), &raw mut header, flags) };
    let payload = Errno::result(received).map(isize::unsigned_abs)?;
    what.fill(&header, payload);
    Ok(what)
}

/// Receive the available messages, at most one per element of `buffers` and at most [`BATCH`], and
/// return their number; their results are in `received`, at the same index. With MSG_DONTWAIT in
/// `flags` it never blocks.
pub(crate) fn receive_many<'a>(
    socket: impl AsFd,
    buffers: impl Iterator<Item = Buffers<'a>>,
    received: &mut [Received; BATCH],
    flags: i32,
) -> nix::Result<usize> {
    let socket = socket.as_fd();
    // Reserve room for all; unused elements cost nothing.
    let mut parts = [const { MaybeUninit::<IoSliceMut<'_>>::uninit() }; BATCH];
    let mut headers = [const { MaybeUninit::<libc::mmsghdr>::uninit() }; BATCH];
    let mut count = 0;
    for (((part, header), received), buffers) in parts
        .iter_mut()
        .zip(&mut headers)
        .zip(received.iter_mut())
        .zip(buffers)
    {
        *received = Received::room(&buffers);
        let part = part.write(IoSliceMut::new(buffers.payload));
        header.write(libc::mmsghdr {
            msg_hdr: header_of(part, buffers.address, buffers.control),
            msg_len: 0,
        });
        count += 1;
    }
    // SAFETY: the first `count` elements of `headers` were written. In these, all pointers are null
    // with a length of zero, or point to memory that outlives the call and is not otherwise used
    // during it: the elements of `parts`, which are not touched after their header was made, and
    // the slices of `buffers`, borrowed mutably and disjoint, each with its own length. An
    // IoSliceMut has the layout of `struct iovec` (its documentation). The kernel writes within
    // these lengths, and any bytes are valid there. No timeout is given; no pointer is kept. The
    // descriptor is open, as it is borrowed for the call.
    let result = unsafe {
        libc::recvmmsg(
            socket.as_raw_fd(),
            headers.as_mut_ptr().cast(),
            short(count),
            number(flags),
            ptr::null_mut(),
        )
    };
    let taken = Errno::result(result).map(i32::unsigned_abs)? as usize;
    for (header, received) in headers.iter().zip(received).take(taken.min(count)) {
        // SAFETY: one of the first `count`, which were written.
        let header = unsafe { header.assume_init_ref() };
        received.fill(&header.msg_hdr, header.msg_len as usize);
    }
    Ok(taken)
}

fn outgoing(message: Outgoing<'_>) -> libc::msghdr {
    let mut header = empty_header();
    header.msg_name = pointer(message.to).cast_mut().cast();
    header.msg_namelen = short(message.to.len());
    header.msg_iov = message.parts.as_ptr().cast_mut().cast();
    header.msg_iovlen = number(message.parts.len());
    header.msg_control = pointer(message.control).cast_mut().cast();
    header.msg_controllen = number(message.control.len());
    header
}

fn header_of(part: &mut IoSliceMut<'_>, address: &mut [u8], control: &mut [u8]) -> libc::msghdr {
    let mut header = empty_header();
    header.msg_name = pointer_mut(address).cast();
    header.msg_namelen = short(address.len());
    header.msg_iov = ptr::from_mut(part).cast();
    header.msg_iovlen = 1;
    header.msg_control = pointer_mut(control).cast();
    header.msg_controllen = number(control.len());
    header
}

fn empty_header() -> libc::msghdr {
    // SAFETY: `struct msghdr` has integers and pointers only, for which zero bytes are valid. (Some
    // C libraries have private padding in it, so it cannot be written as a literal.)
    unsafe { std::mem::zeroed() }
}

/// Null where there is nothing: a pointer to an empty slice dangles, and the kernel takes "no
/// address" from null alone.
fn pointer(bytes: &[u8]) -> *const u8 {
    if bytes.is_empty() {
        ptr::null()
    } else {
        bytes.as_ptr()
    }
}

fn pointer_mut(bytes: &mut [u8]) -> *mut u8 {
    if bytes.is_empty() {
        ptr::null_mut()
    } else {
        bytes.as_mut_ptr()
    }
}

/// Convert a length for a field of 32 bits by saturation: a length shorter than the slice is always
/// sound.
fn short(length: usize) -> u32 {
    u32::try_from(length).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests {
    use std::iter;
    use std::net::UdpSocket;

    use super::*;

    fn pair() -> (UdpSocket, UdpSocket) {
        let receiver = UdpSocket::bind("127.0.0.1:0").unwrap();
        let sender = UdpSocket::bind("127.0.0.1:0").unwrap();
        sender.connect(receiver.local_addr().unwrap()).unwrap();
        (sender, receiver)
    }

    #[test]
    fn many_come_in_order_with_addresses() {
        let (sender, receiver) = pair();
        for text in ["a", "bcd", ""] {
            let parts = [IoSlice::new(text.as_bytes()), IoSlice::new(b"!")];
            assert_eq!(send(&sender, &parts, &[], &[], 0), Ok(text.len() + 1));
        }
        let (mut payload, mut address) = ([[0; 3]; BATCH], [[0; 16]; BATCH]);
        let buffers = payload
            .iter_mut()
            .zip(&mut address)
            .map(|(payload, address)| Buffers {
                payload,
                address,
                control: &mut [],
            });
        let mut received = [Received::default(); BATCH];
        assert_eq!(
            receive_many(&receiver, buffers, &mut received, libc::MSG_DONTWAIT),
            Ok(3)
        );
        let lengths: Vec<_> = received[..3]
            .iter()
            .map(|received| (received.payload, received.address))
            .collect();
        assert_eq!(lengths, [(2, 16), (3, 16), (1, 16)]);
        assert_eq!(received[1].flags & libc::MSG_TRUNC, libc::MSG_TRUNC);
        assert_eq!(&payload[0][..2], b"a!");
        assert_eq!(&payload[1], b"bcd");
        assert_eq!(
            address[0][2..4],
            sender.local_addr().unwrap().port().to_be_bytes()
        );
    }

    #[test]
    fn receiving_nothing_is_eagain_and_does_not_block() {
        let (_, receiver) = pair();
        let mut received = [Received::default(); BATCH];
        assert_eq!(
            receive_many(
                &receiver,
                iter::once(Buffers::default()),
                &mut received,
                libc::MSG_DONTWAIT
            ),
            Err(Errno::EAGAIN)
        );
        assert_eq!(
            receive(&receiver, &mut Buffers::default(), libc::MSG_DONTWAIT),
            Err(Errno::EAGAIN)
        );
    }
}
