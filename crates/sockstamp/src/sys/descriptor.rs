//! Descriptors that other processes pass.

use std::io::IoSliceMut;
use std::os::fd::{AsFd, AsRawFd, FromRawFd, OwnedFd};

use nix::sys::socket::{ControlMessageOwned, MsgFlags, recvmsg};

/// Receive one message with at most one descriptor; return the number of bytes and the descriptor.
pub(crate) fn receive(
    socket: impl AsFd,
    buffer: &mut [u8],
) -> nix::Result<(usize, Option<OwnedFd>)> {
    let mut control = nix::cmsg_space!(i32);
    let mut parts = [IoSliceMut::new(buffer)];
    let message = recvmsg::<()>(
        socket.as_fd().as_raw_fd(),
        &mut parts,
        Some(&mut control),
        MsgFlags::MSG_CMSG_CLOEXEC,
    )?;
    let mut passed = Vec::new();
    for control in message.cmsgs()? {
        if let ControlMessageOwned::ScmRights(descriptors) = control {
            // SAFETY: the kernel made these descriptors for us in this call (scm_detach_fds(),
            // net/core/scm.c), and nothing else in this process knows their numbers: each is owned
            // once, here.
            passed.extend(
                descriptors
                    .into_iter()
                    .map(|descriptor| unsafe { OwnedFd::from_raw_fd(descriptor) }),
            );
        }
    }
    Ok((message.bytes, passed.into_iter().next()))
}
