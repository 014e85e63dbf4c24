//! Words that are typed in the place of a subcommand or of a filter.

/// Names that other programs give a subcommand, and what to type.
pub(in crate::hints) const SUBCOMMANDS: &[(&str, &str)] = &[
    (
        "tcpdump tshark wireshark dump capture sniff",
        "pcap -w FILE",
    ),
    ("watch live htop monitor", "top"),
    (
        "list ls ss netstat ps lsof conns connections sockets flows waits pending who blocked hung \
         hang waiting",
        "stuck",
    ),
    ("mtr traceroute tracepath path hops", "ping --path HOST"),
    ("tcping", "ping --tcp PORT HOST"),
    ("compare", "diff BEFORE AFTER"),
    (
        "merge",
        "report FILE FILE, or join FIRST SECOND for two hosts",
    ),
    (
        "convert perfetto flamegraph flame timeline",
        "export --perfetto -o OUT FILE",
    ),
    ("read show view open cat print summary", "report FILE"),
    ("html page plot graph", "report --html OUT FILE"),
    ("repair fix", "recover FILE"),
    (
        "check test self-test selftest features probe info status config",
        "doctor",
    ),
    (
        "daemon serve server exporter metrics start prometheus",
        "agent",
    ),
    ("run exec", "stat -- COMMAND"),
    ("attach", "stat -p PID"),
    (
        "perf profile measure latency histogram hist -a --all",
        "stat",
    ),
    ("slow slower slowest", "explain --slow TIME"),
    ("netns", "stat --netns NAME"),
    ("dns", "stat port 53"),
    ("http", "stat port 80"),
    ("replay play script", "trace -r FILE"),
    (
        "strace bpftrace log logs tail follow events stream",
        "trace",
    ),
    ("why analyze analyse diagnose", "explain"),
    (
        "kubectl docker crictl podman pod container",
        "stat --container NAME",
    ),
    ("version -v", "--version"),
    ("man manual docs -? -l -s --list", "--help"),
    ("filter filters fields", "stat --help"),
    ("--check --doctor", "doctor"),
    ("--top --watch", "top"),
];

/// Words that begin no filter, with the option for what follows them.
pub(in crate::hints) const WORDS: &[(&str, &str)] = &[
    ("pid process", "--pid {PID}"),
    ("comm name", "--comm {NAME}"),
    ("container pod service", "--container {NAME}"),
    ("cgroup", "--cgroup {PATH}"),
    ("netns namespace", "--netns {NAME}"),
    ("interface iface dev nic on", "--interface {IFACE}"),
    ("from", "src host {ADDRESS}"),
    ("to", "dst host {ADDRESS}"),
    ("by", "--by {DIMENSION}"),
    ("for", "--duration {TIME}"),
    ("slow", "--slow {TIME}"),
];

/// Subcommands, all if none is named; words alone behind them; and what to type. `{WORD}` is the
/// word, `{SUBCOMMAND}` the subcommand.
pub(in crate::hints) const ALONE: &[(&str, &str, &str)] = &[
    ("", "help", "for its options: sockstamp help {SUBCOMMAND}"),
    (
        "stuck",
        "now all everything",
        "all that waits now is listed: sockstamp stuck",
    ),
    (
        "explain",
        "p50 p90 p99 p99.9",
        "for what is slower: sockstamp explain --slow {WORD}",
    ),
    (
        "explain",
        "stuck waits",
        "for what waits now: sockstamp stuck",
    ),
    (
        "doctor",
        "stat stuck top trace explain record pcap ping agent",
        "all subcommands are looked at: sockstamp doctor",
    ),
];

/// Words behind `agent` that service managers have, and what to type.
pub(in crate::hints) const AGENT: &[(&str, &str)] = &[
    (
        "start run serve",
        "it runs in the foreground: sockstamp agent",
    ),
    (
        "stop kill",
        "SIGTERM ends it: systemctl stop sockstamp-agent",
    ),
    ("status health", "it tells at http://127.0.0.1:9776/healthz"),
    ("restart reload", "SIGHUP makes it read its settings again"),
];
