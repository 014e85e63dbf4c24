//! Test that measuring starts on kernels that lack any one feature, names the lost stage, and
//! measures the others. Root.

use std::io::{self, Read, Write};
use std::net::{TcpListener, TcpStream, UdpSocket};
use std::thread;
use std::time::Duration;

use sockstamp_bpf::facts::{Facts, Function, Tracepoint, Trial};
use sockstamp_bpf::plan::{Method, Plan, Request, obstacles};
use sockstamp_bpf::{Options, Session, Target, probe};
use sockstamp_model::flow::Protocol;
use sockstamp_model::message::Message;
use sockstamp_model::stage::{Direction, Stage};
use sockstamp_model::summary::Summary;

/// Requests of each protocol, and as many answers.
const REQUESTS: usize = 50;
const REQUEST: [u8; 100] = [1; 100];
/// Sends, and reads. Where everything is emulated some reads come before the stamps of their
/// packets.
const MESSAGES: usize = 2 * REQUESTS;
const VALID: usize = MESSAGES * 9 / 10;

#[test]
fn this_kernel_without_any_one_hook_measures_the_other_stages() {
    without_each(
        "this_kernel_without_any_one_hook_measures_the_other_stages",
        probe::facts(),
    );
}

#[test]
fn an_older_kernel_without_any_one_hook_measures_the_other_stages() {
    without_each(
        "an_older_kernel_without_any_one_hook_measures_the_other_stages",
        probe::facts().of_an_older_kernel(),
    );
}

/// Where functions can be traced, the refused one is gone since Linux 6.5.
#[test]
fn a_measurement_starts_without_a_program_that_the_kernel_refuses() {
    let test = "a_measurement_starts_without_a_program_that_the_kernel_refuses";
    let here = probe::facts();
    let gone = here.functions[&Function::DoTcpSendpages] == Some(false);
    let sections = |programs: [(&str, Function); 2]| {
        programs.map(|(kind, function)| format!("{kind}/{}", function.name()))
    };
    let pages = Function::DoTcpSendpages;
    let (mut host, function, is_refused, expected) = match probe::functions_can_be_traced() {
        true => (
            here.of_an_older_kernel(),
            pages,
            gone,
            sections([("fexit", pages), ("fentry", pages)]),
        ),
        false => (
            here,
            Function::UdpSendmsg,
            true,
            sections([
                ("fentry", Function::UdpSendmsg),
                ("fentry", Function::Udpv6Sendmsg),
            ]),
        ),
    };
    host.functions.insert(function, Some(true));
    let options = of_this_process();
    if !is_refused || !obstacles(&host, &options.request()).is_empty() {
        let line = format!("SKIP {test}: this kernel refuses no program\n");
        io::stderr().write_all(line.as_bytes()).unwrap();
        return;
    }
    let planned = Plan::new(&host, &options.request()).unwrap();
    assert!(planned.pages || planned.udp_entries);
    let session = Session::start_on(&host, &options).unwrap();
    assert_ne!(*session.plan(), planned);
    // Trials that doctor shows lead to the same plan.
    let (found, hooks) = probe::try_all(&host, &options).unwrap();
    assert_eq!(
        *session.plan(),
        Plan::new(&found, &options.request()).unwrap()
    );
    let refused = hooks
        .iter()
        .filter(|hook| hook.used && matches!(hook.trial, Trial::Refused(_)));
    let refused: Vec<_> = refused.map(|hook| hook.section.clone()).collect();
    assert_eq!(refused, expected);
}

fn measurable(test: &str, host: Facts) -> Option<Facts> {
    let host = probe::try_what_is_used(host, &Options::default()).unwrap();
    let Some(obstacle) = obstacles(&host, &Request::default()).into_iter().next() else {
        return Some(host);
    };
    let line = format!("SKIP {test}: {obstacle}\n");
    io::stderr().write_all(line.as_bytes()).unwrap();
    None
}

fn outlook(host: &Facts) -> Plan {
    Plan::outlook(host, &Request::default())
}

fn without_each(test: &str, host: Facts) {
    let Some(host) = measurable(test, host) else {
        return;
    };
    let plan = outlook(&host);
    let mut poorer: Vec<_> = poorer(&host)
        .into_iter()
        .map(|(missing, host)| {
            (
                missing,
                probe::try_what_is_used(host, &Options::default()).unwrap(),
            )
        })
        .collect();
    poorer.retain(|(_, host)| outlook(host) != plan);
    assert!(
        !poorer.is_empty(),
        "nothing makes a difference to this plan"
    );
    for (missing, host) in &poorer {
        println!("without {missing}");
        measures_the_rest(host);
    }
}

type Take = fn(&mut Facts);

/// Return the host without each of the features that a stage may need.
fn poorer(host: &Facts) -> Vec<(String, Facts)> {
    let without = |take: &dyn Fn(&mut Facts)| {
        let mut poorer = host.clone();
        take(&mut poorer);
        poorer
    };
    let facts: [(&str, Take); 10] = [
        ("the bit on the socket", |host| {
            host.socket_bit = Some(false)
        }),
        ("BPF timestamping", |host| {
            host.tx_timestamping = Some(false)
        }),
        ("the clock of stamps", |host| host.stamp_clock = Some(false)),
        ("the receiver of drops", |host| {
            host.drops_tell_receiver = Some(false)
        }),
        ("the system call of a program", |host| {
            host.call_registers = Some(false)
        }),
        ("sched_info", |host| host.sched_info = Some(false)),
        ("perf events", |host| host.perf_events = Some(false)),
        ("a stable clock of the scheduler", |host| {
            host.sched_clock_stable = Some(false)
        }),
        ("kernel symbols", |host| host.kernel_symbols = Some(false)),
        ("NICs that leave sends alone", |host| {
            host.stamping_nics = ["eth0".to_owned()].into()
        }),
    ];
    let facts = facts.map(|(name, take)| (name.to_owned(), without(&take)));
    let tracepoints = Tracepoint::ALL.map(|tracepoint| {
        let take = |host: &mut Facts| host.tracepoints.extend([(tracepoint, Some(false))]);
        (tracepoint.name().to_owned(), without(&take))
    });
    let functions = Function::ALL.map(|function| {
        let take = |host: &mut Facts| host.functions.extend([(function, Some(false))]);
        (format!("{}()", function.name()), without(&take))
    });
    facts
        .into_iter()
        .chain(tracepoints)
        .chain(functions)
        .collect()
}

fn measures_the_rest(host: &Facts) {
    let (plan, summary, messages) = measure(host);
    for (stage, method) in plan.methods() {
        let measured = &summary.direction(stage.direction()).stages[stage];
        match method {
            Method::Absent(reason) => {
                assert_eq!(summary.absent[&stage], reason.to_string(), "{stage}");
                assert!(measured.is_none(), "{stage} is absent: {reason}");
            }
            // No segment is missing here, and no question or answer comes in parts.
            _ if [Stage::RxHol, Stage::PeerRest, Stage::ClientRequest].contains(&stage) => {
                assert!(measured.is_some());
            }
            method => {
                let count = measured.as_ref().map_or(0, |histogram| histogram.count());
                assert!(count > 0, "{stage} by {method}: nothing");
            }
        }
    }
    for (protocol, direction, is_measured) in [
        (Protocol::Tcp, Direction::Tx, plan.tx.is_some()),
        (Protocol::Tcp, Direction::Rx, plan.rx.is_some()),
        (Protocol::Udp, Direction::Tx, plan.measures_udp()),
        (Protocol::Udp, Direction::Rx, plan.measures_udp()),
    ] {
        let valid = messages
            .iter()
            .filter(|message| !message.is_connection())
            .filter(|message| message.flow.protocol == protocol && message.direction == direction)
            .filter(|message| message.verdict.is_valid())
            .count();
        let expected = if is_measured { VALID..=MESSAGES } else { 0..=0 };
        assert!(
            expected.contains(&valid),
            "{protocol:?} {direction:?}: {valid} valid of {MESSAGES}, {:?}",
            summary.verdicts
        );
    }
}

fn of_this_process() -> Options {
    Options {
        target: Target {
            pids: vec![std::process::id()],
            ..Target::default()
        },
        ..Options::default()
    }
}

fn measure(host: &Facts) -> (Plan, Summary, Vec<Message>) {
    let mut messages = Vec::new();
    let options = Options {
        record: true,
        new_only: true,
        on_demand: None,
        ..of_this_process()
    };
    let mut session = Session::start_on(host, &options).unwrap();
    let mut keep = |message| messages.push(message);
    converse_by_tcp();
    converse_by_udp();
    session.settle(Duration::from_secs(2), &mut keep).unwrap();
    let plan = session.plan().clone();
    let summary = session.stop(&mut keep).unwrap();
    (plan, summary, messages)
}

fn converse_by_tcp() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let mut client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    let (mut server, _) = listener.accept().unwrap();
    let mut buffer = REQUEST;
    thread::scope(|scope| {
        scope.spawn(|| {
            let mut buffer = REQUEST;
            while server.read_exact(&mut buffer).is_ok() {
                server.write_all(&buffer).unwrap();
            }
        });
        for _ in 0..REQUESTS {
            client.write_all(&REQUEST).unwrap();
            client.read_exact(&mut buffer).unwrap();
        }
        drop(client);
    });
}

fn converse_by_udp() {
    let (client, server) = (
        UdpSocket::bind("127.0.0.1:0").unwrap(),
        UdpSocket::bind("127.0.0.1:0").unwrap(),
    );
    let address = server.local_addr().unwrap();
    let mut buffer = REQUEST;
    for _ in 0..REQUESTS {
        client.send_to(&REQUEST, address).unwrap();
        let (_, from) = server.recv_from(&mut buffer).unwrap();
        server.send_to(&REQUEST, from).unwrap();
        client.recv_from(&mut buffer).unwrap();
    }
}
