//! The last line of plain `stat`: which fault it names, and that it names none where there is none.

use std::net::SocketAddr;
use std::time::Duration;

use testbed::{Cgroup, Family, Host, LinkConfig, PATIENCE, Process, within_attempts};
use with::last_line::{last_line_on, last_line_while, tells, undisturbed};
use with::pair::Pair;
use with::programs::{Redis, halves, run, slow_web, start_chat, start_slow_web};

#[test]
fn a_peer_that_thinks_is_named_by_the_last_line_of_stat() {
    let link = LinkConfig::default().delay(Duration::from_millis(5));
    let pair = Pair::relay(link, Family::V4);
    let _web = start_slow_web(&pair.server, pair.address, ["0.06", "0"]);
    let url = format!("http://{}/?[1-10]", pair.address);
    within_attempts(|| {
        tells(
            last_line_on(&pair.client, &["curl", "-s", &url]),
            "ms to answer curl",
        )
    });
}

#[test]
fn nagles_algorithm_is_named_by_the_last_line_of_stat() {
    let pair = Pair::veth(Family::V4);
    let _chat = start_chat(&pair.server, pair.address);
    let client = halves(pair.address, "0", false);
    let client: Vec<_> = client.iter().map(String::as_str).collect();
    within_attempts(|| tells(last_line_on(&pair.client, &client), "Nagle's algorithm"));
}

#[test]
fn a_cpu_quota_is_named_by_the_last_line_of_stat() {
    let host = Host::new("quota").unwrap();
    let mut quota = Cgroup::new("quota").unwrap();
    quota
        .set_cpu_quota(Duration::from_millis(5), Duration::from_millis(50))
        .unwrap();
    let address = SocketAddr::from(([127, 0, 0, 1], 8081));
    let mut server = slow_web(
        &host,
        &["taskset", "--cpu-list", "0"],
        address,
        ["0", "0.01"],
    );
    quota.start_in(&mut server).unwrap();
    let server = Process::spawn(server).unwrap();
    host.wait_for_port(address, PATIENCE)
        .unwrap_or_else(|error| panic!("{error}: {}", server.stderr()));
    let processes = quota
        .processes()
        .iter()
        .map(u32::to_string)
        .collect::<Vec<_>>();
    let name = quota
        .path()
        .file_name()
        .unwrap()
        .to_str()
        .unwrap()
        .to_owned();
    let expected = format!("the CPU quota of /{name} was used up in ");
    within_attempts(|| {
        let line = last_line_while(&["-p", &processes[0]], || {
            run(&host, "curl -s http://127.0.0.1:8081/?[1-20]");
        });
        tells(line, &expected)
    });
}

#[test]
fn no_fault_is_named_where_requests_are_answered_at_once() {
    let pair = Pair::veth(Family::V4);
    let redis = Redis::start(&pair.server, pair.address.ip(), &[]);
    let client = redis.client("-r 500 ping");
    let client: Vec<_> = client.split(' ').collect();
    within_attempts(|| undisturbed(last_line_on(&pair.client, &client)));
}
