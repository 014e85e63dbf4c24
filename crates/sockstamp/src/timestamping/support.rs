use std::io::IoSlice;
use std::net::{Ipv4Addr, SocketAddr};
use std::os::fd::OwnedFd;

use nix::errno::Errno;

use crate::control::{Address, SO_TIMESTAMPING, SO_TIMESTAMPING_NEW, Writer};
use crate::sys::message::send;
use crate::sys::options::{SoTimestamping, get, set};
use crate::{Result, socket};

use super::Flag;
use super::MessageOptions;
use super::options::Options;

/// The options that this kernel accepts, whatever the network interfaces support (see
/// [`interface::capabilities`](crate::interface::capabilities)).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Support {
    flags: u32,
    /// [`Options::wide`]: SO_TIMESTAMPING_NEW, since v5.1.
    pub wide: bool,
    /// [`MessageOptions::id`]: the sender's own id for a message, SCM_TS_OPT_ID, since v6.13. TCP
    /// refuses it on every kernel.
    pub own_id: bool,
}

impl Support {
    /// Tries each option on a socket that is thrown away. Nothing is sent, and nothing is stamped.
    /// Needs no privilege.
    ///
    /// # Errors
    ///
    /// [`Error::Call`](crate::Error::Call) if the process may have no UDP socket.
    pub fn probe() -> Result<Self> {
        let socket = socket::unbound()?;
        let own_id = takes_own_id(&socket);
        let accepted = Flag::ALL.into_iter().filter(|flag| accepts(&socket, *flag));
        Ok(Self {
            flags: accepted.fold(0, |bits, flag| bits | flag.bit()),
            wide: try_to_set(&socket, SO_TIMESTAMPING_NEW, Flag::TxSoftware.bit()).is_ok(),
            own_id,
        })
    }

    /// Return true if the kernel accepts this flag.
    #[must_use]
    pub const fn has(&self, flag: Flag) -> bool {
        self.flags & flag.bit() != 0
    }

    /// Return the options that the kernel lacks.
    pub fn missing(&self, options: Options) -> impl Iterator<Item = Flag> {
        Flag::all_in(options.bits() & !self.flags)
    }
}

impl Options {
    /// Return the options without those that this kernel lacks, and without those that depend on
    /// them.
    pub fn where_supported(self, support: &Support) -> Self {
        self.limited(|flag| support.has(flag), support.wide)
    }
}

fn accepts(socket: &OwnedFd, flag: Flag) -> bool {
    match flag {
        Flag::BindPhc => takes_phc(socket),
        // Assume it: it is as old as the option, and a trial would enable stamping for the whole
        // host for a moment.
        Flag::RxSoftware => true,
        _ => try_to_set(socket, SO_TIMESTAMPING, flag.bit() | flag.needs()).is_ok(),
    }
}

fn try_to_set(socket: &OwnedFd, name: i32, flags: u32) -> nix::Result<()> {
    set(
        socket,
        libc::SOL_SOCKET,
        name,
        &SoTimestamping { flags, bind_phc: 0 },
    )
}

/// Test the size of the option, which has grown with this flag (v5.14): setting the flag would
/// leave a line in the kernel's log (`sock_timestamping_bind_phc()` in net/core/sock.c, v6.18).
fn takes_phc(socket: &OwnedFd) -> bool {
    let nothing = SoTimestamping {
        flags: 0,
        bind_phc: 0,
    };
    get(socket, libc::SOL_SOCKET, SO_TIMESTAMPING, nothing)
        .is_ok_and(|(_, written)| written == size_of::<SoTimestamping>())
}

/// A kernel that does not know the control message refuses the send (EINVAL, `__sock_cmsg_send()`
/// in net/core/sock.c, v6.18). One that does corks it, by MSG_MORE, and drops it when the socket is
/// closed. Any other failure comes later in the send.
fn takes_own_id(socket: &OwnedFd) -> bool {
    let nowhere = Address::from(SocketAddr::from((Ipv4Addr::LOCALHOST, 9)));
    let mut control = [0; MessageOptions::SPACE];
    let mut control = Writer::new(&mut control);
    let written = MessageOptions::new().id(0).write(&mut control).is_ok();
    written
        && try_to_set(socket, SO_TIMESTAMPING, Flag::OptId.bit()).is_ok()
        && send(
            socket,
            &[IoSlice::new(&[])],
            nowhere.as_bytes(),
            control.written(),
            libc::MSG_MORE | libc::MSG_DONTWAIT,
        ) != Err(Errno::EINVAL)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_accepted_flag_can_be_applied_and_each_other_not() {
        let support = Support::probe().unwrap();
        let socket = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
        for flag in Flag::ALL {
            // Needs a virtual clock to be applied.
            if flag == Flag::BindPhc {
                continue;
            }
            let options = Options::new().with(flag);
            let options = Flag::all_in(flag.needs()).fold(options, Options::with);
            assert_eq!(options.apply(&socket).is_ok(), support.has(flag), "{flag}");
        }
    }

    #[test]
    fn features_of_every_supported_kernel_are_found() {
        let support = Support::probe().unwrap();
        let old = Flag::ALL.into_iter().filter(|flag| *flag <= Flag::BindPhc);
        assert_eq!(
            old.filter(|flag| !support.has(*flag)).collect::<Vec<_>>(),
            []
        );
        assert!(support.wide);
    }

    #[test]
    fn missing_features_are_named_and_left_out() {
        let old = Support {
            flags: (1 << 16) - 1,
            wide: false,
            own_id: false,
        };
        let options = Options::new().tx_ack().tcp_id().rx_filter().wide();
        let missing: Vec<_> = old.missing(options).collect();
        assert_eq!(missing, [Flag::OptIdTcp, Flag::OptRxFilter]);
        assert_eq!(options.where_supported(&old), Options::new().tx_ack().id());
    }
}
