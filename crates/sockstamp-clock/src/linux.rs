//! Numbers and structures of Linux that control messages have: the C library's, and on other
//! systems, so that programs compile there, those of most machines that Linux runs on.

#[cfg(target_os = "linux")]
pub(crate) use libc::{
    AF_INET, AF_INET6, AF_PACKET, IP_PKTINFO, IP_RECVERR, IP_TOS, IP_TTL, IPPROTO_IP, IPPROTO_IPV6,
    IPV6_HOPLIMIT, IPV6_PKTINFO, IPV6_RECVERR, IPV6_TCLASS, SO_TIMESTAMPING, SOL_PACKET,
    SOL_SOCKET, SOL_UDP, UDP_GRO, UDP_SEGMENT, c_long, cmsghdr, sockaddr_in, sockaddr_in6,
    sockaddr_ll,
};

#[cfg(not(target_os = "linux"))]
pub(crate) use elsewhere::{
    AF_INET, AF_INET6, AF_PACKET, IP_PKTINFO, IP_RECVERR, IP_TOS, IP_TTL, IPPROTO_IP, IPPROTO_IPV6,
    IPV6_HOPLIMIT, IPV6_PKTINFO, IPV6_RECVERR, IPV6_TCLASS, SO_TIMESTAMPING, SOL_PACKET,
    SOL_SOCKET, SOL_UDP, UDP_GRO, UDP_SEGMENT, c_long, cmsghdr, sockaddr_in, sockaddr_in6,
    sockaddr_ll,
};

/// Names and values are those of the kernel's headers: asm-generic/socket.h, linux/in.h,
/// linux/in6.h, linux/udp.h, linux/if_packet.h, v6.18.
#[cfg(any(test, not(target_os = "linux")))]
mod elsewhere {
    #![expect(non_camel_case_types, reason = "the kernel's names")]

    pub(crate) const AF_INET: i32 = 2;
    pub(crate) const AF_INET6: i32 = 10;
    pub(crate) const AF_PACKET: i32 = 17;
    pub(crate) const IPPROTO_IP: i32 = 0;
    pub(crate) const IPPROTO_IPV6: i32 = 41;
    pub(crate) const IP_TOS: i32 = 1;
    pub(crate) const IP_TTL: i32 = 2;
    pub(crate) const IP_PKTINFO: i32 = 8;
    pub(crate) const IP_RECVERR: i32 = 11;
    pub(crate) const IPV6_RECVERR: i32 = 25;
    pub(crate) const IPV6_PKTINFO: i32 = 50;
    pub(crate) const IPV6_HOPLIMIT: i32 = 52;
    pub(crate) const IPV6_TCLASS: i32 = 67;
    pub(crate) const SOL_SOCKET: i32 = 1;
    pub(crate) const SOL_UDP: i32 = 17;
    pub(crate) const SOL_PACKET: i32 = 263;
    pub(crate) const SO_TIMESTAMPING: i32 = 37;
    pub(crate) const UDP_SEGMENT: i32 = 103;
    pub(crate) const UDP_GRO: i32 = 104;

    pub(crate) type c_long = isize;
    /// Length, level and type.
    pub(crate) type cmsghdr = (usize, i32, i32);
    pub(crate) type sockaddr_in = [u8; 16];
    pub(crate) type sockaddr_in6 = [u8; 28];
    pub(crate) type sockaddr_ll = [u8; 20];
}

#[cfg(all(test, target_os = "linux", target_arch = "x86_64"))]
mod tests {
    use super::elsewhere;

    macro_rules! compare {
        ($($name:ident)*) => {
            [$((stringify!($name), libc::$name, elsewhere::$name)),*]
        };
    }

    #[test]
    fn numbers_elsewhere_are_those_of_linux() {
        for (name, linux, elsewhere) in compare!(
            AF_INET AF_INET6 AF_PACKET IPPROTO_IP IPPROTO_IPV6 IP_TOS IP_TTL IP_PKTINFO IP_RECVERR
            IPV6_RECVERR IPV6_PKTINFO IPV6_HOPLIMIT IPV6_TCLASS SOL_SOCKET SOL_UDP SOL_PACKET
            SO_TIMESTAMPING UDP_SEGMENT UDP_GRO
        ) {
            assert_eq!(linux, elsewhere, "{name}");
        }
        assert_eq!(size_of::<libc::c_long>(), size_of::<elsewhere::c_long>());
        assert_eq!(size_of::<libc::cmsghdr>(), size_of::<elsewhere::cmsghdr>());
        assert_eq!(
            size_of::<libc::sockaddr_in>(),
            size_of::<elsewhere::sockaddr_in>()
        );
        assert_eq!(
            size_of::<libc::sockaddr_in6>(),
            size_of::<elsewhere::sockaddr_in6>()
        );
        assert_eq!(
            size_of::<libc::sockaddr_ll>(),
            size_of::<elsewhere::sockaddr_ll>()
        );
    }
}
