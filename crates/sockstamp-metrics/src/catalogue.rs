//! Every metric of the agent.

/// The kind of a metric.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Only grows; formats add `_total` to its name.
    Counter,
    /// Goes up and down.
    Gauge,
    /// A distribution of times in seconds.
    Histogram,
}

impl Kind {
    /// The name in both text formats.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Counter => "counter",
            Self::Gauge => "gauge",
            Self::Histogram => "histogram",
        }
    }
}

/// A metric.
#[derive(Debug, PartialEq, Eq)]
pub struct Metric {
    /// The name, without `_total`.
    pub name: &'static str,
    /// The kind.
    pub kind: Kind,
    /// The unit, with which the name ends, if it has one.
    pub unit: Option<&'static str>,
    /// The labels, besides those of groups.
    pub labels: &'static [&'static str],
    /// Its series have the labels of a group.
    pub grouped: bool,
    /// One sentence.
    pub help: &'static str,
}

impl Metric {
    const fn new(kind: Kind, name: &'static str, help: &'static str) -> Self {
        Self {
            name,
            kind,
            unit: None,
            labels: &[],
            grouped: false,
            help,
        }
    }

    const fn counter(name: &'static str, help: &'static str) -> Self {
        Self::new(Kind::Counter, name, help)
    }

    const fn gauge(name: &'static str, help: &'static str) -> Self {
        Self::new(Kind::Gauge, name, help)
    }

    const fn histogram(name: &'static str, help: &'static str) -> Self {
        Self::new(Kind::Histogram, name, help).seconds()
    }

    const fn seconds(self) -> Self {
        Self {
            unit: Some("seconds"),
            ..self
        }
    }

    const fn bytes(self) -> Self {
        Self {
            unit: Some("bytes"),
            ..self
        }
    }

    const fn by(self, labels: &'static [&'static str]) -> Self {
        Self { labels, ..self }
    }

    const fn grouped(self) -> Self {
        Self {
            grouped: true,
            ..self
        }
    }

    /// The name of its series.
    #[must_use]
    pub fn series(&self) -> String {
        match self.kind {
            Kind::Counter => format!("{}_total", self.name),
            Kind::Gauge | Kind::Histogram => self.name.to_owned(),
        }
    }
}

macro_rules! metrics {
    ($(
        $metric:ident = $kind:ident($name:literal, $help:literal $(,)?)
        $(.$with:ident($($argument:expr)?))*;
    )*) => {
        $(
            #[doc = $help]
            pub static $metric: Metric = Metric::$kind($name, $help)$(.$with($($argument)?))*;
        )*

        /// Every metric, in the order in which documents list them.
        pub static ALL: [&Metric; [$($name),*].len()] = [$(&$metric),*];
    };
}

metrics! {
    STAGE = histogram(
        "sockstamp_stage_seconds",
        "Time of messages in a stage; sockstamp --explain-words defines the stages.",
    ).by(&["direction", "stage"]).grouped();
    MESSAGE = histogram(
        "sockstamp_message_seconds",
        "Time of messages until they left the host (tx), or from their arrival until they were read (rx).",
    ).by(&["direction"]).grouped();
    HOOKS = histogram(
        "netstack_latency_seconds",
        "Time from the RX stamp of the last byte of a read to a hook of netstacklat, if netstacklat is set.",
    ).by(&["hook"]).grouped();
    PART = counter(
        "sockstamp_part_seconds",
        "Time of messages in a part of a stage; those of tx.queue are the causes of waiting.",
    ).seconds().by(&["direction", "stage", "part"]).grouped();
    MESSAGES = counter(
        "sockstamp_messages",
        "Messages, measured or not.",
    ).by(&["direction"]).grouped();
    BYTES = counter(
        "sockstamp_message_bytes",
        "Bytes of the messages.",
    ).bytes().by(&["direction"]).grouped();
    MEASURED = counter(
        "sockstamp_measured_messages",
        "Messages that were measured.",
    ).by(&["direction"]).grouped();
    REFUSED = counter(
        "sockstamp_refused_messages",
        "Messages by weight whose measurement was refused; sockstamp_verdicts_total has the reasons.",
    ).by(&["direction"]).grouped();
    RETRANSMITS = counter(
        "sockstamp_retransmitted_segments",
        "Segments that TCP sent again.",
    ).grouped();
    VERDICTS = counter(
        "sockstamp_verdicts",
        "Measured messages by weight and verdict: valid, or the reason of refusal.",
    ).by(&["verdict"]);
    IN_FLIGHT = gauge(
        "sockstamp_in_flight_messages",
        "Measured messages by weight without a verdict yet.",
    );
    CONNECTIONS = counter(
        "sockstamp_connections",
        "Connections that were opened and accepted.",
    ).by(&["side"]);
    FAILED_CONNECTIONS = counter(
        "sockstamp_failed_connections",
        "Connections that failed, or whose accept was not seen, by reason.",
    ).by(&["verdict"]);
    WAITING = gauge(
        "sockstamp_waiting",
        "Waits that go on for a second or longer, by what is waited for and the service: the peer, or the local one where programs of this host are waited for, or the path of a Unix socket. A worker that may as well be pushed to has the kind answer-or-push, and a service that may push the kind service-or-push. Beyond 100 services, those whose waits are younger are summed as other.",
    ).by(&["kind", "peer"]);
    WAITING_OLDEST = gauge(
        "sockstamp_waiting_oldest_seconds",
        "Age of the oldest of these waits.",
    ).seconds().by(&["kind", "peer"]);
    FINDING_LOST = gauge(
        "sockstamp_finding_lost_seconds",
        "Time that the worst three findings of the last two to four minutes have cost, by the node of the diagnosis that they name and the service; a failure counts as a second. /findings has their sentences.",
    ).seconds().by(&["cause", "service"]);
    ENDED_WAITS = histogram(
        "sockstamp_ended_wait_seconds",
        "Time of waits that no data ended, by what was waited for and how they ended.",
    ).by(&["kind", "end"]);
    ATTEMPTS = counter(
        "sockstamp_attempts",
        "Waits that have ended, however short they were, by what was waited for and the result: came, or failed.",
    ).by(&["kind", "result"]);
    SYNS_AGAIN = counter(
        "sockstamp_retransmitted_syns",
        "SYNs that were sent again.",
    );
    ADOPTED = counter(
        "sockstamp_adopted_connections",
        "Connections that existed when measuring began and were selected.",
    );
    OUT_OF_ORDER = counter(
        "sockstamp_out_of_order_segments",
        "Segments that arrived after a missing one.",
    );
    DROPS = counter(
        "sockstamp_dropped_datagrams",
        "Datagrams that reached a socket and were dropped there, mostly because its receive buffer was full.",
    );
    PIPELINED = counter(
        "sockstamp_pipelined_messages",
        "Messages by weight while several requests were in flight: those of sockstamp_unpaired_messages with this reason.",
    ).by(&["direction"]);
    UNPAIRED = counter(
        "sockstamp_unpaired_messages",
        "Messages by weight that belong to no single request or answer, by the reason; sockstamp --explain-words explains them.",
    ).by(&["direction", "reason"]);
    LOST = counter(
        "sockstamp_losses",
        "Losses by reason.",
    ).by(&["reason"]);
    ABSENT = gauge(
        "sockstamp_absent_stage",
        "1 for each stage that this host cannot measure, with the reason.",
    ).by(&["stage", "reason"]);
    BUILD = gauge(
        "sockstamp_build_info",
        "1, with the version of sockstamp.",
    ).by(&["version"]);
    GROUPS = gauge(
        "sockstamp_groups",
        "Groups that have series of their own.",
    );
    REFUSED_GROUPS = counter(
        "sockstamp_overflows",
        "Number of times that a group found no room for its series (max_series); its messages have the label otel_metric_overflow.",
    );
    EXPIRED = counter(
        "sockstamp_expired_groups",
        "Groups whose series ended, because nothing was counted for a while and their cgroup was gone.",
    );
    RUNTIME_REQUESTS = counter(
        "sockstamp_runtime_requests",
        "Times that a runtime of containers was asked for the names of new ones, by result: answered, or failed.",
    ).by(&["result"]);
    RELOADS = counter(
        "sockstamp_config_reloads",
        "Reloads of the configuration.",
    ).by(&["result"]);
    LOOKS = counter(
        "sockstamp_looks",
        "Readings of the kernel's counters; scrapes in quick succession share one.",
    );
    LOOK_TIME = counter(
        "sockstamp_look_seconds",
        "Time that these readings took.",
    ).seconds();
    DROPPED_CLIENTS = counter(
        "sockstamp_dropped_clients",
        "HTTP connections that were closed to make room for new ones.",
    );
    LOST_LOG_LINES = counter(
        "sockstamp_lost_log_lines",
        "Lines of the agent's log that standard error did not take, because nobody read it.",
    );
    HINDSIGHT_MESSAGES = counter(
        "sockstamp_hindsight_messages",
        "Messages that were written to the files of the last minutes.",
    );
    HINDSIGHT_LOST = counter(
        "sockstamp_hindsight_lost_messages",
        "Messages that were not written, because the disk was too slow, was full or failed.",
    ).by(&["reason"]);
    HINDSIGHT_BYTES = gauge(
        "sockstamp_hindsight_bytes",
        "Size of the files of the last minutes, without snapshots.",
    ).bytes();
    HINDSIGHT_EARLY = counter(
        "sockstamp_hindsight_early_files",
        "Files that were removed early, because of max_size or min_free.",
    );
    SNAPSHOTS = counter(
        "sockstamp_snapshots",
        "Requests for a snapshot of the last minutes.",
    ).by(&["result"]);
    OTLP_ITEMS = counter(
        "sockstamp_otlp_items",
        "Series and spans for the OpenTelemetry receiver, by result.",
    ).by(&["signal", "result"]);
    CONTAINER_LATENCY = gauge(
        "container_net_latency_seconds",
        "Round trip of the last probe of a peer to which a container has connections; absent after an unanswered probe.",
    ).seconds().by(&["container_id", "destination_ip"]);
    PROBE_TIME = histogram(
        "container_net_probe_seconds",
        "Round trips of probes of such peers.",
    ).by(&["container_id", "destination_ip", "method"]);
    PROBES = counter(
        "container_net_probes",
        "Probes of such peers, by result: answered, lost, refused by the network, or not_sent.",
    ).by(&["container_id", "destination_ip", "method", "result"]);
    PROBED_PEERS = gauge(
        "sockstamp_probed_peers",
        "Peers of containers by the method of probing them.",
    ).by(&["method"]);
    UNPROBED_PEERS = gauge(
        "sockstamp_unprobed_peers",
        "Peers of containers that are not probed, by reason.",
    ).by(&["reason"]);
    UNANSWERED_METHODS = counter(
        "sockstamp_unanswered_probe_methods",
        "Number of times that a peer answered none of the first probes of a method, and the next method was tried.",
    ).by(&["method"]);
    PROBE_LOSSES = counter(
        "sockstamp_probe_losses",
        "Probes that were skipped because the agent was late, and results that were dropped or are unknown.",
    ).by(&["reason"]);
    COST = gauge(
        "sockstamp_cost_cores",
        "CPU time of measuring, as a fraction of one core, at the last checks: of the programs and of the agent.",
    ).by(&["part"]);
    MAX_COST = gauge(
        "sockstamp_max_cost_cores",
        "Limit for the cost of measuring, as a fraction of one core (max_cost).",
    );
    MAX_MEMORY = gauge(
        "sockstamp_max_memory_bytes",
        "Limit for the kernel memory of connections and UDP sockets (max_memory); sockstamp_losses counts what it leaves out (turned_away).",
    ).bytes();
    COST_LOOKS = counter(
        "sockstamp_cost_looks",
        "Checks of the cost, and those after which even the cheapest settings cost more than max_cost.",
    ).by(&["result"]);
    RATE_CAP = gauge(
        "sockstamp_rate_cap",
        "Messages measured per second, flow and direction; lower than sample of the settings if measuring would otherwise cost more than max_cost.",
    );
    WINDOWS = counter(
        "sockstamp_windows",
        "Windows of measuring, because continuous measuring would cost more than max_cost; including late and failed ones.",
    ).by(&["result"]);
    WINDOWS_ONE_OF = gauge(
        "sockstamp_windows_one_of",
        "Inverse of the fraction of the time in which messages are measured; above 1, counts of messages are estimates.",
    );
    ESTIMATE_ERROR = gauge(
        "sockstamp_estimate_error_ratio",
        "Half of the 95 % interval around the count of messages since the settings changed, as a fraction of it, while windows are used; absent while too few have met messages to tell.",
    ).by(&["direction"]);
    PROGRAM_RUNS = counter(
        "sockstamp_program_runs",
        "Runs of a BPF program, counted while kernel.bpf_stats_enabled is 1.",
    ).by(&["program"]);
    PROGRAM_TIME = counter(
        "sockstamp_program_seconds",
        "CPU time of a BPF program, counted while kernel.bpf_stats_enabled is 1.",
    ).seconds().by(&["program"]);
    PROGRAM_STATISTICS = gauge(
        "sockstamp_program_statistics_enabled",
        "1 while the kernel counts runs of BPF programs (kernel.bpf_stats_enabled).",
    );
    CPU = counter(
        "process_cpu_seconds",
        "CPU time of the agent's own process.",
    ).seconds();
    MEMORY = gauge(
        "process_resident_memory_bytes",
        "Memory of the agent's own process.",
    ).bytes();
    DESCRIPTORS = gauge(
        "process_open_fds",
        "File descriptors of the agent's own process.",
    );
    START = gauge(
        "process_start_time_seconds",
        "Start of the agent's own process, since 1970 in UTC.",
    ).seconds();
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn names_are_unique_and_end_with_their_unit() {
        let names: BTreeSet<_> = ALL.iter().map(|metric| metric.name).collect();
        assert_eq!(names.len(), ALL.len());
        for metric in ALL {
            assert!(
                metric
                    .unit
                    .is_none_or(|unit| metric.name.ends_with(&format!("_{unit}"))),
                "{}",
                metric.name
            );
            assert!(
                !metric.help.contains(['"', '\\']),
                "{}: one format would escape it",
                metric.name
            );
            assert!(!metric.name.ends_with("_total") && metric.help.ends_with('.'));
        }
    }
}
