//! Findings of the agent, by live traffic. The witness is the program's own clock.

use std::io::{Read, Write};
use std::net::SocketAddr;
use std::thread;
use std::time::{Duration, Instant};

use serde_json::Value;
use testbed::{Host, PATIENCE, within_attempts};
use with::agent::{Agent, Scrape, talk};

const REQUESTS: u32 = 20;
const WORK: Duration = Duration::from_millis(60);
/// A client that always has a question open may be a worker that is pushed to.
const PAUSE: Duration = Duration::from_millis(20);

/// Ask a service that sleeps before each answer; return it, and the times of the client's clock.
pub(crate) fn ask_one_that_sleeps(host: &Host) -> (SocketAddr, Vec<Duration>) {
    let listener = host.tcp_listen("127.0.0.1:0".parse().unwrap()).unwrap();
    let service = listener.local_addr().unwrap();
    let serving = thread::spawn(move || {
        let (mut server, _) = listener.accept().unwrap();
        for _ in 0..REQUESTS {
            server.read_exact(&mut [0; 100]).unwrap();
            thread::sleep(WORK);
            server.write_all(&[0; 100]).unwrap();
        }
    });
    let mut client = host.tcp_connect(service).unwrap();
    let ask = |_| {
        let began = Instant::now();
        client.write_all(&[0; 100]).unwrap();
        client.read_exact(&mut [0; 100]).unwrap();
        let took = began.elapsed();
        thread::sleep(PAUSE);
        took
    };
    let times = (0..REQUESTS).map(ask).collect();
    serving.join().unwrap();
    (service, times)
}

fn findings(agent: &Agent) -> Value {
    serde_json::from_str(&agent.get("/findings")).unwrap()
}

pub(crate) fn findings_until(agent: &Agent, are_there: impl Fn(&Value) -> bool) -> Value {
    let start = Instant::now();
    loop {
        let told = findings(agent);
        if are_there(&told) {
            return told;
        }
        assert!(start.elapsed() < PATIENCE, "{told}");
        thread::sleep(Duration::from_millis(50));
    }
}

#[test]
fn a_service_that_answers_slowly_is_found_with_the_times_of_its_client() {
    let host = Host::new("findings").unwrap();
    let agent = Agent::of(&host, "");
    let (address, mut times) = ask_one_that_sleeps(&host);
    // The service sees the longer part of what both ends here show.
    let service = format!("0.0.0.0:{}", address.port());
    // Looks for waits come once per second, also between two answers.
    let told = findings_until(&agent, |told| told["findings"][0]["count"] == REQUESTS);
    let lost = |scrape: &Scrape| {
        let labels = [format!("service=\"{service}\"")];
        let labels: Vec<_> = labels.iter().map(String::as_str).collect();
        scrape.sum("sockstamp_finding_lost_seconds", &labels)
    };
    // Quick parts, and waits for a CPU at the client, are not lost.
    let all = times.iter().sum::<Duration>().as_secs_f64();
    let scrape = agent.scrape_until(|scrape| lost(scrape) > 0.5 * all);
    assert!(lost(&scrape) <= all, "{} of {all}", lost(&scrape));
    let finding = &told["findings"][0];
    assert_eq!(finding["services"][0], service, "{told}");
    times.sort();
    let median = times[times.len() / 2].as_nanos() as f64;
    let typical = finding["typical_ns"].as_f64().unwrap();
    assert!(
        (0.9 * median..=1.01 * median).contains(&typical),
        "{typical} for {median}: {told}"
    );
    assert_eq!(told["slow_ns"], 10_000_000);
    let kept = &told["duration_ns"].as_f64().unwrap() / 1e9;
    assert!(kept > all && kept < 600.0, "{kept}");
}

#[test]
fn quick_answers_are_no_finding_and_the_settings_say_what_is_slow() {
    let host = Host::new("findings").unwrap();
    within_attempts(|| {
        let agent = Agent::of(&host, "");
        talk(&host, 200, Duration::from_millis(1));
        agent.scrape_until(|scrape| scrape.sum("sockstamp_messages_total", &[]) >= 200.0);
        let told = findings(&agent);
        // Answers are slow where the machine stands still.
        match told["findings"] == serde_json::json!([]) {
            true => Ok(()),
            false => Err(told.to_string()),
        }
    });
    let patient = Agent::of(&host, "[page]\nslow = \"5s\"");
    ask_one_that_sleeps(&host);
    patient.scrape_until(|scrape| scrape.sum("sockstamp_messages_total", &[]) >= 40.0);
    let told = findings(&patient);
    assert_eq!(told["findings"], serde_json::json!([]));
    assert_eq!(told["slow_ns"], 5_000_000_000_u64);
}
