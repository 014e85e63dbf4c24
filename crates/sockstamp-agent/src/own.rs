//! The cost of the agent itself.

use std::fs;
use std::time::{Duration, SystemTime};

use nix::time::{ClockId, clock_gettime};
use nix::unistd::{SysconfVar, sysconf};
use sockstamp_bpf::Session;
use sockstamp_metrics::catalogue::{
    BUILD, CPU, DESCRIPTORS, MEMORY, PROGRAM_RUNS, PROGRAM_STATISTICS, PROGRAM_TIME, START,
};
use sockstamp_metrics::counters::Count;
use sockstamp_metrics::{Exposition, Labels, Value};

/// Return the cost of the programs of a session.
pub(crate) fn programs(session: &Session) -> Vec<Count> {
    let costs = session.costs().into_iter();
    costs
        .flat_map(|(program, cost)| {
            [
                Count::new(&PROGRAM_RUNS, Some(&program), cost.runs),
                Count::new(&PROGRAM_TIME, Some(&program), cost.time.0),
            ]
        })
        .collect()
}

/// Add the figures of this process to an exposition.
pub(crate) fn expose(exposition: &mut Exposition, started: SystemTime) {
    let mut add = |metric, value| exposition.add(metric, Labels::new(), value);
    if let Ok(time) = clock_gettime(ClockId::CLOCK_PROCESS_CPUTIME_ID) {
        add(&CPU, Value::Real(Duration::from(time).as_secs_f64()));
    }
    if let Some(bytes) = resident() {
        add(&MEMORY, Value::Count(bytes));
    }
    if let Ok(descriptors) = fs::read_dir("/proc/self/fd") {
        // One is that of the look.
        let count = descriptors.count().saturating_sub(1) as u64;
        add(&DESCRIPTORS, Value::Count(count));
    }
    if let Ok(since) = started.duration_since(SystemTime::UNIX_EPOCH) {
        add(&START, Value::Real(since.as_secs_f64()));
    }
    if let Ok(enabled) = fs::read_to_string("/proc/sys/kernel/bpf_stats_enabled") {
        add(
            &PROGRAM_STATISTICS,
            Value::Count(u64::from(enabled.trim() != "0")),
        );
    }
    let version = vec![("version".into(), env!("CARGO_PKG_VERSION").to_owned())];
    exposition.add(&BUILD, version, Value::Count(1));
}

/// Return the memory of this process in bytes: the second field of /proc/PID/statm (proc(5)).
fn resident() -> Option<u64> {
    let sizes = fs::read_to_string("/proc/self/statm").ok()?;
    let pages: u64 = sizes.split_whitespace().nth(1)?.parse().ok()?;
    let page = sysconf(SysconfVar::PAGE_SIZE).ok()??;
    Some(pages * u64::try_from(page).ok()?)
}
