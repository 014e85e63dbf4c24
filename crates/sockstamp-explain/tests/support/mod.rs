//! Make messages up.

use fastrand::Rng;
use sockstamp_model::clock::{Nanos, Timestamp};
use sockstamp_model::fixture;
use sockstamp_model::flow::SocketCookie;
use sockstamp_model::message::Message;
use sockstamp_model::stage::{Direction, Stage, StageMap};

/// Return a read of this flow in this second, with these stages.
pub fn message(flow: u64, second: u64, nanos: impl Fn(Stage) -> Option<Nanos>) -> Message {
    let mut message = fixture::message(Direction::Rx);
    message.flow.cookie = SocketCookie(flow);
    message.comm = "server".into();
    message.bytes = 100;
    message.stages = StageMap::from_fn(nanos);
    message.time = Timestamp::from_nanos(second * 1_000_000_000);
    message
}

/// A duration of a Pareto distribution: half of them are below `median`, and its variance is
/// infinite.
pub fn heavy(rng: &mut Rng, median: f64) -> f64 {
    let scale = median / 2_f64.powf(1.0 / 1.8);
    scale / (1.0 - rng.f64()).powf(1.0 / 1.8)
}
