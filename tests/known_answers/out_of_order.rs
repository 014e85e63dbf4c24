//! Segments that came while an earlier one was missing are as many as the kernel counts.

use std::fs;
use std::time::Duration;

use testbed::{Direction, Family, Host, LinkConfig};
use with::number;
use with::pair::Pair;

/// Losses in a thousand packets, and how many sends of 10 kB show some without taking long.
const LOSSES: [(u32, u32); 4] = [(1, 500), (10, 200), (50, 60), (100, 25)];

#[test]
fn out_of_order_segments_equal_the_kernels_count() {
    let link = LinkConfig::default()
        .delay(Duration::from_millis(1))
        .offload(false);
    let pair = Pair::relay(link.clone(), Family::V4);
    // Losses among many packets in flight, and none while there is one alone, which would cost a
    // timeout.
    pair.route("initcwnd 100");
    let _sink = pair.serve(&["sink"]);
    for (loss, sends) in LOSSES {
        let lossy = link.clone().loss(f64::from(loss) / 1000.0);
        pair.link.set_direction(Direction::AToB, lossy).unwrap();
        let before = queued_out_of_order(&pair.server);
        let blast = format!("blast --sends {sends} --size 10000");
        let report = pair.stat_peer_at(&pair.server, &[], &blast);
        let kernel = queued_out_of_order(&pair.server) - before;
        println!("{loss} in a thousand: {kernel}");
        assert!(kernel > 0, "nothing came out of order");
        assert_eq!(number(&report["rx"]["out_of_order"]), kernel, "{report}");
    }
}

/// `TCPOFOQueue` of a host: `tcp_data_queue_ofo()`, net/ipv4/tcp_input.c. In the file each line of
/// values follows one of names: `netstat_seq_show()`, net/ipv4/proc.c.
fn queued_out_of_order(host: &Host) -> u64 {
    let text = host
        .enter(|| fs::read_to_string("/proc/thread-self/net/netstat"))
        .unwrap();
    let lines: Vec<&str> = text.lines().collect();
    let pairs = lines.chunks_exact(2);
    let mut counters =
        pairs.flat_map(|pair| pair[0].split_whitespace().zip(pair[1].split_whitespace()));
    let (_, value) = counters.find(|(name, _)| *name == "TCPOFOQueue").unwrap();
    value.parse().unwrap()
}
