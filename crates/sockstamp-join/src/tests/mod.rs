//! Messages of two hosts whose clocks and delays are known.

mod clocks;
mod datagrams;
mod hosts;
mod lives;
mod nat;
