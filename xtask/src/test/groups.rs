//! Which step runs a test: one list, and a rule for the rest.

/// Tests that run in the same way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Group {
    /// Tests beside the code, without root.
    Unit,
    /// Tests beside the code that load programs, or make files of other users.
    Rooted,
    /// Measure nothing, and touch nothing of the host.
    Pure,
    /// Live tests that measure no time of this machine below 100 ms, and look at a target of their
    /// own.
    Beside,
    /// Live tests that measure times: they would measure each other.
    Live,
    Bench,
    Browser,
    Kubernetes,
    Collector,
    Spark,
}

impl Group {
    /// True if its tests run one at a time.
    pub(super) fn is_serial(self) -> bool {
        !matches!(self, Self::Unit | Self::Pure)
    }
}

/// Tests in a program of `tests/`: those whose names begin so.
#[derive(Debug)]
pub(super) struct Place {
    pub(super) group: Group,
    pub(super) program: &'static str,
    pub(super) names: &'static str,
}

const fn place(group: Group, program: &'static str, names: &'static str) -> Place {
    Place {
        group,
        program,
        names,
    }
}

/// The first that fits a test counts; a test in `tests/` that is in none is `Live`.
pub(super) const PLACES: &[Place] = &[
    place(Group::Bench, "smoke", ""),
    place(Group::Collector, "otel_collector", ""),
    place(Group::Spark, "sql_spark", ""),
    place(Group::Browser, "html", ""),
    place(Group::Browser, "agent", "page::"),
    place(Group::Kubernetes, "packaging", "the_chart_"),
    place(Group::Kubernetes, "packaging", "the_daemonset_"),
    place(Group::Kubernetes, "packaging", "without_a_token_the_chart_"),
    place(Group::Pure, "changes", ""),
    place(Group::Pure, "export", ""),
    place(Group::Pure, "files", ""),
    place(Group::Pure, "join", ""),
    place(Group::Pure, "populations", ""),
    place(Group::Pure, "sql", ""),
    // Tests of these measure the whole host, wakings, or times.
    place(Group::Live, "agent", "alerts::rules_fire_and_panels_"),
    place(
        Group::Live,
        "agent",
        "hindsight::the_last_minutes_are_kept_",
    ),
    place(Group::Live, "agent", "hindsight::the_page_explains_"),
    place(Group::Live, "agent", "life::a_service_manager_is_notified_"),
    place(Group::Live, "agent", "life::an_idle_agent_sleeps"),
    place(Group::Live, "agent", "life::the_capabilities_of_the_unit_"),
    place(Group::Live, "agent", "life::the_ceiling_is_held_"),
    place(
        Group::Live,
        "agent",
        "life::threads_beside_the_measuring_one_",
    ),
    place(Group::Live, "agent", "otlp::a_receiver_that_hangs_"),
    place(
        Group::Live,
        "agent",
        "prometheus::a_real_prometheus_has_the_quantiles_",
    ),
    place(
        Group::Live,
        "agent",
        "prometheus::native_histograms_have_the_quantiles_",
    ),
    place(Group::Live, "agent", "rules::a_rule_s_"),
    place(Group::Live, "agent", "scrape::figures_are_those_of_stat"),
    place(Group::Live, "agent", "scrape::five_hundred_groups_"),
    place(Group::Live, "agent", "tls::handshakes_that_never_end_"),
    place(Group::Beside, "agent", "alerts::"),
    place(Group::Beside, "agent", "configuration::"),
    place(Group::Beside, "agent", "hindsight::"),
    place(Group::Beside, "agent", "life::"),
    place(Group::Beside, "agent", "names::"),
    place(Group::Beside, "agent", "otlp::"),
    place(Group::Beside, "agent", "prometheus::"),
    place(Group::Beside, "agent", "rules::"),
    place(Group::Beside, "agent", "scrape::"),
    place(Group::Beside, "agent", "tls::"),
    place(Group::Beside, "c", ""),
    place(
        Group::Live,
        "corner_cases",
        "uplinks::a_datagram_that_waits_",
    ),
    place(
        Group::Live,
        "corner_cases",
        "uplinks::a_retransmission_does_not_",
    ),
    place(Group::Beside, "corner_cases", "containers::"),
    place(Group::Beside, "corner_cases", "fast_open::"),
    place(Group::Beside, "corner_cases", "filter::"),
    place(Group::Beside, "corner_cases", "groups::"),
    place(Group::Beside, "corner_cases", "layers::"),
    place(Group::Beside, "corner_cases", "mptcp::"),
    place(Group::Beside, "corner_cases", "names::"),
    place(Group::Beside, "corner_cases", "paths::"),
    place(Group::Beside, "corner_cases", "restored::"),
    place(Group::Beside, "corner_cases", "selection::"),
    place(Group::Beside, "corner_cases", "uplinks::"),
    place(Group::Live, "doctor", "doctor_and_stat_"),
    place(Group::Live, "doctor", "doctor_as_root_"),
    place(Group::Live, "doctor", "the_plan_is_the_one_by_which_"),
    place(Group::Beside, "doctor", ""),
    // In seconds, as the timers of TCP that it waits for.
    place(Group::Beside, "known_answers", "closed_behind::"),
    place(Group::Beside, "packaging", ""),
    place(Group::Beside, "ping", "namespaces::"),
    place(Group::Live, "ping", "output::a_deadline_"),
    place(Group::Live, "ping", "output::each_probe_"),
    place(Group::Live, "ping", "output::programs_that_read_ping_"),
    place(Group::Beside, "ping", "output::"),
    place(Group::Beside, "ping", "refused::"),
    place(Group::Beside, "privileges", ""),
    place(Group::Live, "recordings", "findings::diff_finds_"),
    place(Group::Live, "recordings", "findings::explain_names_"),
    place(Group::Live, "recordings", "packets_without_messages_"),
    place(Group::Beside, "recordings", ""),
    place(Group::Beside, "schemas", ""),
    place(Group::Live, "spelled", "a_signal_that_comes_twice_"),
    place(Group::Beside, "spelled", ""),
    place(Group::Beside, "verified", ""),
    place(Group::Live, "wrong_use", "a_closed_pipe_ends_quietly"),
    place(Group::Live, "wrong_use", "a_name_that_no_process_has_"),
    place(Group::Beside, "wrong_use", ""),
];

/// Tests beside the code that are `Rooted`: those whose names begin so.
pub(super) const ROOTED: &[&str] = &[
    "container::file::tests::",
    "select::filter::tests::the_kernel_answers_as_the_model_does",
    "select::filter::tests::the_longest_filters_load",
    "held_socket::tests::",
    "privilege::tests::",
    "sample::tests::",
    "sched::tests::",
];

/// Return the group of a test beside the code.
pub(super) fn of_unit(test: &str) -> Group {
    if ROOTED.iter().any(|names| test.starts_with(names)) {
        Group::Rooted
    } else {
        Group::Unit
    }
}

/// Return the group of a test in a program of `tests/`.
pub(super) fn of_program(program: &str, test: &str) -> Group {
    let found = PLACES.iter().find(|place| place.has(program, test));
    found.map_or(Group::Live, |place| place.group)
}

impl Place {
    pub(super) fn has(&self, program: &str, test: &str) -> bool {
        self.program == program && test.starts_with(self.names)
    }
}
