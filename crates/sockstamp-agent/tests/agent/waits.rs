//! Waits as metrics, by live traffic. The witness is the program's own clock.

use std::io::{ErrorKind, Read, Write};
use std::net::SocketAddr;
use std::sync::mpsc::{self, TryRecvError};
use std::thread;
use std::time::{Duration, Instant};

use testbed::{Host, within_attempts};
use with::agent::{Agent, Scrape};

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
