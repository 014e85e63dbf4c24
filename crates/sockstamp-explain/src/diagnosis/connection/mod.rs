//! Gives waits what limits their connection: losses, windows, readers and rates.

pub(super) mod clocks;
pub(super) mod large;
pub(super) mod loss;
pub(super) mod pace;
pub(super) mod queue;
pub(super) mod readers;
pub(super) mod unscaled;
