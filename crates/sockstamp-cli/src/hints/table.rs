//! Words that users of other programs type, or typed before, and the ones to type instead.
//!
//! `{}` stands for the value that was typed, or for its name where there is none.

/// The answer to a word.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Instead {
    /// An option that had this name before.
    Renamed(&'static str),
    /// The long name of an option, and how it is written.
    Option(&'static str, &'static str),
    /// A filter that is written without an option.
    Filter(&'static str),
    /// A recording, which is named without an option.
    Recording,
    /// Nothing: what the option does is always so, or not done.
    Nothing(&'static str),
    /// The purpose, and the command line for it.
    Line(&'static str, &'static str),
}

use Instead::{Filter, Line, Nothing, Option, Recording, Renamed};

/// Subcommands, all if none is named; options of theirs, with a value where that matters; and the
/// answer. The first entry that fits a subcommand is the answer.
pub(super) type Entry = (&'static str, &'static str, Instead);

/// Options, and values of options.
pub(super) const OPTIONS: &[Entry] = &[
    // Former names.
    ("", "--slower-than --worse-than", Renamed("--slow")),
    ("", "--no-color --no-colour", Renamed("--color never")),
    ("", "--rate-cap", Renamed("--sample N/s")),
    ("", "--in-step", Renamed("--sample 2^K")),
    ("", "--entry", Renamed("--expert entry=HOOK")),
    ("", "--hooks", Renamed("--expert hooks=older")),
    ("", "--no-causes", Renamed("--expert causes=off")),
    ("", "--no-sched", Renamed("--expert sched=off")),
    ("", "--attach-all", Renamed("--expert attach=all")),
    ("", "--include-hol", Renamed("--expert hol=include")),
    ("", "--exclude-hol", Renamed("--expert hol=exclude")),
    ("", "--windows", Renamed("--expert windows=1/N")),
    // Formats, and where they go.
    (
        "export",
        "--format=csv --csv",
        Line("a table as CSV", "report --format csv FILE"),
    ),
    (
        "export",
        "--format=json --json",
        Line("messages as JSON", "trace --format json -r FILE"),
    ),
    (
        "export",
        "--format=pcap --format=pcapng --pcap",
        Line("packets", "pcap -w OUT -r FILE"),
    ),
    (
        "export",
        "--format=html --html",
        Line("a page", "report --html OUT FILE"),
    ),
    (
        "export",
        "--format --chrome --chrome-trace",
        Option("perfetto", "--perfetto -o OUT"),
    ),
    (
        "",
        "--format=html",
        Line("a page", "report --html OUT FILE"),
    ),
    (
        "",
        "--format=pcap --format=pcapng",
        Line("packets", "pcap -w FILE"),
    ),
    (
        "",
        "--format=perfetto",
        Line("a trace for Perfetto", "export --perfetto -o OUT FILE"),
    ),
    (
        "",
        "-j --json --output-format",
        Option("format", "--format json"),
    ),
    (
        "",
        "-x --csv --field-separator",
        Option("format", "--format csv"),
    ),
    (
        "",
        "--stdio --text",
        Option("format", "--format text, which is the default"),
    ),
    (
        "record",
        "--append",
        Option("output", "-o FOLDER/, which takes several recordings"),
    ),
    ("", "-w --write", Option("output", "-o FILE")),
    ("", "-o --output", Option("write", "-w FILE")),
    // Times.
    ("", "--last", Option("from", "--from -{TIME}")),
    ("", "--since --start -S", Option("from", "--from {TIME}")),
    ("", "--until --end", Option("to", "--to {TIME}")),
    ("", "--time", Option("from", "--from TIME --to TIME")),
    (
        "pcap",
        "-U --packet-buffered",
        Nothing("a packet is written when it comes"),
    ),
    ("", "-U", Option("to", "--to {TIME}")),
    (
        "trace",
        "-t -T --timestamps",
        Nothing("each line has its time of day; to end after a time: --duration TIME"),
    ),
    ("ping", "-T --tcp-syn", Option("tcp", "--tcp PORT")),
    (
        "",
        "-t --time --timeout --seconds --for",
        Option("duration", "--duration {TIME}"),
    ),
    ("", "-d --delay", Option("interval", "--interval {TIME}")),
    (
        "",
        "-I --interval-print",
        Option("interval", "--interval {TIME}, with its unit: ms or s"),
    ),
    // Numbers.
    (
        "",
        "--limit --lines --max-messages --head",
        Option("count", "--count {N}"),
    ),
    (
        "trace pcap record ping",
        "-n",
        Option(
            "count",
            "--count N to end after some; addresses and ports are never turned into names",
        ),
    ),
    ("", "-b --batch", Option("once", "--once")),
    (
        "",
        "-r --runs",
        Option("repeat", "--repeat {N}, or sockstamp report FILE"),
    ),
    (
        "",
        "-F --freq --frequency",
        Option("sample", "--sample N/s"),
    ),
    (
        "pcap",
        "-C -W -G",
        Line(
            "files in turn",
            "record --packets --rotate-size MB -o FOLDER/",
        ),
    ),
    (
        "",
        "-s --snapshot-length",
        Option("snaplen", "--snaplen {N}"),
    ),
    // Whose messages.
    (
        "stat top stuck explain doctor",
        "-c",
        Option("container", "--container {NAME}"),
    ),
    (
        "",
        "--docker --pod --pods --containers --container-id --service --unit --systemd",
        Option("container", "--container {NAME}"),
    ),
    (
        "",
        "--namespace --all-namespaces --selector --image",
        Option(
            "container",
            "--container NAME for a pod, --netns NAME for a network namespace",
        ),
    ),
    (
        "",
        "-N --ns --net-ns --network-namespace",
        Option("netns", "--netns {NAME}"),
    ),
    (
        "",
        "--name --process --task --command --pgrep",
        Option("comm", "--comm {NAME}"),
    ),
    ("", "-C", Option("comm", "--comm {NAME}")),
    (
        "",
        "--exe --program --binary",
        Option("comm", "--comm NAME"),
    ),
    ("", "--pids --tgid --attach", Option("pid", "--pid {PID}")),
    (
        "",
        "-H --tid --thread --threads --per-thread",
        Option("by", "--by pid,comm"),
    ),
    ("", "-g --group --group-by", Option("by", "--by DIMENSION")),
    (
        "",
        "-G --cgroups --for-each-cgroup",
        Option("cgroup", "--cgroup {PATH}"),
    ),
    (
        "",
        "--iface --dev --device --if",
        Option("interface", "--interface {IFACE}"),
    ),
    (
        "stuck",
        "-a -l --all --listening",
        Nothing("what waits is listed, of all sockets"),
    ),
    (
        "stuck",
        "-e -m -s --extended --info --memory",
        Option("why", "--why"),
    ),
    (
        "stuck",
        "-K --kill",
        Nothing("sockets are looked at alone; `ss -K` closes them"),
    ),
    (
        "",
        "-a --all --all-cpus",
        Option(
            "every",
            "--every for every message; without a target it is the whole host",
        ),
    ),
    (
        "",
        "-u --uid --user",
        Option(
            "pid",
            "--pid $(pgrep -d, -u {USER}); for datagrams, udp is a filter",
        ),
    ),
    (
        "",
        "--by=pod --by=service --by=unit",
        Option("by", "--by container"),
    ),
    (
        "",
        "--by=process --by=name --by=thread --by=command",
        Option("by", "--by comm"),
    ),
    (
        "",
        "--by=host --by=ip --by=dst --by=remote --by=client",
        Option("by", "--by peer"),
    ),
    ("", "--by=protocol", Option("by", "--by proto")),
    (
        "",
        "--by=dev --by=nic --by=iface",
        Option("by", "--by interface"),
    ),
    (
        "",
        "--by=connection --by=socket --by=conn",
        Option("by", "--by flow"),
    ),
    // Slowness.
    (
        "",
        "--latency --min-latency --min --over --threshold --longer",
        Option("slow", "--slow {TIME}"),
    ),
    (
        "",
        "--exit-code --fail --fail-on-regression --threshold",
        Option("fail-if", "--fail-if CONDITION"),
    ),
    (
        "",
        "--overhead --cpu-limit",
        Option("max-cost", "--max-cost PERCENT"),
    ),
    (
        "",
        "--hist --histogram --histograms --heatmap --percentiles --quantiles",
        Line(
            "p50 to p99.9 are printed; for whole distributions",
            "report --html OUT FILE",
        ),
    ),
    // Probes.
    (
        "ping",
        "-r -R --report --mtr --hops --route --trace --traceroute",
        Option("path", "--path, which ends with a report"),
    ),
    (
        "ping",
        "-P --port",
        Option("tcp", "--tcp {PORT}, or --udp PORT"),
    ),
    ("ping", "-u", Option("udp", "--udp PORT")),
    ("ping", "-b", Nothing("broadcasts are not probed")),
    // Filters.
    ("", "--not", Filter("not port 22")),
    (
        "agent",
        "--port",
        Option("listen", "--listen 127.0.0.1:{PORT}"),
    ),
    ("", "--port", Filter("port {80}")),
    ("", "--sport --src-port", Filter("src port {80}")),
    ("", "--dport --dst-port", Filter("dst port {80}")),
    (
        "",
        "--host --ip --addr --address",
        Filter("host {192.0.2.1}"),
    ),
    ("", "--src --source", Filter("src host {192.0.2.1}")),
    (
        "",
        "--dst --dest --destination --peer",
        Filter("dst host {192.0.2.1}"),
    ),
    ("", "--net --network --subnet", Filter("net {192.0.2.0/24}")),
    ("", "-t --tcp", Filter("tcp")),
    ("", "--udp", Filter("udp")),
    ("", "--proto --protocol", Filter("{tcp}")),
    ("", "-4 --ipv4", Filter("ip")),
    ("", "-6 --ipv6", Filter("ip6")),
    ("", "-f --filter", Filter("{tcp port 80}")),
    // Others.
    ("", "-r --read -i --input --file", Recording),
    ("agent", "-c", Option("config", "--config {FILE}")),
    (
        "doctor",
        "--check --fix",
        Nothing("write sockstamp doctor, which names what is missing"),
    ),
    (
        "record",
        "-D --daemon --background",
        Line("a measurement that goes on", "agent"),
    ),
    (
        "",
        "-D --list-interfaces",
        Nothing("`ip link` lists interfaces"),
    ),
    (
        "",
        "-e --event --events",
        Nothing("all stages are measured"),
    ),
    (
        "",
        "-l --line-buffered",
        Nothing("a line is written when it comes"),
    ),
    (
        "",
        "-g --call-graph",
        Nothing("a message has stages in place of a call graph"),
    ),
    (
        "",
        "-n --numeric",
        Nothing("addresses and ports are never turned into names"),
    ),
    (
        "",
        "-A -X -s --hex",
        Line(
            "no bytes of messages are kept; packets are",
            "pcap --snaplen 1500 -w FILE",
        ),
    ),
    (
        "",
        "-q --quiet --silent",
        Nothing("standard output has results alone: write 2>/dev/null"),
    ),
    (
        "stat stuck",
        "-v -y --verbose --debug",
        Option("why", "--why"),
    ),
    (
        "",
        "-v --verbose --debug",
        Nothing("docs/output.md explains all that is printed"),
    ),
    ("", "--version", Line("the version", "--version")),
    ("", "-? -help", Line("help", "--help")),
    (
        "",
        "--rx --tx --in --out --dir -Q --direction",
        Nothing("both directions are measured, and shown apart"),
    ),
    (
        "",
        "--unix --vsock --sctp",
        Nothing("messages of TCP and UDP alone are measured"),
    ),
];

/// Names that other programs give a subcommand, and what to type.
pub(super) const SUBCOMMANDS: &[(&str, &str)] = &[
    (
        "tcpdump tshark wireshark dump capture sniff",
        "pcap -w FILE",
    ),
    ("watch live htop monitor", "top"),
    (
        "list ls ss netstat ps lsof conns connections sockets flows waits pending",
        "stuck",
    ),
    ("mtr traceroute tracepath", "ping --path HOST"),
    ("compare", "diff BEFORE AFTER"),
    (
        "merge",
        "report FILE FILE, or join FIRST SECOND for two hosts",
    ),
    ("convert perfetto", "export --perfetto -o OUT FILE"),
    (
        "read show view open cat print summary script",
        "report FILE",
    ),
    ("html page plot graph", "report --html OUT FILE"),
    ("repair fix", "recover FILE"),
    (
        "check test self-test selftest features probe info status config",
        "doctor",
    ),
    ("daemon serve server exporter metrics start", "agent"),
    ("run exec", "stat -- COMMAND"),
    ("perf attach measure latency histogram", "stat"),
    ("strace bpftrace log logs tail follow events", "trace"),
    ("why analyze analyse slow diagnose", "explain"),
    (
        "kubectl docker crictl podman pod container",
        "stat --container NAME",
    ),
    ("version", "--version"),
];

/// Words that begin no filter, with the option for what follows them.
pub(super) const WORDS: &[(&str, &str)] = &[
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

/// Put the value that was typed, if there is one, in the place of its name.
pub(super) fn filled(written: &str, value: std::option::Option<&str>) -> String {
    let braces = || {
        let (before, from) = written.split_once('{')?;
        let (name, behind) = from.split_once('}')?;
        Some((before, name, behind))
    };
    match braces() {
        Some((before, name, behind)) => format!("{before}{}{behind}", value.unwrap_or(name)),
        None => written.to_owned(),
    }
}

/// Return true if one of these words is the one that was typed.
pub(super) fn has_word(words: &str, typed: &str) -> bool {
    words.split(' ').any(|word| word == typed)
}
