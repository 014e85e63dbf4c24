//! Kernel memory of connections that are measured: what selecting them takes, and what their
//! messages do.

use std::fs;

use anyhow::{Context, Result, bail};
use sockstamp_bpf::{Options, Session, Target};

use crate::effort::Effort;
use crate::load::Load;
use crate::paired::{Spread, in_turn, to_float, values};
use crate::report::{Budget, Report};

/// Both ends of each are selected.
const CONNECTIONS: usize = 100_000;
/// Enough to see that it works.
const FEW: usize = 500;
/// Room for all of them.
const CEILING: u64 = 2 << 30;

pub(crate) fn run(load: &mut Load, effort: Effort, report: &mut Report) -> Result<()> {
    let connections = if effort == Effort::Smoke {
        FEW
    } else {
        CONNECTIONS
    };
    let bytes = in_turn(effort.rounds(1), [()], |()| measure(load, connections))?.concat();
    let mut add = |name, value: fn(&(f64, f64)) -> f64, budget| {
        report.add(name, "B", Spread::of(&values(&bytes, value)), budget);
    };
    add("memory.selected", |both| both.0, None);
    add("memory.used", |both| both.1, Some(Budget::AtMost(1536.0)));
    Ok(())
}

/// Bytes for each socket once it is selected, and once messages have passed.
fn measure(load: &mut Load, connections: usize) -> Result<(f64, f64)> {
    load.open_idle(connections)?;
    // Use the connection once, so that the kernel's own state for it exists from now on.
    load.exchange_idle()?;
    let before = allocated()?;
    let options = Options {
        target: Target {
            cgroup: Some(load.cgroup().to_owned()),
            ..Target::default()
        },
        memory: CEILING,
        ..Options::default()
    };
    let session = Session::start(&options)?;
    let selected = allocated()?;
    load.exchange_idle()?;
    let used = allocated()?;
    let summary = session.summary();
    load.close_idle()?;
    let sockets = 2 * connections as u64;
    if summary.adopted < sockets || summary.tx.messages < sockets || summary.lost.turned_away > 0 {
        bail!(
            "of {sockets} sockets not all were measured: {:?}",
            summary.lost
        );
    }
    let each = |after: u64| (to_float(after) - to_float(before)) / to_float(sockets);
    Ok((each(selected), each(used)))
}

/// Bytes in slabs of the kernel's allocator for objects of any kind, which socket storage comes
/// from.
fn allocated() -> Result<u64> {
    let slabs =
        fs::read_to_string("/proc/slabinfo").context("the kernel does not tell its slabs")?;
    Ok(slabs.lines().filter_map(cache).sum())
}

/// Bytes of a line of slabinfo(5): its slabs by their pages.
fn cache(line: &str) -> Option<u64> {
    let fields: Vec<_> = line.split_ascii_whitespace().collect();
    let number = |field: usize| fields.get(field)?.parse::<u64>().ok();
    fields
        .first()?
        .starts_with("kmalloc")
        .then_some(number(14)? * number(5)? * 4096)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slabs_are_read_in_pages() {
        let line = "kmalloc-1k  320  352  1024  16  4 : tunables 0 0 0 : slabdata 22 23 0";
        assert_eq!(cache(line), Some(23 * 4 * 4096));
        assert_eq!(
            cache("dentry  1 1 192 21 1 : tunables 0 0 0 : slabdata 1 1 0"),
            None
        );
        assert_eq!(cache("slabinfo - version: 2.1"), None);
    }
}
