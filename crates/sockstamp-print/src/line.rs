//! Write a message as a line of text. One buffer collects it, part by part: with `format!` a line
//! takes several times as long. The buffer has bytes: a check that it is UTF-8 would take a fifth
//! of the time.

use std::io::Write;
use std::net::SocketAddr;

use sockstamp_model::clock::Nanos;
use sockstamp_model::digits::{Digits, append_number, three_digits};
use sockstamp_model::flow::canonical;
use sockstamp_model::interface::Interface;
use sockstamp_model::message::Message;
use sockstamp_model::name::Name;
use sockstamp_model::part::Part;
use sockstamp_model::stage::{Direction, Stage};
use sockstamp_run::escape;

use crate::colour::Brush;
use crate::interfaces::Namespaces;

/// Separates the items of a line.
const SEPARATOR: &str = "  ";

/// Name a time, after a separator. The longest is that of a handshake.
type Label = Digits<24>;

static STAGES: [Label; Stage::COUNT] = {
    let mut labels = [Label::new(); Stage::COUNT];
    let mut at = 0;
    while at < Stage::COUNT {
        labels[at] = Label::of(&[SEPARATOR, Stage::ALL[at].name(), " "]);
        at += 1;
    }
    labels
};

/// Names of parts without their separator, which differs.
static PARTS: [Label; Part::COUNT] = {
    let mut labels = [Label::new(); Part::COUNT];
    let mut at = 0;
    while at < Part::COUNT {
        labels[at] = Label::of(&[Part::ALL[at].name(), " "]);
        at += 1;
    }
    labels
};

static SENT: Label = Label::of(&[SEPARATOR, "sent "]);
static TOTAL: Label = Label::of(&[SEPARATOR, "total "]);
/// The same of a send whose begin was not seen.
static SENT_LEAST: Label = Label::of(&[SEPARATOR, "sent ≥"]);
static TOTAL_LEAST: Label = Label::of(&[SEPARATOR, "total ≥"]);
static OLDEST: Label = Label::of(&[SEPARATOR, "oldest "]);

/// A line under way, without its end.
#[derive(Debug, Default)]
pub struct Line(Vec<u8>);

impl Line {
    /// Begin a new line in the place of the old one.
    pub fn clear(&mut self) {
        self.0.clear();
    }

    /// Return the bytes so far.
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }

    /// Add the process, the task and the addresses of a message.
    pub fn head(&mut self, message: &Message) {
        self.text(" ");
        self.number(message.pid.into());
        self.text("/");
        self.name(&message.comm);
        self.text(" ");
        self.address(message.flow.local);
        self.text(" → ");
        self.address(message.flow.remote);
    }

    /// Add a message of `trace`, which has this [`head`](Self::head).
    pub fn message(&mut self, message: &Message, head: &[u8], namespaces: &mut Namespaces) {
        self.digits(&time_of_day(message.time.as_nanos()));
        self.text(" ");
        self.text(message.label());
        self.bytes(head);
        if message.is_connection() {
            self.connection(message);
            return;
        }
        self.text(" ");
        self.number(message.bytes);
        self.text(" B");
        for (stage, duration) in message.stages.present() {
            self.time(&STAGES[stage as usize], *duration);
            if let (Stage::TxNic | Stage::RxNic, Some(bound)) = (stage, message.nic_bound) {
                self.text(" ± ");
                self.digits(&bound.text());
            }
            self.causes(stage, message);
        }
        self.result(message);
        self.way(message, namespaces);
        if let Some(age) = message.oldest_age.filter(|_| message.verdict.is_valid()) {
            self.time(&OLDEST, age);
        }
    }

    /// Make the line bold if it `stands_out`.
    pub fn paint(&mut self, brush: Brush, stands_out: bool) {
        if stands_out && brush.has_colours() {
            let text = brush.bold(&String::from_utf8_lossy(&self.0));
            self.0 = text.into_bytes();
        }
    }

    /// Add what the stages come to, and what is out of the ordinary.
    fn result(&mut self, message: &Message) {
        if message.verdict.is_valid() {
            let (sent, total) = match message.is_begin_unseen() {
                true => (&SENT_LEAST, &TOTAL_LEAST),
                false => (&SENT, &TOTAL),
            };
            if message.direction == Direction::Tx {
                self.time(sent, message.time());
            }
            self.time(total, message.total());
        } else {
            self.text("  refused: ");
            self.text(message.verdict.name());
        }
        if message.retransmits > 0 {
            self.text("  retransmits ");
            self.number(message.retransmits.into());
        }
        if message.weight > 1 {
            self.text("  weight ");
            self.number(message.weight.into());
        }
        if message.coalesced {
            self.text("  coalesced");
        }
    }

    /// Add a connection: it has no bytes and no total.
    fn connection(&mut self, message: &Message) {
        for (stage, duration) in message.stages.present() {
            self.time(&STAGES[stage as usize], *duration);
        }
        if !message.verdict.is_valid() {
            self.text(SEPARATOR);
            self.text(message.verdict.name());
        }
        if message.retransmits > 0 {
            self.text("  SYNs sent again ");
            self.number(message.retransmits.into());
        }
    }

    /// Add in parentheses the parts of the stage, without its rest.
    fn causes(&mut self, stage: Stage, message: &Message) {
        let mut separator = " (";
        for (part, duration) in message.parts.of(stage).filter(|(part, _)| !part.is_rest()) {
            self.text(separator);
            self.time(&PARTS[part as usize], *duration);
            separator = ", ";
        }
        if separator == ", " {
            self.text(")");
        }
    }

    /// Add the way of a message from its socket to the last interface that stamped it.
    fn way(&mut self, message: &Message, namespaces: &mut Namespaces) {
        let (first, last) = (&message.interfaces.first, &message.interfaces.last);
        let mut name = |separator: &str, interface: &Interface| {
            self.text(separator);
            self.name(&interface.name);
            if interface.netns != message.flow.netns {
                self.text("@");
                match namespaces.name(interface.netns) {
                    Some(name) => self.name(name),
                    None => self.number(interface.netns.0.into()),
                }
            }
        };
        match (first, last) {
            (Some(first), Some(last)) if first != last => {
                name("  via ", first);
                name(" → ", last);
            }
            (Some(only), _) | (None, Some(only)) => name("  via ", only),
            (None, None) => {}
        }
    }

    /// Add text of ours.
    #[inline]
    pub fn text(&mut self, text: &str) {
        self.bytes(text.as_bytes());
    }

    /// Add bytes as they are.
    #[inline]
    pub fn bytes(&mut self, bytes: &[u8]) {
        self.0.extend_from_slice(bytes);
    }

    /// Add anything that prints itself, slowly. Ignore the result: writing to a vector cannot fail.
    pub fn show(&mut self, value: &impl std::fmt::Display) {
        let _ = write!(self.0, "{value}");
    }

    /// Add an address and its port.
    pub fn address(&mut self, address: SocketAddr) {
        match canonical(address) {
            SocketAddr::V4(address) => {
                for (octet, separator) in address.ip().octets().into_iter().zip(*b"...:") {
                    self.number(octet.into());
                    self.0.push(separator);
                }
                self.number(address.port().into());
            }
            address @ SocketAddr::V6(_) => self.show(&address),
        }
    }

    /// Add a name that others may have chosen.
    pub fn name(&mut self, name: &Name) {
        match name.plain() {
            Some(plain) => self.bytes(plain),
            None => self.show(name),
        }
    }

    /// Add the name as a string of JSON. Ignore the result: writing to a vector cannot fail.
    pub fn quoted(&mut self, name: &Name) {
        match name.plain() {
            Some(plain) if !plain.iter().any(|byte| matches!(byte, b'"' | b'\\')) => {
                self.text("\"");
                self.bytes(plain);
                self.text("\"");
            }
            _ => _ = escape::json(&mut self.0, name),
        }
    }

    /// Add a number.
    #[inline]
    pub fn number(&mut self, number: u64) {
        append_number(&mut self.0, number);
    }

    fn time(&mut self, label: &Label, duration: Nanos) {
        self.digits(label);
        self.digits(&duration.text());
    }

    /// Add digits.
    #[inline]
    pub fn digits<const N: usize>(&mut self, digits: &Digits<N>) {
        digits.append_to(&mut self.0);
    }
}

/// Break a line between its items if it is wider than the terminal, and indent the rest.
pub fn folded(line: &[u8], width: usize) -> String {
    const INDENT: &str = "                ";
    let line = String::from_utf8_lossy(line);
    let (mut text, mut column) = (String::new(), 0);
    for item in line.split(SEPARATOR) {
        let length = item.chars().count();
        if column > 0 && column + SEPARATOR.len() + length > width {
            text += "\n";
            text += INDENT;
            column = INDENT.len();
        } else if column > 0 {
            text += SEPARATOR;
            column += SEPARATOR.len();
        }
        text += item;
        column += length;
    }
    text
}

/// Hours, minutes, seconds and microseconds of UTC: leap seconds are not in CLOCK_REALTIME.
pub fn time_of_day(nanos: u64) -> Digits<15> {
    let (seconds, micros) = (nanos / 1_000_000_000, nanos / 1_000 % 1_000_000);
    let [_, hours, hour] = three_digits(seconds / 3600 % 24);
    let [_, minutes, minute] = three_digits(seconds / 60 % 60);
    let [_, tens, second] = three_digits(seconds % 60);
    Digits::new()
        .ascii([hours, hour, b':', minutes, minute, b':', tens, second, b'.'])
        .ascii(three_digits(micros / 1_000))
        .ascii(three_digits(micros % 1_000))
}

#[cfg(test)]
mod tests {
    use sockstamp_model::fixture;
    use sockstamp_model::flow::Protocol;

    use super::*;

    #[test]
    fn a_send_whose_begin_was_not_seen_took_at_least_as_long() {
        let told = |protocol, copy| {
            let mut message = fixture::message(Direction::Tx);
            message.flow.protocol = protocol;
            message.stages[Stage::TxCopy] = copy;
            message.stages[Stage::TxQdisc] = Some(Nanos(4_700));
            let mut line = Line::default();
            line.result(&message);
            String::from_utf8(line.0).unwrap()
        };
        let unseen = told(Protocol::Udp, None);
        assert!(
            unseen.contains("  sent ≥") && unseen.contains("  total ≥"),
            "{unseen}"
        );
        for seen in [
            told(Protocol::Udp, Some(Nanos(9))),
            told(Protocol::Tcp, None),
        ] {
            assert!(seen.contains("  sent ") && !seen.contains('≥'), "{seen}");
        }
    }

    #[test]
    fn a_line_is_folded_between_its_items() {
        let line = "head 127.0.0.1:80  rx.stack 3 µs  rx.app 5 µs (running 4 µs)  total 8 µs";
        let folded = folded(line.as_bytes(), 40);
        assert_eq!(
            folded,
            "head 127.0.0.1:80  rx.stack 3 µs\n                rx.app 5 µs (running 4 µs)\n                total 8 µs"
        );
        let wide = super::folded(line.as_bytes(), 80);
        assert_eq!(wide, line);
    }

    #[test]
    fn a_time_of_day_has_microseconds() {
        let nanos = ((23 * 3600 + 4 * 60 + 5) * 1_000_000 + 67) * 1000 + 999;
        assert_eq!(time_of_day(nanos).as_str(), "23:04:05.000067");
    }

    #[test]
    fn addresses_are_written_as_by_the_standard_library() {
        for text in [
            "0.0.0.0:0",
            "255.255.255.255:65535",
            "10.20.30.40:443",
            "[2001:db8::1]:53",
            "[fe80::1%3]:7",
        ] {
            let mut line = Line::default();
            line.address(text.parse().unwrap());
            assert_eq!(line.as_bytes(), text.as_bytes());
        }
    }

    #[test]
    fn mapped_addresses_are_written_as_ipv4() {
        let mut line = Line::default();
        line.address("[::ffff:10.0.0.1]:443".parse().unwrap());
        assert_eq!(line.as_bytes(), b"10.0.0.1:443");
    }
}
