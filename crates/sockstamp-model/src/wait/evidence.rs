//! What was seen of one wait: of its own socket, task and moments, never an average of others.

use std::net::SocketAddr;

use serde::Serialize;

use crate::clock::Nanos;

/// What was seen of a wait; `None` is not known, never none. Times count from its beginning.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize)]
pub struct Evidence {
    /// When the question's last byte (or the last SYN) was queued.
    pub asked: Option<Nanos>,
    /// When its last byte was handed to a driver.
    pub left: Option<Nanos>,
    /// When its last byte was acknowledged.
    pub acknowledged: Option<Nanos>,
    /// When the first byte of what was waited for could be read.
    pub arrived: Option<Nanos>,
    /// Segments sent again meanwhile, SYNs and probes apart.
    pub resent: Option<u32>,
    /// Those of them that had arrived all the same, as a DSACK showed.
    pub resent_in_vain: Option<u32>,
    /// SYNs that left this host.
    pub syns: Option<u32>,
    /// Time in which bytes waited, or the segments behind a missing one.
    pub out_of_order: Option<Nanos>,
    /// Time in which the peer's window was closed.
    pub window_closed: Option<Nanos>,
    /// Time in which the send buffer was full with nothing unsent.
    pub buffer_full: Option<Nanos>,
    /// What the tasks of this host that were waited for did.
    pub tasks: Option<Tasks>,
    /// The connection when the wait ended, or was looked at.
    pub connection: Option<Connection>,
}

/// The time of the tasks that serve a request, or read, or accept, during the wait.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize)]
pub struct Tasks {
    /// On a CPU.
    pub running: Nanos,
    /// Ready, and waiting for a CPU.
    pub runnable: Nanos,
    /// Held by a CPU quota of their own cgroups.
    pub throttled: Nanos,
    /// Waiting for answers of others, by counts of open requests and questions.
    pub asks: Nanos,
    /// The one that most of that time was for.
    pub asked: Option<SocketAddr>,
    /// Questions of theirs in that time.
    pub questions: u32,
    /// Requests of the process that were open beside this one, at most.
    pub beside: u32,
}

/// What TCP knew of a connection at one moment, without history (`struct tcp_sock`).
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize)]
pub struct Connection {
    /// The smallest round trip so far: `tcp_min_rtt()`.
    pub min_rtt: Option<Nanos>,
    /// The smoothed round trip.
    pub srtt: Option<Nanos>,
    /// Bytes sent and not acknowledged.
    pub unacknowledged: u32,
    /// Bytes queued and not sent.
    pub unsent: u32,
    /// Bytes received and not read.
    pub unread: u32,
    /// The peer's window.
    pub peer_window: u32,
    /// Our window.
    pub own_window: u32,
    /// Timeouts in a row: `icsk_backoff`.
    pub backoff: u8,
    /// Probes of a closed window in a row: `icsk_probes_out`.
    pub probes: u8,
    /// Segments sent again in the connection's life: `total_retrans`.
    pub resent: u32,
    /// DSACKs in its life: `dsack_dups`.
    pub dsacks: u32,
    /// Reorderings seen in its life: `reord_seen`.
    pub reordered: u32,
    /// The congestion window, in segments.
    pub congestion_window: u32,
    /// Its threshold of slow start, in segments.
    pub threshold: u32,
    /// The size of a segment.
    pub segment: u32,
    /// Segments with data that it sent in its life: `data_segs_out`.
    pub sends: u32,
    /// Segments with data that it received in its life: `data_segs_in`.
    pub receives: u32,
    /// Time since it last sent data.
    pub sent_ago: Option<Nanos>,
    /// Time since it last received data.
    pub received_ago: Option<Nanos>,
    /// Time since it last received anything.
    pub heard_ago: Option<Nanos>,
    /// The program set the size of the send buffer: `SOCK_SNDBUF_LOCK`.
    pub buffer_set: bool,
    /// The ends did not agree on scaled windows: no window is above 65,535 bytes (`wscale_ok`).
    pub unscaled: bool,
    /// Bytes a second that the program allows: SO_MAX_PACING_RATE; `None` without such a limit.
    pub paced: Option<u64>,
    /// Time in its life in which the peer's window held data back: `TCP_CHRONO_RWND_LIMITED`.
    #[serde(rename = "window_limited_ns")]
    pub window_limited: Nanos,
    /// Time in its life in which the send buffer was full, and all of it in flight:
    /// `TCP_CHRONO_SNDBUF_LIMITED`.
    #[serde(rename = "buffer_limited_ns")]
    pub buffer_limited: Nanos,
}
