//! Data that is here, and is read late.

use super::*;

#[test]
fn segments_that_miss_count_in_the_rest_of_an_answer_too() {
    let from = flow("10.0.0.1:40000", "10.0.0.2:80");
    let part = |of: u64, hol, app| {
        let mut read = fixture::message(Direction::Rx);
        read.flow = from;
        read.comm = "curl".into();
        read.stages[Stage::RxHol] = Some(Nanos(hol * MS));
        read.stages[Stage::RxApp] = Some(Nanos(app * MS));
        read.stamps.read = at(1_000 + of * 900);
        read
    };
    let held: Vec<_> = (0..6).map(|of| part(of, 210, 300)).collect();
    let finding = &told(&held).findings[0];
    assert_eq!(
        (finding.node, finding.typical),
        (Node::ReadMissing, Nanos(210 * MS))
    );
    assert!(
        finding
            .sentence
            .starts_with("data of 10.0.0.2:80 reaches curl 210 ms late"),
        "{finding:?}"
    );
    let slow_reader: Vec<_> = (0..6).map(|of| part(of, 0, 300)).collect();
    assert_eq!(told(&slow_reader).findings, []);
}

/// Late reads of some connections, each so long before its end, in milliseconds.
fn late_reads(reads: &[(u16, u64, u64)], disks: Nanos) -> String {
    let mut case = Case::new(Scope::default());
    for &(port, end, late) in reads {
        let mut message = fixture::message(Direction::Rx);
        message.flow = flow("10.0.0.1:8080", &format!("10.0.0.9:{port}"));
        message.opened = Some(Opened::Accepted);
        message.comm = "java".into();
        message.stages[Stage::RxApp] = Some(Nanos(late * MS));
        message.stamps.ready = at(end - late);
        message.stamps.read = at(end);
        case.message(&message);
    }
    case.disks(disks);
    case.diagnose(&summary()).findings[0].sentence.clone()
}

#[test]
fn reads_that_end_as_one_are_those_of_a_program_that_stood_still() {
    let stop =
        |end| [1, 2, 3, 4].map(|port| (port, end + u64::from(port), 1_000 + u64::from(port)));
    let whole = late_reads(&[stop(2_000), stop(6_000)].concat(), Nanos::ZERO);
    let told = "it stood still as a whole 2 times, while up to 4 connections waited";
    assert!(whole.contains(told), "{whole}");
    // Each is late by itself.
    let apart: Vec<_> = (1..=8)
        .map(|of| (of, 1_500 + 300 * u64::from(of), 1_100))
        .collect();
    let apart = late_reads(&apart, Nanos::ZERO);
    assert!(!apart.contains("stood still"), "{apart}");
}

/// Two threads serve six clients.
#[test]
fn late_reads_wait_for_the_requests_that_have_all_workers() {
    let mut list = Vec::new();
    for of in 0..20 {
        let begin = of / 2 * 300;
        let mut served = wait(Kind::Service, End::Data, begin, 60);
        served.flow.cookie = SocketCookie(of % 6 + 1);
        served.opened = Some(Opened::Accepted);
        let mut late = wait(Kind::Read, End::Data, begin + 1, 58);
        late.flow.cookie = SocketCookie((of + 2) % 6 + 1);
        late.opened = Some(Opened::Accepted);
        list.extend([served, late]);
    }
    // Requests that came while others had the workers; one of them is worked on.
    for of in 0..2 {
        let mut open = wait(Kind::Service, End::Open, 2_690, 100);
        open.flow.cookie = SocketCookie(of + 7);
        open.opened = Some(Opened::Accepted);
        list.push(open);
    }
    let diagnosis = told_of(list, Vec::new());
    let late = diagnosis
        .findings
        .iter()
        .find(|finding| finding.node.root() == Node::Read);
    let late = late.unwrap_or_else(|| panic!("{diagnosis:#?}"));
    assert_eq!(late.node, Node::ReadTurn);
    assert!(
        late.sentence.contains("at most 2 requests at a time"),
        "{late:?}"
    );
}

/// As of an event loop that reads the bytes by which other threads wake it a while later.
#[test]
fn nobody_waits_on_a_pair_by_which_a_program_wakes_itself() {
    let late = |of: u64| {
        let mut late = wait(Kind::Read, End::Data, of * 500, 200);
        late.opened = Some(Opened::Accepted);
        late
    };
    let list: Vec<_> = (0..6).map(late).collect();
    let flow = list[0].flow;
    let told = |pair: Option<Flow>| {
        let mut case = Case::new(Scope::default());
        if let Some(pair) = pair {
            case.own_pair(pair.netns, pair.remote, pair.local);
        }
        case.waits(&Waits {
            list: list.clone(),
            ..Waits::default()
        });
        case.diagnose(&summary())
    };
    assert_eq!(told(None).findings.len(), 1);
    let other = Flow {
        netns: NetnsInode(flow.netns.0 + 1),
        ..flow
    };
    assert_eq!(told(Some(other)).findings.len(), 1);
    let own = told(Some(flow));
    assert!(own.findings.is_empty() && own.notes.is_empty(), "{own:?}");
}

/// As of a subscriber whose callback sleeps: a look at its socket shows bytes that an earlier one
/// saw. A player looks the same.
#[test]
fn who_has_not_read_what_was_there_before_is_a_finding_if_it_was_asked_about() {
    let told = |is_program| {
        let mut late = wait(Kind::Read, End::Open, 6_700, 1_300);
        late.opened = Some(Opened::Connected);
        let mut case = Case::new(Scope {
            is_program,
            ..Scope::default()
        });
        case.waits(&Waits {
            list: vec![late],
            ..Waits::default()
        });
        case.diagnose(&summary())
    };
    let asked = told(true);
    let sentence = &asked.findings[0].sentence;
    assert!(
        sentence.starts_with("app has not read data of 10.0.0.2:6379 for at least 1.30 s"),
        "{sentence}"
    );
    let noted = told(false);
    assert_eq!(noted.findings, []);
    assert!(
        noted.notes[0].contains("it may read at a pace of its own"),
        "{noted:?}"
    );
}
