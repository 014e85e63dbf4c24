//! Known answers: real programs on links and queues whose times are known beforehand.

#[path = "../common/mod.rs"]
mod common;

mod adoption;
mod behind_a_host;
mod busy_reader;
mod computing_reader;
mod cpu_hog;
mod cpu_quota;
mod cumulative;
mod diagnosis;
mod dns;
mod explained;
mod explained_programs;
mod faults;
mod full_qdisc;
mod full_send_buffer;
mod health;
mod held_back;
mod kernel_counts;
mod late_acks;
mod late_reader;
mod limited_sending;
mod limits_here;
mod lossy_link;
mod missing_segments;
mod out_of_order;
mod programs;
mod real_programs;
mod recovery;
mod sampling;
mod sessions;
mod slow_link;
mod support;
mod udp;
mod wall_time;
