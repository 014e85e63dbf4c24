//! Options of other programs, and former ones: what is written, and where.

use super::instead::Entry;
use super::instead::Instead::{Line, Nothing, Option, Renamed};

/// Options, and values of options.
pub(super) const WRITTEN: &[Entry] = &[
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
        "--csv --format=csv",
        Line(
            "one table as CSV",
            "stat --by comm,port --format csv --duration TIME",
        ),
    ),
    ("top", "-j --json", Option("once", "--once --format json")),
    (
        "trace",
        "-w=*.pcap --write=*.pcap",
        Line("packets", "pcap -w {FILE}"),
    ),
    (
        "",
        "--sql -f=sqlite --format=sqlite --sqlite",
        Nothing("a recording is Parquet as it is, which DuckDB reads: leave it out"),
    ),
    (
        "",
        "--no-header --no-headers --human --human-readable --us --ms",
        Nothing("text has headers and units; without them: --format json"),
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
        Nothing("a recording is never written over: name another, or remove it"),
    ),
    (
        "top",
        "-o -s --sort --order",
        Nothing(
            "its keys s and S choose the column that sorts; without keys: \
             sockstamp stat --by comm,port --sort total",
        ),
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
];
