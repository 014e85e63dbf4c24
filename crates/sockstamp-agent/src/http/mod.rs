//! Serve HTTP, with or without encryption, and a page.

pub(crate) mod page;
pub(crate) mod question;
pub(crate) mod server;
pub(crate) mod tls;
