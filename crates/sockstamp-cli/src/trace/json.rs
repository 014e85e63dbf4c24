//! A message as a line of JSON, as its `Serialize` writes it (a test compares them), with a tenth
//! of the instructions: most of the line is known at build time.

use sockstamp_model::clock::Nanos;
use sockstamp_model::digits::Digits;
use sockstamp_model::interface::Interface;
use sockstamp_model::message::{Interfaces, JSON_VERSION, Message, Stamps};
use sockstamp_model::part::Part;
use sockstamp_model::stage::{Direction, Stage};
use sockstamp_print::line::Line;

/// A key with its colon. The longest is that of a handshake.
type Key = Digits<24>;

static STAGES: [Key; Stage::COUNT] = {
    let mut keys = [Key::new(); Stage::COUNT];
    let mut at = 0;
    while at < Stage::COUNT {
        keys[at] = key(Stage::ALL[at].name());
        at += 1;
    }
    keys
};

static PARTS: [Key; Part::COUNT] = {
    let mut keys = [Key::new(); Part::COUNT];
    let mut at = 0;
    while at < Part::COUNT {
        keys[at] = key(Part::ALL[at].name());
        at += 1;
    }
    keys
};

const fn key(name: &str) -> Key {
    Key::of(&["\"", name, "\":"])
}

/// Write the members for the process, the task and the flow of a message.
pub(super) fn head(line: &mut Line, message: &Message) {
    number(line, r#","pid":"#, message.pid);
    line.text(r#","comm":"#);
    line.quoted(&message.comm);
    line.text(r#","protocol":""#);
    line.text(message.flow.protocol.name());
    line.text(r#"","local":""#);
    line.address(message.flow.local);
    line.text(r#"","remote":""#);
    line.address(message.flow.remote);
    line.text("\"");
}

/// Write the object of a message, which has this [`head`].
pub(super) fn write(line: &mut Line, message: &Message, head: &[u8]) {
    let sent = message.direction == Direction::Tx && !message.is_connection();
    number(line, r#"{"version":"#, JSON_VERSION);
    number(line, r#","time_ns":"#, message.time.as_nanos());
    line.text(r#","direction":""#);
    line.text(message.label());
    line.text("\"");
    line.bytes(head);
    number(line, r#","bytes":"#, message.bytes);
    line.text(r#","stages":"#);
    let stages = message.stages.present();
    object(
        line,
        stages.map(|(stage, time)| (&STAGES[stage as usize], time.0)),
    );
    line.text(r#","parts":"#);
    parts(line, message);
    number(line, r#","total_ns":"#, message.total().0);
    if sent {
        number(line, r#","sent_ns":"#, message.time().0);
    }
    number(line, r#","retransmits":"#, message.retransmits);
    number(line, r#","cookie":"#, message.flow.cookie.0);
    number(line, r#","seq_end":"#, message.seq_end);
    line.text(r#","stamps":"#);
    stamps(line, &message.stamps);
    line.text(r#","verdict":""#);
    line.text(message.verdict.name());
    number(line, r#"","weight":"#, message.weight);
    number(line, r#","repeats":"#, message.repeats);
    flag(line, r#","coalesced":"#, message.coalesced);
    interfaces(line, &message.interfaces);
    if sent {
        flag(line, r#","ack_with_data":"#, message.ack_with_data);
    }
    flag(line, r#","pipelined":"#, message.is_pipelined());
    if let Some(reason) = message.unpaired {
        line.text(r#","unpaired":""#);
        line.text(reason.name());
        line.text("\"");
    }
    time_if_known(line, r#","min_rtt_ns":"#, message.min_rtt);
    time_if_known(line, r#","oldest_age_ns":"#, message.oldest_age);
    time_if_known(line, r#","clock_error_ns":"#, message.clock_error);
    time_if_known(line, r#","nic_bound_ns":"#, message.nic_bound);
    number(line, r#","netns":"#, message.flow.netns.0);
    number(line, r#","cgroup":"#, message.cgroup.0);
    origin(line, message);
    line.text("}");
}

/// Write the end that opened the connection, the CPU and the container, as far as they are known.
#[inline]
fn origin(line: &mut Line, message: &Message) {
    if let Some(opened) = message.opened {
        line.text(r#","opened":""#);
        line.text(opened.name());
        line.text("\"");
    }
    if let Some(cpu) = message.cpu {
        number(line, r#","cpu":"#, cpu);
    }
    if let Some(container) = &message.container {
        line.text(r#","container":"#);
        line.quoted(&container.full_name().into());
    }
}

#[inline]
fn number(line: &mut Line, key: &str, number: impl Into<u64>) {
    line.text(key);
    line.number(number.into());
}

#[inline]
fn flag(line: &mut Line, key: &str, flag: bool) {
    line.text(key);
    match flag {
        true => line.text("true"),
        false => line.text("false"),
    }
}

#[inline]
fn time_if_known(line: &mut Line, key: &str, time: Option<Nanos>) {
    if let Some(time) = time {
        number(line, key, time.0);
    }
}

/// Write an object of numbers.
#[inline]
fn object<'a>(line: &mut Line, members: impl Iterator<Item = (&'a Key, u64)>) {
    let mut separator = Separator::default();
    for (key, number) in members {
        separator.write(line);
        line.digits(key);
        line.number(number);
    }
    separator.end(line);
}

/// Write an object of stages, each with an object of its parts.
fn parts(line: &mut Line, message: &Message) {
    let mut separator = Separator::default();
    for stage in Stage::ALL {
        let mut parts = message.parts.of(stage).peekable();
        if parts.peek().is_some() {
            separator.write(line);
            line.digits(&STAGES[stage as usize]);
            object(
                line,
                parts.map(|(part, time)| (&PARTS[part as usize], time.0)),
            );
        }
    }
    separator.end(line);
}

fn stamps(line: &mut Line, stamps: &Stamps) {
    static HARDWARE: Key = key("snd_hw");
    static KEYS: [Key; 11] = [
        key("entry"),
        key("queued"),
        key("sched"),
        key("sched_last"),
        key("snd"),
        key("snd_last"),
        key("ack"),
        key("rx_software"),
        key("filled"),
        key("ready"),
        key("read"),
    ];
    let times = KEYS.iter().zip(stamps.times());
    let ours = times.filter_map(|(key, stamp)| Some((key, stamp?.as_nanos())));
    let hardware = stamps.snd_hw.map(|stamp| (&HARDWARE, stamp.as_nanos()));
    object(line, ours.chain(hardware));
}

fn interfaces(line: &mut Line, interfaces: &Interfaces) {
    let (first, last) = (&interfaces.first, &interfaces.last);
    if first.is_none() && last.is_none() {
        return;
    }
    line.text(r#","interfaces":"#);
    let mut separator = Separator::default();
    for (key, interface) in [(r#""first":"#, first), (r#""last":"#, last)] {
        if let Some(interface) = interface {
            separator.write(line);
            line.text(key);
            self::interface(line, interface);
        }
    }
    separator.end(line);
}

fn interface(line: &mut Line, interface: &Interface) {
    line.text(r#"{"name":"#);
    line.quoted(&interface.name);
    number(line, r#","index":"#, interface.index);
    number(line, r#","netns":"#, interface.netns.0);
    line.text("}");
}

/// Opens an object before its first member, and separates the others.
#[derive(Default)]
struct Separator {
    some: bool,
}

impl Separator {
    #[inline]
    fn write(&mut self, line: &mut Line) {
        match self.some {
            true => line.text(","),
            false => line.text("{"),
        }
        self.some = true;
    }

    #[inline]
    fn end(self, line: &mut Line) {
        match self.some {
            true => line.text("}"),
            false => line.text("{}"),
        }
    }
}
