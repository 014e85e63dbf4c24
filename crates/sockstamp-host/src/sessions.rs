//! Sessions of a database that has a process for each, by the titles of these: PostgreSQL's
//! `update_process_title`.

use std::fs;

use sockstamp_model::name::Name;

use crate::memory;

/// Sessions that are looked at, at most.
const MOST: usize = 1024;

/// Return the process that has started another.
#[must_use]
pub fn parent(pid: u32) -> Option<u32> {
    let stat = fs::read(format!("/proc/{pid}/stat")).ok()?;
    let stat = String::from_utf8_lossy(&stat);
    let (_, after) = stat.rsplit_once(')')?;
    after.split_ascii_whitespace().nth(1)?.parse().ok()
}

/// Return the first processes that a process has started.
pub fn children(pid: u32) -> impl Iterator<Item = u32> {
    let place = format!("/proc/{pid}/task/{pid}/children");
    let children = fs::read_to_string(place).unwrap_or_default();
    let pids = children.split_ascii_whitespace().take(MOST);
    let pids = pids.filter_map(|pid| pid.parse().ok());
    pids.collect::<Vec<_>>().into_iter()
}

/// Return the sessions of a server that are in a transaction or at work, and do not wait for
/// another one: `PID 7 of 10.0.0.9(40000), idle in transaction`.
#[must_use]
pub fn at_work(server: u32) -> Vec<Name> {
    let session = |pid: u32| {
        let title = memory::title(pid);
        let (client, state) = session(title.trim_end())?;
        Some(Name::from(format!("PID {pid} of {client}, {state}")))
    };
    children(server).filter_map(session).collect()
}

/// Return the client and the state of a session that is at work, of its title.
fn session(title: &str) -> Option<(&str, &str)> {
    let title = title.strip_prefix("postgres: ")?;
    let is_client = |word: &&str| *word == "[local]" || word.ends_with(')') && word.contains('(');
    let client = title.split(' ').find(is_client)?;
    let (_, state) = title.split_once(client)?;
    let state = state.trim_start();
    let is_walsender = title.contains("walsender ");
    let waits = state.ends_with("waiting") || state.contains("waiting for ");
    let works = !state.is_empty() && state != "idle" && !waits && !is_walsender;
    works.then_some((client, state))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_title_has_the_client_and_the_state() {
        let of = |title| session(title);
        let idle = "postgres: shop shop 10.0.0.7(51234) idle in transaction";
        assert_eq!(of(idle), Some(("10.0.0.7(51234)", "idle in transaction")));
        let named = "postgres: main: shop shop [local] SELECT";
        assert_eq!(of(named), Some(("[local]", "SELECT")));
        for other in [
            "postgres: shop shop 10.0.0.7(51234) idle",
            "postgres: shop shop 10.0.0.7(51234) UPDATE waiting",
            "postgres: shop shop 10.0.0.7(51234) COMMIT waiting for 0/3019AB0",
            "postgres: walsender shop 10.0.0.7(51234) streaming 0/3019AB0",
            "postgres: checkpointer ",
            "nginx: worker process",
        ] {
            assert_eq!(of(other), None, "{other}");
        }
    }

    /// The witness is the standard library.
    #[test]
    fn the_parent_of_this_process_is_known() {
        let own = std::process::id();
        assert_eq!(parent(own), Some(std::os::unix::process::parent_id()));
        assert!(at_work(own).is_empty());
    }
}
