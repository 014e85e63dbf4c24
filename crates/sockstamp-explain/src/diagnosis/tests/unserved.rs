//! Requests that a service of this host has read and not answered.

use std::collections::BTreeSet;

use super::*;

/// Four requests to port 80, each on a connection of its own.
fn requests(end: End, lasted: u64, sends: u32) -> Vec<Wait> {
    let one = |of: u64| {
        let mut request = wait(Kind::Service, end, of * 1_500, lasted);
        request.flow = flow("10.0.0.1:80", &format!("10.0.0.2:{}", 40_000 + of));
        request.opened = Some(Opened::Accepted);
        request.evidence.connection = Some(Connection {
            sends,
            receives: 1,
            ..Connection::default()
        });
        request
    };
    (0..4).map(one).collect()
}

/// `owed`: its program watches none of the connections.
fn told_if(list: Vec<Wait>, owed: bool, looks: Vec<SleepLook>) -> Diagnosis {
    let cookies = list.iter().map(|wait| wait.flow.cookie);
    let owed = cookies.filter(|_| owed).collect();
    let mut case = Case::new(Scope::default());
    case.waits(&Waits {
        list,
        owed,
        ..Waits::default()
    });
    case.sleeps(looks);
    case.diagnose(&summary())
}

fn first(diagnosis: &Diagnosis) -> &str {
    let first = diagnosis.findings.first();
    first.map_or("", |finding| finding.sentence.as_str())
}

/// Looks at a process of two threads, of which one sleeps so while it has requests.
fn looks(sleep: &Sleep, after: &Sleep) -> Vec<SleepLook> {
    let sleeps = |of: u64| {
        if of < 65 {
            sleep.clone()
        } else {
            after.clone()
        }
    };
    let look = |of: u64| SleepLook {
        tasks: [(7, Some(Sleep::Idle)), (8, Some(sleeps(of)))].into(),
        for_clients: BTreeSet::from([7]),
        ..SleepLook::new(7, Timestamp::from_nanos(of * 100 * MS))
    };
    (0..80).map(look).collect()
}

#[test]
fn a_request_that_its_program_works_on_is_owed_an_answer() {
    let open = || requests(End::Open, 2_000, 0);
    let hangs = told_if(open(), true, looks(&Sleep::Lock, &Sleep::Lock));
    assert_eq!(
        first(&hangs),
        "app at :80 does not answer requests for 2.00 s (4 waits, at most 2.00 s, 4 still open, for \
         2.00 s): its tasks sleep: a lock or condition of their program (futex); which of them serves \
         is not known"
    );
    // An event loop that has nothing to do may push.
    let pushes = told_if(open(), false, looks(&Sleep::Lock, &Sleep::Lock));
    assert_eq!(pushes.findings, []);
    assert!(pushes.notes[0].contains("it pushes"), "{pushes:?}");
    let disk = told_if(open(), false, looks(&Sleep::Disk, &Sleep::Lock));
    assert!(first(&disk).contains("a disk or file system"), "{disk:?}");
}

#[test]
fn clients_that_give_up_had_asked_if_the_service_answers_at_all() {
    let ended = |sends| requests(End::ClosedByPeer, 1_000, sends);
    let given_up = told_if(ended(1), false, Vec::new());
    assert_eq!(
        first(&given_up),
        "4 requests at app at :80 were read and not answered until their clients gave up after 1.00 \
         s: cause not known: own work, a lock, a disk, or another service"
    );
    assert_eq!(told_if(ended(0), true, Vec::new()).findings.len(), 1);
    let logs = told_if(ended(0), false, looks(&Sleep::Lock, &Sleep::Lock));
    assert_eq!(logs.findings, []);
    assert_eq!(
        logs.notes,
        [
            "app at :80 answered nothing of what 4 connections sent, which ended 1.00 s later: it does \
          not answer, or nothing was asked (a log, figures)"
        ]
    );
}

/// As of a collector of logs, whose clients each close after a line: none was answered.
#[test]
fn requests_that_failed_show_no_service_that_answers() {
    let told = |failed| {
        let mut case = Case::new(Scope::default());
        case.waits(&Waits {
            list: requests(End::ClosedByPeer, 1_000, 0),
            attempts: vec![tried(Kind::Service, "10.0.0.1:80", 4, failed)],
            ..Waits::default()
        });
        case.diagnose(&summary()).findings.len()
    };
    assert_eq!([told(4), told(0)], [0, 1]);
}

/// As of a server that starts a process for each connection: the process that accepted it has sent
/// nothing.
#[test]
fn what_another_process_answers_is_answered() {
    let told = |sent_ago: u64| {
        let mut list = requests(End::GivenUp, 1_000, 1);
        for request in &mut list {
            let connection = request.evidence.connection.as_mut().unwrap();
            connection.sent_ago = Some(Nanos(sent_ago * MS));
            connection.received_ago = Some(Nanos(1_000 * MS));
        }
        let mut case = Case::new(Scope::default());
        case.waits(&Waits {
            list,
            attempts: vec![tried(Kind::Service, "10.0.0.1:80", 9, 4)],
            ..Waits::default()
        });
        case.diagnose(&summary()).findings.len()
    };
    assert_eq!([told(1), told(1_000), told(1_400)], [0, 1, 1]);
}

/// A connection to which a service pushes now and then, as a subscriber's, tells nothing of the
/// requests of others.
#[test]
fn one_that_is_pushed_to_hides_no_requests_of_others() {
    let told = |subscribers: u64, waiting: u64| {
        let pushed = (0..subscribers).flat_map(|of| {
            (0..4).map(move |turn| {
                let mut pushed = wait(Kind::Service, End::Data, turn * 1_900, 1_800);
                pushed.flow = flow("10.0.0.1:80", &format!("10.0.0.3:{}", 50_000 + of));
                pushed.opened = Some(Opened::Accepted);
                pushed
            })
        });
        let open = (0..waiting).map(|of| {
            let mut open = wait(Kind::Service, End::Open, 0, 7_900);
            open.flow = flow("10.0.0.1:80", &format!("10.0.0.4:{}", 50_000 + of));
            open.opened = Some(Opened::Accepted);
            open
        });
        let ended = requests(End::ClosedByPeer, 1_000, 1);
        let mut case = Case::new(Scope::default());
        case.waits(&Waits {
            list: pushed.chain(open).chain(ended).collect(),
            attempts: vec![tried(Kind::Service, "10.0.0.1:80", 30, 0)],
            ..Waits::default()
        });
        let found = case.diagnose(&summary()).findings;
        found.iter().any(|found| found.failure.is_some())
    };
    assert!(told(1, 0));
    // Where most are polls, those that ended may have been some, also where others go on.
    assert!(!told(8, 0));
    assert!(!told(1, 6));
    // Requests that nobody has answered may hang.
    assert!(told(0, 6));
}

/// A proxy hangs because what it asks does.
#[test]
fn an_open_request_yields_to_the_question_for_it() {
    let mut list = requests(End::Open, 2_000, 0);
    for (of, request) in list.clone().into_iter().enumerate() {
        let since = request.since.as_nanos() + MS;
        let mut asked = wait(Kind::Answer, End::Open, 0, 0);
        asked.flow = flow(&format!("10.0.0.1:{}", 50_000 + of), "10.0.0.9:9000");
        asked.opened = Some(Opened::Connected);
        asked.since = Timestamp::from_nanos(since);
        // The look at it came later.
        asked.lasted = Nanos(2_001 * MS);
        asked.inside = asked.lasted;
        list.push(asked);
    }
    let told = told_if(list, true, Vec::new());
    assert_eq!(told.findings.len(), 1, "{told:?}");
    assert!(first(&told).starts_with("10.0.0.9:9000 does not answer app"));
}

/// As of HTTP without a length: the answer is here, and the peer closes two seconds later.
#[test]
fn an_answer_without_a_length_ends_with_the_peers_close() {
    let one = |of: u64| {
        let mut rest = wait(Kind::Rest, End::Data, of * 2_500, 2_000);
        rest.flow = flow(&format!("10.0.0.1:{}", 40_000 + of), "10.0.0.2:80");
        rest.opened = Some(Opened::Connected);
        rest
    };
    let late = told_of((0..3).map(one).collect(), Vec::new());
    assert_eq!(
        first(&late),
        "app waits 2.00 s for the end of answers of 10.0.0.2:80 (3 waits, at most 2.00 s): the peer \
         has sent all of it and closes late, if that alone tells the end (no length: HTTP/1.0, \
         Connection: close)"
    );
}

/// As of clients of RabbitMQ, which wake their own threads by a connection over loopback.
#[test]
fn a_connection_of_a_process_to_itself_is_left_out() {
    let told = |is_own: bool| {
        let mut unanswered = wait(Kind::Service, End::Open, 0, 6_000);
        unanswered.flow = flow("127.0.0.1:50795", "127.0.0.1:52764");
        unanswered.opened = Some(Opened::Accepted);
        let mut case = Case::new(Scope::default());
        case.waits(&Waits {
            owed: vec![unanswered.flow.cookie],
            list: vec![unanswered],
            ..Waits::default()
        });
        let within = case.within_this_host();
        for (pid, netns, local, remote) in within {
            assert_eq!(pid, 7);
            if is_own {
                case.of_one_process(netns, local, remote);
            }
        }
        case.diagnose(&summary()).findings.len()
    };
    assert_eq!([told(false), told(true)], [1, 0]);
}
