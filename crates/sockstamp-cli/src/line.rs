//! A message as a line of text. It is put together in one buffer, part by part: with the machinery
//! of `format!` a line takes twice as long.

use std::fmt::Write;
use std::net::SocketAddr;

use sockstamp_model::clock::Nanos;
use sockstamp_model::digits::Digits;
use sockstamp_model::flow::canonical;
use sockstamp_model::message::Message;
use sockstamp_model::stage::{Direction, Stage};

use crate::interfaces;

/// Write a message of `trace`, without the end of the line.
pub(crate) fn write(line: &mut String, message: &Message) {
    line.push_str(time_of_day(message.time.as_nanos()).as_str());
    line.push(' ');
    line.push_str(message.direction.name());
    line.push(' ');
    number(line, message.pid.into());
    line.push('/');
    show(line, &message.comm);
    line.push(' ');
    address(line, message.flow.local);
    line.push_str(" → ");
    address(line, message.flow.remote);
    line.push(' ');
    number(line, message.bytes);
    line.push_str(" B");
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
        line.push_str("  refused: ");
        line.push_str(message.verdict.name());
    }
    if message.retransmits > 0 {
        line.push_str("  retransmits ");
        number(line, message.retransmits.into());
    }
    if message.weight > 1 {
        line.push_str("  weight ");
        number(line, message.weight.into());
    }
    if message.coalesced {
        line.push_str("  coalesced");
    }
    interfaces::way(line, message);
    if let Some(age) = message.oldest_age.filter(|_| message.verdict.is_valid()) {
        time(line, "  ", "oldest", age);
    }
}

fn number(line: &mut String, number: u64) {
    line.push_str(Digits::<20>::new().number(number).as_str());
}

fn time(line: &mut String, separator: &str, name: &str, duration: Nanos) {
    line.push_str(separator);
    line.push_str(name);
    line.push(' ');
    line.push_str(duration.text().as_str());
}

/// Ignore the result: writing to a string cannot fail.
pub(crate) fn show(line: &mut String, value: &impl std::fmt::Display) {
    let _ = write!(line, "{value}");
}

fn address(line: &mut String, address: SocketAddr) {
    let address = canonical(address);
    let SocketAddr::V4(v4) = address else {
        show(line, &address);
        return;
    };
    let [a, b, c, d] = v4.ip().octets().map(u64::from);
    let text = Digits::<21>::new().number(a).text(".").number(b);
    let text = text.text(".").number(c).text(".").number(d);
    line.push_str(text.text(":").number(v4.port().into()).as_str());
}

/// Write in parentheses the parts of the stage, without its rest.
fn causes(line: &mut String, stage: Stage, message: &Message) {
    let mut separator = " (";
    for (part, duration) in message.parts.of(stage).filter(|(part, _)| !part.is_rest()) {
        time(line, separator, part.name(), *duration);
        separator = ", ";
    }
    if separator == ", " {
        line.push(')');
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

#[cfg(test)]
mod tests {
    use super::*;

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
            let mut line = String::new();
            address(&mut line, text.parse().unwrap());
            assert_eq!(line, text);
        }
    }

    #[test]
    fn mapped_addresses_are_written_as_ipv4() {
        let mut line = String::new();
        address(&mut line, "[::ffff:10.0.0.1]:443".parse().unwrap());
        assert_eq!(line, "10.0.0.1:443");
    }
}
