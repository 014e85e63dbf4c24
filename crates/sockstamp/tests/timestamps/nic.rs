//! Test stamps that a NIC gives sent packets, with the devices of kernel/lab/nic, which know when
//! each was on the wire. Root, in a guest of the lab.

use std::io::IoSlice;
use std::net::UdpSocket;
use std::thread::sleep;
use std::time::{Duration, Instant};

use sockstamp::clock::{Nanos, Phc, Timestamp};
use sockstamp::error_queue::{ErrorQueue, Report};
use sockstamp::interface::{
    self, HardwareStamping, HardwareStampingGuard, RxFilter, TxStamping, missed_stamps,
};
use sockstamp::phc::{Converted, PhcClock, PhcTrack};
use sockstamp::timestamping::{MessageOptions, Options, send};
use testbed::{NicPair, PATIENCE};

use crate::common::skip;

const DATAGRAMS: usize = 100;
const SENDER: &str = NicPair::DEVICES[0];
/// Each datagram has a length of its own.
const SHORTEST: usize = 200;
/// The headers of IPv4 and UDP.
const HEADERS: usize = 28;

#[test]
fn the_time_of_each_stamp_is_within_its_bound() {
    for (parameters, most) in [
        (
            "drift_ppb=40000 precise=1 send_delay_us=200",
            Some(Nanos(2_000)),
        ),
        ("drift_ppb=-90000 send_delay_us=200 late_us=1000", None),
    ] {
        let Some(mut sender) = Sender::new(parameters) else {
            return skip("the_time_of_each_stamp_is_within_its_bound", NO_MODULE);
        };
        let (mut worst, mut widest) = (Nanos::ZERO, Nanos::ZERO);
        for datagram in 0..DATAGRAMS {
            sender.read();
            sender.send(datagram);
            let stamp = sender.stamp();
            sender.read();
            let Converted::Known(known) = sender.track.convert(stamp) else {
                panic!("{datagram}: {stamp} has no time")
            };
            let error = Nanos(known.realtime.as_nanos().abs_diff(sender.truth(datagram)));
            assert!(error <= known.bound, "{error} of {}", known.bound);
            (worst, widest) = (worst.max(error), widest.max(known.bound));
        }
        println!("{parameters}: error {worst}, bound {widest}");
        assert!(most.is_none_or(|most| widest <= most), "{widest}");
    }
}

/// A burst of four, and a stamp that is handed over after all of them have gone.
#[test]
fn a_nic_with_one_place_stamps_one_of_a_burst_and_counts_the_others() {
    const BURST: usize = 4;
    let test = "a_nic_with_one_place_stamps_one_of_a_burst_and_counts_the_others";
    for (places, stamped) in [(1, 1), (0, BURST)] {
        let parameters = format!("places={places} send_delay_us=200 late_us=50000");
        let Some(mut sender) = Sender::new(&parameters) else {
            return skip(test, NO_MODULE);
        };
        for burst in 0..5 {
            (0..BURST).for_each(|one| sender.send(burst * BURST + one));
            for _ in 0..stamped {
                sender.stamp();
            }
            let missed = sender.missed();
            assert_eq!(missed, ((burst + 1) * (BURST - stamped)) as u64, "{places}");
        }
        sleep(Duration::from_millis(200));
        assert!(sender.stamps().is_empty(), "more than {stamped} of {BURST}");
    }
}

const NO_MODULE: &str = "the devices of kernel/lab/nic are not here";

/// A socket whose datagrams a NIC stamps, and readings of the NIC's clock.
struct Sender {
    socket: UdpSocket,
    queue: ErrorQueue,
    waiting: Vec<Timestamp<Phc>>,
    clock: PhcClock,
    track: PhcTrack,
    _stamping: HardwareStampingGuard,
    /// Without it, errors of ICMP would come.
    _receiver: UdpSocket,
    nics: NicPair,
}

impl Sender {
    /// `None` where there is no module.
    fn new(parameters: &str) -> Option<Self> {
        let parameters: Vec<&str> = parameters.split(' ').collect();
        let nics = NicPair::load(&parameters).unwrap()?;
        let wanted = HardwareStamping {
            tx: TxStamping::ON,
            rx: RxFilter::NONE,
        };
        let (stamping, clock) = nics.hosts[0].enter(|| {
            let index = interface::capabilities(SENDER).unwrap().phc_index;
            let stamping = HardwareStampingGuard::set(SENDER, wanted).unwrap();
            (stamping, PhcClock::open(index.unwrap()).unwrap())
        });
        let addresses = NicPair::ADDRESSES.map(|address| format!("{address}:9"));
        let receiver = nics.hosts[1]
            .udp_bind(addresses[1].parse().unwrap())
            .unwrap();
        let socket = nics.hosts[0]
            .udp_bind(addresses[0].parse().unwrap())
            .unwrap();
        socket.connect(&addresses[1]).unwrap();
        Options::new()
            .tx_hardware()
            .only_stamps()
            .apply(&socket)
            .unwrap();
        Some(Self {
            socket,
            queue: ErrorQueue::new(),
            waiting: Vec::new(),
            clock,
            track: PhcTrack::new(),
            _stamping: stamping,
            _receiver: receiver,
            nics,
        })
    }

    fn read(&mut self) {
        let _ = self.track.push(self.clock.read().unwrap());
    }

    fn send(&self, datagram: usize) {
        let bytes = vec![1; SHORTEST + datagram];
        let buffers = [IoSlice::new(&bytes)];
        send(&self.socket, &buffers, None, MessageOptions::new()).unwrap();
    }

    /// Take the stamps that are there.
    fn stamps(&mut self) -> &mut Vec<Timestamp<Phc>> {
        let waiting = &mut self.waiting;
        let take = |report: Report<'_>| {
            if let Report::Stamp { stamp, .. } = report {
                waiting.extend(stamp.time.hardware());
            }
        };
        self.queue.drain(&self.socket, take).unwrap();
        &mut self.waiting
    }

    /// Wait for a stamp.
    fn stamp(&mut self) -> Timestamp<Phc> {
        let begin = Instant::now();
        loop {
            if let Some(stamp) = self.stamps().pop() {
                return stamp;
            }
            assert!(begin.elapsed() < PATIENCE, "no stamp");
            sleep(Duration::from_millis(1));
        }
    }

    /// Return when a datagram was on the wire, by CLOCK_REALTIME.
    fn truth(&self, datagram: usize) -> u64 {
        let bytes = (HEADERS + SHORTEST + datagram) as u64;
        let sent = self.nics.sent().unwrap();
        let truth = sent.iter().find(|truth| truth.bytes == bytes).unwrap();
        truth.software_ns + truth.waited_ns
    }

    fn missed(&self) -> u64 {
        let missed = || missed_stamps(SENDER).unwrap().unwrap();
        self.nics.hosts[0].enter(missed)
    }
}
