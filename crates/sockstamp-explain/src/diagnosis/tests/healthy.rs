//! Healthy programs whose waits end by something else than an answer: news, a tick, or a need that
//! is rare.

use super::*;

/// A poll of a client that a proxy passes on: the question of the proxy, and the request for it.
fn passed_on(case: &mut Case, client: u16, end: u64, time: u64) {
    let here = flow("10.0.0.1:80", &format!("10.0.0.9:{client}"));
    let mut request = sent(here, end + 1, Part::Other, 0);
    request.opened = Some(Opened::Accepted);
    request.stages[Stage::AppService] = Some(Nanos((time + 2) * MS));
    request.pid = 30;
    case.message(&request);
    // A pool has one of these connections for any client.
    let below = flow(&format!("10.0.0.1:{}", 40_000 + end % 7), "10.0.0.2:8080");
    let mut question = answer(below, "nginx", end, time);
    question.pid = 30;
    case.message(&question);
}

fn counts(case: &mut Case, all: u64, receives: u32) {
    let clients = [1, 2].map(|client| Sending {
        receives,
        ..sending(
            flow("10.0.0.1:80", &format!("10.0.0.9:{client}")),
            Connection::default(),
        )
    });
    let attempts = Attempts {
        comm: "nginx".into(),
        ..tried(Kind::Answer, "10.0.0.2:8080", all, 0)
    };
    let (mut waits, requests) = (Waits::default(), answered("10.0.0.1:80", all));
    waits.sending = clients.into();
    waits.attempts = vec![attempts];
    waits.attempts.extend(requests.attempts);
    case.waits(&waits);
}

/// Clients that always have a poll open get news, and others their pages, by the same connections.
#[test]
fn news_that_a_proxy_passes_on_is_a_note() {
    let told = |all: u64, receives: u32| {
        let mut case = Case::new(Scope::default());
        for client in [1, 2] {
            let mut end = 100;
            for time in [900, 1_700, 600, 2_100, 1_300] {
                end += time + 1;
                passed_on(&mut case, client, end, time);
            }
        }
        counts(&mut case, all, receives);
        case.diagnose(&summary())
    };
    let polls = told(60, 5);
    assert_eq!(polls.findings, []);
    assert!(
        polls.notes.iter().any(|note| note.contains("news")),
        "{polls:?}"
    );
}

/// Datagrams of two players, each sent so long after the one before, and one that comes back.
fn played(step: u64, times: [u64; 4]) -> Diagnosis {
    let mut case = Case::new(Scope::default());
    for (of, time) in (0..80).zip(times.into_iter().cycle()) {
        for player in 0..2 {
            let mut to = flow(&format!("10.0.0.1:{}", 40_000 + player), "10.0.0.2:27015");
            to.protocol = Protocol::Udp;
            case.message(&answer(to, "player", 100 + of * step + time, time));
        }
    }
    case.diagnose(&summary())
}

#[test]
fn datagrams_of_two_ends_with_ticks_are_a_note() {
    assert_eq!(played(50, [49, 30, 41, 25]).findings, []);
}
