//! A service closes its connection while what it sent last is lost: no open file leads to the
//! socket any more, and the peer waits. The witness is the peer's own clock.

use std::io::{Read, Write};
use std::net::SocketAddr;
use std::thread;
use std::time::{Duration, Instant};

use serde_json::Value;
use testbed::{Direction, Family, Host, Link, LinkConfig};
use with::{Stat, number};

/// Bytes of an answer: some segments.
const ANSWER: usize = 20_000;
/// The client gives up after this time, or long after the measurement has ended. The wait is known
/// from the second timeout on, 3 s after the answer at the latest (RFC 6298: a first timeout of
/// 1 s, then of 2 s, where a slow handshake was taken for a lost one).
const PATIENCE: Duration = Duration::from_secs(5);
const LONGER: Duration = Duration::from_secs(10);
/// The measurement of the wait that stays open.
const OPEN: Duration = PATIENCE;

/// A service that answers and closes, as of HTTP/1.0; the client waits for the whole answer, or
/// until it loses patience. Return how long it waited.
fn ask(
    client: &Host,
    server: &Host,
    address: SocketAddr,
    patience: Duration,
    lost: impl FnOnce(),
) -> Duration {
    let listener = server.tcp_listen(address).unwrap();
    let mut asking = client.tcp_connect(address).unwrap();
    let (mut serving, _) = listener.accept().unwrap();
    asking.write_all(&[0; 100]).unwrap();
    serving.read_exact(&mut [0; 100]).unwrap();
    lost();
    let began = Instant::now();
    serving.write_all(&[0; ANSWER]).unwrap();
    drop(serving);
    asking.set_read_timeout(Some(patience)).unwrap();
    let read = asking.read_to_end(&mut Vec::new());
    assert!(read.is_err(), "all data was lost: {read:?}");
    began.elapsed()
}

fn undelivered(report: &Value) -> Vec<&Value> {
    let waits = report["waits"].as_array().unwrap().iter();
    waits
        .filter(|wait| wait["kind"] == "acknowledgement")
        .collect()
}

/// The wait goes on until the client ends the connection, or the measurement ends.
#[test]
fn data_that_is_lost_after_close_is_waited_for() {
    for (ends, patience) in [("closed-by-peer", PATIENCE), ("open", LONGER)] {
        let (client, server) = (Host::new("client").unwrap(), Host::new("server").unwrap());
        let config = LinkConfig::default().offload(false);
        let link = Link::relay(&client, &server, config).unwrap();
        let address = SocketAddr::new(link.address_b(Family::V4), 80);
        let lose = || link.lose_next_data(Direction::BToA, 1_000).unwrap();
        let stat = Stat::start(&["--netns", server.netns_name()]);
        let (waited, report) = thread::scope(|scope| {
            let asking = scope.spawn(|| ask(&client, &server, address, patience, lose));
            if ends == "closed-by-peer" {
                let waited = asking.join().unwrap();
                (waited, stat.finish())
            } else {
                thread::sleep(OPEN);
                let report = stat.finish();
                asking.join().unwrap();
                (OPEN, report)
            }
        });
        println!("{}", report["diagnosis"]);
        let [wait] = undelivered(&report)[..] else {
            panic!("{ends}: {}", report["waits"]);
        };
        assert_eq!(wait["end"], ends, "{wait}");
        let lasted = Duration::from_nanos(number(&wait["lasted_ns"]));
        let least = match ends {
            "open" => Duration::from_millis(700),
            _ => waited - Duration::from_millis(200),
        };
        assert!(
            lasted >= least && lasted <= waited + Duration::from_secs(1),
            "{wait} {waited:?}"
        );
    }
}
