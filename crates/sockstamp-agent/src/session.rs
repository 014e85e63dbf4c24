//! The session that the settings ask for.

use std::num::NonZeroU32;

use anyhow::Result;
use sockstamp_bpf::{Ceiling, Options};
use sockstamp_model::clock::Nanos;
use sockstamp_run::target::{self, Target};

use crate::config::Config;

/// Return its options; the names of the target are looked up.
pub(crate) fn session_options(config: &Config) -> Result<Options> {
    let table = &config.target;
    let target = Target {
        comms: table.comm.clone(),
        cgroup: table.cgroup.clone(),
        container: table.container.clone(),
        netns: table.netns.iter().cloned().collect(),
        interface: table.interface.clone(),
        filter: config.filter(),
        ..Target::default()
    };
    Ok(Options {
        target: target::resolve(&target)?,
        sampling: config.sample.into(),
        max_cost: config.max_cost.0.map(|millionths| Ceiling {
            millionths,
            windows: true,
        }),
        max_flows: config.max_flows.map(NonZeroU32::get),
        memory: u64::from(config.max_memory) << 20,
        groups: Some(config.grouped()),
        udp: config.udp,
        record: true,
        // Findings alone need no more of them.
        notable: !config.takes_messages(),
        // Messages are sampled anyway.
        partial: true,
        slow: config.slow().map(Nanos::from),
        waits: Some(
            config
                .slow()
                .map_or_else(|| config.slow_of_findings(), Nanos::from),
        ),
        unix: true,
        ..Options::default()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Messages are sampled: the first datagram need not be among them.
    #[test]
    fn messages_that_are_handed_over_attach_no_program_at_the_start() {
        for text in [
            "",
            "[page]\nslow = \"5ms\"",
            "[hindsight]\ndirectory = \"/a\"",
            "[otlp]\nendpoint = \"http://a\"\nslow = \"5ms\"",
        ] {
            let config = Config::parse(text).unwrap();
            let options = session_options(&config).unwrap();
            assert!(options.record, "{text}");
            assert_eq!(options.notable, text.is_empty(), "{text}");
            assert!(options.request().on_demand, "{text}");
        }
    }
}
