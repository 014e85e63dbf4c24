//! Options of other programs: what is compared, measured and probed.

use super::instead::Entry;
use super::instead::Instead::{Filter, Line, Nothing, Option, Recording};

/// Options, and values of options, behind those of what is written.
pub(super) const MEASURED: &[Entry] = &[
    // Comparisons.
    (
        "diff",
        "--baseline --base --old",
        Option("before", "--before FILE... --after FILE..."),
    ),
    (
        "diff",
        "--max-regression --fail-above --fail-on --max-increase --tolerance --strict",
        Option(
            "fail-if",
            "--fail-if CONDITION, such as 'peer.answer.p99 > +20%'",
        ),
    ),
    (
        "diff",
        "--p50 --p90 --p99 --p999 --max-p99 --max-latency --ci",
        Option(
            "fail-if",
            "--fail-if CONDITION, such as 'rx.total.p99 > +5ms'",
        ),
    ),
    (
        "stat",
        "--fail-if --fail --max-p99 --max-latency",
        Line("a limit is for jq -e, behind", "stat --format json"),
    ),
    (
        "report",
        "--fail-if --fail --max-p99 --max-latency",
        Line("a limit is for jq -e, behind", "report --format json FILE"),
    ),
    (
        "report",
        "--compare --diff",
        Line("what changed", "diff BEFORE AFTER"),
    ),
    (
        "join",
        "--client --server --a --b",
        Nothing("the two sides are --first FILE... --second FILE..."),
    ),
    // Times.
    (
        "report diff join export trace",
        "--after --begin",
        Option("from", "--from {TIME}"),
    ),
    (
        "report join export trace",
        "--before",
        Option("to", "--to {TIME}"),
    ),
    ("", "--between", Option("from", "--from TIME --to TIME")),
    ("report export", "-b", Option("from", "--from {TIME}")),
    ("report export", "-e=*", Option("to", "--to {TIME}")),
    (
        "stuck",
        "--since=~ --start=~",
        Option("slow", "--slow {TIME}; of recordings: --from -{TIME}"),
    ),
    (
        "",
        "--last --since=~ --start=~ -S=~",
        Option("from", "--from -{TIME}"),
    ),
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
        "-t -T --tt --timestamps",
        Nothing("each line has its time of day; to end after a time: --duration TIME"),
    ),
    ("ping", "-T --tcp-syn", Option("tcp", "--tcp PORT")),
    (
        "ping",
        "-d --duration --seconds",
        Option("deadline", "-w {TIME}"),
    ),
    ("stuck", "-f --follow --live", Option("watch", "--watch")),
    (
        "trace top",
        "--follow --live",
        Nothing("it goes on until Ctrl-C: leave it out"),
    ),
    (
        "stuck",
        "--once --now",
        Nothing("it looks once, now: leave it out"),
    ),
    ("stuck", "-t=~", Option("slow", "--slow {TIME}")),
    (
        "stuck",
        "-d=# -d=~ --duration",
        Option("for", "--for {TIME}; without it, it looks once"),
    ),
    (
        "stuck",
        "-n=# -d --delay -I",
        Option("watch", "--watch --interval {TIME}"),
    ),
    (
        "stuck",
        "--head --top --limit --count",
        Nothing("the oldest come first: pipe it into head -n N"),
    ),
    (
        "stat top",
        "-n=*",
        Nothing(
            "addresses are never turned into names: leave it out; a network namespace is --netns NAME",
        ),
    ),
    ("top", "-n=1", Option("once", "--once")),
    ("stat top", "-n=#", Option("interval", "--interval {TIME}")),
    (
        "report diff join export recover",
        "-d --duration",
        Option("from", "--from TIME --to TIME, with times of the recording"),
    ),
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
        "stat",
        "--limit --lines --head --rows",
        Option("top", "--by comm --top {N}, which sums by process"),
    ),
    (
        "report",
        "-n=# --limit --lines --head --rows",
        Option("top", "--by comm --top {N}, which sums by process"),
    ),
    (
        "report",
        "-s",
        Option("sort", "--by comm --sort {FIGURE}, which sums by process"),
    ),
    (
        "trace pcap record ping",
        "-n=# -m=# --messages",
        Option("count", "--count {N}"),
    ),
    (
        "",
        "--sort=comm --sort=pid --sort=port --sort=peer",
        Option("by", "--by {DIMENSION}"),
    ),
    ("", "-b --batch", Option("once", "--once")),
    (
        "stat",
        "-r=*",
        Line("the table of a recording", "report FILE"),
    ),
    (
        "",
        "-r --runs",
        Option("repeat", "--repeat {N}, or sockstamp report FILE"),
    ),
    (
        "",
        "-F=# --freq=# --frequency=# --rate=#",
        Option("sample", "--sample {N}/s"),
    ),
    (
        "",
        "--sampling --sample-rate --ratio",
        Option("sample", "--sample 1/N, or N/s"),
    ),
    ("", "--no-sampling --no-sample", Option("every", "--every")),
    (
        "record",
        "-C=#",
        Option(
            "rotate-size",
            "--rotate-size {MB}, with a folder as -o FOLDER/",
        ),
    ),
    (
        "record",
        "-G=#",
        Option(
            "rotate-time",
            "--rotate-time {SECONDS}, with a folder as -o FOLDER/",
        ),
    ),
    (
        "pcap",
        "-B --buffer-size",
        Option("buffer", "--buffer MB, of kernel memory"),
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
        "stat top explain",
        "-c=# --count --messages",
        Option(
            "duration",
            "--duration TIME, as none counts messages; trace --count does",
        ),
    ),
    (
        "stuck doctor",
        "-c=#",
        Nothing("nothing is counted here; trace --count ends after some messages"),
    ),
    (
        "stat top stuck explain doctor",
        "-c",
        Option(
            "container",
            "--container {NAME}; for processes of this name, --comm {NAME}",
        ),
    ),
    (
        "agent",
        "--netns --container --cgroup --comm --pid --interface --host --src --dst --udp -i",
        Nothing("the target stands in the file of --config, as in `[target]` `netns = \"NAME\"`"),
    ),
    (
        "",
        "--unit --service --systemd",
        Option("container", "--container {NAME}, if systemd runs it"),
    ),
    (
        "",
        "--docker --pod --pods --containers --container-id",
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
        "ping",
        "-N",
        Nothing("nodes are not asked for information; for a network namespace: --netns NAME"),
    ),
    (
        "",
        "-N --ns --net-ns --network-namespace",
        Option("netns", "--netns {NAME}"),
    ),
    (
        "",
        "--name --process --task --command --cmd --pgrep",
        Option("comm", "--comm {NAME}"),
    ),
    (
        "stat top trace explain",
        "-C=# --cpu",
        Nothing("a CPU is no target; sums by CPU: sockstamp report --by cpu FILE"),
    ),
    ("", "-C", Option("comm", "--comm {NAME}")),
    (
        "",
        "--exe --program --binary",
        Option("comm", "--comm NAME"),
    ),
    (
        "",
        "--pids --tgid --attach --Pid -P=#",
        Option("pid", "--pid {PID}"),
    ),
    (
        "",
        "-H --tid --thread --threads --per-thread",
        Option("by", "--by pid,comm"),
    ),
    (
        "",
        "-g --group --group-by",
        Option("by", "--by {DIMENSION}"),
    ),
    ("stuck", "--sort --order", Nothing("the oldest come first")),
    (
        "stuck",
        "--by",
        Nothing("it lists each wait; sums by groups: sockstamp stat --by DIMENSION"),
    ),
    (
        "diff",
        "--by",
        Nothing("a filter chooses what is compared, as in `sockstamp diff BEFORE AFTER port 80`"),
    ),
    (
        "join",
        "--by",
        Nothing(
            "all joined messages are summed at once; of one host: sockstamp report --by DIMENSION FILE",
        ),
    ),
    (
        "join",
        "--offset --clock-offset",
        Nothing("the offset of the clocks is computed from the messages"),
    ),
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
            "--every, for every message; without a target it is the whole host",
        ),
    ),
    (
        "",
        "-u=*.service",
        Option("container", "--container {NAME}"),
    ),
    (
        "",
        "-u",
        Option(
            "comm",
            "--comm NAME, as a user is no target; for datagrams, udp is a filter",
        ),
    ),
    (
        "",
        "--uid --user",
        Option("comm", "--comm NAME, as a user is no target"),
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
        "--latency --min-latency --min --over --threshold --longer --longer-than --slower \
         --older --older-than --age --min-age --warn --above",
        Option("slow", "--slow {TIME}"),
    ),
    (
        "pcap",
        "--slow --slower",
        Nothing("packets have no times; slow messages are of: sockstamp trace --slow TIME"),
    ),
    (
        "explain",
        "--p99",
        Option("slow", "--slow p99, which is the default"),
    ),
    (
        "explain",
        "--quantile=# --percentile=# -q=#",
        Option("slow", "--slow p{99}"),
    ),
    (
        "",
        "--exit-code --fail --fail-on-regression --threshold",
        Option("fail-if", "--fail-if CONDITION"),
    ),
    (
        "",
        "--overhead --cpu-limit --max-overhead --max",
        Option("max-cost", "--max-cost PERCENT"),
    ),
    (
        "stat report",
        "--percentiles --percentile --quantiles --quantile --p50 --p90 --p95 --p99 --p999 -P",
        Option(
            "columns",
            "--columns p50,p99, of min, mean, p50, p90, p99, p99.9 and max",
        ),
    ),
    (
        "stat report top",
        "--stage --stages",
        Nothing("all stages are printed; those of one: --format csv, then grep STAGE"),
    ),
    (
        "",
        "--hist --histogram --histograms --heatmap --percentiles --percentile --quantiles \
         --quantile -q=# --p50 --p90 --p95 --p99 --p999",
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
        "-P --port --dport",
        Option("tcp", "--tcp {PORT}, or --udp PORT"),
    ),
    (
        "ping",
        "-B",
        Nothing("the source address stays what -I gives: leave it out"),
    ),
    (
        "ping",
        "-C",
        Nothing("each probe has its line; the lines of fping: sockstamp fping -C N HOST"),
    ),
    ("ping", "-u", Option("udp", "--udp PORT")),
    ("ping", "-b", Nothing("broadcasts are not probed")),
    // Filters.
    ("", "--not", Filter("not port 22")),
    (
        "agent",
        "-p=# --port",
        Option("listen", "--listen 127.0.0.1:{PORT}"),
    ),
    (
        "agent",
        "-l --metrics-addr --metrics-address --web.listen-address --address --bind --addr",
        Option("listen", "--listen {ADDRESS:PORT}"),
    ),
    ("agent", "--once", Line("one table", "stat --duration TIME")),
    (
        "agent",
        "--print-config --dump-config --show-config --settings",
        Option("print-settings", "--print-settings"),
    ),
    (
        "agent",
        "--prometheus --metrics",
        Option("listen", "--listen {ADDRESS:PORT}"),
    ),
    (
        "agent",
        "--interval",
        Nothing("who scrapes chooses it, as by Prometheus's scrape_interval: leave it out"),
    ),
    (
        "agent",
        "-d -D --daemon --background",
        Nothing("it stays in the foreground, as systemd wants it: leave it out"),
    ),
    (
        "stat top trace record",
        "--prometheus --otlp --otel --metrics",
        Line("metrics of a measurement that goes on", "agent"),
    ),
    ("", "--port=- --ports=-", Filter("portrange {80-90}")),
    (
        "",
        "--ports --port=,",
        Nothing("each port has its word, as in `port 80 or port 443`"),
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
    (
        "trace",
        "-f=",
        Nothing(
            "a command behind -- is measured with its children, and so is --cgroup: leave it out",
        ),
    ),
    (
        "",
        "-tn -ta -tan -tnp -tanp -tlnp -tnlp -tunp -tulpn",
        Filter("tcp"),
    ),
    ("", "-f --filter", Filter("{tcp port 80}")),
    // Others.
    (
        "report",
        "-i=* --interface",
        Option(
            "by",
            "--by interface, which sums rows of each; none are chosen by it",
        ),
    ),
    ("", "-r --read -i --input --file", Recording),
    ("agent", "-c -f", Option("config", "--config {FILE}")),
    (
        "agent",
        "--validate --test --dry-run -t",
        Option("check", "--check --config {FILE}"),
    ),
    (
        "top",
        "-r --read --input",
        Line("the table of a recording", "report FILE"),
    ),
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
        "stat report",
        "--mean --avg --average",
        Option("columns", "--columns min --columns mean --columns max"),
    ),
    (
        "",
        "-n --numeric",
        Nothing("addresses and ports are never turned into names: leave it out"),
    ),
    (
        "",
        "-A -X -s --hex",
        Line(
            "no bytes of messages are kept; packets are",
            "pcap --snaplen 1500 -w OUT",
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
        Nothing("all that is printed is explained by: sockstamp --explain-words"),
    ),
    (
        "",
        "--exec --run",
        Line("a command stands behind --", "stat -- COMMAND"),
    ),
    ("", "--version -V", Line("the version", "--version")),
    ("", "-? -help", Line("help", "--help")),
    (
        "",
        "--rx --tx --in --out --dir -Q --direction",
        Nothing("both directions are measured, and shown apart"),
    ),
    (
        "",
        "--unix",
        Nothing("a target has waits over Unix sockets without an option: -p PID, or a command"),
    ),
    (
        "",
        "--vsock --sctp --udplite",
        Nothing("messages of TCP and UDP alone are measured"),
    ),
];
