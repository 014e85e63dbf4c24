//! Lines of any message, compared with slower and simpler ways to write them.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::Arc;

use fastrand::Rng;
use sockstamp_model::clock::{Clock, Nanos, Timestamp};
use sockstamp_model::container::Container;
use sockstamp_model::flow::{
    CgroupId, Flow, NetnsInode, Opened, Protocol, SocketCookie, canonical,
};
use sockstamp_model::interface::Interface;
use sockstamp_model::message::{Interfaces, Message, Stamps};
use sockstamp_model::name::Name;
use sockstamp_model::part::PartMap;
use sockstamp_model::stage::{Direction, Stage, StageMap};
use sockstamp_model::unpaired::Unpaired;
use sockstamp_model::verdict::Verdict;
use sockstamp_print::interfaces::Namespaces;
use sockstamp_print::line::Line;
use sockstamp_run::escape;

use super::json;

#[test]
fn a_line_of_text_has_the_items_of_its_message() {
    let mut namespaces = Namespaces::read();
    for message in messages() {
        let (mut line, mut head) = (Line::default(), Line::default());
        head.head(&message);
        line.message(&message, head.as_bytes(), &mut namespaces);
        assert_eq!(String::from_utf8_lossy(line.as_bytes()), text(&message));
    }
}

#[test]
fn a_line_of_json_is_that_of_serde() {
    for message in messages() {
        let (mut line, mut head, mut expected) = (Line::default(), Line::default(), Vec::new());
        json::head(&mut head, &message);
        json::write(&mut line, &message, head.as_bytes());
        escape::json(&mut expected, &message).unwrap();
        let expected = String::from_utf8_lossy(&expected);
        assert_eq!(String::from_utf8_lossy(line.as_bytes()), expected);
    }
}

fn text(message: &Message) -> String {
    let seconds = message.time.as_nanos() / 1_000_000_000;
    let head = format!(
        "{:02}:{:02}:{:02}.{:06} {} {}/{} {} → {}",
        seconds / 3600 % 24,
        seconds / 60 % 60,
        seconds % 60,
        message.time.as_nanos() / 1000 % 1_000_000,
        message.label(),
        message.pid,
        message.comm,
        canonical(message.flow.local),
        canonical(message.flow.remote),
    );
    let stages = message.stages.present();
    let retransmits = Some(message.retransmits).filter(|count| *count > 0);
    if message.is_connection() {
        let mut items = vec![head];
        items.extend(stages.map(|(stage, time)| format!("{stage} {time}")));
        let refusal = Some(message.verdict).filter(|verdict| !verdict.is_valid());
        items.extend(refusal.map(|verdict| verdict.name().to_owned()));
        items.extend(retransmits.map(|count| format!("SYNs sent again {count}")));
        return items.join("  ");
    }
    let mut items = vec![format!("{head} {} B", message.bytes)];
    items.extend(stages.map(|(stage, time)| {
        let (bound, causes) = (bound(message, stage), causes(message, stage));
        format!("{stage} {time}{bound}{causes}")
    }));
    match (message.verdict, message.direction) {
        (Verdict::Valid, Direction::Tx) => {
            // Only a hook at its entry shows when a send of UDP began.
            let is_unseen = message.stages[Stage::TxCopy].is_none();
            let is_bound = message.flow.protocol == Protocol::Udp && is_unseen;
            let sign = if is_bound { "≥" } else { "" };
            items.push(format!("sent {sign}{}", message.time()));
            items.push(format!("total {sign}{}", message.total()));
        }
        (Verdict::Valid, Direction::Rx) => items.push(format!("total {}", message.total())),
        (verdict, _) => items.push(format!("refused: {}", verdict.name())),
    }
    items.extend(retransmits.map(|count| format!("retransmits {count}")));
    items.extend((message.weight > 1).then(|| format!("weight {}", message.weight)));
    items.extend(message.coalesced.then(|| "coalesced".to_owned()));
    let named = |interface: &Interface| match interface.netns == message.flow.netns {
        true => interface.name.to_string(),
        false => format!("{}@{}", interface.name, interface.netns),
    };
    let mut way: Vec<_> = [&message.interfaces.first, &message.interfaces.last]
        .into_iter()
        .flatten()
        .collect();
    way.dedup();
    let way: Vec<_> = way.into_iter().map(named).collect();
    items.extend((!way.is_empty()).then(|| format!("via {}", way.join(" → "))));
    let age = message.oldest_age.filter(|_| message.verdict.is_valid());
    items.extend(age.map(|age| format!("oldest {age}")));
    items.join("  ")
}

fn bound(message: &Message, stage: Stage) -> String {
    let bound = message
        .nic_bound
        .filter(|_| matches!(stage, Stage::TxNic | Stage::RxNic));
    bound.map_or_else(String::new, |bound| format!(" ± {bound}"))
}

fn causes(message: &Message, stage: Stage) -> String {
    let parts = message.parts.of(stage).filter(|(part, _)| !part.is_rest());
    let parts: Vec<_> = parts.map(|(part, time)| format!("{part} {time}")).collect();
    match parts.is_empty() {
        true => String::new(),
        false => format!(" ({})", parts.join(", ")),
    }
}

fn messages() -> impl Iterator<Item = Message> {
    let mut rng = Rng::with_seed(1);
    (0..2_000).map(move |_| message(&mut rng))
}

fn container(rng: &mut Rng) -> Container {
    let names = ["nginx.service", r"user-7/a\x2db.service"];
    rng.choice(&names).unwrap().parse().unwrap()
}

/// Draw a message: whatever fits into its types.
fn message(rng: &mut Rng) -> Message {
    Message {
        direction: *rng.choice(&Direction::ALL).unwrap(),
        flow: Flow {
            netns: netns(rng),
            protocol: *rng.choice(&Protocol::ALL).unwrap(),
            local: address(rng),
            remote: address(rng),
            cookie: SocketCookie(number(rng)),
        },
        cgroup: CgroupId(number(rng)),
        container: rng.bool().then(|| Arc::new(container(rng))),
        opened: rng.bool().then(|| Opened::ALL[usize::from(rng.bool())]),
        group: None,
        pid: small(rng),
        comm: name(rng),
        cpu: rng.bool().then(|| rng.u16(..)),
        bytes: number(rng),
        weight: small(rng),
        retransmits: small(rng),
        repeats: small(rng),
        coalesced: rng.bool(),
        ack_with_data: rng.bool(),
        unpaired: rng
            .bool()
            .then(|| Unpaired::ALL[rng.usize(..Unpaired::COUNT)]),
        min_rtt: time(rng),
        seq_end: small(rng),
        stages: stages(rng),
        parts: PartMap::from_fn(|_| time(rng)),
        stamps: stamps(rng),
        oldest_age: time(rng),
        time: Timestamp::from_nanos(number(rng)),
        interfaces: Interfaces {
            first: interface(rng),
            last: interface(rng),
        },
        clock_error: time(rng),
        nic_bound: time(rng),
        verdict: verdict(rng),
    }
}

/// Draw as many digits as often as others.
fn number(rng: &mut Rng) -> u64 {
    rng.u64(..) >> rng.u32(..64)
}

fn small(rng: &mut Rng) -> u32 {
    rng.u32(..) >> rng.u32(..32)
}

fn time(rng: &mut Rng) -> Option<Nanos> {
    rng.bool().then(|| Nanos(number(rng)))
}

fn stages(rng: &mut Rng) -> StageMap<Option<Nanos>> {
    let connection = rng.u8(..4) == 0;
    StageMap::from_fn(|stage| time(rng).filter(|_| connection || !stage.is_of_connection()))
}

fn stamps(rng: &mut Rng) -> Stamps {
    fn stamp<C: Clock>(rng: &mut Rng) -> Option<Timestamp<C>> {
        time(rng).map(|time| Timestamp::from_nanos(time.0))
    }

    Stamps {
        entry: stamp(rng),
        queued: stamp(rng),
        sched: stamp(rng),
        sched_last: stamp(rng),
        snd: stamp(rng),
        snd_last: stamp(rng),
        snd_hw: stamp(rng),
        ack: stamp(rng),
        rx_software: stamp(rng),
        filled: stamp(rng),
        ready: stamp(rng),
        read: stamp(rng),
    }
}

fn verdict(rng: &mut Rng) -> Verdict {
    match rng.bool() {
        true => Verdict::Valid,
        false => *rng.choice(&Verdict::ALL).unwrap(),
    }
}

fn address(rng: &mut Rng) -> SocketAddr {
    let v4 = Ipv4Addr::from(rng.u32(..));
    let ip: IpAddr = match rng.u8(..3) {
        0 => v4.into(),
        1 => v4.to_ipv6_mapped().into(),
        _ => Ipv6Addr::from(rng.u128(..)).into(),
    };
    SocketAddr::new(ip, rng.u16(..))
}

fn interface(rng: &mut Rng) -> Option<Interface> {
    rng.bool().then(|| Interface {
        name: name(rng),
        index: rng.u32(1..3),
        netns: netns(rng),
    })
}

/// Draw one of few, of which none has a name.
fn netns(rng: &mut Rng) -> NetnsInode {
    NetnsInode(rng.u32(1..3))
}

/// Draw one of few ordinary ones, or any bytes.
fn name(rng: &mut Rng) -> Name {
    match rng.u8(..4) {
        0 => "lo".into(),
        1 => "redis-benchmark".into(),
        2 => r#"it's \"so\""#.into(),
        _ => Name::from(
            &std::iter::repeat_with(|| rng.u8(..))
                .take(9)
                .collect::<Vec<_>>()[..],
        ),
    }
}
