//! Who numbers the sends of a socket.

use std::os::fd::AsFd;
use std::sync::OnceLock;

use nix::sys::socket::{SockType, getsockopt, sockopt};

use crate::sys::options::unacknowledged;
use crate::timestamping::{Flag, Matcher, Options, Origin, Support, TxKind, restart_ids};
use crate::{Error, Result};

/// The numbers of a socket's sends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Ids {
    /// Each datagram has one of ours.
    Own,
    /// The kernel counts datagrams.
    Datagrams,
    /// The kernel counts bytes of a stream.
    Bytes,
}

impl Ids {
    /// Set the options, and return who numbers, with a matcher of these numbers.
    pub(super) fn prepare<T>(
        socket: impl AsFd,
        options: Options,
        capacity: usize,
        counted: bool,
    ) -> Result<(Self, Matcher<T>)> {
        let kind = getsockopt(&socket, sockopt::SockType)
            .map_err(Error::call("getsockopt(SO_TYPE)", "a socket"))?;
        let support = support()?;
        let options = options.only_stamps().id();
        let expected = expected(options);
        if kind == SockType::Stream {
            let origin = begin_stream(socket, options, support)?;
            return Ok((Self::Bytes, Matcher::stream(capacity, &expected, origin)));
        }
        options.apply(&socket)?;
        if support.own_id && !counted {
            return Ok((Self::Own, Matcher::chosen_ids(capacity, &expected)));
        }
        restart_ids(socket)?;
        Ok((Self::Datagrams, Matcher::datagrams(capacity, &expected)))
    }
}

/// Ask the kernel once: it does not change.
fn support() -> Result<Support> {
    static SUPPORT: OnceLock<Support> = OnceLock::new();
    if let Some(support) = SUPPORT.get() {
        return Ok(*support);
    }
    let support = Support::probe()?;
    Ok(*SUPPORT.get_or_init(|| support))
}

/// The stamps that each send requests.
pub(super) fn expected(options: Options) -> Vec<TxKind> {
    let kinds = [
        (Flag::TxSched, TxKind::Sched),
        (Flag::TxSoftware, TxKind::Snd),
        (Flag::TxHardware, TxKind::Snd),
        (Flag::TxCompletion, TxKind::Completion),
        (Flag::TxAck, TxKind::Ack),
    ];
    let requested = kinds.into_iter().filter(|(flag, _)| options.has(*flag));
    requested.map(|(_, kind)| kind).collect()
}

/// Begin the count of bytes, and return where.
fn begin_stream(socket: impl AsFd, options: Options, support: Support) -> Result<Origin> {
    let nothing = Options::new();
    if support.has(Flag::OptIdTcp) {
        nothing.apply(&socket)?;
        options.tcp_id().apply(&socket)?;
        return Ok(Origin::NextByte);
    }
    let outstanding =
        || unacknowledged(&socket).map_err(Error::call("ioctl(SIOCOUTQ)", "a socket"));
    loop {
        nothing.apply(&socket)?;
        let before = outstanding()?;
        options.apply(&socket)?;
        // An acknowledgement meanwhile would have moved the origin.
        if outstanding()? == before {
            return Ok(Origin::Unacknowledged {
                outstanding: before,
            });
        }
    }
}
