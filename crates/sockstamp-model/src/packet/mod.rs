//! Packets of flows, where each was seen, and which packet is which.

mod headers;
mod ids;
mod seen;
mod way;

pub use headers::{Headers, Segment};
pub use ids::Ids;
pub use seen::{Packet, PacketStage, Segments};
pub use way::{MessageName, Way};
