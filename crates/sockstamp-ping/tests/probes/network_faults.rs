//! Test faults: of the network, of the host, and by forgers.

use std::fs;
use std::io::Read;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::thread;
use std::time::{Duration, Instant};

use caps::{CapSet, Capability};
use socket2::{Domain, Protocol as IpProtocol, Socket, Type};
use sockstamp_ping::{
    Answer, AnswerKind, End, Engine, Event, Fallback, Limits, Namespace, Outcome, Protocol,
    RefusalKind, Sockets, Stray, TxKind,
};
use testbed::{Family, Host, Link, PATIENCE};

use crate::common::{FAMILIES, Run, Story, probe, target};

const PROBES: u64 = 10;

/// Two hosts with a router between them, and their links to it.
fn routed() -> (Host, Host, Host, Link, Link) {
    let [near, router, far] = ["near", "router", "far"].map(|name| Host::new(name).unwrap());
    for (name, value) in [
        ("net.ipv4.ip_forward", "1"),
        ("net.ipv6.conf.all.forwarding", "1"),
        ("net.ipv4.icmp_ratemask", "0"),
        ("net.ipv6.icmp.ratelimit", "0"),
    ] {
        router.set_sysctl(name, value).unwrap();
    }
    let (first, second) = (
        Link::veth(&near, &router).unwrap(),
        Link::veth(&router, &far).unwrap(),
    );
    for family in FAMILIES {
        for (host, to, via) in [
            (&near, second.address_b(family), first.address_b(family)),
            (&far, first.address_a(family), second.address_a(family)),
        ] {
            host.run(
                "ip",
                &["route", "add", &to.to_string(), "via", &via.to_string()],
            )
            .unwrap();
        }
    }
    (near, router, far, first, second)
}

#[test]
fn time_exceeded_by_a_router_refuses_a_probe() {
    let (near, _router, _far, first, second) = routed();
    for family in FAMILIES {
        for protocol in [
            Protocol::Icmp,
            Protocol::Udp { port: 9 },
            Protocol::Tcp { port: 9 },
        ] {
            let mut target = target(&near, second.address_b(family), protocol, PROBES);
            target.settings.hop_limit = Some(1);
            let story = probe([target]);
            let refusals = story.refusals();
            assert_eq!(
                refusals.len() as u64,
                PROBES,
                "{protocol:?} {:?}",
                story.outcomes()
            );
            for refusal in refusals {
                assert_eq!(refusal.kind, RefusalKind::HopLimit);
                assert_eq!(refusal.from, Some(first.address_b(family)));
                assert_eq!(
                    (refusal.times.tx, refusal.times.fallback),
                    (TxKind::Software, None)
                );
                assert!(refusal.times.rtt <= refusal.times.user_rtt);
            }
        }
    }
}

#[test]
fn unreachable_by_a_router_refuses_a_probe() {
    let (near, router, _far, first, second) = routed();
    for family in FAMILIES {
        let address = second.address_b(family);
        router
            .run("ip", &["route", "add", "unreachable", &address.to_string()])
            .unwrap();
        for protocol in [
            Protocol::Icmp,
            Protocol::Udp { port: 9 },
            Protocol::Tcp { port: 9 },
        ] {
            // Five such errors and no more are sent at once (`ip_error()` in net/ipv4/route.c,
            // v6.18).
            let story = probe([target(&near, address, protocol, 1)]);
            let refusals = story.refusals();
            assert_eq!(
                refusals.len(),
                1,
                "{address} {protocol:?} {:?}",
                story.events
            );
            for refusal in refusals {
                assert_eq!(refusal.kind, RefusalKind::Unreachable);
                assert_eq!(refusal.from, Some(first.address_b(family)));
            }
        }
    }
}

/// An ICMP error about one target fails no send to another, by the socket that they share.
#[test]
fn one_target_s_errors_are_not_the_other_s() {
    let (near, _router, _far, first, second) = routed();
    let targets = [second.address_b(Family::V4), first.address_b(Family::V4)].map(|address| {
        let mut target = target(&near, address, Protocol::Icmp, 50);
        target.settings.hop_limit = Some(1);
        target
    });
    let story = probe(targets);
    let counters = story.counters;
    assert_eq!(
        (counters.refused, counters.answered),
        (50, 50),
        "{counters:?}"
    );
}

#[test]
fn a_probe_without_a_route_is_not_sent() {
    let host = Host::new("lonely").unwrap();
    let nowhere = Ipv4Addr::new(192, 0, 2, 1).into();
    for protocol in [
        Protocol::Icmp,
        Protocol::Udp { port: 9 },
        Protocol::Tcp { port: 9 },
    ] {
        let story = probe([target(&host, nowhere, protocol, PROBES)]);
        assert_eq!(story.counters.not_sent, PROBES, "{protocol:?}");
        for outcome in story.outcomes() {
            match outcome {
                Outcome::NotSent(error) => {
                    assert_eq!(error.raw_os_error(), Some(libc::ENETUNREACH))
                }
                other => panic!("{other:?}"),
            }
        }
        assert!(matches!(story.ends()[..], [(_, End::Count)]));
    }
}

#[test]
fn a_probe_dropped_by_a_full_packet_scheduler_is_not_sent() {
    let (near, far) = (Host::new("full").unwrap(), Host::new("full").unwrap());
    let link = Link::veth(&near, &far).unwrap();
    let address = link.address_b(Family::V4);
    assert_eq!(
        probe([target(&near, address, Protocol::Icmp, 1)])
            .counters
            .answered,
        1
    );
    near.run(
        "tc",
        &[
            "qdisc",
            "add",
            "dev",
            link.interface_a(),
            "root",
            "pfifo",
            "limit",
            "0",
        ],
    )
    .unwrap();
    let story = probe([target(&near, address, Protocol::Icmp, PROBES)]);
    for outcome in story.outcomes() {
        match outcome {
            Outcome::NotSent(error) => assert_eq!(error.raw_os_error(), Some(libc::ENOBUFS)),
            other => panic!("{other:?}"),
        }
    }
    assert_eq!(story.counters.not_sent, PROBES);
}

#[test]
fn probes_survive_an_interface_that_goes_down_and_comes_back() {
    let (near, far) = (Host::new("down").unwrap(), Host::new("down").unwrap());
    let link = Link::veth(&near, &far).unwrap();
    let mut run = Run::start([target(
        &near,
        link.address_b(Family::V4),
        Protocol::Icmp,
        u64::MAX,
    )]);
    run.until(|story| story.answers().len() >= 5);
    near.run("ip", &["link", "set", link.interface_a(), "down"])
        .unwrap();
    let not_sent = |event: &Event| {
        matches!(
            event,
            Event::Probe {
                outcome: Outcome::NotSent(_),
                ..
            }
        )
    };
    run.until(|story| story.count(not_sent) >= 5);
    near.run("ip", &["link", "set", link.interface_a(), "up"])
        .unwrap();
    // Before Linux 6.13 ids are uncertain for a while after failed sends.
    let answers = run.story.answers().len();
    let stamped =
        |answer: &&Answer| answer.times.tx == TxKind::Software && answer.times.fallback.is_none();
    run.until(|story| story.answers()[answers..].iter().filter(stamped).count() >= 5);
    run.engine.stop();
    let story = run.end();
    assert!(matches!(story.ends()[..], [(_, End::Removed)]));
}

#[test]
fn a_namespace_that_vanishes_ends_its_targets_and_no_others() {
    let (gone, stays) = (Host::new("gone").unwrap(), Host::new("stays").unwrap());
    let lo = IpAddr::from(Ipv4Addr::LOCALHOST);
    let mut run = Run::start([
        target(&gone, lo, Protocol::Icmp, u64::MAX),
        target(&stays, lo, Protocol::Icmp, 100),
    ]);
    run.until(|story| story.answers().len() >= 10);
    drop(gone);
    let story = run.end();
    let ends = story.ends();
    assert!(
        ends.iter()
            .any(|(id, end)| id.number() == 0 && matches!(end, End::NamespaceGone)),
        "{ends:?}"
    );
    assert!(
        ends.iter()
            .any(|(id, end)| id.number() == 1 && matches!(end, End::Count)),
        "{ends:?}"
    );
}

/// Threads and descriptors of this process that belong to probers.
fn held() -> (usize, usize) {
    let tasks = fs::read_dir("/proc/self/task").unwrap();
    let names = tasks.filter_map(|task| fs::read_to_string(task.unwrap().path().join("comm")).ok());
    let threads = names.filter(|name| name.trim() == "sockstamp-ping").count();
    (threads, fs::read_dir("/proc/self/fd").unwrap().count())
}

#[test]
fn a_namespace_without_targets_is_left_when_asked() {
    let (idle, busy) = (Host::new("idle").unwrap(), Host::new("busy").unwrap());
    let lo = IpAddr::from(Ipv4Addr::LOCALHOST);
    let (mut engine, _events) = Engine::start(Limits::default()).unwrap();
    engine
        .add(target(&busy, lo, Protocol::Icmp, u64::MAX))
        .unwrap();
    let before = held();
    let added = engine
        .add(target(&idle, lo, Protocol::Icmp, u64::MAX))
        .unwrap();
    assert_eq!(held().0, before.0 + 1);
    engine.remove(added.id);
    let start = Instant::now();
    while held() != before {
        assert!(start.elapsed() < PATIENCE, "{:?} is not {before:?}", held());
        engine.retire_idle();
        thread::sleep(Duration::from_millis(5));
    }
    // The thread comes again with a target.
    engine.add(target(&idle, lo, Protocol::Icmp, 1)).unwrap();
    assert_eq!(held().0, before.0 + 1);
}

#[test]
fn targets_that_are_added_together_all_begin_or_none() {
    let host = Host::new("batch").unwrap();
    let lo = IpAddr::from(Ipv4Addr::LOCALHOST);
    let good = target(&host, lo, Protocol::Icmp, 1);
    let mut bad = good.clone();
    bad.settings.interface = Some("no-such-device".to_owned());
    let (mut engine, events) = Engine::start(Limits::default()).unwrap();
    let (address, error) = engine.add_all([good.clone(), bad]).unwrap_err();
    assert_eq!(address, lo);
    assert!(error.to_string().contains("no-such-device"), "{error}");
    let added = engine.add_all([good.clone(), good]).unwrap();
    assert!(added[0].id < added[1].id);
    engine.finish();
    let answered = events.filter(|event| {
        matches!(
            event,
            Event::Probe {
                outcome: Outcome::Answered(_),
                ..
            }
        )
    });
    assert_eq!(answered.count(), 2);
}

#[test]
fn a_namespace_that_never_was_is_an_error() {
    let host = Host::new("x").unwrap();
    let mut target = target(&host, Ipv4Addr::LOCALHOST.into(), Protocol::Icmp, 1);
    target.namespace = Namespace::named("never-was");
    let (mut engine, _events) = Engine::start(Limits::default()).unwrap();
    let error = engine.add(target).unwrap_err();
    assert!(
        error.to_string().contains("/run/netns/never-was"),
        "{error}"
    );
}

#[test]
fn a_connection_without_privilege_is_timed_in_user_space() {
    let host = Host::new("unprivileged").unwrap();
    let address = IpAddr::from(Ipv4Addr::LOCALHOST);
    let listener = host.tcp_listen((address, 0).into()).unwrap();
    let port = listener.local_addr().unwrap().port();
    for (kind, listener) in [
        (AnswerKind::SynAck, Some(listener)),
        (AnswerKind::Reset, None),
    ] {
        let mut target = target(&host, address, Protocol::Tcp { port }, PROBES);
        target.namespace = Namespace::Own;
        let story = host.enter(|| {
            // Drop it for this thread and its children only.
            caps::drop(None, CapSet::Effective, Capability::CAP_NET_RAW).unwrap();
            let (mut engine, events) = Engine::start(Limits::default()).unwrap();
            let added = engine.add(target).unwrap();
            assert_eq!(added.sockets, Sockets::Connect);
            engine.finish();
            events.collect::<Vec<_>>()
        });
        drop(listener);
        let answered = story.iter().filter(|event| match event {
            Event::Probe {
                outcome: Outcome::Answered(answer),
                ..
            } => {
                assert_eq!((answer.kind, answer.times.tx), (kind, TxKind::User));
                assert_eq!(answer.times.fallback, Some(Fallback::NoPrivilege));
                assert_eq!(answer.times.rtt, answer.times.user_rtt);
                true
            }
            _ => false,
        });
        assert_eq!(answered.count() as u64, PROBES, "{story:?}");
    }
}

/// The reply of a forger, or of a broken host.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Forgery {
    Cookie,
    Sequence,
    CutInTheCookie,
    CutBehindIt,
    Source,
}

/// Return the ICMP echo reply to this request, or a forgery of one.
fn reply(request: &[u8], forgery: Forgery) -> Vec<u8> {
    let mut reply = request.to_vec();
    reply[0] = 0;
    match forgery {
        Forgery::Cookie => reply[8] ^= 1,
        Forgery::Sequence => reply[6] ^= 0x80,
        Forgery::CutInTheCookie => reply.truncate(12),
        Forgery::CutBehindIt => reply.truncate(40),
        Forgery::Source => {}
    }
    reply[2..4].fill(0);
    let sum: u32 = reply
        .chunks(2)
        .map(|word| u32::from(word[0]) << 8 | word.get(1).map_or(0, |byte| u32::from(*byte)))
        .sum();
    let folded = (sum & 0xffff) + (sum >> 16);
    let folded = (folded & 0xffff) + (folded >> 16);
    let [.., high, low] = (!folded).to_be_bytes();
    reply[2..4].copy_from_slice(&[high, low]);
    reply
}

/// Open the sockets of a forger in `host`: one sends from `other`. They receive requests from now
/// on.
fn forger_sockets(host: &Host, other: Ipv4Addr) -> [Socket; 2] {
    let open = || Socket::new(Domain::IPV4, Type::RAW, Some(IpProtocol::ICMPV4)).unwrap();
    let (socket, elsewhere) = host.enter(|| (open(), open()));
    elsewhere
        .bind(&SocketAddr::from((other, 0)).into())
        .unwrap();
    socket.set_read_timeout(Some(PATIENCE)).unwrap();
    [socket, elsewhere]
}

/// Answer echo requests with forgeries. Ends after as many as are sent.
fn answer_wrongly([mut socket, elsewhere]: [Socket; 2], forgery: Forgery) {
    let mut packet = [0; 2_000];
    let mut answered = 0;
    while answered < PROBES {
        let length = socket.read(&mut packet).unwrap();
        let (header, icmp) = packet[..length].split_at(20);
        // Echo requests, and not our own replies.
        if icmp[0] != 8 {
            continue;
        }
        let from = Ipv4Addr::new(header[12], header[13], header[14], header[15]);
        let from = SocketAddr::from((from, 0)).into();
        let sender = if forgery == Forgery::Source {
            &elsewhere
        } else {
            &socket
        };
        sender.send_to(&reply(icmp, forgery), &from).unwrap();
        answered += 1;
    }
}

#[test]
fn forged_and_truncated_answers_are_strays() {
    for range in ["0 0", "1 0"] {
        let (near, far) = (Host::new("forged").unwrap(), Host::new("forger").unwrap());
        near.set_sysctl("net.ipv4.ping_group_range", range).unwrap();
        let link = Link::veth(&near, &far).unwrap();
        let other = Ipv4Addr::new(10, 77, 255, 77);
        far.run(
            "ip",
            &[
                "address",
                "add",
                &format!("{other}/32"),
                "dev",
                link.interface_b(),
            ],
        )
        .unwrap();
        far.set_sysctl("net.ipv4.icmp_echo_ignore_all", "1")
            .unwrap();
        let address = link.address_b(Family::V4);
        for (forgery, why, from) in [
            (Forgery::Cookie, Stray::Cookie, address),
            (Forgery::Sequence, Stray::Unknown, address),
            (Forgery::CutInTheCookie, Stray::Truncated, address),
            (Forgery::Source, Stray::Source, other.into()),
        ] {
            let story = forged(&near, &far, address, forgery, other);
            assert_eq!(
                story.counters.lost, PROBES,
                "{forgery:?} {:?}",
                story.counters
            );
            let strays = story.count(|event| {
                matches!(
                    event,
                    Event::Stray { from: sender, why: said, .. }
                        if (*sender, *said) == (from, why)
                )
            });
            assert_eq!(strays, PROBES, "{forgery:?} {:?}", story.counters);
        }
        let story = forged(&near, &far, address, Forgery::CutBehindIt, other);
        for answer in story.all_answered(PROBES) {
            assert_eq!((answer.bytes, answer.missing), (32, 24));
        }
        assert_eq!(story.counters.truncated, PROBES);
    }
}

fn forged(near: &Host, far: &Host, address: IpAddr, forgery: Forgery, other: Ipv4Addr) -> Story {
    thread::scope(|scope| {
        let sockets = forger_sockets(far, other);
        let forger = scope.spawn(move || answer_wrongly(sockets, forgery));
        let mut target = target(near, address, Protocol::Icmp, PROBES);
        // An answer that the forger has no processor for in time would not be seen.
        target.settings.timeout = Duration::from_secs(1);
        let story = probe([target]);
        forger.join().unwrap();
        story
    })
}
