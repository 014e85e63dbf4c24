//! Test reads of packets that a NIC has stamped, with the devices of kernel/lab/nic, whose clock
//! and ring are known. Root, in a guest of the lab.

use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::num::NonZeroU32;
use std::thread::sleep;
use std::time::Duration;

use sockstamp::clock;
use sockstamp::interface::{HardwareStamping, HardwareStampingGuard, RxFilter, TxStamping};
use sockstamp_bpf::{Options, Sampling, Session, Target, probe};
use sockstamp_model::clock::Nanos;
use sockstamp_model::message::Message;
use sockstamp_model::stage::{Direction, Stage};
use sockstamp_model::summary::Summary;
use testbed::{NicPair, NicTruth};

/// HWTSTAMP_FILTER_PTP_V2_EVENT of include/uapi/linux/net_tstamp.h.
const PTP_V2_EVENT: u32 = 12;

const REQUESTS: usize = 150;
const REQUEST: [u8; 300] = [1; 300];
/// Longer than a program may err about the kernel's stamp, so that each read finds its truth.
const IN_RING_US: u64 = 500;

#[test]
fn reads_begin_at_the_nic_within_their_bounds() {
    for (parameters, most) in [
        ("drift_ppb=40000 precise=1", Some(Nanos(2_000))),
        ("drift_ppb=-90000", None),
    ] {
        let Some(pair) = Pair::load(parameters, RxFilter::ALL) else {
            return skip("reads_begin_at_the_nic_within_their_bounds");
        };
        let (summary, messages) = measure(&pair, &mut |_| ());
        let widest = check_bounds(parameters, &pair, &summary, &messages);
        assert!(most.is_none_or(|most| widest <= most), "{widest}");
        let reads = summary.nic_reads.unwrap();
        assert!(reads.stamped >= 2 * REQUESTS as u64 * 9 / 10, "{reads:?}");
        // Each packet waits in the ring as long as that lets it.
        assert_eq!(summary.coalescing.len(), 2, "{:?}", summary.coalescing);
        for nic in &summary.coalescing {
            assert_eq!(nic.wait, Nanos(IN_RING_US * 1_000));
            assert!(nic.median >= nic.wait, "{nic:?}");
        }
    }
}

/// A step that drift might be widens the bounds; across another one no stamp has a time.
#[test]
fn steps_of_the_nics_clock_leave_no_time_beyond_its_bound() {
    for step in [30_000_i64, -2_000_000_000] {
        let Some(pair) = Pair::load("precise=1", RxFilter::ALL) else {
            return skip("steps_of_the_nics_clock_leave_no_time_beyond_its_bound");
        };
        let (summary, messages) = measure(&pair, &mut |round| {
            if round == REQUESTS / 2 {
                pair.nics.set("step_ns", &step.to_string()).unwrap();
            }
        });
        let widest = check_bounds(&format!("{step} ns"), &pair, &summary, &messages);
        let reads = summary.nic_reads.unwrap();
        match step.unsigned_abs() {
            known @ ..100_000 => assert!(widest.0 >= known / 4, "{widest}"),
            _ => assert!(reads.nic_clock > 0 && reads.stamped > 0, "{reads:?}"),
        }
    }
}

/// Check each `rx.nic` by what the device knows. Return the widest bound.
fn check_bounds(what: &str, pair: &Pair, summary: &Summary, messages: &[Message]) -> Nanos {
    let truths = pair.truths();
    let followed: Vec<_> = messages
        .iter()
        .filter(|message| message.nic_bound.is_some())
        .collect();
    let (mut worst, mut widest) = (Nanos::ZERO, Nanos::ZERO);
    for message in &followed {
        let truth = truth_of(message, &truths);
        let stage = message.stages[Stage::RxNic].unwrap();
        let bound = message.nic_bound.unwrap();
        let error = Nanos(stage.0.abs_diff(truth.waited_ns));
        assert!(error <= bound, "{stage} ± {bound} is {truth:?}");
        (worst, widest) = (worst.max(error), widest.max(bound));
    }
    println!(
        "{what}: {} reads, error {worst}, bound {widest}, {:?}",
        followed.len(),
        summary.nic_reads
    );
    assert_eq!(summary.nic_reads.unwrap().stamped, followed.len() as u64);
    check_sums(summary, messages);
    widest
}

#[test]
fn stamps_that_are_none_are_not_taken_for_some() {
    for (parameters, filter) in [
        // The driver hands the address of the stamp over.
        ("by_address=1", RxFilter::ALL),
        ("step_ns=0", RxFilter(PTP_V2_EVENT)),
    ] {
        let Some(pair) = Pair::load(parameters, filter) else {
            return skip("stamps_that_are_none_are_not_taken_for_some");
        };
        let (summary, messages) = measure(&pair, &mut |_| ());
        println!("{parameters}: {:?}", summary.nic_reads);
        assert!(
            messages
                .iter()
                .all(|one| one.stages[Stage::RxNic].is_none())
        );
        match summary.nic_reads {
            Some(reads) => {
                assert_eq!((reads.stamped, reads.nic_clock, reads.spared), (0, 0, 0));
                assert!(reads.unstamped >= 2 * REQUESTS as u64 * 9 / 10, "{reads:?}");
            }
            None => assert!(summary.absent.contains_key(&Stage::RxNic)),
        }
        check_sums(&summary, &messages);
    }
}

fn skip(test: &str) {
    let line = format!("SKIP {test}: the devices of kernel/lab/nic are not here\n");
    io::stderr().write_all(line.as_bytes()).unwrap();
}

/// The devices, each of which stamps what it receives.
struct Pair {
    _stamping: [HardwareStampingGuard; 2],
    nics: NicPair,
}

impl Pair {
    /// `None` where there is no module.
    fn load(parameters: &str, filter: RxFilter) -> Option<Self> {
        let delay = format!("delay_us={IN_RING_US}");
        let parameters = [delay.as_str()].into_iter().chain(parameters.split(' '));
        let nics = NicPair::load(&parameters.collect::<Vec<_>>()).unwrap()?;
        let wanted = HardwareStamping {
            tx: TxStamping::OFF,
            rx: filter,
        };
        let stamping = [0, 1].map(|place: usize| {
            let set = || HardwareStampingGuard::set(NicPair::DEVICES[place], wanted);
            nics.hosts[place].enter(set).unwrap()
        });
        Some(Self {
            _stamping: stamping,
            nics,
        })
    }

    /// The stamps of packets with data.
    fn truths(&self) -> Vec<NicTruth> {
        let mut truths = self.nics.received().unwrap();
        truths.retain(|truth| truth.bytes > REQUEST.len() as u64);
        truths
    }
}

/// Find the packet by the kernel's stamp.
fn truth_of(message: &Message, truths: &[NicTruth]) -> NicTruth {
    let realtime = clock::measure().unwrap().offset;
    let software = realtime
        .convert(message.stamps.rx_software.unwrap())
        .as_nanos();
    let nearest = truths
        .iter()
        .min_by_key(|truth| truth.software_ns.abs_diff(software));
    let nearest = *nearest.unwrap();
    let distance = nearest.software_ns.abs_diff(software);
    assert!(
        distance < IN_RING_US * 1_000 / 2,
        "{distance} ns from {nearest:?}"
    );
    nearest
}

/// Ask, read and answer.
fn exchange(pair: &Pair, each: &mut dyn FnMut(usize)) {
    let [client, server] = &pair.nics.hosts;
    let address: SocketAddr = format!("{}:7000", NicPair::ADDRESSES[1]).parse().unwrap();
    let listener = server.tcp_listen(address).unwrap();
    let mut client = client.tcp_connect(address).unwrap();
    let (mut server, _) = listener.accept().unwrap();
    let pass = |from: &mut TcpStream, to: &mut TcpStream| {
        from.write_all(&REQUEST).unwrap();
        to.read_exact(&mut [0; REQUEST.len()]).unwrap();
    };
    for round in 0..REQUESTS {
        pass(&mut client, &mut server);
        pass(&mut server, &mut client);
        sleep(Duration::from_millis(5));
        each(round);
    }
}

/// Each read is counted once, and its stages add up to its total.
fn check_sums(summary: &Summary, messages: &[Message]) {
    let rx = &summary.rx;
    let valid = messages.iter().filter(|one| one.verdict.is_valid()).count() as u64;
    assert_eq!(rx.total.count(), valid);
    let of_messages = messages.iter().filter(|one| one.verdict.is_valid());
    let of_messages: u128 = of_messages.map(|one| u128::from(one.total().0)).sum();
    assert_eq!(rx.total.sum_ns(), of_messages);
    let stages = rx.stages.present();
    let stages = stages.filter(|(stage, _)| !stage.is_between_messages());
    let whole: u128 = stages.map(|(_, histogram)| histogram.sum_ns()).sum();
    assert_eq!(whole, of_messages);
    assert_eq!(summary.in_flight, 0);
    let read = &rx.cumulative.tcp.as_ref().unwrap().read;
    assert_eq!(read.count(), valid);
    let nic = rx.stages[Stage::RxNic].as_ref();
    let nic = nic.map_or(0, |nic| nic.sum_ns());
    assert_eq!(
        read.sum_ns() + nic,
        of_messages,
        "the total begins at the NIC"
    );
}

fn measure(pair: &Pair, each: &mut dyn FnMut(usize)) -> (Summary, Vec<Message>) {
    let facts = probe::try_what_is_used(probe::facts(), &Options::default()).unwrap();
    let options = Options {
        target: Target {
            pids: vec![std::process::id()],
            ..Target::default()
        },
        sampling: Sampling::Every,
        record: true,
        nic_reads: NonZeroU32::new(1_000_000),
        ..Options::default()
    };
    let mut session = Session::start_on(&facts, &options).unwrap();
    let mut messages = Vec::new();
    exchange(pair, &mut |round| {
        each(round);
        let mut take = |message| messages.push(message);
        session.poll(Duration::ZERO, &mut take).unwrap();
    });
    let mut take = |message| messages.push(message);
    session.settle(Duration::from_secs(1), &mut take).unwrap();
    let summary = session.stop(&mut take).unwrap();
    messages.retain(|one| one.direction == Direction::Rx && !one.is_connection());
    (summary, messages)
}
