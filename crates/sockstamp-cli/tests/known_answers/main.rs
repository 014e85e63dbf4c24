//! Known answers: real programs on links and queues whose times are known beforehand.

#[path = "../common/mod.rs"]
mod common;

mod adoption;
mod behind_a_host;
mod busy_reader;
mod cpu_hog;
mod cumulative;
mod full_qdisc;
mod full_send_buffer;
mod kernel_counts;
mod lossy_link;
mod real_programs;
mod slow_link;
mod support;
