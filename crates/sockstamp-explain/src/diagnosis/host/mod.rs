//! Gives waits what this host shows: its queues, links, neighbours, drops, tasks and CPU times.

pub(super) mod cpu;
pub(super) mod drops;
pub(super) mod flips;
pub(super) mod fragments;
pub(super) mod full;
pub(super) mod looks;
pub(super) mod lossy;
pub(super) mod rejected;
pub(super) mod resolving;
pub(super) mod theirs;
pub(super) mod unheard;
