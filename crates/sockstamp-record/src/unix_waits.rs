//! Waits at Unix sockets: rows as of other waits, with columns of their own in the place of
//! addresses.

use std::net::{IpAddr, Ipv6Addr, SocketAddr};

use sockstamp_model::flow::{Flow, Opened, Protocol};
use sockstamp_model::name::Name;
use sockstamp_model::wait::{Evidence, Kind, UnixWait, Wait};

use crate::table::Decoded;

/// The protocol of a wait at a Unix socket, as its column has it.
pub(crate) const UNIX: &str = "unix";
/// The protocol and the address that stand for those of a flow, which a Unix socket has not.
pub(crate) const STAND_IN: Protocol = Protocol::Tcp;
const NOWHERE: SocketAddr = SocketAddr::new(IpAddr::V6(Ipv6Addr::UNSPECIFIED), 0);

/// Columns that a wait at a Unix socket has in the place of addresses.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OfUnix {
    /// See [`UnixWait::service`].
    pub service: Name,
    /// See [`UnixWait::server`].
    pub server: Option<(u32, Name)>,
    /// See [`UnixWait::inode`].
    pub inode: u64,
    /// See [`UnixWait::is_new`].
    pub is_new: bool,
}

/// Take a wait apart: what it has as any other, and the rest.
pub(crate) fn apart(wait: UnixWait) -> (Wait, OfUnix) {
    let opened = match wait.kind {
        Kind::Accept => Opened::Accepted,
        _ => Opened::Connected,
    };
    let alike = Wait {
        kind: wait.kind,
        flow: Flow {
            netns: wait.netns,
            protocol: STAND_IN,
            local: NOWHERE,
            remote: NOWHERE,
            cookie: wait.cookie,
        },
        opened: Some(opened),
        cgroup: wait.cgroup,
        pid: wait.pid,
        comm: wait.comm,
        since: wait.since,
        lasted: wait.lasted,
        inside: wait.inside,
        end: wait.end,
        members: 1,
        bytes: wait.bytes,
        evidence: Evidence::default(),
    };
    let rest = OfUnix {
        service: wait.service,
        server: wait.server,
        inode: wait.inode,
        is_new: wait.is_new,
    };
    (alike, rest)
}

/// Put it together again.
pub(crate) fn together(wait: &Wait, rest: &OfUnix) -> UnixWait {
    UnixWait {
        kind: wait.kind,
        service: rest.service.clone(),
        server: rest.server.clone(),
        netns: wait.flow.netns,
        cookie: wait.flow.cookie,
        inode: rest.inode,
        cgroup: wait.cgroup,
        pid: wait.pid,
        comm: wait.comm.clone(),
        is_new: rest.is_new,
        since: wait.since,
        lasted: wait.lasted,
        inside: wait.inside,
        end: wait.end,
        bytes: wait.bytes,
    }
}

/// Read it, whose first column is at a place.
pub(crate) fn read(rows: &Decoded, place: usize, row: usize) -> Result<OfUnix, String> {
    let name = |column: usize| rows.text(column, row).map(Name::from);
    let server = match rows.integer(place + 1, row) {
        None => None,
        Some(_) => Some((
            rows.number(place + 1, row)?,
            name(place + 2).ok_or_else(|| rows.wrong(place + 2))?,
        )),
    };
    let is_new = match rows.number::<u64>(place + 4, row)? {
        0 => false,
        1 => true,
        2.. => return Err(rows.wrong(place + 4)),
    };
    Ok(OfUnix {
        service: name(place).ok_or_else(|| rows.wrong(place))?,
        server,
        inode: rows.number::<i64>(place + 3, row)?.cast_unsigned(),
        is_new,
    })
}
