//! Serve HTTP, with or without encryption, and a page.

mod asker;
mod credentials;
pub(crate) mod local;
mod own_host;
pub(crate) mod page;
pub(crate) mod question;
pub(crate) mod response;
mod seats;
pub(crate) mod server;
pub(crate) mod tls;
