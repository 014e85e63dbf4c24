//! Test stamps that a NIC gives sent packets, on the igb that QEMU emulates: one packet at a time,
//! by a clock of its own. The witness is the program's own SO_TIMESTAMPING. Root, in the guest with
//! NICs of the lab.

use std::collections::BTreeMap;
use std::fs;
use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream, UdpSocket};
use std::num::NonZeroU32;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle, sleep};
use std::time::{Duration, Instant};

use sockstamp::clock;
use sockstamp::error_queue::{ErrorQueue, Report};
use sockstamp::interface::{
    self, HardwareStamping, HardwareStampingGuard, RxFilter, TxStamping, missed_stamps,
};
use sockstamp::phc::{Converted, PhcClock, PhcTrack};
use sockstamp::timestamping;
use sockstamp_bpf::nic::{self, Ask};
use sockstamp_bpf::{Options, Sampling, Session, Target, probe};
use sockstamp_host::nic::driver;
use sockstamp_model::clock::{Nanos, Phc, Realtime, Timestamp};
use sockstamp_model::message::Message;
use sockstamp_model::stage::{Direction, Stage};
use sockstamp_model::summary::{NicStamps, Summary};
use testbed::{Host, PATIENCE, Process};

/// Here, where its counts of missed stamps are looked at.
const SENDER: &str = "eth0";
/// In a host of its own.
const RECEIVER: &str = "eth1";
const ADDRESSES: [&str; 2] = ["10.78.0.1", "10.78.0.2"];

const SENDS: usize = 60;
const SEND: [u8; 200] = [1; 200];
/// More than a NIC can give.
const ALL: NonZeroU32 = NonZeroU32::new(1_000_000).unwrap();

/// Check each stamp against the program's own of the same packet, and the time that it was given
/// against the program's own readings of the clock.
#[test]
fn stamps_are_those_that_the_program_has_itself() {
    let Some(pair) = Pair::new() else {
        return skip("stamps_are_those_that_the_program_has_itself");
    };
    let _stamping = stamping();
    let (mut sender, mut receiver) = pair.connected();
    let mut witness = Witness::new(&sender);
    let (summary, messages) = measured(|session, messages| {
        for _ in 0..SENDS {
            sender.write_all(&SEND).unwrap();
            receiver.read_exact(&mut [0; SEND.len()]).unwrap();
            witness.wait_for_stamp(&sender);
            poll(session, messages);
        }
    });
    let stamps = summary.nic_stamps.unwrap();
    println!("{stamps:?}, widest error {}", check(&messages, &witness));
    assert_eq!(witness.stamps.len(), SENDS);
    assert_eq!(stamps.asked, SENDS as u64);
    assert!(stamps.stamped >= SENDS as u64 * 9 / 10, "{stamps:?}");
    check_sums(&summary, &messages);
}

/// The other programs ask for as many stamps as they can, and the NIC stamps one at a time.
#[test]
fn a_nic_that_has_missed_a_stamp_is_asked_no_more() {
    let Some(pair) = Pair::new() else {
        return skip("a_nic_that_has_missed_a_stamp_is_asked_no_more");
    };
    let _stamping = stamping();
    let (mut sender, mut receiver) = pair.connected();
    let mut exchange = move || {
        sender.write_all(&SEND).unwrap();
        receiver.read_exact(&mut [0; SEND.len()]).unwrap();
    };
    let before = missed_stamps(SENDER).unwrap().unwrap();
    let mut asked = 0;
    let (summary, messages) = measured(|session, messages| {
        let _others = Others::ask();
        let begin = Instant::now();
        let objection = loop {
            exchange();
            poll(session, messages);
            if let Some(objection) = session.take_nic_objection() {
                break objection;
            }
            assert!(begin.elapsed() < PATIENCE, "the NIC gave all stamps");
        };
        println!("{objection}");
        assert!(objection.starts_with("eth0 missed "), "{objection}");
        asked = session.summary().nic_stamps.unwrap().asked;
        (0..SENDS).for_each(|_| exchange());
    });
    let stamps = summary.nic_stamps.unwrap();
    let missed = missed_stamps(SENDER).unwrap().unwrap() - before;
    println!("{stamps:?}, {missed} missed, {asked} asked before");
    assert!(missed > 0);
    assert_eq!(stamps.asked, asked, "none after the objection");
    assert!(stamps.spared >= SENDS as u64, "{stamps:?}");
    check_sums(&summary, &messages);
}

/// A grandmaster needs the stamp of each of its Syncs, for the Follow_Up.
#[test]
fn ptp4l_on_the_same_nic_loses_nothing() {
    let Some(pair) = Pair::new() else {
        return skip("ptp4l_on_the_same_nic_loses_nothing");
    };
    let mut ptp4l = Command::new("ptp4l");
    ptp4l.args(PTP4L);
    let mut ptp4l = Process::spawn(ptp4l).unwrap();
    ptp4l.wait_for_stdout(IS_MASTER, PATIENCE).unwrap();
    let refusal = nic::choose(Ask::Rate(ALL)).unwrap_err();
    let reason = format!("process {} uses the clock of {SENDER}", ptp4l.id());
    assert!(refusal.starts_with(&reason), "{refusal}");
    let missed = missed_stamps(SENDER).unwrap();
    let (mut sender, mut receiver) = pair.connected();
    let (summary, _) = measured_with(None, |session, messages| {
        let (before, begin) = (Syncs::of_ptp4l(), Instant::now());
        while Syncs::of_ptp4l().sent < before.sent + SYNCS {
            for _ in 0..SENDS {
                sender.write_all(&SEND).unwrap();
                receiver.read_exact(&mut [0; SEND.len()]).unwrap();
            }
            poll(session, messages);
            assert!(begin.elapsed() < PATIENCE, "{}", ptp4l.stdout());
        }
    });
    // Where one was lost, they are never equal again.
    wait_until("each Sync has its Follow_Up", || {
        let syncs = Syncs::of_ptp4l();
        println!("{} messages beside, {syncs:?}", summary.tx.messages);
        syncs.followed == syncs.sent
    });
    assert!(summary.tx.messages > SYNCS);
    assert_eq!(missed_stamps(SENDER).unwrap(), missed);
    assert!(!ptp4l.stdout().contains(MISSES), "{}", ptp4l.stdout());
}

/// Over Ethernet, with a stamp per Sync, and patience: the NIC is emulated.
const PTP4L: [&str; 14] = [
    "-2",
    "-m",
    "-i",
    SENDER,
    "--masterOnly",
    "1",
    "--logSyncInterval",
    "-3",
    "--announceReceiptTimeout",
    "2",
    "--tx_timestamp_timeout",
    "500",
    "--logAnnounceInterval",
    "0",
];
const IS_MASTER: &str = "to MASTER";
const MISSES: &str = "timed out while polling for tx timestamp";
/// Enough to find one of them gone.
const SYNCS: u64 = 40;

/// The statistics of ptp4l.
#[derive(Debug)]
struct Syncs {
    sent: u64,
    followed: u64,
}

impl Syncs {
    /// pmc may give up before a busy machine has answered it.
    fn of_ptp4l() -> Self {
        let mut found = None;
        wait_until("ptp4l tells its statistics", || {
            let mut pmc = Command::new("pmc");
            pmc.args(["-u", "-b", "0", "GET PORT_STATS_NP"]);
            found = Self::parse(&String::from_utf8(pmc.output().unwrap().stdout).unwrap());
            found.is_some()
        });
        found.unwrap()
    }

    /// Lines of a name and a number.
    fn parse(said: &str) -> Option<Self> {
        let count = |name: &str| {
            let mut pairs = said.lines().filter_map(|line| line.trim().split_once(' '));
            let (_, value) = pairs.find(|(found, _)| *found == name)?;
            value.trim().parse().ok()
        };
        Some(Self {
            followed: count("tx_Follow_Up")?,
            sent: count("tx_Sync")?,
        })
    }
}

fn skip(test: &str) {
    let line = format!("SKIP {test}: no igb is here\n");
    io::stderr().write_all(line.as_bytes()).unwrap();
}

/// Two NICs that are joined.
struct Pair {
    there: Host,
}

impl Pair {
    /// `None` where there are no such NICs.
    fn new() -> Option<Self> {
        if driver(SENDER).as_deref() != Some("igb") {
            return None;
        }
        // The one before comes back when its host has gone.
        wait_until("the other NIC is there", || {
            fs::exists(sys(RECEIVER)).unwrap()
        });
        let there = Host::new("there").unwrap();
        run(
            "ip",
            &["link", "set", RECEIVER, "netns", there.netns_name()],
        );
        let [here, other] = ADDRESSES.map(|address| format!("{address}/24"));
        run("ip", &["address", "replace", &here, "dev", SENDER]);
        run("ip", &["link", "set", SENDER, "up"]);
        let add = ["address", "add", &other, "dev", RECEIVER];
        there.run("ip", &add).unwrap();
        there.run("ip", &["link", "set", RECEIVER, "up"]).unwrap();
        wait_until("both have a link", || {
            let shown = there.run("ip", &["link", "show", RECEIVER]).unwrap();
            let carrier = fs::read_to_string(format!("{}/carrier", sys(SENDER)));
            shown.contains("LOWER_UP") && carrier.is_ok_and(|text| text.trim() == "1")
        });
        Some(Self { there })
    }

    fn connected(&self) -> (TcpStream, TcpStream) {
        let address: SocketAddr = format!("{}:7000", ADDRESSES[1]).parse().unwrap();
        let listener = self.there.tcp_listen(address).unwrap();
        let sender = TcpStream::connect(address).unwrap();
        let (receiver, _) = listener.accept().unwrap();
        (sender, receiver)
    }
}

fn sys(name: &str) -> String {
    format!("/sys/class/net/{name}")
}

fn wait_until(what: &str, mut is_so: impl FnMut() -> bool) {
    let begin = Instant::now();
    while !is_so() {
        assert!(begin.elapsed() < PATIENCE, "never: {what}");
        sleep(Duration::from_millis(20));
    }
}

fn run(program: &str, arguments: &[&str]) {
    let status = Command::new(program).args(arguments).status().unwrap();
    assert!(status.success(), "{program} {arguments:?}: {status}");
}

/// Have the sender's NIC stamp what it sends.
fn stamping() -> HardwareStampingGuard {
    let wanted = HardwareStamping {
        tx: TxStamping::ON,
        rx: RxFilter::NONE,
    };
    HardwareStampingGuard::set(SENDER, wanted).unwrap()
}

/// The program's own stamps of a connection, and its readings of the NIC's clock.
struct Witness {
    clock: PhcClock,
    track: PhcTrack,
    queue: ErrorQueue,
    /// By the number of the last byte.
    stamps: BTreeMap<u32, Stamped>,
}

/// A stamp, and its time by the readings around it.
#[derive(Debug, Clone, Copy)]
struct Stamped {
    stamp: Timestamp<Phc>,
    realtime: Timestamp<Realtime>,
    bound: Nanos,
}

impl Witness {
    fn new(socket: &TcpStream) -> Self {
        let index = interface::capabilities(SENDER).unwrap().phc_index.unwrap();
        timestamping::Options::new()
            .tx_hardware()
            .tcp_id()
            .only_stamps()
            .apply(socket)
            .unwrap();
        let mut witness = Self {
            clock: PhcClock::open(index).unwrap(),
            track: PhcTrack::new(),
            queue: ErrorQueue::new(),
            stamps: BTreeMap::new(),
        };
        witness.read();
        witness
    }

    fn read(&mut self) {
        let _ = self.track.push(self.clock.read().unwrap());
    }

    /// The NIC has room for the next one then.
    fn wait_for_stamp(&mut self, socket: &TcpStream) {
        let mut found = None;
        let queue = &mut self.queue;
        wait_until("a stamp of a packet", || {
            let take = |report: Report<'_>| {
                if let Report::Stamp { stamp, .. } = report
                    && let Some(time) = stamp.time.hardware()
                {
                    found = Some((stamp.id, time));
                }
            };
            queue.drain(socket, take).unwrap();
            found.is_some()
        });
        self.read();
        let (last_byte, stamp) = found.unwrap();
        let Converted::Known(known) = self.track.convert(stamp) else {
            panic!("the witness does not know the time of {stamp}")
        };
        let stamped = Stamped {
            stamp,
            realtime: known.realtime,
            bound: known.bound,
        };
        assert!(self.stamps.insert(last_byte, stamped).is_none());
    }

    /// Return the stamp of a message, by its place.
    fn stamp(&self, place: usize) -> Stamped {
        let last = (place + 1) * SEND.len() - 1;
        self.stamps[&u32::try_from(last).unwrap()]
    }
}

/// Return the widest distance of a stamp's time from the witness's.
fn check(messages: &[Message], witness: &Witness) -> Nanos {
    assert_eq!(messages.len(), SENDS);
    let realtime = clock::measure().unwrap();
    let mut widest = Nanos::ZERO;
    for (place, message) in messages.iter().enumerate() {
        let own = witness.stamp(place);
        assert_eq!(message.stamps.snd_hw, Some(own.stamp), "message {place}");
        let (Some(stage), Some(bound)) = (message.stages[Stage::TxNic], message.nic_bound) else {
            continue;
        };
        let truth = realtime.offset.inverse().convert(own.realtime);
        let at = message.stamps.snd.unwrap() + stage;
        let error = (at - truth).abs();
        let allowed = bound + own.bound + realtime.uncertainty;
        assert!(error <= allowed, "{error} of {bound} and {}", own.bound);
        widest = widest.max(error);
    }
    widest
}

/// Each message is counted once, stamped or not.
fn check_sums(summary: &Summary, messages: &[Message]) {
    let NicStamps {
        asked,
        stamped,
        unstamped,
        nic_clock,
        ..
    } = summary.nic_stamps.unwrap();
    assert_eq!(stamped + unstamped + nic_clock + summary.lost.ring, asked);
    let count = |stage: Stage| summary.tx.stages[stage].as_ref().unwrap().count();
    assert_eq!(count(Stage::TxNic), stamped);
    let with = |stage: Stage| {
        messages
            .iter()
            .filter(move |one| one.stages[stage].is_some())
    };
    assert_eq!(with(Stage::TxNic).count() as u64, stamped);
    assert_eq!(
        with(Stage::TxNetwork).count() as u64,
        count(Stage::TxNetwork)
    );
}

/// Programs that ask for a stamp of each of their packets.
struct Others {
    end: Arc<AtomicBool>,
    threads: Vec<JoinHandle<()>>,
}

impl Others {
    fn ask() -> Self {
        let end = Arc::new(AtomicBool::new(false));
        let ask = || {
            let end = Arc::clone(&end);
            thread::spawn(move || ask_until(&end))
        };
        Self {
            threads: (0..2).map(|_| ask()).collect(),
            end,
        }
    }
}

impl Drop for Others {
    fn drop(&mut self) {
        self.end.store(true, Ordering::Relaxed);
        for thread in self.threads.drain(..) {
            let _ = thread.join();
        }
    }
}

/// Send in bursts: the NIC has one place.
fn ask_until(end: &AtomicBool) {
    let socket = UdpSocket::bind((ADDRESSES[0], 0)).unwrap();
    let asks = timestamping::Options::new().tx_hardware().only_stamps();
    asks.apply(&socket).unwrap();
    let mut queue = ErrorQueue::new();
    while !end.load(Ordering::Relaxed) {
        for _ in 0..16 {
            let _ = socket.send_to(&SEND, (ADDRESSES[1], 9));
        }
        queue.drain(&socket, |_| ()).unwrap();
    }
}

fn poll(session: &mut Session, messages: &mut Vec<Message>) {
    let mut take = |message| messages.push(message);
    session.poll(Duration::ZERO, &mut take).unwrap();
}

fn measured(traffic: impl FnMut(&mut Session, &mut Vec<Message>)) -> (Summary, Vec<Message>) {
    measured_with(Some(ALL), traffic)
}

/// Return what was measured, and the sent messages in order.
fn measured_with(
    nic_stamps: Option<NonZeroU32>,
    mut traffic: impl FnMut(&mut Session, &mut Vec<Message>),
) -> (Summary, Vec<Message>) {
    let facts = probe::try_what_is_used(probe::facts(), &Options::default()).unwrap();
    let options = Options {
        target: Target {
            pids: vec![std::process::id()],
            ..Target::default()
        },
        sampling: Sampling::Every,
        record: true,
        nic_stamps,
        ..Options::default()
    };
    let mut session = Session::start_on(&facts, &options).unwrap();
    let mut messages = Vec::new();
    traffic(&mut session, &mut messages);
    let mut take = |message| messages.push(message);
    session.settle(Duration::from_secs(2), &mut take).unwrap();
    let summary = session.stop(&mut take).unwrap();
    messages.retain(|one| {
        let is_tcp = one.flow.remote.port() == 7000;
        one.direction == Direction::Tx && is_tcp && !one.is_connection()
    });
    messages.sort_by_key(|one| one.seq_end);
    (summary, messages)
}
