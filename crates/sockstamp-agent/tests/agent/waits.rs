//! Waits as metrics, by live traffic. The witness is the program's own clock.

use std::io::{ErrorKind, Read, Write};
use std::net::SocketAddr;
use std::sync::mpsc::{self, TryRecvError};
use std::thread;
use std::time::{Duration, Instant};

use testbed::{Host, within_attempts};
use with::agent::{Agent, Scrape};
use with::unix::{InVain, Service};

use crate::findings::findings_until;

/// A question that nobody answers waits, with its age; once given up, it is a failed attempt.
#[test]
fn a_question_without_an_answer_waits_and_then_has_failed() {
    within_attempts(ask_in_vain);
}

fn ask_in_vain() -> Result<(), String> {
    let host = Host::new("waits").unwrap();
    let listener = host.tcp_listen("127.0.0.1:0".parse().unwrap()).unwrap();
    let service = listener.local_addr().unwrap();
    let agent = Agent::of(&host, "");
    let mut client = host.tcp_connect(service).unwrap();
    let (_server, _) = listener.accept().unwrap();
    // A read that waits shows who waits for the answer.
    client
        .set_read_timeout(Some(Duration::from_millis(500)))
        .unwrap();
    client.write_all(b"question").unwrap();
    let asked = Instant::now();
    let (give_up, told) = mpsc::channel::<()>();
    let asking = thread::spawn(move || {
        while told.try_recv() == Err(TryRecvError::Empty) {
            let error = client.read(&mut [0]).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::WouldBlock);
        }
        asked.elapsed()
    });
    let labels = open_answer(service);
    let labels: Vec<&str> = labels.iter().map(String::as_str).collect();
    let waiting = |scrape: &Scrape| scrape.sum("sockstamp_waiting", &labels);
    let scrape = agent.scrape_until(|scrape| waiting(scrape) > 0.0);
    let age = asked.elapsed().as_secs_f64();
    assert_eq!(waiting(&scrape), 1.0);
    let oldest = scrape.sum("sockstamp_waiting_oldest_seconds", &labels);
    assert!((1.0..=age).contains(&oldest), "{oldest} {age}");
    drop(give_up);
    let waited = asking.join().unwrap().as_secs_f64();
    let failed = ["kind=\"answer\"", "result=\"failed\""];
    let failures = |scrape: &Scrape| scrape.sum("sockstamp_attempts_total", &failed);
    let scrape = agent.scrape_until(|scrape| failures(scrape) > 0.0);
    assert_eq!(failures(&scrape), 1.0);
    assert_eq!(waiting(&scrape), 0.0);
    let given_up = ["kind=\"answer\"", "end=\"given-up\""];
    assert_eq!(
        scrape.sum("sockstamp_ended_wait_seconds_count", &given_up),
        1.0
    );
    let lasted = scrape.sum("sockstamp_ended_wait_seconds_sum", &given_up);
    match (waited - 0.1..waited + 0.1).contains(&lasted) {
        true => Ok(()),
        false => Err(format!("{lasted} {waited}")),
    }
}

fn open_answer(service: SocketAddr) -> [String; 2] {
    ["kind=\"answer\"".to_owned(), format!("peer=\"{service}\"")]
}

/// Three questions to a service behind a Unix socket wait, with the age of the oldest, and have
/// failed once they are given up.
#[test]
fn questions_over_a_unix_socket_wait_and_then_have_failed() {
    within_attempts(ask_a_unix_socket_in_vain);
}

fn ask_a_unix_socket_in_vain() -> Result<(), String> {
    let host = Host::new("unix-waits").unwrap();
    let service = Service::start(&host, ["600", "1", "0"]);
    let mut client = InVain::connect(&host, &service, "asks-an-agent");
    let netns = host.netns_name();
    let agent = Agent::start(&format!(
        "sample = \"1000000/s\"\nmax_cost = \"none\"\n[target]\nnetns = \"{netns}\"\n\
         comm = [\"asks-an-agent\"]"
    ));
    client.ask();
    let peer = format!("peer=\"{}\"", service.path().display());
    let open = ["kind=\"answer\"", &peer];
    let waiting = |scrape: &Scrape| scrape.sum("sockstamp_waiting", &open);
    let scrape = agent.scrape_until(|scrape| waiting(scrape) > 2.0);
    assert_eq!(waiting(&scrape), 3.0);
    let oldest = scrape.sum("sockstamp_waiting_oldest_seconds", &open);
    let failed = ["kind=\"answer\"", "result=\"failed\""];
    let failures = |scrape: &Scrape| scrape.sum("sockstamp_attempts_total", &failed);
    let [begun, ended] = client.give_up();
    let scrape = agent.scrape_until(|scrape| failures(scrape) > 2.0);
    assert_eq!((failures(&scrape), waiting(&scrape)), (3.0, 0.0));
    let waited = (ended - begun) as f64 / 1e9;
    assert!((1.0..waited).contains(&oldest), "{oldest} {waited}");
    let given_up = ["kind=\"answer\"", "end=\"given-up\""];
    let of_histogram =
        |name| scrape.sum(&format!("sockstamp_ended_wait_seconds_{name}"), &given_up);
    assert_eq!(of_histogram("count"), 3.0);
    // Findings of a second ago are told again.
    let told = findings_until(&agent, |told| told["findings"][0]["tried"] == 3);
    let finding = &told["findings"][0];
    assert_eq!(
        finding["unix"][0],
        service.path().to_str().unwrap(),
        "{told}"
    );
    assert_eq!(
        (&finding["count"], &finding["tried"]),
        (&3.into(), &3.into()),
        "{told}"
    );
    // Open questions are looked at each 100 ms.
    let mean = of_histogram("sum") / 3.0;
    match (waited - 0.3..=waited).contains(&mean) {
        true => Ok(()),
        false => Err(format!("{mean} {waited}")),
    }
}
