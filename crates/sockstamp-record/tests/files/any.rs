//! Any messages there may be are read as they were written.

use super::*;

fn durations() -> impl Strategy<Value = Option<Nanos>> {
    let nanos = prop_oneof![0..2_u64, 100..100_000_u64, any::<u64>()];
    proptest::option::of(nanos.prop_map(Nanos))
}

fn stamps() -> impl Strategy<Value = Stamps> {
    proptest::collection::vec(proptest::option::of(any::<u64>()), 12).prop_map(|nanos| {
        let stamp = |index: usize| nanos[index].map(Timestamp::from_nanos);
        Stamps {
            entry: stamp(0),
            queued: stamp(1),
            sched: stamp(2),
            sched_last: stamp(3),
            snd: stamp(4),
            snd_last: stamp(5),
            snd_hw: nanos[11].map(Timestamp::from_nanos),
            ack: stamp(6),
            rx_software: stamp(7),
            filled: stamp(8),
            ready: stamp(9),
            read: stamp(10),
        }
    })
}

fn addresses() -> impl Strategy<Value = SocketAddr> {
    (any::<IpAddr>(), any::<u16>()).prop_map(|(ip, port)| SocketAddr::new(ip.to_canonical(), port))
}

fn interfaces() -> impl Strategy<Value = Option<Interface>> {
    proptest::option::of((".{0,15}", any::<u32>(), any::<u32>()).prop_map(
        |(name, index, netns)| Interface {
            name: name.into(),
            index,
            netns: NetnsInode(netns),
        },
    ))
}

prop_compose! {
    fn flows()(
        netns in any::<u32>(), udp in any::<bool>(), local in addresses(), remote in addresses(),
        cookie in any::<u64>(),
    ) -> Flow {
        let protocol = if udp { Protocol::Udp } else { Protocol::Tcp };
        Flow { netns: NetnsInode(netns), protocol, local, remote, cookie: SocketCookie(cookie) }
    }
}

fn containers() -> impl Strategy<Value = Option<Arc<Container>>> {
    let container = (
        "[0-9a-f]{64}",
        any::<bool>(),
        proptest::option::of(any::<u32>()),
    );
    let container = container.prop_map(|(id, is_service, user)| Container {
        runtime: if is_service {
            Runtime::Systemd
        } else {
            Runtime::Docker
        },
        id: if is_service {
            format!("{}.service", &id[..9])
        } else {
            id
        },
        user,
    });
    proptest::option::of(container.prop_map(Arc::new))
}

prop_compose! {
    fn identities()(
        tx in any::<bool>(), flow in flows(), cgroup in any::<u64>(), pid in any::<u32>(),
        comm in ".{0,15}",
        first in interfaces(), last in interfaces(), verdict in 0..Verdict::COUNT,
        container in containers(), opened in proptest::option::of(any::<bool>()),
        cpu in proptest::option::of(any::<u16>()),
        unpaired in proptest::option::of(0..Unpaired::COUNT),
    ) -> Message {
        let mut message = message(0);
        message.container = container;
        message.opened = opened.map(|accepted| Opened::ALL[usize::from(accepted)]);
        message.cpu = cpu;
        message.unpaired = unpaired.map(|reason| Unpaired::ALL[reason]);
        message.direction = if tx { Direction::Tx } else { Direction::Rx };
        message.flow = flow;
        message.cgroup = CgroupId(cgroup);
        message.pid = pid;
        message.comm = comm.into();
        message.interfaces = Interfaces { first, last };
        message.verdict = Verdict::ALL[verdict];
        message
    }
}

prop_compose! {
    fn messages()(
        identity in identities(),
        numbers in (
            any::<u64>(), 1..=u32::MAX, any::<u32>(), any::<u32>(), any::<u32>(),
            0..=i64::MAX.cast_unsigned(),
        ),
        flags in any::<[bool; 2]>(),
        times in proptest::collection::vec(durations(), 4), stamps in stamps(),
        stages in proptest::collection::vec(durations(), Stage::COUNT),
        parts in proptest::collection::vec(durations(), Part::COUNT),
    ) -> Message {
        let mut message = identity;
        (message.bytes, message.weight, message.retransmits, ..) = numbers;
        (.., message.repeats, message.seq_end, _) = numbers;
        message.time = Timestamp::from_nanos(numbers.5);
        [message.coalesced, message.ack_with_data] = flags;
        (message.min_rtt, message.clock_error) = (times[0], times[1]);
        (message.oldest_age, message.nic_bound) = (times[2], times[3]);
        message.stages = StageMap::from_fn(|stage| stages[stage as usize]);
        message.parts = PartMap::from_fn(|part| parts[part as usize].filter(|_| !part.is_rest()));
        complete(&mut message);
        message.stamps = stamps;
        message
    }
}

/// Add the parts that are the rest of their stage, as messages of the kernel have them.
fn complete(message: &mut Message) {
    for rest in Part::ALL.into_iter().filter(|part| part.is_rest()) {
        let others: Nanos = message.parts.of(rest.stage()).map(|(_, part)| *part).sum();
        let stage = message.stages[rest.stage()].filter(|_| message.verdict.is_valid());
        message.parts[rest] = stage.map(|stage| stage.saturating_sub(others));
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(100))]

    #[test]
    fn messages_are_read_as_they_were_written(
        some in proptest::collection::vec(
            messages(),
            0..20,
        ), more in proptest::collection::vec(messages(), 1..5),
    ) {
        let directory = tempdir().unwrap();
        let path = directory.path().join("file");
        let mut writer = Writer::create(&path, &[]).unwrap();
        let mut reused = batch(&some);
        writer.write(&reused).unwrap();
        reused.clear();
        more.iter().for_each(|message| reused.push(message));
        writer.write(&reused).unwrap();
        writer.finish().unwrap();
        let all: Vec<_> = some.into_iter().chain(more).collect();
        prop_assert_eq!(sorted(read(&path).unwrap()), sorted(all));
    }
}
