//! Write a message as a line of text. One buffer collects it, part by part: with `format!` a line
//! takes several times as long. The buffer has bytes: a check that it is UTF-8 would take a fifth
//! of the time.

use std::io::Write;
use std::net::SocketAddr;

use sockstamp_model::clock::Nanos;
use sockstamp_model::digits::Digits;
use sockstamp_model::flow::canonical;
use sockstamp_model::interface::Interface;
use sockstamp_model::message::Message;
use sockstamp_model::stage::{Direction, Stage};

use crate::interfaces::Namespaces;

/// Write a message of `trace`, without the end of the line.
pub(crate) fn write(line: &mut Vec<u8>, message: &Message, namespaces: &mut Namespaces) {
    line.extend_from_slice(time_of_day(message.time.as_nanos()).as_bytes());
    line.push(b' ');
    text(line, message.label());
    line.push(b' ');
    number(line, message.pid.into());
    line.push(b'/');
    show(line, &message.comm);
    line.push(b' ');
    address(line, message.flow.local);
    text(line, " → ");
    address(line, message.flow.remote);
    line.push(b' ');
    if message.is_connection() {
        connection(line, message);
        return;
    }
    number(line, message.bytes);
    text(line, " B");
    for (stage, duration) in message.stages.present() {
        time(line, "  ", stage.name(), *duration);
        causes(line, stage, message);
    }
    if message.verdict.is_valid() {
        if message.direction == Direction::Tx {
            time(line, "  ", "sent", message.time());
        }
        time(line, "  ", "total", message.total());
    } else {
        text(line, "  refused: ");
        text(line, message.verdict.name());
    }
    if message.retransmits > 0 {
        text(line, "  retransmits ");
        number(line, message.retransmits.into());
    }
    if message.weight > 1 {
        text(line, "  weight ");
        number(line, message.weight.into());
    }
    if message.coalesced {
        text(line, "  coalesced");
    }
    way(line, message, namespaces);
    if let Some(age) = message.oldest_age.filter(|_| message.verdict.is_valid()) {
        time(line, "  ", "oldest", age);
    }
}

/// Break a line between its items if it is wider than the terminal, and indent the rest.
pub(crate) fn folded(line: &[u8], width: usize) -> String {
    const INDENT: &str = "                ";
    let line = String::from_utf8_lossy(line);
    let (mut text, mut column) = (String::new(), 0);
    for item in line.split("  ") {
        let length = item.chars().count();
        if column > 0 && column + 2 + length > width {
            text += "\n";
            text += INDENT;
            column = INDENT.len();
        } else if column > 0 {
            text += "  ";
            column += 2;
        }
        text += item;
        column += length;
    }
    text
}

/// A connection has no bytes and no total.
fn connection(line: &mut Vec<u8>, message: &Message) {
    let mut separator = " ";
    for (stage, duration) in message.stages.present() {
        time(line, separator, stage.name(), *duration);
        separator = "  ";
    }
    if !message.verdict.is_valid() {
        text(line, "  ");
        text(line, message.verdict.name());
    }
    if message.retransmits > 0 {
        text(line, "  SYNs sent again ");
        number(line, message.retransmits.into());
    }
}

pub(crate) fn text(line: &mut Vec<u8>, text: &str) {
    line.extend_from_slice(text.as_bytes());
}

fn number(line: &mut Vec<u8>, number: u64) {
    line.extend_from_slice(Digits::<20>::new().number(number).as_bytes());
}

fn time(line: &mut Vec<u8>, separator: &str, name: &str, duration: Nanos) {
    text(line, separator);
    text(line, name);
    line.push(b' ');
    line.extend_from_slice(duration.text().as_bytes());
}

/// Ignore the result: writing to a vector cannot fail.
pub(crate) fn show(line: &mut Vec<u8>, value: &impl std::fmt::Display) {
    let _ = write!(line, "{value}");
}

pub(crate) fn address(line: &mut Vec<u8>, address: SocketAddr) {
    let address = canonical(address);
    let SocketAddr::V4(v4) = address else {
        show(line, &address);
        return;
    };
    let [a, b, c, d] = v4.ip().octets().map(u64::from);
    let digits = Digits::<21>::new().number(a).text(".").number(b);
    let digits = digits.text(".").number(c).text(".").number(d);
    line.extend_from_slice(digits.text(":").number(v4.port().into()).as_bytes());
}

/// Write in parentheses the parts of the stage, without its rest.
fn causes(line: &mut Vec<u8>, stage: Stage, message: &Message) {
    let mut separator = " (";
    for (part, duration) in message.parts.of(stage).filter(|(part, _)| !part.is_rest()) {
        time(line, separator, part.name(), *duration);
        separator = ", ";
    }
    if separator == ", " {
        line.push(b')');
    }
}

/// Hours, minutes, seconds and microseconds of UTC: leap seconds are not in CLOCK_REALTIME.
pub(crate) fn time_of_day(nanos: u64) -> Digits<15> {
    let micros = nanos / 1000;
    let seconds = micros / 1_000_000;
    Digits::new()
        .places(seconds / 3600 % 24, 2)
        .text(":")
        .places(seconds / 60 % 60, 2)
        .text(":")
        .places(seconds % 60, 2)
        .text(".")
        .places(micros % 1_000_000, 6)
}

/// The way of a message from its socket to the last interface that stamped it.
fn way(line: &mut Vec<u8>, message: &Message, namespaces: &mut Namespaces) {
    let (first, last) = (&message.interfaces.first, &message.interfaces.last);
    let mut name = |separator: &str, interface: &Interface| {
        text(line, separator);
        show(line, &interface.name);
        if interface.netns != message.flow.netns {
            line.push(b'@');
            match namespaces.name(interface.netns) {
                Some(name) => show(line, name),
                None => show(line, &interface.netns),
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

#[cfg(test)]
mod tests {
    use super::*;

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
            let mut line = Vec::new();
            address(&mut line, text.parse().unwrap());
            assert_eq!(line, text.as_bytes());
        }
    }

    #[test]
    fn mapped_addresses_are_written_as_ipv4() {
        let mut line = Vec::new();
        address(&mut line, "[::ffff:10.0.0.1]:443".parse().unwrap());
        assert_eq!(line, b"10.0.0.1:443");
    }
}
