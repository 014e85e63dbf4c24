//! Options of other programs, and former ones.

use super::instead::Entry;
use super::instead::Instead::{Filter, Line, Nothing, Option, Recording, Renamed};

/// Options, and values of options.
pub(in crate::hints) const OPTIONS: &[Entry] = &[
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
    ("", "--rx-stamps", Renamed("--nic-stamps auto|off|RATE")),
    // Names of hosts.
    (
        "fping",
        "-n -d --name --rdns",
        Nothing("addresses are never turned into names: leave it out"),
    ),
    (
        "fping",
        "-m --all",
        Nothing("a host is probed at its first address: leave it out, or name its addresses"),
    ),
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
        "--format=pcap --format=pcapng --pcap -f=pcap -f=pcapng -F=pcap",
        Line("packets", "pcap -w OUT -r FILE"),
    ),
    (
        "export",
        "--format=html --html",
        Line("a page", "report --html OUT FILE"),
    ),
    ("export", "--pcapng", Line("packets", "pcap -w OUT -r FILE")),
    (
        "export",
        "--prometheus --otlp --otel --metrics",
        Line("metrics of a measurement that goes on", "agent"),
    ),
    (
        "export",
        "--parquet",
        Nothing("a recording is Parquet as it is: copy it"),
    ),
    (
        "export",
        "--format --to=perfetto --chrome --chrome-trace",
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
        Line("packets", "pcap -w OUT"),
    ),
    (
        "",
        "--format=perfetto",
        Line("a trace for Perfetto", "export --perfetto -o OUT FILE"),
    ),
    (
        "export",
        "-f=csv -F=csv",
        Line("a table as CSV", "report --format csv FILE"),
    ),
    (
        "export",
        "-f=json -F=json",
        Line("messages as JSON", "trace --format json -r FILE"),
    ),
    ("export", "-f", Option("perfetto", "--perfetto -o OUT")),
    (
        "fping",
        "-J --json --format",
        Line("an object for each probe", "ping --format json HOST"),
    ),
    (
        "record",
        "--format -j --json --jsonl",
        Line("messages as JSON", "trace --format json"),
    ),
    (
        "top",
        "--format -j --json --csv",
        Line(
            "one table as JSON",
            "stat --by comm,port --format json --duration TIME",
        ),
    ),
    (
        "",
        "-x --csv --field-separator",
        Option("format", "--format csv"),
    ),
    (
        "",
        "-j -J --js --json --jsonl --ndjson --output-format",
        Option("format", "--format json"),
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
    (
        "record",
        "--overwrite --force",
        Nothing("a recording is never written over: name another, or remove it first"),
    ),
    (
        "top",
        "-o -s --sort --order",
        Nothing("its keys s and S choose the column that sorts"),
    ),
    (
        "",
        "--no-pager --pager",
        Nothing("all goes to standard output, without a pager: leave it out"),
    ),
    (
        "agent",
        "-o --output",
        Nothing("it serves metrics: curl http://127.0.0.1:9776/metrics"),
    ),
    ("stuck", "-w", Option("watch", "--watch")),
    ("", "-w --write", Option("output", "-o {FILE}")),
    ("", "-o --output", Option("write", "-w {FILE}")),
    // Bounds of a recording.
    (
        "record",
        "-W --max-files --retention --size",
        Option(
            "max-size",
            "--max-size MB, below which the oldest files of -o FOLDER/ are removed",
        ),
    ),
    (
        "record",
        "--interval",
        Nothing("each message is a row: sockstamp report --from TIME --to TIME sums some of them"),
    ),
    (
        "recover",
        "-o --output",
        Nothing("each FILE is cut where it is: copy it first"),
    ),
    (
        "record",
        "-z --compress --gzip",
        Nothing("its Parquet is compressed: leave it out"),
    ),
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
        "-n=# -d --delay -I --duration",
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
        "report",
        "-n=# --limit --lines --head",
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
        "--name --process --task --command --pgrep",
        Option("comm", "--comm {NAME}"),
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
    ("", "-g --group --group-by", Option("by", "--by DIMENSION")),
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
    ("", "--version", Line("the version", "--version")),
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
