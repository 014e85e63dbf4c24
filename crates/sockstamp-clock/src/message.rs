//! Requests of one sent message to the kernel, as control messages.

use std::net::IpAddr;

use crate::control::{NoSpace, SCM_TS_OPT_ID, SO_TIMESTAMPING, SO_TXTIME, Writer, space};
use crate::flag::Flag;
use crate::linux::{
    IP_PKTINFO, IP_TOS, IPPROTO_IP, IPPROTO_IPV6, IPV6_PKTINFO, IPV6_TCLASS, SOL_SOCKET, SOL_UDP,
    UDP_SEGMENT,
};
use crate::time::{Clock, Timestamp};

/// What is requested for one message: its stamps and their id, its source, its traffic class, its
/// segments, its departure. Without any, the socket's options apply.
///
/// Stamps are reported only if the socket has [`Flag::Software`] or [`Flag::RawHardware`].
///
/// For a program with a sendmsg(2) of its own:
///
/// ```
/// use sockstamp_clock::MessageOptions;
/// use sockstamp_clock::control::Writer;
///
/// let mut control = [0; MessageOptions::SPACE];
/// let mut writer = Writer::new(&mut control);
/// let options = MessageOptions::new().tx_software().id(7);
/// options.write(&mut writer).expect("SPACE is room for all");
/// let control = writer.written(); // for msg_control
/// # assert!(!control.is_empty());
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
#[must_use]
pub struct MessageOptions {
    flags: Option<u32>,
    id: Option<u32>,
    dont_wait: bool,
    source: Option<IpAddr>,
    class: Option<(Version, u8)>,
    segment: Option<u16>,
    departure: Option<u64>,
}

/// An IP version, of a control message that has two forms.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Version {
    /// IPv4.
    V4,
    /// IPv6.
    V6,
}

impl MessageOptions {
    /// The most bytes that [`write`](Self::write) takes.
    pub const SPACE: usize =
        3 * space(size_of::<u32>()) + space(IN6_PKTINFO) + space(2) + space(size_of::<u64>());

    /// The most datagrams that every kernel with [`segments`](Self::segments) makes of one message:
    /// UDP_MAX_SEGMENTS, which is 128 since Linux 6.9.
    pub const MAX_SEGMENTS: usize = 64;

    /// Use the socket's options.
    pub const fn new() -> Self {
        Self {
            flags: None,
            id: None,
            dont_wait: false,
            source: None,
            class: None,
            segment: None,
            departure: None,
        }
    }

    /// No stamps, whatever the socket has.
    pub const fn unstamped(self) -> Self {
        Self {
            flags: Some(0),
            ..self
        }
    }

    /// Request the stamp before the packet scheduler: [`Flag::TxSched`].
    pub const fn tx_sched(self) -> Self {
        self.with(Flag::TxSched)
    }

    /// Request the driver's stamp: [`Flag::TxSoftware`].
    pub const fn tx_software(self) -> Self {
        self.with(Flag::TxSoftware)
    }

    /// Request the network interface's stamp: [`Flag::TxHardware`].
    pub const fn tx_hardware(self) -> Self {
        self.with(Flag::TxHardware)
    }

    /// Request the stamp of the acknowledgement: [`Flag::TxAck`].
    pub const fn tx_ack(self) -> Self {
        self.with(Flag::TxAck)
    }

    /// Request the stamp of the hardware's completion: [`Flag::TxCompletion`].
    pub const fn tx_completion(self) -> Self {
        self.with(Flag::TxCompletion)
    }

    /// The id of this message's stamps, in the place of a counted one: SCM_TS_OPT_ID, since v6.13.
    /// The socket must have [`Flag::OptId`], and must not be TCP. The kernel
    /// does not count this message.
    pub const fn id(self, id: u32) -> Self {
        Self {
            id: Some(id),
            ..self
        }
    }

    /// Do not block (MSG_DONTWAIT).
    pub const fn dont_wait(self) -> Self {
        Self {
            dont_wait: true,
            ..self
        }
    }

    /// Send from this address of the host, of the version of the destination: IP_PKTINFO or
    /// IPV6_PKTINFO.
    pub const fn source(self, address: IpAddr) -> Self {
        Self {
            source: Some(address),
            ..self
        }
    }

    /// Send with this traffic class, whose lower two bits are ECN: IP_TOS or IPV6_TCLASS, by the
    /// version of the packet. It is IPv4 to a mapped address as well.
    pub const fn traffic_class(self, version: Version, class: u8) -> Self {
        Self {
            class: Some((version, class)),
            ..self
        }
    }

    /// Send datagrams of `bytes` each, and the rest as the last one: UDP_SEGMENT. The kernel
    /// accepts [`MAX_SEGMENTS`](Self::MAX_SEGMENTS) of them, within one IP packet's length. The
    /// stamps are those of the first.
    pub const fn segments(self, bytes: u16) -> Self {
        Self {
            segment: Some(bytes),
            ..self
        }
    }

    /// Have the packet scheduler hold the message until `time`: SCM_TXTIME, since v4.19. The socket
    /// must have SO_TXTIME with this clock, and the interface fq, etf or taprio; others send at
    /// once.
    pub const fn departure<C: Clock>(self, time: Timestamp<C>) -> Self {
        Self {
            departure: Some(time.as_nanos()),
            ..self
        }
    }

    /// Return true if the send shall not block, which is a flag of the call and no control message.
    #[must_use]
    pub const fn is_dont_wait(self) -> bool {
        self.dont_wait
    }

    /// Use the socket's count for the id of the stamps.
    pub const fn without_id(self) -> Self {
        Self { id: None, ..self }
    }

    /// Return true if the message requests a stamp, on a socket with these
    /// [flags](Flag::bit).
    #[must_use]
    pub fn requests_stamps(self, socket: u32) -> bool {
        let requested = self.flags.unwrap_or(socket);
        Flag::all_in(requested).any(Flag::stamps_sends)
    }

    const fn with(self, flag: Flag) -> Self {
        let flags = match self.flags {
            Some(flags) => flags,
            None => 0,
        };
        Self {
            flags: Some(flags | flag.bit()),
            ..self
        }
    }

    /// Write the control messages behind those that `writer` has.
    ///
    /// # Errors
    ///
    /// [`NoSpace`] if they do not fit into its buffer; some of them may have been written.
    pub fn write(self, writer: &mut Writer<'_>) -> Result<(), NoSpace> {
        for (kind, value) in [(SO_TIMESTAMPING, self.flags), (SCM_TS_OPT_ID, self.id)] {
            if let Some(value) = value {
                writer.push(SOL_SOCKET, kind, &value.to_ne_bytes())?;
            }
        }
        match self.source {
            None => {}
            Some(IpAddr::V4(address)) => {
                let mut bytes = [0; IN_PKTINFO];
                bytes[4..8].copy_from_slice(&address.octets());
                writer.push(IPPROTO_IP, IP_PKTINFO, &bytes)?;
            }
            Some(IpAddr::V6(address)) => {
                let mut bytes = [0; IN6_PKTINFO];
                bytes[..16].copy_from_slice(&address.octets());
                writer.push(IPPROTO_IPV6, IPV6_PKTINFO, &bytes)?;
            }
        }
        if let Some((version, class)) = self.class {
            let (level, kind) = match version {
                Version::V4 => (IPPROTO_IP, IP_TOS),
                Version::V6 => (IPPROTO_IPV6, IPV6_TCLASS),
            };
            writer.push(level, kind, &i32::from(class).to_ne_bytes())?;
        }
        if let Some(bytes) = self.segment {
            writer.push(SOL_UDP, UDP_SEGMENT, &bytes.to_ne_bytes())?;
        }
        if let Some(nanos) = self.departure {
            writer.push(SOL_SOCKET, SO_TXTIME, &nanos.to_ne_bytes())?;
        }
        Ok(())
    }
}

/// The size of `struct in_pktinfo`: the interface, the source, and the destination of received
/// packets.
const IN_PKTINFO: usize = 12;
/// The size of `struct in6_pktinfo`: the address, and the interface.
const IN6_PKTINFO: usize = 20;

#[cfg(test)]
mod tests {
    use std::net::{Ipv4Addr, Ipv6Addr};

    use super::*;
    use crate::control::{Control, parse};
    use crate::time::Tai;

    fn written(options: MessageOptions) -> Vec<u8> {
        let mut bytes = [0xff; MessageOptions::SPACE];
        let mut writer = Writer::new(&mut bytes);
        options.write(&mut writer).unwrap();
        writer.written().to_vec()
    }

    #[test]
    fn unrequested_options_are_not_in_the_control_messages() {
        assert!(written(MessageOptions::new().dont_wait()).is_empty());
        let bytes = written(MessageOptions::new().id(7));
        let id = Control::Other {
            level: SOL_SOCKET,
            kind: SCM_TS_OPT_ID,
            data: &7_u32.to_ne_bytes(),
        };
        assert_eq!(parse(&bytes).collect::<Vec<_>>(), [Ok(id)]);
    }

    #[test]
    fn a_request_of_no_stamps_replaces_the_sockets_stamps() {
        let socket = Flag::TxSched.bit() | Flag::OptId.bit();
        let (unstamped, plain) = (MessageOptions::new().unstamped(), MessageOptions::new());
        assert_ne!(written(unstamped), written(plain));
        assert!(!unstamped.requests_stamps(socket));
        assert!(plain.requests_stamps(socket) && !plain.requests_stamps(Flag::OptId.bit()));
        assert!(unstamped.tx_ack().requests_stamps(0));
    }

    #[test]
    fn all_options_fit_and_no_less() {
        let v6 = IpAddr::from(Ipv6Addr::LOCALHOST);
        let all = MessageOptions::new()
            .tx_sched()
            .id(1)
            .source(v6)
            .segments(9);
        let all = all.traffic_class(Version::V6, 1);
        let all = all.departure(Timestamp::<Tai>::from_nanos(5));
        assert_eq!(written(all).len(), MessageOptions::SPACE);
        let mut short = [0; MessageOptions::SPACE - 1];
        assert!(all.write(&mut Writer::new(&mut short)).is_err());
        let v4 = MessageOptions::new().source(Ipv4Addr::LOCALHOST.into());
        assert!(written(v4).windows(4).any(|bytes| bytes == [127, 0, 0, 1]));
    }
}
