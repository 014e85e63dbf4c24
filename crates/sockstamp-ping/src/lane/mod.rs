//! Lanes: sockets shared by all targets of one protocol with the same settings.

mod filter;
mod port;

use std::io;
use std::mem::MaybeUninit;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::os::fd::AsFd;

use nix::errno::Errno;
use nix::sys::socket::{setsockopt, sockopt};
use socket2::{Domain, Protocol as IpProtocol, SockRef, Socket, Type};
use sockstamp::socket_options::{PathMtu, Version, accept_icmp, checksum_at, set_path_mtu};
use sockstamp::timestamping::Support;

use crate::packet::{Content, icmp, tcp};
use crate::{Error, Protocol, Result, Sockets, Target};

pub(crate) use port::{Port, Probe};

/// Source ports of UDP and TCP, used in turn: a packet to one port is about every 64th probe, even
/// if nothing else in it identifies the probe, and a SYN does not meet its predecessor's state at
/// the peer.
pub(crate) const PORTS: usize = 64;
/// `PORTS` is 2 to the power of this.
pub(crate) const PORT_BITS: u32 = 6;

/// The system's hop limit, unless an administrator has changed it (RFC 1700).
const DEFAULT_HOPS: u8 = 64;

/// Sends per socket whose stamps are awaited: at most those of about 100 ms at 10 000 per second.
const AWAITED: usize = 1 << 12;
/// The same for each of many sockets.
const AWAITED_BY_EACH: usize = 1 << 8;

/// Bytes of receive buffer: a stamp or a small packet takes about 800, and nothing is read while
/// the prober does not run. 10 000 probes a second fill it in more than half a second.
const RECEIVE_BUFFER: usize = 16 << 20;
const RECEIVE_BUFFER_OF_EACH: usize = 256 << 10;

/// The properties shared by targets that use the same sockets.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct Key {
    transport: Transport,
    v4: bool,
    scope: u32,
    hop_limit: Option<u8>,
    traffic_class: Option<u8>,
    source: Option<IpAddr>,
    interface: Option<String>,
    path_mtu: Option<PathMtu>,
    mark: Option<u32>,
    identifier: Option<u16>,
    send_buffer: Option<u32>,
    one_path: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Transport {
    Icmp,
    Udp,
    Tcp,
}

impl Key {
    pub(crate) fn of(target: &Target) -> Self {
        let settings = &target.settings;
        Self {
            transport: match target.protocol {
                Protocol::Icmp => Transport::Icmp,
                Protocol::Udp { .. } => Transport::Udp,
                Protocol::Tcp { .. } => Transport::Tcp,
            },
            v4: target.address.is_ipv4(),
            scope: target.scope,
            // Probes of one path share a socket, whose hop limit changes with each.
            hop_limit: settings.hop_limit.filter(|_| !settings.one_path),
            traffic_class: settings.traffic_class,
            source: settings.source,
            interface: settings.interface.clone(),
            path_mtu: settings.path_mtu,
            mark: settings.mark,
            identifier: settings.identifier,
            send_buffer: settings.send_buffer,
            one_path: settings.one_path,
        }
    }

    /// The number of source ports.
    fn ports(&self) -> usize {
        if self.one_path { 1 } else { PORTS }
    }

    fn domain(&self) -> Domain {
        if self.v4 { Domain::IPV4 } else { Domain::IPV6 }
    }

    fn version(&self) -> Version {
        if self.v4 { Version::V4 } else { Version::V6 }
    }

    fn types(&self) -> icmp::Types {
        if self.v4 { icmp::V4 } else { icmp::V6 }
    }

    fn local(&self) -> SocketAddr {
        let any = if self.v4 {
            IpAddr::from(Ipv4Addr::UNSPECIFIED)
        } else {
            Ipv6Addr::UNSPECIFIED.into()
        };
        self.peer(self.source.unwrap_or(any), 0)
    }

    pub(crate) fn peer(&self, address: IpAddr, port: u16) -> SocketAddr {
        let mut address = SocketAddr::new(address, port);
        if let SocketAddr::V6(v6) = &mut address {
            v6.set_scope_id(self.scope);
        }
        address
    }

    /// A socket with these settings, not bound. It does not block.
    fn socket(&self, kind: Type, protocol: IpProtocol) -> Result<Socket> {
        let socket = Socket::new(self.domain(), kind.nonblocking().cloexec(), Some(protocol))
            .map_err(Error::call("socket", name(kind, protocol)))?;
        let set = |setting, value: String, result: io::Result<()>| {
            result.map_err(|errno| Error::Refused {
                setting,
                value,
                errno,
            })
        };
        if let Some(interface) = &self.interface {
            let bound = socket.bind_device(Some(interface.as_bytes()));
            set("interface", interface.clone(), bound)?;
        }
        if let Some(hops) = self.hop_limit {
            set(
                "hop limit",
                hops.to_string(),
                self.limit_hops(&socket, hops),
            )?;
        }
        if let Some(class) = self.traffic_class {
            let done = match self.v4 {
                true => socket.set_tos_v4(class.into()),
                false => socket.set_tclass_v6(class.into()),
            };
            set("traffic class", class.to_string(), done)?;
        }
        if let Some(mark) = self.mark {
            set("mark", mark.to_string(), socket.set_mark(mark))?;
        }
        if let Some(bytes) = self.send_buffer {
            let size = usize::try_from(bytes).unwrap_or(usize::MAX);
            let done = socket.set_send_buffer_size(size);
            set("send buffer", bytes.to_string(), done)?;
        }
        if let Some(discovery) = self.path_mtu {
            set_path_mtu(&socket, self.version(), discovery)?;
        }
        Ok(socket)
    }

    fn limit_hops(&self, socket: &Socket, hops: u8) -> io::Result<()> {
        match self.v4 {
            true => socket.set_ttl_v4(hops.into()),
            false => socket.set_unicast_hops_v6(hops.into()),
        }
    }

    /// Create a socket that reports network errors by its error queue, and hop limits of received
    /// packets.
    fn observed(&self, kind: Type, protocol: IpProtocol, buffer: usize) -> Result<Socket> {
        let socket = self.socket(kind, protocol)?;
        let observed = match self.v4 {
            true => setsockopt(&socket, sockopt::Ipv4RecvErr, &true)
                .and_then(|()| setsockopt(&socket, sockopt::Ipv4RecvTtl, &true)),
            false => setsockopt(&socket, sockopt::Ipv6RecvErr, &true)
                .and_then(|()| setsockopt(&socket, sockopt::Ipv6RecvHopLimit, &true)),
        };
        observed.map_err(Error::call(
            "setsockopt(IP_RECVERR, IP_RECVTTL)",
            name(kind, protocol),
        ))?;
        // Without CAP_NET_ADMIN net.core.rmem_max is the limit.
        if setsockopt(&socket, sockopt::RcvBufForce, &buffer).is_err() {
            socket
                .set_recv_buffer_size(buffer)
                .map_err(Error::call("setsockopt(SO_RCVBUF)", name(kind, protocol)))?;
        }
        Ok(socket)
    }

    fn bind(&self, socket: &Socket) -> Result<()> {
        let local = self.local();
        socket.bind(&local.into()).map_err(|errno| Error::Refused {
            setting: "source",
            value: local.ip().to_string(),
            errno,
        })
    }

    /// Bind a ping socket, whose port is the identifier of its requests (`ping_get_port()` in
    /// net/ipv4/ping.c, v6.18).
    fn bind_as(&self, socket: &Socket, identifier: u16) -> Result<()> {
        let local = self.peer(self.local().ip(), identifier);
        socket.bind(&local.into()).map_err(|errno| Error::Refused {
            setting: "identifier",
            value: identifier.to_string(),
            errno,
        })
    }
}

fn name(kind: Type, protocol: IpProtocol) -> &'static str {
    match (kind, protocol) {
        (Type::RAW, IpProtocol::TCP) => "raw TCP",
        (Type::RAW, _) => "raw ICMP",
        (_, IpProtocol::UDP) => "UDP",
        (_, IpProtocol::TCP) => "TCP",
        _ => "a ping socket",
    }
}

/// Sockets that many targets share.
#[derive(Debug)]
pub(crate) struct Lane {
    pub(crate) key: Key,
    pub(crate) kind: Kind,
    /// One port, or as many as there are source ports.
    pub(crate) ports: Vec<Port>,
    /// Number of destinations that use it.
    pub(crate) destinations: usize,
    /// The hop limit of the next probe, where probes differ in it.
    hop_limit: Option<u8>,
}

#[derive(Debug)]
pub(crate) enum Kind {
    /// The kernel chose the identifier and lets nothing else in.
    Ping,
    /// Raw ICMP.
    RawIcmp {
        identifier: u16,
    },
    Udp,
    /// Raw TCP. Sockets that neither listen nor connect hold the ports: no other socket gets them,
    /// and the kernel answers packets to them with RST (`tcp_v4_rcv()` in net/ipv4/tcp_ipv4.c,
    /// v6.18: no socket is found).
    RawTcp {
        ports: Vec<u16>,
        _held: Vec<Socket>,
    },
    /// connect(2), a socket for each probe.
    Connect,
}

impl Lane {
    /// `identifier` is for raw ICMP.
    pub(crate) fn open(key: Key, support: &Support, identifier: u16) -> Result<Self> {
        let (kind, ports) = match key.transport {
            Transport::Icmp => icmp_ports(&key, support, identifier)?,
            Transport::Udp => (Kind::Udp, udp_ports(&key, support)?),
            Transport::Tcp => tcp_ports(&key, support)?,
        };
        Ok(Self {
            key,
            kind,
            ports,
            destinations: 0,
            hop_limit: None,
        })
    }

    /// Set the hop limit of the next probe, of those that keep to one path and so share a socket;
    /// none is the system's.
    pub(crate) fn set_hop_limit(&mut self, hops: Option<u8>) -> io::Result<()> {
        if !self.key.one_path || hops == self.hop_limit {
            return Ok(());
        }
        for port in &self.ports {
            self.key
                .limit_hops(port.socket(), hops.unwrap_or(DEFAULT_HOPS))?;
        }
        self.hop_limit = hops;
        Ok(())
    }

    /// Return the index of a source port among those that are used in turn.
    pub(crate) fn turn_of(&self, port: usize) -> Option<usize> {
        (!self.key.one_path).then_some(port)
    }

    pub(crate) fn sockets(&self) -> Sockets {
        match self.kind {
            Kind::Ping => Sockets::Ping,
            Kind::RawIcmp { .. } => Sockets::RawIcmp,
            Kind::Udp => Sockets::Udp,
            Kind::RawTcp { .. } => Sockets::RawTcp,
            Kind::Connect => Sockets::Connect,
        }
    }

    /// Return the index of the socket for a probe.
    pub(crate) fn port_of(&self, number: u64) -> usize {
        match self.ports.len() {
            PORTS => place(number),
            _ => 0,
        }
    }

    /// Write the packet of an ICMP probe.
    pub(crate) fn echo_request(
        &self,
        packet: &mut Vec<u8>,
        number: u64,
        cookie: u64,
        content: &Content,
    ) {
        let identifier = match self.kind {
            Kind::RawIcmp { identifier } => identifier,
            _ => 0,
        };
        icmp::write_request(
            packet,
            self.key.types(),
            identifier,
            low(number),
            cookie,
            content,
        );
    }

    /// Parse the reply in a packet from an ICMP socket; `None` if it is no reply, or is truncated
    /// within its header.
    pub(crate) fn echo_reply<'a>(&self, packet: &'a [u8]) -> Option<icmp::Echo<'a>> {
        let icmp = match self.kind {
            Kind::RawIcmp { .. } => self.without_ip_header(packet)?,
            _ => packet,
        };
        icmp::parse(icmp).filter(|echo| echo.kind == self.key.types().reply && self.is_ours(echo))
    }

    /// Parse the request quoted by an ICMP error.
    pub(crate) fn echo_request_in<'a>(&self, quoted: &'a [u8]) -> Option<icmp::Echo<'a>> {
        icmp::parse(quoted)
            .filter(|echo| echo.kind == self.key.types().request && self.is_ours(echo))
    }

    fn is_ours(&self, echo: &icmp::Echo<'_>) -> bool {
        match self.kind {
            Kind::RawIcmp { identifier } => echo.identifier == identifier,
            _ => true,
        }
    }

    /// Raw sockets of IPv4 receive it, those of IPv6 do not: raw(7), RFC 3542.
    pub(crate) fn without_ip_header<'a>(&self, packet: &'a [u8]) -> Option<&'a [u8]> {
        match self.key.v4 {
            true => crate::packet::without_ipv4_header(packet),
            false => Some(packet),
        }
    }

    /// A socket for one connection, on its way.
    pub(crate) fn connect(&self, to: SocketAddr) -> io::Result<Socket> {
        let socket = self
            .key
            .socket(Type::STREAM, IpProtocol::TCP)
            .and_then(|socket| {
                self.key.bind(&socket)?;
                Ok(socket)
            })
            .map_err(into_io)?;
        // Closed, it leaves no TIME_WAIT here and no connection there.
        socket.set_linger(Some(std::time::Duration::ZERO))?;
        match socket.connect(&to.into()) {
            Err(error) if error.raw_os_error() == Some(Errno::EINPROGRESS as i32) => Ok(socket),
            Err(error) => Err(error),
            Ok(()) => Ok(socket),
        }
    }

    /// Return the source address of the route to a peer, which the kernel will put into the header.
    pub(crate) fn source_towards(&self, peer: SocketAddr) -> io::Result<IpAddr> {
        let socket = self
            .key
            .socket(Type::DGRAM, IpProtocol::UDP)
            .map_err(into_io)?;
        self.key.bind(&socket).map_err(into_io)?;
        socket.connect(&peer.into())?;
        let local = socket.local_addr()?.as_socket();
        local
            .map(|local| local.ip())
            .ok_or_else(|| Errno::EAFNOSUPPORT.into())
    }
}

/// Return the bits of a probe's number that the packet carries.
pub(crate) fn low(number: u64) -> u16 {
    u16::try_from(number & 0xffff).expect("the low 16 bits")
}

fn place(number: u64) -> usize {
    usize::try_from(number % PORTS as u64).expect("fewer than the ports")
}

fn into_io(error: Error) -> io::Error {
    match error {
        Error::Call { errno, .. } | Error::Refused { errno, .. } => errno,
        other => io::Error::other(other),
    }
}

fn icmp_ports(key: &Key, support: &Support, identifier: u16) -> Result<(Kind, Vec<Port>)> {
    let identifier = key.identifier.unwrap_or(identifier);
    let protocol = if key.v4 {
        IpProtocol::ICMPV4
    } else {
        IpProtocol::ICMPV6
    };
    let open = |kind| key.observed(kind, protocol, RECEIVE_BUFFER);
    let (kind, socket) = match open(Type::DGRAM) {
        Ok(socket) => (Kind::Ping, socket),
        Err(error) if is_denied(&error) => match open(Type::RAW) {
            Err(error) if is_denied(&error) => return Err(Error::NoIcmpSocket),
            raw => (Kind::RawIcmp { identifier }, raw?),
        },
        Err(error) => return Err(error),
    };
    if matches!(kind, Kind::RawIcmp { .. }) {
        // On loopback it sees the requests, too.
        accept_icmp(&socket, key.version(), &[key.types().reply])?;
        let filter = filter::echo_replies(key.v4, key.types(), identifier);
        attach(&socket, &filter)?;
    }
    match (&kind, key.identifier) {
        (Kind::Ping, Some(identifier)) => key.bind_as(&socket, identifier)?,
        _ => key.bind(&socket)?,
    }
    Ok((kind, vec![Port::new(socket, support, AWAITED)?]))
}

fn udp_ports(key: &Key, support: &Support) -> Result<Vec<Port>> {
    let port = |_| {
        let socket = key.observed(Type::DGRAM, IpProtocol::UDP, RECEIVE_BUFFER_OF_EACH)?;
        key.bind(&socket)?;
        Ok(Port::new(socket, support, AWAITED_BY_EACH)?)
    };
    (0..key.ports()).map(port).collect()
}

fn tcp_ports(key: &Key, support: &Support) -> Result<(Kind, Vec<Port>)> {
    let raw = match key.observed(Type::RAW, IpProtocol::TCP, RECEIVE_BUFFER) {
        Err(error) if is_denied(&error) => return Ok((Kind::Connect, Vec::new())),
        raw => raw?,
    };
    let hold = |_| {
        let socket = key.socket(Type::STREAM, IpProtocol::TCP)?;
        if !key.v4 {
            // Else the same port of IPv4 would be taken, too.
            socket
                .set_only_v6(true)
                .map_err(Error::call("setsockopt(IPV6_V6ONLY)", "TCP"))?;
        }
        key.bind(&socket)?;
        Ok(socket)
    };
    let held: Vec<Socket> = (0..key.ports()).map(hold).collect::<Result<_>>()?;
    let ports: Vec<u16> = held.iter().map(local_port).collect::<Result<_>>()?;
    attach(&raw, &filter::answers_to_syns(key.v4, &ports))?;
    if !key.v4 {
        checksum_at(&raw, tcp::CHECKSUM_AT)?;
    }
    key.bind(&raw)?;
    let port = Port::new(raw, support, AWAITED)?;
    Ok((Kind::RawTcp { ports, _held: held }, vec![port]))
}

fn attach(socket: &Socket, filter: &[socket2::SockFilter]) -> Result<()> {
    socket
        .attach_filter(filter)
        .map_err(Error::call("setsockopt(SO_ATTACH_FILTER)", "a raw socket"))?;
    // Drop packets from before the filter was attached.
    while socket.recv(&mut [MaybeUninit::uninit()]).is_ok() {}
    Ok(())
}

fn local_port(socket: &Socket) -> Result<u16> {
    let local = SockRef::from(&socket.as_fd())
        .local_addr()
        .map_err(Error::call("getsockname", "TCP"))?;
    Ok(local.as_socket().map_or(0, |local| local.port()))
}

fn is_denied(error: &Error) -> bool {
    matches!(error, Error::Call { errno, .. } if errno.kind() == io::ErrorKind::PermissionDenied)
}
