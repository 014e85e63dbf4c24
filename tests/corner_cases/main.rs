//! Corner cases: what becomes of a message that is not sent or read in the ordinary way, and what
//! must not be disturbed.

mod absent_page;
mod adoption;
mod asked_bits;
mod clock;
mod containers;
mod fast_open;
mod filter;
mod groups;
mod held_lock;
mod interference;
mod layers;
mod life_cycle;
mod limits;
mod mptcp;
mod names;
mod namespaces;
mod option_memory;
mod own_traffic;
mod paths;
mod restored;
mod reused;
mod rx;
mod selection;
mod tx;
mod udp;
mod unread;
mod uplinks;
mod uring;
mod wakeup;
