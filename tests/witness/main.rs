//! Witnesses: each message that sockstamp calls valid, against tcpdump on both ends of its link and
//! against the clock of the program that sent or read it.

mod answers;
mod callers;
mod capture;
mod connections;
mod datagram_answers;
mod joined;
mod packets;
mod packets_missing;
mod packets_recorded;
mod questions;
mod receive;
mod resent;
mod send;
mod streams_in_step;
mod tagged;
mod tagged_beside;
mod tagged_coalesced;
mod udp;
mod udp_calls;
mod udp_queue;
mod udp_through_host;
