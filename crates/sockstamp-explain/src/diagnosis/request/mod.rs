//! Joins the waits of one request, tells requests from what is pushed, and divides what services
//! take.

pub(super) mod announced;
pub(super) mod asking;
pub(super) mod away;
pub(super) mod first_words;
pub(super) mod flows;
pub(super) mod held;
pub(super) mod lookups;
pub(super) mod openings;
pub(super) mod passed;
mod pieces;
pub(super) mod pushes;
pub(super) mod services;
pub(super) mod steps;
pub(super) mod taking_turns;
pub(super) mod tries;
pub(super) mod trips;
pub(super) mod turn;
pub(super) mod unasked;
pub(super) mod unserved;
pub(super) mod workers;
pub(super) mod yielding;
