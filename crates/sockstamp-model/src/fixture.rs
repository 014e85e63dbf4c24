//! Messages for tests.

mod message;
mod traffic;

pub use message::message;
pub use traffic::Traffic;
