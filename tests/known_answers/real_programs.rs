//! iperf3, redis-benchmark and sockperf run as ever under `sockstamp stat`, and what it counts is
//! what they and the kernel count.

use std::net::{IpAddr, Ipv6Addr, SocketAddr};
use std::time::Duration;

use serde_json::Value;
use testbed::{Family, Host, Link, PATIENCE, within_attempts};
use with::kernel_counts::{EndedFlows, KernelCounts};
use with::{Measured, Trace, in_short, number, of_direction, skip, stat_command};

mod iperf3 {
    with::over_both_families!(super::check_iperf3);
}

mod redis_benchmark {
    with::over_both_families!(super::check_redis_benchmark);
}

mod sockperf {
    with::over_both_families!(super::check_sockperf);
}

fn check_iperf3(family: Family) {
    const BYTES: u64 = 300_000_000;
    /// COOKIE_SIZE of iperf3's src/iperf.h.
    const COOKIE: u64 = 37;
    let run = Run::of(family, 5201, |ip| {
        [
            "iperf3 -s -1".to_owned(),
            format!("iperf3 -c {ip} -n {BYTES} -J"),
        ]
    });
    let result: Value = serde_json::from_str(&run.measured.stdout).unwrap();
    assert!(result["error"].is_null(), "{result}");
    // iperf3 stops at the end of a block.
    assert!(
        number(&result["end"]["sum_sent"]["bytes"]) >= BYTES,
        "{result}"
    );
    let kernel = &run.kernel;
    let sent = &run.measured.report["tx"];
    let total: u64 = run.flows.iter().map(|flow| run.bytes_sent_by(flow.0)).sum();
    assert_eq!(total, number(&sent["bytes"]));
    for (local, counts) in &run.flows {
        let ours = run.bytes_sent_by(*local);
        if counts.bytes_not_sent == 0 {
            assert_eq!(ours, counts.bytes_queued(), "{local}: {counts:?}");
            continue;
        }
        // Both ends throw away what iperf3 had queued when it was done. If it closed before, a FIN
        // waits after that data, and the kernel counts it as a byte that is not sent
        // (tcp_send_fin() in net/ipv4/tcp_output.c, v6.18). iperf3 itself counts what it wrote,
        // except the cookie at the start of each connection.
        let written = COOKIE + number(&result["end"]["sum_sent"]["bytes"]);
        assert_eq!(ours, written, "{local}: {counts:?}");
        assert!(counts.bytes_queued() - written <= 1, "{local}: {counts:?}");
    }
    // iperf3 reads the number at the end of its time; the kernel may continue after iperf3 has
    // ended.
    let bounds = number(&result["end"]["sum_sent"]["retransmits"])..=kernel.retransmits;
    let retransmits = number(&sent["retransmits"]);
    assert!(
        bounds.contains(&retransmits),
        "{retransmits}, not {bounds:?}"
    );
}

fn check_redis_benchmark(family: Family) {
    const REQUESTS: u64 = 3_000;
    /// The benchmark requests the server's configuration at the start.
    const OWN: u64 = 2;
    let run = Run::of(family, 6379, |ip| {
        [
            "redis-server --protected-mode no".to_owned(),
            format!("redis-benchmark -h {ip} -c 4 -n {REQUESTS} -t set,get --csv"),
        ]
    });
    let stdout = &run.measured.stdout;
    assert!(
        stdout.contains("\"SET\"") && stdout.contains("\"GET\""),
        "{stdout}"
    );
    let kernel = &run.kernel;
    run.assert_acknowledged();
    let report = &run.measured.report;
    let sent = number(&report["tx"]["messages"]);
    // SET and GET.
    assert!(
        (2 * REQUESTS..=2 * REQUESTS + OWN).contains(&sent),
        "{sent}"
    );
    // A request is a message and a segment, a reply as well.
    assert_eq!(
        sent,
        kernel.data_segments_sent - kernel.retransmits,
        "{kernel:?}"
    );
    assert_eq!(report["tx"]["messages"], report["rx"]["messages"]);
    run.assert_all_read();
}

fn check_sockperf(family: Family) {
    if family == Family::V6 && !sockperf_knows_ipv6() {
        skip(
            "real_programs::sockperf::over_ipv6",
            "this sockperf takes IPv4 addresses only",
        );
        return;
    }
    let run = Run::of(family, 11111, |ip| {
        [
            format!("sockperf server --tcp -i {ip}"),
            format!("sockperf ping-pong --tcp -i {ip} -t 1 --mps 5000"),
        ]
    });
    let stdout = &run.measured.stdout;
    assert!(stdout.contains("Summary: Latency is"), "{stdout}");
    let (sent, received) = (
        after(stdout, "SentMessages="),
        after(stdout, "ReceivedMessages="),
    );
    let kernel = &run.kernel;
    run.assert_acknowledged();
    let report = &run.measured.report;
    assert_eq!(number(&report["tx"]["messages"]), sent);
    assert_eq!(
        sent,
        kernel.data_segments_sent - kernel.retransmits,
        "{kernel:?}"
    );
    // The end of the time decides if the last response is still counted.
    let read = number(&report["rx"]["messages"]);
    assert!(
        (received..=sent).contains(&read),
        "{read} of {received} to {sent}"
    );
}

fn sockperf_knows_ipv6() -> bool {
    let host = Host::new("sockperf").unwrap();
    let address = SocketAddr::from((Ipv6Addr::LOCALHOST, 11111));
    let _server = host
        .spawn("sockperf", &["server", "--tcp", "-i", "::1"])
        .unwrap();
    host.wait_for_port(address, Duration::from_secs(2)).is_ok()
}

/// The number after the first `label` in a program's output.
fn after(text: &str, label: &str) -> u64 {
    let (_, rest) = text
        .split_once(label)
        .unwrap_or_else(|| panic!("no {label} in {text}"));
    let end = rest
        .find(|c: char| !c.is_ascii_digit())
        .unwrap_or(rest.len());
    rest[..end].parse().unwrap()
}

/// A program that ran under `sockstamp stat` against a server on another host, and its flows as the
/// kernel reported them when they ended.
struct Run {
    measured: Measured,
    flows: Vec<(SocketAddr, KernelCounts)>,
    /// The sum over all flows.
    kernel: KernelCounts,
    messages: Vec<Value>,
}

impl Run {
    /// Run the two command lines, a server's and a client's, that `words` gives for the server's
    /// address.
    fn of(family: Family, port: u16, words: impl Fn(IpAddr) -> [String; 2]) -> Run {
        let mut whole = None;
        within_attempts(|| {
            whole = Some(Run::try_of(family, port, &words)?);
            Ok(())
        });
        whole.unwrap()
    }

    /// Do it once. The reader of the ring may have no processor in time.
    fn try_of(
        family: Family,
        port: u16,
        words: impl Fn(IpAddr) -> [String; 2],
    ) -> Result<Run, String> {
        let (client, server) = (Host::new("client").unwrap(), Host::new("server").unwrap());
        let link = Link::veth(&client, &server).unwrap();
        let address = SocketAddr::new(link.address_b(family), port);
        let words = words(address.ip());
        let [serving, asking] = words
            .each_ref()
            .map(|words| words.split(' ').collect::<Vec<_>>());
        let _server = server.spawn(serving[0], &serving[1..]).unwrap();
        server.wait_for_port(address, PATIENCE).unwrap();
        let flows = EndedFlows::watch(&client);
        let trace = Trace::start(&["--netns", client.netns_name(), "tcp"]);
        let measured = stat_command(&client, &asking);
        let messages = trace.finish_whole()?;
        println!("{}", in_short(&measured.report));
        assert!(measured.status.success(), "{}", measured.stderr);
        let flows = flows.counts();
        let kernel = KernelCounts::sum(&flows);
        println!("{kernel:?}");
        Ok(Run {
            measured,
            flows,
            kernel,
            messages,
        })
    }

    /// Bytes of the messages that were sent from an address.
    fn bytes_sent_by(&self, local: SocketAddr) -> u64 {
        let local = local.to_string();
        of_direction(&self.messages, "tx")
            .into_iter()
            .filter(|message| message["local"] == local)
            .map(|message| number(&message["bytes"]))
            .sum()
    }

    /// All that was sent has been acknowledged; the kernel counts a SYN and a FIN as a byte each.
    fn assert_acknowledged(&self) {
        let kernel = &self.kernel;
        let bytes = number(&self.measured.report["tx"]["bytes"]);
        let bounds = bytes + kernel.flows..=bytes + 2 * kernel.flows;
        assert!(
            bounds.contains(&kernel.bytes_acked),
            "{bytes} bytes sent, {kernel:?}"
        );
        assert_eq!(
            number(&self.measured.report["tx"]["retransmits"]),
            kernel.retransmits
        );
    }

    /// All that came has been read; here the kernel counts a FIN as a byte.
    fn assert_all_read(&self) {
        let bytes = number(&self.measured.report["rx"]["bytes"]);
        let bounds = bytes..=bytes + self.kernel.flows;
        assert!(
            bounds.contains(&self.kernel.bytes_received),
            "{bytes} bytes read, {:?}",
            self.kernel
        );
    }
}
