//! Slow waits, from messages and from waits of the model.

mod evidence;
mod group;
mod message;
pub(super) mod unix;
mod wait;

pub(super) use group::{Kind, of_group};
pub(super) use message::of_message;
pub(super) use wait::{limit_of, of_wait};
