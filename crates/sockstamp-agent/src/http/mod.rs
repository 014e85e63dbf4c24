//! Serve HTTP, with or without encryption, and a page.

pub(crate) mod local;
pub(crate) mod page;
pub(crate) mod question;
mod seats;
pub(crate) mod server;
pub(crate) mod tls;
