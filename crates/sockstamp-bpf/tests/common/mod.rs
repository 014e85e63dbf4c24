#![allow(dead_code, reason = "not every test uses everything")]

pub(crate) mod account;
