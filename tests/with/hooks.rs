//! The hooks that all tests ask for.

use sockstamp_bpf::Hooks;
use sockstamp_bpf::plan::{Plan, Request};
use sockstamp_bpf::probe;

/// The options of each measurement, from the environment: `SOCKSTAMP_TEST_HOOKS=older` is
/// `--expert hooks=older`.
pub fn hooks() -> Vec<String> {
    let hooks = std::env::var("SOCKSTAMP_TEST_HOOKS").ok();
    hooks.map_or_else(Vec::new, |hooks| {
        vec!["--expert".to_owned(), format!("hooks={hooks}")]
    })
}

/// Return the plan for this host with these hooks.
pub fn plan() -> Plan {
    let hooks = match hooks().contains(&"hooks=older".to_owned()) {
        true => Hooks::Older,
        false => Hooks::Best,
    };
    let request = Request {
        hooks,
        ..Request::default()
    };
    Plan::outlook(&probe::facts(), &request)
}
