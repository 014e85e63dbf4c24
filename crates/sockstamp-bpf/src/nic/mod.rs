//! Stamps of NICs: their clocks are compared with ours, and messages that a NIC was asked to stamp
//! are held until it is known when they were on the wire; so are read messages of stamped packets.
//!
//! Stages behind the driver of such a message, and the time until it left, are counted here and
//! not by the programs: `tx.nic` ends, and `tx.network` begins, where the NIC's stamp says. Of a
//! read whose packet a NIC has stamped, `rx.nic` and the total are counted here.

mod choice;
mod clock;
mod counts;
mod device;
mod divide;
mod held;
mod watch;

use std::collections::BTreeMap;
use std::num::NonZeroU32;
use std::time::{Duration, Instant};

use sockstamp_model::clock::{Nanos, Phc, Realtime, Timestamp};
use sockstamp_model::flow::{NetnsInode, SocketCookie};
use sockstamp_model::histogram::Histogram;
use sockstamp_model::interface::Interface;
use sockstamp_model::message::Message;
use sockstamp_model::stage::Direction;
use sockstamp_model::summary::{CoalescingNic, Summary};

pub use self::choice::{Ask, choose};
use self::counts::Counts;
pub(crate) use self::device::stamping_here;
use self::device::{Device, Stamper, senders_here};
use self::held::{Held, Late, Received};
use self::watch::Watch;
use crate::abi::raw;
use crate::error::{Error, Tried};
use crate::histogram;
use crate::options::Options;
use crate::plan::Plan;
use crate::record::page_size;
use crate::ring::Ring;
use crate::skeleton::Constants;
use crate::skeleton::sockstamp::{OpenSockstampMaps, SockstampMaps};

/// The time between two readings of a clock, while messages wait for one. What a clock does in
/// between widens the bound by half of this.
const WHILE_HELD: Duration = Duration::from_millis(250);
/// As above, while none wait: the first stamp thereafter has a reading before it.
const WHILE_IDLE: Duration = Duration::from_secs(2);
/// The time that messages are waited for after the last one.
const BUSY: Duration = Duration::from_secs(5);
/// The time between two looks at the counts of stamps that NICs could not give.
const WATCH: Duration = Duration::from_secs(1);
/// The time between two looks for stamps that come after their messages.
const LOOK: Duration = Duration::from_millis(50);

/// Flows whose last arrival a NIC has stamped: more than are read at one time.
const ARRIVALS: u32 = 4096;

/// Set the constants of stamps.
pub(crate) fn constants(constants: &mut Constants, options: &Options, plan: &Plan) {
    let rates = Rates::of(options, plan);
    let interval = |rate: NonZeroU32| 1_000_000_000 / u64::from(rate.get());
    constants.setting_nic_interval = rates.sends.map_or(0, interval);
    constants.setting_nic_reads_interval = rates.reads.map_or(0, interval);
    constants.setting_record |= rates.sum() > 0;
}

/// Give stamps, and records of their messages, as much room as they take until they are read.
pub(crate) fn size_maps(
    maps: &mut OpenSockstampMaps<'_>,
    options: &Options,
    plan: &Plan,
) -> Result<(), Error> {
    let rates = Rates::of(options, plan);
    let late = rates.sends.map_or(0, NonZeroU32::get);
    maps.nic_stamps
        .set_max_entries(room(late, size_of::<raw::nic_stamp>()))
        .tried("size the ring buffer of NIC stamps")?;
    if rates.reads.is_some() {
        maps.nic_arrivals
            .set_max_entries(ARRIVALS)
            .tried("size the table of stamped arrivals")?;
    }
    if rates.sum() > 0 && !options.record {
        maps.records
            .set_max_entries(room(rates.sum(), size_of::<raw::message_record>()))
            .tried("size the ring buffer")?;
    }
    Ok(())
}

/// The room for what comes in a second.
fn room(rate: u32, bytes: usize) -> u32 {
    const HEAD: u32 = 8;
    let each = u32::try_from(bytes)
        .unwrap_or(u32::MAX)
        .saturating_add(HEAD);
    let room = rate.saturating_mul(each).clamp(page_size(), 1 << 24);
    room.next_power_of_two()
}

/// Messages per second, of those that are held.
#[derive(Debug, Clone, Copy)]
struct Rates {
    /// Stamps that NICs are asked for.
    sends: Option<NonZeroU32>,
    /// Reads of packets that NICs have stamped.
    reads: Option<NonZeroU32>,
}

impl Rates {
    fn of(options: &Options, plan: &Plan) -> Self {
        Self {
            sends: options.nic_stamps.filter(|_| plan.spares_nics()),
            reads: options.nic_reads.filter(|_| plan.follows_nics()),
        }
    }

    /// 0: none is held.
    fn sum(self) -> u32 {
        let rate = |rate: Option<NonZeroU32>| rate.map_or(0, NonZeroU32::get);
        rate(self.sends).saturating_add(rate(self.reads))
    }
}

/// NICs are asked.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Asks {
    Yes,
    /// No longer, for this reason, which nobody has taken.
    Stops(String),
    No,
}

/// The stamps of NICs in a session.
pub(crate) struct Nics {
    rates: Rates,
    devices: BTreeMap<u32, Device>,
    stampers: BTreeMap<(NetnsInode, u32), Stamper>,
    ring: Ring<Vec<raw::nic_stamp>>,
    held: Held,
    counts: Counts,
    read: Instant,
    watch: Watch,
    watched: Instant,
    asks: Asks,
    last_held: Option<Instant>,
    /// Clocks that cannot be read, each with the reason.
    unread: Vec<String>,
}

impl Nics {
    /// Open the clocks of all NICs that stamp, if their stamps are used.
    pub(crate) fn open(
        options: &Options,
        plan: &Plan,
        maps: &SockstampMaps<'_>,
    ) -> Result<Option<Self>, Error> {
        let rates = Rates::of(options, plan);
        if rates.sum() == 0 {
            return Ok(None);
        }
        let stampers = device::stampers();
        let (mut devices, mut unread) = (BTreeMap::new(), Vec::new());
        for index in stampers.values().map(|stamper| stamper.clock) {
            if devices.contains_key(&index) {
                continue;
            }
            match Device::open(index) {
                Ok(device) => drop(devices.insert(index, device)),
                Err(error) => unread.push(error.to_string()),
            }
        }
        unread.dedup();
        let mut nics = Self {
            rates,
            devices,
            stampers,
            ring: Ring::of_records(&maps.nic_stamps)?,
            held: Held::default(),
            counts: Counts::default(),
            read: Instant::now(),
            watch: Watch::begin(senders_here()),
            watched: Instant::now(),
            asks: match rates.sends {
                Some(_) => Asks::Yes,
                None => Asks::No,
            },
            last_held: None,
            unread,
        };
        nics.read_clocks(Instant::now());
        Ok(Some(nics))
    }

    /// Return the clocks that cannot be read, each with the reason.
    pub(crate) fn unread(&self) -> &[String] {
        &self.unread
    }

    /// Return whether a record is of a message to be held.
    pub(crate) fn holds(record: &raw::message_record) -> bool {
        u32::from(record.flags) & raw::message_flags::MESSAGE_NIC != 0
            && u32::from(record.verdict) == raw::verdict::VERDICT_VALID
    }

    /// Hold a message until its stamp has a time.
    pub(crate) fn hold(&mut self, message: Message, record: &raw::message_record) {
        let alone = u32::from(record.flags) & raw::message_flags::MESSAGE_NIC_ALONE != 0;
        let now = Instant::now();
        self.last_held = Some(now);
        match message.direction {
            Direction::Tx => self.held.add(message, !alone, now),
            Direction::Rx => self.hold_read(message, record, !alone, now),
        }
    }

    fn hold_read(
        &mut self,
        mut message: Message,
        record: &raw::message_record,
        wanted: bool,
        now: Instant,
    ) {
        let stamps = record.rx_stamps();
        let received = Received {
            nic: Timestamp::from_nanos(stamps.nic),
            software: Timestamp::from_nanos(stamps.nic_software),
        };
        // The programs know no more of it than its number.
        let interface = message.interfaces.last.take().unwrap_or_else(|| Interface {
            name: "".into(),
            index: 0,
            netns: message.flow.netns,
        });
        self.held
            .add_read(message, (interface, received), wanted, now);
    }

    /// Return the time until [`run`](Self::run) has something to do.
    pub(crate) fn until_run(&self) -> Duration {
        let until_reading = self.interval().saturating_sub(self.read.elapsed());
        match self.held.is_empty() {
            true => until_reading,
            false => until_reading.min(LOOK),
        }
    }

    fn interval(&self) -> Duration {
        match self.is_busy() {
            true => WHILE_HELD,
            false => WHILE_IDLE,
        }
    }

    fn is_busy(&self) -> bool {
        self.last_held.is_some_and(|last| last.elapsed() < BUSY)
    }

    /// Read what is due, and pass the messages whose stamps have a time, or never will. The second
    /// argument is true if a record of the message was requested for its own sake.
    pub(crate) fn run(&mut self, pass: &mut dyn FnMut(Message, bool)) -> Result<(), Error> {
        let now = Instant::now();
        self.take_late(now)?;
        if self.read.elapsed() >= self.interval() {
            self.read_clocks(now);
        }
        self.settle(now, false, pass);
        if self.asks == Asks::Yes && self.is_busy() && self.watched.elapsed() >= WATCH {
            self.watched = now;
            self.asks = (self.watch.objection()).map_or(Asks::Yes, Asks::Stops);
        }
        Ok(())
    }

    /// Return whether NICs are still to be asked.
    pub(crate) fn asks(&self) -> bool {
        self.asks == Asks::Yes
    }

    /// Return, once, why no NIC is to be asked any more.
    pub(crate) fn take_objection(&mut self) -> Option<String> {
        match std::mem::replace(&mut self.asks, Asks::No) {
            Asks::Stops(reason) => Some(reason),
            asks => {
                self.asks = asks;
                None
            }
        }
    }

    /// Pass all messages: nothing comes any more.
    pub(crate) fn finish(&mut self, pass: &mut dyn FnMut(Message, bool)) -> Result<(), Error> {
        let now = Instant::now();
        self.take_late(now)?;
        self.read_clocks(now);
        self.settle(now, true, pass);
        Ok(())
    }

    fn take_late(&mut self, now: Instant) -> Result<(), Error> {
        let held = &mut self.held;
        self.ring.read(&mut |late| {
            held.add_stamp(Late {
                cookie: SocketCookie(late.cookie),
                seq_last: late.seq_last,
                stamp: Timestamp::from_nanos(late.stamp),
                since: now,
            });
        })
    }

    fn read_clocks(&mut self, now: Instant) {
        self.read = now;
        self.devices.values_mut().for_each(Device::read);
    }

    fn settle(&mut self, now: Instant, at_end: bool, pass: &mut dyn FnMut(Message, bool)) {
        let Self {
            devices, stampers, ..
        } = self;
        let time =
            |interface: &Interface, stamp: Timestamp<Phc>, beside: Option<Timestamp<Realtime>>| {
                let stamper = stampers.get(&(interface.netns, interface.index))?;
                let track = devices.get(&stamper.clock)?.track();
                Some(match beside {
                    Some(other) => track.time_beside(stamp, other),
                    None => track.time(stamp),
                })
            };
        let counts = &mut self.counts;
        self.held.settle(now, at_end, &time, &mut |settled| {
            counts.add(&settled);
            pass(settled.message, settled.wanted);
        });
    }

    /// Add what was counted here to what the programs have counted.
    pub(crate) fn add_to(&self, summary: &mut Summary, banks: &[raw::bank]) {
        summary.nic_stamps = (self.rates.sends).map(|_| histogram::nic_stamps(banks));
        summary.nic_reads = (self.rates.reads).map(|_| histogram::nic_reads(banks));
        self.counts.add_to(summary);
        let coalescing = self
            .stampers
            .iter()
            .filter_map(|(place, stamper)| coalescing(stamper, self.counts.of_reads_by(*place)?));
        summary.coalescing = coalescing.collect();
    }
}

/// Return the NIC if its interrupts wait so long that it may be half of the median `rx.nic`.
fn coalescing(stamper: &Stamper, nic: &Histogram) -> Option<CoalescingNic> {
    let found = stamper.coalescing?;
    let wait = Nanos(u64::from(found.rx_usecs) * 1_000);
    let median = nic.quantile(0.5)?;
    (wait.0.saturating_mul(2) >= median.0).then(|| CoalescingNic {
        interface: stamper.interface.clone(),
        wait,
        adaptive: found.adaptive_rx,
        reads: nic.count(),
        median,
    })
}

#[cfg(test)]
mod tests {
    use sockstamp::interface::Coalescing;

    use super::*;

    #[test]
    fn interrupts_that_wait_for_half_of_the_stage_are_named() {
        let stamper = |rx_usecs| Stamper {
            interface: Interface {
                name: "eth0".into(),
                index: 2,
                netns: NetnsInode(7),
            },
            clock: 0,
            coalescing: Some(Coalescing {
                rx_usecs,
                ..Coalescing::default()
            }),
        };
        let mut nic = Histogram::new();
        assert_eq!(coalescing(&stamper(50), &nic), None, "no read");
        nic.record(Nanos(100_000), 3);
        let found = coalescing(&stamper(51), &nic).unwrap();
        assert_eq!((found.wait, found.reads), (Nanos(51_000), 3));
        assert_eq!(coalescing(&stamper(40), &nic), None);
        let silent = Stamper {
            coalescing: None,
            ..stamper(51)
        };
        assert_eq!(coalescing(&silent, &nic), None);
    }

    #[test]
    fn there_is_room_for_a_second_of_stamps() {
        assert_eq!(room(10, 24), page_size());
        assert_eq!(room(1_000, 24), 32 << 10);
        assert_eq!(room(1_000_000, 700), 1 << 24);
    }
}
