//! Common mistakes, and the line that answers each with what to type.

use std::fs;
use std::process::Command;

use tempfile::tempdir;
use with::leftovers::Leftovers;

use super::sockstamp;

/// The hint is next to the error.
#[test]
fn a_common_mistake_is_reported_with_its_remedy() {
    for (arguments, hint) in [
        (
            &["stat", "nginx"] as &[&str],
            "For a process: sockstamp stat --comm nginx",
        ),
        (
            &["trace", "sh", "-c", "true"],
            "to run a command: sockstamp trace -- sh -c true",
        ),
        (
            &["explain", "nginx"],
            "For a process: sockstamp explain --comm nginx",
        ),
        (
            &["explain", "sh", "-c", "true"],
            "to run a command: sockstamp explain -- sh -c true",
        ),
        (
            &["pcap", "sst-nobody", "-w", "/dev/null"],
            "For a process: sockstamp pcap --comm sst-nobody",
        ),
        (
            &["pcap", "sst-nobody"],
            "For a process: sockstamp pcap --comm sst-nobody",
        ),
        (
            &["stat", "--duration", "1s", "sst-nobody"],
            "For a process: sockstamp stat --duration 1s --comm sst-nobody",
        ),
        (
            &["stat", "--comm", "systemd-networkd"],
            "the kernel keeps only 15 bytes of a process name; of this one, \"systemd-network\"",
        ),
        (&["trace", "--slow", "5 furlongs"], "use us, ms, s, m or h"),
    ] {
        let output = sockstamp(arguments).output().unwrap();
        assert_eq!(output.status.code(), Some(2), "{arguments:?}");
        let stderr = String::from_utf8(output.stderr).unwrap();
        assert!(stderr.contains(hint), "{stderr}");
    }
}

/// Command lines, as a shell reads them, and what the line that answers each has: typos, words
/// and options of other programs, former names, words in another order, units and files that are
/// missing, recordings in the place of filters, and filters as tcpdump's users write them.
const WRONG: &[(&str, &str)] = &[
    ("stats", "write sockstamp stat"),
    ("traec port 80", "write sockstamp trace"),
    ("tcpdump port 80", "write sockstamp pcap -w FILE"),
    ("compare a b", "write sockstamp diff a b"),
    ("read a.parquet", "write sockstamp report a.parquet"),
    ("nginx", "sockstamp stat --comm nginx"),
    ("port 80", "sockstamp stat port 80"),
    ("monday.parquet", "sockstamp report monday.parquet"),
    (
        "--duration 5s stat port 80",
        "sockstamp stat --duration 5s port 80",
    ),
    ("-p 1", "sockstamp stat -p 1"),
    ("sh -c true", "sockstamp stat -- sh -c true"),
    ("--by comm stat", "sockstamp stat --by comm"),
    ("stat --durtion 5s", "write --duration"),
    ("stat --every --sample 1/2", "write one of them"),
    ("stat --duration 5s --duration 6s", "write it once"),
    ("stat --format xml", "write one of text, json, csv"),
    ("stat --by pidd", "--by pid"),
    ("stat --by", "--by <DIMENSION>"),
    ("stat --slow", "write --slow <TIME>"),
    (
        "stat --mean",
        "write --columns min --columns mean --columns max",
    ),
    ("stat --duration soon", "a number with us, ms, s, m or h"),
    ("stat --duration 5x", "use us, ms, s, m or h"),
    ("stat --duration 10 s", "sockstamp stat --duration 10s"),
    ("stat -p nginx", "--comm has names"),
    ("stat --sample 64", "write 64/s or 1/64"),
    ("stat --max-cost lots", "none"),
    ("stat --json", "write --format json"),
    ("trace --port 80", "sockstamp trace port 80"),
    ("trace --host 10.0.0.1", "sockstamp trace host 10.0.0.1"),
    ("stat --tcp", "sockstamp stat tcp"),
    ("stat -f tcp", "sockstamp stat tcp"),
    ("stat -n", "addresses and ports are never turned into names"),
    (
        "stat -nn port 80",
        "addresses and ports are never turned into names",
    ),
    ("stat --group-by pid", "write --by pid"),
    ("stat --name nginx", "write --comm nginx"),
    ("stat --timeout 5s", "write --duration 5s"),
    ("record -w a.parquet", "write -o a.parquet"),
    ("record a.parquet", "sockstamp record -o a.parquet"),
    ("record", "sockstamp record --output PATH"),
    ("report", "sockstamp report FILE"),
    ("diff a.parquet", "sockstamp diff a.parquet AFTER"),
    ("diff a b c", "write sockstamp diff"),
    ("ping", "sockstamp ping HOST"),
    ("recover --perfetto a", "sockstamp export --perfetto"),
    ("stat --perfetto a", "sockstamp export --perfetto"),
    ("stat monday.parquet", "sockstamp report monday.parquet"),
    ("top monday.parquet", "sockstamp report monday.parquet"),
    ("stat nginx", "sockstamp stat --comm nginx"),
    ("stat sh -c true", "sockstamp stat -- sh -c true"),
    ("stat 80", "sockstamp stat port 80"),
    ("stat tcp port https", "write port 443"),
    ("report a.parquet tcp port https", "write port 443"),
    ("diff --before a --after b port https", "write port 443"),
    ("stat tcp port", "expected a port number"),
    ("doctor --format csv", "leave out --format csv"),
    ("stat port 80,443", "write port 80 or port 443"),
    ("stat port 80-90", "write portrange 80-90"),
    ("stat tcp dport 80", "write dst port"),
    ("stat port=80", "write port 80"),
    ("stat :80", "write port 80"),
    ("stat 10.0.0.1:80", "write host 10.0.0.1 and port 80"),
    ("stat host 10.0.0.0/8", "write net 10.0.0.0/8"),
    ("stat host example.org", "`getent hosts example.org`"),
    (
        "stat \"tcp[tcpflags] & tcp-syn != 0\"",
        "sockstamp pcap -w FILE tcp",
    ),
    ("stat \"'tcp port 80'\"", "sockstamp stat tcp port 80"),
    ("stat icmp", "sockstamp ping HOST"),
    ("stat arp", "write tcp, udp, host, net or port"),
    (
        "stat tcp and greater 100",
        "sockstamp report --by size FILE",
    ),
    ("explain a.parquet", "sockstamp explain -r a.parquet"),
    (
        "pcap -w a.pcapng a.parquet",
        "sockstamp pcap -w a.pcapng -r a.parquet",
    ),
    ("pcap a.parquet -o a.pcapng", "write -w a.pcapng"),
    ("explain -r a.parquet --netns a", "leave out one of them"),
    ("trace a.parquet", "sockstamp trace -r a.parquet"),
    ("stuck a.parquet", "sockstamp stuck -r a.parquet"),
    ("stuck -r a.parquet --watch", "--watch is for measuring"),
    ("trace -r a.parquet --every", "--every is for measuring"),
    (
        "trace --from 2026-11-22",
        "sockstamp trace --read FILE --from 2026-11-22",
    ),
    ("record -o -", "write -o FILE, or trace --format json"),
    ("stat --repeat 3", "--repeat needs a COMMAND or --duration"),
    ("stat -r 5 -- true", "write --repeat 5"),
    ("stat -I 1000", "write --interval 1000, with its unit"),
    ("top -d 2", "write --interval 2"),
    ("stat -p 1 -- sleep 10", "sockstamp stat -p 1 --duration 10"),
    (
        "record -o x -p 1 sleep 10",
        "sockstamp record -o x -p 1 --duration 10",
    ),
    ("completions bash", "source <(COMPLETE=bash sockstamp)"),
    ("completion --shell zsh", "source <(COMPLETE=zsh sockstamp)"),
    ("completions", "write sockstamp notifications; "),
    (
        "completions --status",
        "write sockstamp notifications --status",
    ),
    ("report -i a.parquet", "sockstamp report a.parquet"),
    ("report --html -o a.html a.parquet", "write --html <OUT>"),
    (
        "report --html a.parquet a.html",
        "report --html OUT a.parquet",
    ),
    ("report a.parquet -o a.html --html", "write --html <OUT>"),
    ("stuck --watch 1", "sockstamp stuck --watch --interval 1"),
    ("stuck --watch -n 1", "sockstamp stuck --watch --interval 1"),
    ("top -b -n 1", "write sockstamp top --once"),
    ("top -u root", "write --comm NAME, as a user is no target"),
    ("top --by comm port", "sockstamp top --by comm,port"),
    ("stat --columns p50 p99", "sockstamp stat --columns p50,p99"),
    (
        "stat -d 1 --sort total",
        "sockstamp stat --by comm -d 1 --sort total",
    ),
    ("top -n 1", "write --once"),
    ("stuck --now", "it looks once, now: leave it out"),
    ("stuck now", "all that waits now is listed: sockstamp stuck"),
    ("stuck -t 500ms", "write --slow 500ms"),
    ("stuck -- sleep 1", "sockstamp stat -- sleep 1"),
    ("stat -tan", "`sockstamp stat tcp`"),
    ("stat --port 80-90", "`sockstamp stat portrange 80-90`"),
    ("stat port 80 81", "write port 80 or port 81"),
    ("stat 'port != 22'", "write not port 22"),
    ("stat host=127.0.0.1", "write host 127.0.0.1"),
    ("stat help", "sockstamp help stat"),
    (
        "stat --fail-if 'rx.total.p99 > 5ms'",
        "sockstamp stat --format json",
    ),
    (
        "diff a b --fail-if 'rx.total.p99 > 5ms'",
        "write 'rx.total.p99 > +5ms'",
    ),
    (
        "diff a b --fail-if 'p99>5ms'",
        "Write 'rx.total.p99 > +5ms'",
    ),
    (
        "ping 127.0.0.1 -o json",
        "json is a format: write --format json",
    ),
    ("record rec9.ss", "sockstamp record -o rec9.ss"),
    ("pcap -c 2", "sockstamp pcap --write OUT -c 2"),
    (
        "pcap a.parquet out.pcap",
        "sockstamp pcap -r a.parquet -w out.pcap",
    ),
    ("trace -w f.pcap", "sockstamp pcap -w f.pcap"),
    (
        "export a.parquet t2.csv",
        "sockstamp report --format csv a.parquet -o t2.csv",
    ),
    ("agent status", "/healthz"),
    ("agent --interval 10s", "scrape_interval"),
    ("127.0.0.1", "sockstamp ping 127.0.0.1"),
    ("top -H", "--by pid,comm"),
    ("doctor eth0", "sockstamp doctor --nic eth0"),
    ("trace lo", "sockstamp trace --interface lo"),
    (
        "export --format perfetto -o x a.parquet",
        "write --perfetto -o OUT",
    ),
    (
        "export --format csv a.parquet",
        "sockstamp report --format csv a.parquet",
    ),
    (
        "export --pcap a.parquet",
        "sockstamp pcap -w OUT -r a.parquet",
    ),
    (
        "report --format html a.parquet",
        "sockstamp report --html OUT a.parquet",
    ),
    ("stuck -o x.html", "sockstamp report --html x.html FILE"),
    ("stuck --slow 100", "write 100ms, or 100s"),
    ("trace --slow 50", "write 50ms, or 50s"),
    ("explain --slow 99%", "write p99, or 99ms or 99s"),
    ("stuck -tnp", "sockstamp stuck tcp"),
    ("stuck state established", "write sockstamp stuck"),
    ("stuck -K dst 10.0.0.1", "`ss -K` closes them"),
    ("stuck -a", "what waits is listed, of all sockets"),
    ("stuck sport = :80", "write src port 80"),
    ("stat -e cycles", "all stages are measured"),
    ("stat -x, -- true", "write --format csv"),
    ("stat -v", "write --why"),
    ("stat 5", "sockstamp stat --duration 5"),
    ("trace -T", "each line has its time of day"),
    ("trace -e trace=network", "all stages are measured"),
    (
        "trace -s 100",
        "packets are: sockstamp pcap --snaplen 1500 -w OUT",
    ),
    (
        "trace -A port 80",
        "packets are: sockstamp pcap --snaplen 1500 -w OUT",
    ),
    ("pcap -w x -s 96", "write --snaplen 96"),
    (
        "pcap -w x -C 100",
        "sockstamp record --packets --rotate-size MB -o FOLDER/",
    ),
    ("record -F 99 -o x", "write --sample 99/s"),
    ("record -D -o x", "sockstamp agent"),
    ("stat --pod web", "write --container web"),
    ("stat -n default --pod web", "never turned into names"),
    (
        "stat --namespace default",
        "write --container NAME for a pod",
    ),
    ("stat --iface eth0", "write --interface eth0"),
    ("stat --by pod", "--by container"),
    ("stat --by process", "--by comm"),
    ("stat --pgrep nginx", "write --comm nginx"),
    ("stat --percentiles 50", "write --columns p50,p99"),
    ("stat --rx", "both directions are measured"),
    ("trace pid 1", "write sockstamp trace --pid 1"),
    (
        "trace comm nginx port 80",
        "write sockstamp trace --comm nginx port 80",
    ),
    ("trace on eth0", "write sockstamp trace --interface eth0"),
    (
        "trace from 10.0.0.1",
        "write sockstamp trace src host 10.0.0.1",
    ),
    ("trace tcp:80", "write tcp port 80"),
    ("trace 80/tcp", "write tcp port 80"),
    (
        "trace port 80, port 90",
        "write and or or between conditions",
    ),
    (
        "trace src port 80 dst port 90",
        "write and or or before dst",
    ),
    ("ping --path --report ::1", "write --path"),
    ("ping --path -P 443 ::1", "write --tcp 443"),
    ("ping 127.0.0.1:80", "write --tcp 80 127.0.0.1"),
    (
        "ping https://localhost/",
        "write localhost, or --tcp 443 localhost",
    ),
    ("mtr -rwc 10 127.0.0.1", "sockstamp ping --path HOST"),
    ("ss -tnp", "write sockstamp stuck"),
    ("perf stat true", "write sockstamp stat"),
    ("strace -p 1", "write sockstamp trace"),
    ("exec -- true", "write sockstamp stat -- true"),
    ("version", "write sockstamp --version"),
    ("1", "sockstamp stat --pid 1"),
    ("sh -c true", "sockstamp stat -- sh -c true"),
    ("cat a.parquet", "write sockstamp report a.parquet"),
    ("record -o x/ --max-size 100MB", "it is a number"),
    (
        "diff --fail-if 'tx.sent.p99>10%' a b",
        "write 'tx.sent.p99 > +10%'",
    ),
    ("stuck -n 3", "write --watch --interval 3"),
    ("stuck -d 3", "write --for 3"),
    (
        "stuck --interval 3",
        "write sockstamp stuck --watch --interval 3",
    ),
    ("stuck --older-than 500ms", "write --slow 500ms"),
    ("stuck --age 2s", "write --slow 2s"),
    ("stuck --follow", "write --watch"),
    ("stuck --head 1", "the oldest come first"),
    ("stuck --sort age", "the oldest come first"),
    ("stuck --by pid", "sockstamp stat --by DIMENSION"),
    (
        "stat -p 1 2 -- sleep 3",
        "sockstamp stat -p 1,2 --duration 3",
    ),
    ("stat -p '1 2'", "sockstamp stat -p 1,2"),
    ("stat 1 3", "sockstamp stat --interval 1 --duration 3"),
    ("stuck 1 3", "sockstamp stuck --watch --interval 1"),
    ("stat 80 --every", "sockstamp stat --pid 80 --every"),
    (
        "stat --netns a -- true",
        "ip netns exec a sockstamp stat -- true",
    ),
    (
        "stat --netns 17 -- true",
        "nsenter -n -t 17 sockstamp stat -- true",
    ),
    ("trace -p $(true) -c 2", "sockstamp trace --comm NAME -c 2"),
    ("stat -p \"$(true)\"", "sockstamp stat --comm NAME"),
    ("explain --p99", "write --slow p99"),
    ("explain --quantile 99", "write --slow p99"),
    ("explain --slow p999", "write --slow p99.9"),
    (
        "explain --threshold 100",
        "write sockstamp explain --slow 100ms",
    ),
    ("report a.parquet --limit 5", "--by comm --top 5"),
    ("report a.parquet -s total", "--by comm --sort total"),
    ("report a.parquet --no-pager", "without a pager"),
    (
        "report -q 50,95,99 a.parquet",
        "sockstamp report --html OUT a.parquet",
    ),
    (
        "report --percentile 99.9 a.parquet",
        "write --columns p50,p99",
    ),
    ("report -i eth0 a.parquet", "--by interface"),
    (
        "report port 80 a.parquet",
        "sockstamp report a.parquet port 80",
    ),
    ("report a.parquet icmp", "sockstamp ping HOST"),
    ("record --overwrite -o x", "name another, or remove it"),
    ("record -G 1 -o x/", "write --rotate-time 1"),
    ("record -C 10 -o x/", "write --rotate-size 10"),
    ("record -o x/ --max-size 100M", "write --max-size 100"),
    ("agent -p 9477", "write --listen 127.0.0.1:9477"),
    ("agent :9477", "sockstamp agent --listen 127.0.0.1:9477"),
    (
        "agent --web.listen-address 127.0.0.1:80",
        "write --listen 127.0.0.1:80",
    ),
    ("agent --netns b", "the file of --config"),
    ("agent port 80", "[target] filter ="),
    ("agent --once", "sockstamp stat --duration TIME"),
    (
        "stat -c redis",
        "write --container redis; for processes of this name, --comm redis",
    ),
    ("stat --slower 50us", "write --slow 50us"),
    ("trace --slower-than 50us", "write --slow 50us"),
    ("trace -f port 6379", "`sockstamp trace port 6379`"),
    (
        "trace -f 'dst host ::1 and tcp' -d 2",
        "`sockstamp trace 'dst host ::1 and tcp' -d 2`",
    ),
    (
        "trace -f 'dst host ::1 && tcp[13] != 0'",
        "sockstamp pcap -w FILE tcp",
    ),
    ("trace -f sh -c true", "sockstamp trace -- sh -c true"),
    (
        "trace -f -p 1",
        "a command behind -- is measured with its children",
    ),
    (
        "trace -d 2 --port 80 --host 1.2.3.4",
        "sockstamp trace -d 2 port 80 and host 1.2.3.4",
    ),
    (
        "trace --limit 10 --since -5m -r a.parquet",
        "sockstamp trace --count 10 --from -5m -r a.parquet",
    ),
    ("trace -c redis -d 1", "sockstamp trace --comm redis -d 1"),
    ("trace -n 5 port 80", "write --count 5"),
    ("trace -v", "sockstamp --explain-words"),
    (
        "trace 'net 10.77.0.0 mask 255.255.0.0'",
        "write net 10.77.0.0/16",
    ),
    (
        "stat host 10.77.1.300",
        "each of its four numbers is 0 to 255",
    ),
    (
        "stat sst-nobody --every",
        "sockstamp stat --comm sst-nobody --every",
    ),
    ("top --sort p99", "its keys s and S"),
    ("top -o total", "its keys s and S"),
    ("diff --by port a b", "sockstamp diff BEFORE AFTER port 80"),
    ("join --offset 10us a b", "computed from the messages"),
    ("pcap --slow 50us -w f", "sockstamp trace --slow TIME"),
    ("pcap -r a.pcapng", "tcpdump -r a.pcapng"),
    (
        "pcap p.pcapng port 80",
        "sockstamp pcap -w p.pcapng port 80",
    ),
    ("pcap -B 4096 -w x", "write --buffer MB"),
    (
        "export -f csv a.parquet",
        "sockstamp report --format csv a.parquet",
    ),
    ("replay a.parquet", "write sockstamp trace -r a.parquet"),
    ("attach 17", "write sockstamp stat -p 17"),
    (
        "tcpdump -i lo port 80",
        "write sockstamp pcap -w FILE -i lo port 80",
    ),
    ("ping -d 2 ::1", "write -w 2"),
    ("ping --duration 2 ::1", "write -w 2"),
    ("ping -N 10.77.1.2", "--netns NAME"),
    ("ping -n 4 ::1", "sockstamp ping -c 4 ::1"),
    ("ping ::1 3", "sockstamp ping ::1 -c 3"),
    (
        "ping -c 2 -i 10 ms ::1",
        "no host is named ms: the unit of a time belongs to its number",
    ),
    (
        "ping --tcp 127.0.0.1:80",
        "sockstamp ping --tcp 80 127.0.0.1",
    ),
    ("fping -m ::1", "at its first address"),
    ("fping -n ::1", "never turned into names"),
    ("fping -J ::1", "sockstamp ping --format json"),
    ("fping -4 -6 ::1", "write one of them"),
    ("-d 2 --json", "sockstamp stat -d 2 --format json"),
    ("-w out.pcap -d 2", "sockstamp pcap -w out.pcap -d 2"),
    ("-r a.parquet", "sockstamp report a.parquet"),
    ("top -s pid", "its keys s and S"),
    (
        "record -a -d 2",
        "sockstamp record --output PATH --every -d 2",
    ),
    ("-f -d 2", "as in `sockstamp stat -d 2 tcp port 80`"),
    (
        "-r a.parquet --by remote,port",
        "sockstamp report a.parquet --by peer,port",
    ),
    ("-q -d 2", "sockstamp stat -d 2"),
    (":5432", "write port 5432"),
    ("-v", "sockstamp --version"),
    ("--check", "sockstamp doctor"),
    ("help filter", "sockstamp --help lists them"),
    ("recrod -d 2", "write sockstamp record --output PATH -d 2"),
    ("record -d 2 tcp", "sockstamp record --output PATH -d 2 tcp"),
    (
        "record -p 1 -- sleep 10",
        "sockstamp record --output PATH -p 1 --duration 10",
    ),
    ("record -w out.pcap", "write sockstamp pcap -w out.pcap"),
    ("record -o out.pcapng", "write sockstamp pcap -w out.pcapng"),
    ("pcap -w a.parquet", "write sockstamp record -o a.parquet"),
    (
        "export --perfetto a.parquet",
        "sockstamp export --output FILE --perfetto a.parquet",
    ),
    (
        "report --diff a.parquet b.parquet",
        "sockstamp diff a.parquet b.parquet",
    ),
    ("diff -r a -r b", "sockstamp diff a b"),
    ("stat -duration 2", "write sockstamp stat --duration 2"),
    ("stat -pid 1", "write sockstamp stat --pid 1"),
    ("stat –d 2", "write sockstamp stat -d 2"),
    ("stat -d forever", "write sockstamp stat"),
    ("stat -d 00:00:02", "write 2s"),
    ("stat -d -1", "no number below zero is taken here"),
    ("stat --colour=always", "write --color=always"),
    ("stat 'latency > 50ms'", "write --slow TIME"),
    ("stat 'tcp.port == 5432'", "write tcp port 5432"),
    ("stat host localhost", "write host 127.0.0.1"),
    ("stat -u nginx.service", "write --container nginx.service"),
    ("assert 'p99 < 50ms'", "sockstamp diff --fail-if"),
    (
        "check config agent.toml",
        "sockstamp agent --check --config agent.toml",
    ),
    (
        "agent check agent.toml",
        "sockstamp agent --check --config agent.toml",
    ),
    ("agent --check", "sockstamp agent --config FILE --check"),
    ("ping http://127.0.0.1:8047/", "--tcp 8047 127.0.0.1"),
    ("ping 127.0.0.1 8047", "sockstamp ping 127.0.0.1 --tcp 8047"),
    ("top --once --json", "sockstamp top --once --format json"),
    (
        "diff --before a --after b --comm x tcp",
        "sockstamp diff --before a --after b tcp --comm x",
    ),
    ("report -", "and standard input has none: write FILE"),
    ("trace -r -", "and standard input has none: write FILE"),
    ("stat --rx-stamps 10", "is called --nic-stamps"),
    (
        "trace --slower-than 5ms",
        "is called --slow now: write --slow 5ms",
    ),
    ("explain --worse-than p90", "--slow now"),
];

#[test]
fn each_wrong_command_line_is_answered_by_one_line_with_what_to_type() {
    assert!(WRONG.len() >= 60);
    let before = Leftovers::before();
    let directory = tempdir().unwrap();
    for (line, instead) in WRONG {
        let mut shell = Command::new("sh");
        let script = format!("exec {} {line}", with::sockstamp());
        let output = shell
            .args(["-c", &script])
            .current_dir(&directory)
            .output()
            .unwrap();
        let stderr = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(2), "{line}: {stderr}");
        assert_eq!(stderr.lines().count(), 1, "{line}: {stderr}");
        assert!(
            stderr.starts_with("sockstamp: ") && stderr.contains(instead),
            "{line}: {stderr}"
        );
        assert!(output.stdout.is_empty(), "{line}");
    }
    before.assert_none();
    assert_eq!(directory.path().read_dir().unwrap().count(), 0);
}

/// Recordings, captures and the files of a command are never written over, and no output before it
/// is known that there is something to write.
#[test]
fn an_output_replaces_nothing_that_is_lost_by_it() {
    let directory = tempdir().unwrap();
    let script = "exec 2>&1; ";
    let before = [
        ("packets.pcap", &b"\xd4\xc3\xb2\xa1 packets"[..]),
        ("before.ss", b"PAR1 rows"),
        ("client.sh", b"exit 7"),
    ];
    for (name, bytes) in before {
        fs::write(directory.path().join(name), bytes).unwrap();
    }
    for (line, told) in [
        (
            "stat -d 10ms -o packets.pcap",
            "a capture of packets: name another",
        ),
        (
            "stat -d 10ms -o before.ss",
            "a Parquet file, as recordings are: name another",
        ),
        (
            "pcap -d 10ms -w packets.pcap",
            "a capture of packets: name another",
        ),
        (
            "pcap -d 10ms -w client.sh",
            "client.sh exists: name another",
        ),
        (
            "ping -c 1 127.0.0.1 -o packets.pcap",
            "a capture of packets: name another",
        ),
        ("pcap -w client.sh -- sh client.sh", "a file of the command"),
        ("stat -o client.sh -- sh client.sh", "a file of the command"),
        (
            "trace -o ./client.sh -- sh client.sh",
            "a file of the command",
        ),
    ] {
        let line = format!("{script}exec {} {line}", with::sockstamp());
        let mut shell = Command::new("sh");
        let output = shell.args(["-c", &line]).current_dir(&directory).output();
        let output = output.unwrap();
        let text = String::from_utf8(output.stdout).unwrap();
        assert!(
            !output.status.success() && text.contains(told),
            "{line}: {text}"
        );
        for (name, bytes) in before {
            assert_eq!(
                fs::read(directory.path().join(name)).unwrap(),
                bytes,
                "{line}"
            );
        }
    }
}

#[test]
fn a_check_of_a_name_that_no_process_has_fails() {
    let listed = |fails: &[&str]| {
        let arguments = [&["stuck", "--comm", "sst-nobody"], fails].concat();
        sockstamp(&arguments).output().unwrap()
    };
    for (fails, status) in [(&[][..], 0), (&["--fail"], 1)] {
        let output = listed(fails);
        let stderr = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(status), "{stderr}");
        assert!(
            stderr.contains("no process is named sst-nobody"),
            "{stderr}"
        );
    }
}
