//! Completions that come back with the next send: a control message that the kernel fills in,
//! SCM_ZC_NOTIFICATION.
//!
//! Source: "sock: add MSG_ZEROCOPY notification mechanism based on msg_control", eighth and last
//! version, netdev, 30 July 2024. It was not merged. Its earlier versions had other layouts by the
//! same number, which on most architectures is 78, and since Linux 6.12 that is SO_DEVMEM_LINEAR's:
//! a kernel that takes the series up will have another one. So nothing is believed by the number:
//! the probe asks for a completion and looks whether it comes.

use std::io::IoSlice;
use std::net::{Ipv4Addr, UdpSocket};
use std::os::fd::AsFd;

use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, poll};

use crate::control::{Writer, space};
use crate::error_queue::ZeroCopyRange;
use crate::sys::{message, options};
use crate::{Error, Result};

const SCM_ZC_NOTIFICATION: i32 = 78;

/// `struct zc_info`: a count of four bytes, then `struct zc_info_elem`, twelve bytes each.
const COUNT: usize = 4;
const ELEMENT: usize = 12;
const ROOM_FOR_ONE: usize = COUNT + ELEMENT;
/// No completion of a new socket looks like that.
const UNTOUCHED: u8 = 0xff;

/// Return true if the running kernel copies completions back into a control message of a send, in
/// the layout of the last proposal. No kernel of kernel.org does;
/// [`ZeroCopySender`](super::ZeroCopySender) does not use it.
///
/// Takes a send to itself by a socket of its own, and no time worth mentioning.
///
/// # Errors
///
/// [`Error::Call`] if a socket cannot be made, or cannot send to itself over loopback.
pub fn copies_back() -> Result<bool> {
    let failed = |call| Error::call(call, "a socket of our own");
    let socket = to_itself().map_err(|errno| Error::Call {
        call: "bind",
        on: "a socket of our own".into(),
        errno,
    })?;
    match options::set(&socket, libc::SOL_SOCKET, libc::SO_ZEROCOPY, &1_i32) {
        Err(Errno::ENOPROTOOPT | Errno::EOPNOTSUPP) => return Ok(false),
        result => result.map_err(failed("setsockopt(SO_ZEROCOPY)"))?,
    }
    message::send(&socket, &[IoSlice::new(b"?")], &[], &[], libc::MSG_ZEROCOPY)
        .map_err(failed("sendmsg(MSG_ZEROCOPY)"))?;
    wait_for_completion(&socket);
    let mut control = request();
    match message::send_and_read_back(&socket, &mut control) {
        Err(Errno::EINVAL) => Ok(false),
        Err(errno) => Err(failed("sendmsg(SCM_ZC_NOTIFICATION)")(errno)),
        Ok(()) => Ok(completion(&control).is_some_and(|range| (range.first, range.last) == (0, 0))),
    }
}

fn to_itself() -> std::io::Result<UdpSocket> {
    let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0))?;
    socket.connect(socket.local_addr()?)?;
    Ok(socket)
}

/// Over loopback it is there when the send is done; if it is not, there is nothing to copy back,
/// and so the answer is no.
fn wait_for_completion(socket: impl AsFd) {
    const AT_MOST_MS: u8 = 100;
    let _ = poll(&mut [PollFd::new(socket.as_fd(), PollFlags::empty())], AT_MOST_MS);
}

/// A control message with room for one completion.
fn request() -> [u8; space(ROOM_FOR_ONE)] {
    let mut data = [UNTOUCHED; ROOM_FOR_ONE];
    data[..COUNT].copy_from_slice(&1_u32.to_ne_bytes());
    let mut control = [0; space(ROOM_FOR_ONE)];
    Writer::new(&mut control)
        .push(libc::SOL_SOCKET, SCM_ZC_NOTIFICATION, &data)
        .expect("it has the space for that");
    control
}

/// Decode what the kernel wrote into a [`request`]; `None` if it wrote nothing.
fn completion(control: &[u8; space(ROOM_FOR_ONE)]) -> Option<ZeroCopyRange> {
    let data = control.last_chunk::<{ space(ROOM_FOR_ONE) - space(0) }>()?;
    let (words, _) = data.as_chunks::<4>();
    let [count, first, last, _] = [0, 1, 2, 3].map(|word| u32::from_ne_bytes(words[word]));
    (count == 1).then(|| ZeroCopyRange {
        first,
        last,
        copied: data[COUNT + 8] == 0,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn header(length: u64) -> Vec<u8> {
        let words = [libc::SOL_SOCKET, 78].map(i32::to_ne_bytes);
        [&length.to_ne_bytes()[..], &words.concat()].concat()
    }

    #[test]
    fn the_request_has_room_for_one() {
        let data = [1, u32::MAX, u32::MAX, u32::MAX].map(u32::to_ne_bytes).concat();
        assert_eq!(request().to_vec(), [header(16 + 16), data].concat());
    }

    #[test]
    fn a_copied_back_completion_is_read() {
        let copied_back = |words: [u32; 3], zerocopy: u8| {
            let words = words.map(u32::to_ne_bytes).concat();
            let bytes = [header(32), words, vec![zerocopy, 0xff, 0xff, 0xff]].concat();
            completion(&bytes.try_into().unwrap())
        };
        let range = |copied| ZeroCopyRange {
            first: 3,
            last: 5,
            copied,
        };
        assert_eq!(copied_back([1, 3, 5], 1), Some(range(false)));
        assert_eq!(copied_back([1, 3, 5], 0), Some(range(true)));
        assert_eq!(copied_back([0, 3, 5], 1), None);
    }

    #[test]
    fn an_untouched_request_is_no_completion() {
        assert_ne!(completion(&request()).map(|range| range.first), Some(0));
    }

    #[test]
    fn no_kernel_copies_completions_back() {
        assert!(!copies_back().unwrap());
    }
}
