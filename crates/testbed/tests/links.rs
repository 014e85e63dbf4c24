//! Links between hosts: addresses, delay, loss, reordering, duplication, rate, throughput.

use std::io::IoSliceMut;
use std::net::{SocketAddr, UdpSocket};
use std::os::fd::AsRawFd;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use nix::sys::socket::sockopt::ReceiveTimestampns;
use nix::sys::socket::{ControlMessageOwned, MsgFlags, recvmsg, setsockopt};
use nix::sys::time::TimeSpec;
use testbed::{
    Direction, Family, Host, Link, LinkConfig, RelayStatistics, TcpInfo, within_attempts,
};

/// Tests of one binary run side by side. Those about time must not disturb one another.
fn alone() -> MutexGuard<'static, ()> {
    static TIMING: Mutex<()> = Mutex::new(());
    TIMING.lock().unwrap_or_else(PoisonError::into_inner)
}

fn two_hosts() -> (Host, Host) {
    (Host::new("a").unwrap(), Host::new("b").unwrap())
}

/// A UDP socket in each host, a's connected to b's. Datagrams carry their number.
struct Flow {
    sender: UdpSocket,
    receiver: UdpSocket,
}

impl Flow {
    fn new(a: &Host, b: &Host, link: &Link) -> Flow {
        let bind = |host: &Host, ip| host.udp_bind(SocketAddr::new(ip, 0)).unwrap();
        let sender = bind(a, link.address_a(Family::V4));
        let receiver = bind(b, link.address_b(Family::V4));
        sender.connect(receiver.local_addr().unwrap()).unwrap();
        receiver
            .set_read_timeout(Some(Duration::from_secs(2)))
            .unwrap();
        // The default holds some 250 small datagrams; a test that loses must not lose here.
        socket2::SockRef::from(&receiver)
            .set_recv_buffer_size(64 << 20)
            .unwrap();
        setsockopt(&receiver, ReceiveTimestampns, &true).unwrap();
        Flow { sender, receiver }
    }

    /// Send a datagram and return the times before and after.
    fn send(&self, number: u32, len: usize) -> [Duration; 2] {
        let mut datagram = vec![0; len];
        datagram[..4].copy_from_slice(&number.to_ne_bytes());
        let before = real_time();
        self.sender.send(&datagram).unwrap();
        [before, real_time()]
    }

    /// The number of the next datagram and when the kernel received it. Its stamp is taken while
    /// the relay delivers the packet: when the test itself gets to run does not matter.
    fn receive(&self) -> (u32, Duration) {
        let mut datagram = [0; 2048];
        let mut buffers = [IoSliceMut::new(&mut datagram)];
        let mut control = nix::cmsg_space!(TimeSpec);
        let message = recvmsg::<()>(
            self.receiver.as_raw_fd(),
            &mut buffers,
            Some(&mut control),
            MsgFlags::empty(),
        )
        .unwrap();
        let Some(ControlMessageOwned::ScmTimestampns(stamp)) = message.cmsgs().unwrap().next()
        else {
            panic!("a datagram without a stamp");
        };
        (
            u32::from_ne_bytes(*datagram.first_chunk().unwrap()),
            stamp.into(),
        )
    }
}

/// The clock of the kernel's receive stamps.
fn real_time() -> Duration {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap()
}

/// Wait until every one of `received` packets is delivered or dropped, and return the link's
/// counters.
fn settle(link: &Link, before: &RelayStatistics, received: u64) -> RelayStatistics {
    let start = Instant::now();
    loop {
        let statistics = link.statistics().since(before);
        let way = &statistics.a_to_b;
        if way.packets + way.lost + way.queue_drops + way.write_errors == received + way.duplicated
        {
            assert_eq!(way.received, received);
            return statistics;
        }
        assert!(start.elapsed() < Duration::from_secs(10), "{statistics:?}");
        thread::sleep(Duration::from_millis(1));
    }
}

/// Send `count` datagrams over a link from a to b and return the numbers in their order of
/// arrival. Half a queue at a time: on a busy machine the relay may not run for as long as it takes
/// to send them all, and the device drops what its queue does not hold.
fn carry(config: LinkConfig, count: u32, spacing: Duration) -> (Vec<u32>, RelayStatistics) {
    const HALF_A_QUEUE: u32 = 2000;
    let (a, b) = two_hosts();
    let link = Link::relay(&a, &b, config).unwrap();
    let flow = Flow::new(&a, &b, &link);
    let before = link.statistics();
    for number in 0..count {
        if number % HALF_A_QUEUE == 0 {
            settle(&link, &before, number.into());
        }
        flow.send(number, 100);
        thread::sleep(spacing);
    }
    let statistics = settle(&link, &before, count.into());
    assert_eq!(statistics.a_to_b.device_drops, 0);
    let numbers = (0..statistics.a_to_b.packets)
        .map(|_| flow.receive().0)
        .collect();
    (numbers, statistics)
}

#[test]
fn both_families_are_usable_at_once() {
    let (a, b) = two_hosts();
    let relay = Link::relay(&a, &b, LinkConfig::default()).unwrap();
    let veth = Link::veth(&a, &b).unwrap();
    for link in [&relay, &veth] {
        for family in [Family::V4, Family::V6] {
            a.run(
                "ping",
                &["-c", "1", "-W", "1", &link.address_b(family).to_string()],
            )
            .unwrap();
            b.run(
                "ping",
                &["-c", "1", "-W", "1", &link.address_a(family).to_string()],
            )
            .unwrap();
        }
    }
    assert_eq!(veth.statistics(), RelayStatistics::default());
    assert!(veth.set_config(LinkConfig::default()).is_err());
}

#[test]
fn interfaces_have_the_configured_mtu_and_go_with_the_link() {
    let (a, b) = two_hosts();
    let exists =
        |host: &Host, interface: &str| host.run("ip", &["link", "show", interface]).is_ok();
    for link in [
        Link::relay(&a, &b, LinkConfig::default().mtu(9000)).unwrap(),
        Link::veth(&a, &b).unwrap(),
    ] {
        let (interface_a, interface_b) =
            (link.interface_a().to_owned(), link.interface_b().to_owned());
        let shown = a.run("ip", &["link", "show", &interface_a]).unwrap();
        assert!(
            shown.contains("mtu 9000") || shown.contains("mtu 1500"),
            "{shown}"
        );
        assert!(exists(&b, &interface_b));
        drop(link);
        assert!(!exists(&a, &interface_a) && !exists(&b, &interface_b));
    }
}

/// If the machine stands still for a twentieth of the time, a relay cannot keep its p95: then it
/// reports how late it was. The relay does not know how late it *read* a packet, so that a machine
/// that others use moves the last hundredth without a trace.
#[test]
fn a_fixed_delay_is_kept_within_500_us_or_the_relay_says_how_late_it_was() {
    const DELAY: Duration = Duration::from_millis(5);
    const TOLERANCE: Duration = Duration::from_micros(500);
    const COUNT: u32 = 400;
    let _alone = alone();
    let (a, b) = two_hosts();
    let link = Link::relay(&a, &b, LinkConfig::default().delay(DELAY)).unwrap();
    let flow = Flow::new(&a, &b, &link);
    within_attempts(|| {
        let before = link.statistics();
        let mut delays = Vec::new();
        for number in 0..COUNT {
            let [before, after] = flow.send(number, 100);
            let (received, stamp) = flow.receive();
            assert_eq!(received, number);
            assert!(
                stamp >= before + DELAY,
                "early: {:?}",
                stamp.checked_sub(before)
            );
            // Otherwise the test was interrupted while it sent, and cannot know when.
            if after - before < TOLERANCE / 5 {
                delays.push(stamp.saturating_sub(before));
            }
        }
        delays.sort_unstable();
        if delays.len() < COUNT as usize / 2 {
            return Err(format!(
                "{} of {COUNT} sends were not interrupted",
                delays.len()
            ));
        }
        let (p50, p95) = (delays[delays.len() / 2], delays[delays.len() * 95 / 100]);
        let lateness = link.statistics().since(&before).a_to_b.lateness;
        println!("p50 {p50:?}, p95 {p95:?}, {lateness:?}");
        if p50 > DELAY + TOLERANCE || p95 > DELAY + TOLERANCE + lateness.p99() {
            return Err(format!(
                "p50 {p50:?}, p95 {p95:?} of {DELAY:?}, {lateness:?}"
            ));
        }
        Ok(())
    });
}

#[test]
fn the_delay_can_be_changed_while_the_link_runs() {
    const DELAY: Duration = Duration::from_millis(20);
    let (a, b) = two_hosts();
    let link = Link::relay(&a, &b, LinkConfig::default()).unwrap();
    let flow = Flow::new(&a, &b, &link);
    link.set_direction(
        Direction::BToA,
        LinkConfig::default().delay(Duration::from_secs(60)),
    )
    .unwrap();
    let round = |number| {
        let [sent, _] = flow.send(number, 100);
        flow.receive().1.saturating_sub(sent)
    };
    let mut numbers = 0..;
    within_attempts(|| match round(numbers.next().unwrap()) {
        delay if delay < DELAY => Ok(()),
        delay => Err(format!("{delay:?} without a delay")),
    });
    link.set_direction(Direction::AToB, LinkConfig::default().delay(DELAY))
        .unwrap();
    assert!(round(numbers.next().unwrap()) >= DELAY);
}

#[test]
fn one_gigabit_per_second_goes_through() {
    const GIGABIT: f64 = 1e9;
    let _alone = alone();
    let (a, b) = two_hosts();
    let link = Link::relay(&a, &b, LinkConfig::default()).unwrap();
    let server: SocketAddr = (link.address_b(Family::V4), 5201).into();
    within_attempts(|| {
        // Start one server per attempt: between two clients it does not listen for a moment.
        let _server = b.spawn("iperf3", &["-s", "-1"]).unwrap();
        b.wait_for_port(server, Duration::from_secs(5)).unwrap();
        let report = a
            .run(
                "iperf3",
                &[
                    "-J",
                    "-C",
                    "cubic",
                    "-t",
                    "2",
                    "-c",
                    &server.ip().to_string(),
                ],
            )
            .unwrap();
        let report: serde_json::Value = serde_json::from_str(&report).unwrap();
        let rate = report["end"]["sum_received"]["bits_per_second"]
            .as_f64()
            .unwrap();
        let statistics = link.statistics();
        assert_eq!(
            statistics.a_to_b.write_errors + statistics.b_to_a.write_errors,
            0,
            "{statistics:?}"
        );
        println!("{:.1} Gbit/s, {:?}", rate / GIGABIT, statistics.a_to_b);
        if rate < GIGABIT {
            return Err(format!("{rate} bits per second"));
        }
        Ok(())
    });
}

#[test]
fn loss_is_as_configured_within_binomial_error() {
    const COUNT: u32 = 10_000;
    for share in [0.01, 0.2] {
        let (numbers, statistics) = carry(LinkConfig::default().loss(share), COUNT, Duration::ZERO);
        let expected = f64::from(COUNT) * share;
        let deviation = (expected * (1.0 - share)).sqrt();
        let lost = f64::from(COUNT) - f64::from(u32::try_from(numbers.len()).unwrap());
        assert!(
            (lost - expected).abs() < 5.0 * deviation,
            "{lost} lost, {expected} expected"
        );
        assert_eq!(
            statistics.a_to_b.lost + statistics.a_to_b.packets,
            u64::from(COUNT)
        );
        assert!(numbers.is_sorted());
    }
}

#[test]
fn the_same_seed_loses_the_same_packets() {
    let run = |seed| {
        carry(
            LinkConfig::default().loss(0.3).seed(seed),
            500,
            Duration::ZERO,
        )
        .0
    };
    assert_eq!(run(1), run(1));
    assert_ne!(run(1), run(2));
}

#[test]
fn reordering_and_duplication_are_counted_as_they_happen() {
    let config = LinkConfig::default()
        .reorder(0.05)
        .reorder_hold(Duration::from_millis(5))
        .duplicate(0.1);
    let (numbers, statistics) = carry(config, 1000, Duration::from_micros(100));
    let way = statistics.a_to_b;

    let mut seen = std::collections::HashSet::new();
    let mut highest = 0;
    let (mut duplicates, mut overtaken) = (0, 0);
    for number in numbers {
        duplicates += u64::from(!seen.insert(number));
        overtaken += u64::from(number < highest);
        highest = highest.max(number);
    }
    assert_eq!(seen.len(), 1000);
    assert_eq!(duplicates, way.duplicated);
    assert_eq!(overtaken, way.reordered);
    // Expected 95 and 50, with standard deviations of 9 and 7.
    assert!((50..150).contains(&way.duplicated), "{way:?}");
    assert!((15..90).contains(&way.held_back), "{way:?}");
    assert!(
        way.reordered > 0 && way.reordered <= way.held_back,
        "{way:?}"
    );
}

#[test]
fn jitter_alone_does_not_reorder() {
    let config = LinkConfig::default().jitter(Duration::from_millis(5));
    let (numbers, statistics) = carry(config, 1000, Duration::ZERO);
    assert!(numbers.is_sorted());
    assert_eq!(statistics.a_to_b.reordered, 0);
}

#[test]
fn a_line_rate_spaces_packets_and_its_queue_overflows() {
    const RATE: u64 = 20_000_000;
    const COUNT: u32 = 50;
    /// With 8 bytes of UDP header and 20 of IP each packet has 1250 bytes: half a millisecond.
    const PAYLOAD: usize = 1222;
    let _alone = alone();
    let (a, b) = two_hosts();
    let link = Link::relay(&a, &b, LinkConfig::default()).unwrap();
    let flow = Flow::new(&a, &b, &link);

    link.set_config(
        LinkConfig::default()
            .rate_bits_per_second(RATE)
            .offload(false),
    )
    .unwrap();
    let expected = Duration::from_micros(500) * (COUNT - 1);
    within_attempts(|| {
        for number in 0..COUNT {
            flow.send(number, PAYLOAD);
        }
        let times: Vec<Duration> = (0..COUNT).map(|_| flow.receive().1).collect();
        let time = times[times.len() - 1].saturating_sub(times[0]);
        if time.abs_diff(expected) >= Duration::from_millis(1) {
            return Err(format!("{time:?}, not {expected:?}"));
        }
        Ok(())
    });

    // Ten packets fit, and few leave while the burst comes in.
    let config = LinkConfig::default()
        .rate_bits_per_second(RATE)
        .offload(false)
        .queue_bytes(12_500);
    link.set_config(config).unwrap();
    within_attempts(|| {
        let before = link.statistics();
        for number in 0..COUNT {
            flow.send(number, PAYLOAD);
        }
        let way = settle(&link, &before, COUNT.into()).a_to_b;
        assert!(way.packets >= 10, "{way:?}");
        // The number depends on the time that the burst takes to send.
        if !(30..=40).contains(&way.queue_drops) {
            return Err(format!("{} of {COUNT} packets dropped", way.queue_drops));
        }
        Ok(())
    });
}

#[test]
fn a_lost_data_segment_is_sent_again_and_nothing_else() {
    use std::io::{Read, Write};

    let (a, b) = two_hosts();
    let link = Link::relay(&a, &b, LinkConfig::default()).unwrap();
    let address = SocketAddr::new(link.address_b(Family::V6), 7000);
    let listener = b.tcp_listen(address).unwrap();
    let mut client = a.tcp_connect(address).unwrap();
    let (mut server, _) = listener.accept().unwrap();
    link.lose_next_data(Direction::AToB, 1).unwrap();
    let sent = Instant::now();
    client.write_all(b"hello").unwrap();
    let mut message = [0; 5];
    server.read_exact(&mut message).unwrap();
    // The segment came one tail loss probe or retransmission timeout later. RFC 8985, section 7.
    assert!(sent.elapsed() > Duration::from_millis(1));
    assert_eq!(&message, b"hello");
    assert_eq!(link.statistics().a_to_b.lost, 1);
    // Where the machine is late, so is the acknowledgement, and TCP sends it once more.
    assert!(TcpInfo::of(&client).unwrap().total_retrans >= 1);
}
