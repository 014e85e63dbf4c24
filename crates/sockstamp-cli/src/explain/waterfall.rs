//! Draw a message's life, stage by stage.

use std::io::{self, Write};

use sockstamp_explain::{Component, Kind};
use sockstamp_model::clock::Nanos;
use sockstamp_model::flow::canonical;
use sockstamp_model::message::Message;
use sockstamp_print::bar::bar_between;
use sockstamp_print::line::time_of_day;
use sockstamp_print::paragraph::wrapped;

/// Print a line about the message, and one for each stage or part that took time. Parts of a stage
/// follow each other: how they interleave is not measured.
pub(super) fn one(output: &mut dyn Write, kind: Kind, message: &Message) -> io::Result<()> {
    let whole = kind.time(message).unwrap_or_default();
    let (local, remote) = (
        canonical(message.flow.local),
        canonical(message.flow.remote),
    );
    let words = format!(
        "{} in {}/{} {local} → {remote} {} B at {}",
        whole,
        message.pid,
        message.comm,
        message.bytes,
        time_of_day(message.time.as_nanos()).as_str(),
    );
    writeln!(
        output,
        "{}",
        wrapped("   one of them:", words.split(' '), "")
    )?;
    let mut begin = Nanos::ZERO;
    for component in kind.components() {
        let duration = component.of(message);
        if duration > Nanos::ZERO {
            row(output, component, begin, duration, whole)?;
        }
        begin = begin + duration;
    }
    Ok(())
}

/// Return the name. A section has only the parts of a connection, and a line has no room for more.
fn label(component: Component) -> String {
    let name = component.to_string();
    name.strip_prefix("conn.")
        .map_or_else(|| name.clone(), str::to_owned)
}

fn row(
    output: &mut dyn Write,
    component: Component,
    begin: Nanos,
    duration: Nanos,
    whole: Nanos,
) -> io::Result<()> {
    let name = label(component);
    let bar = bar_between(begin, duration, whole);
    writeln!(output, "     {name:<21}{duration:>10}  {bar}")
}

#[cfg(test)]
mod tests {
    use sockstamp_model::stage::Stage;

    use super::*;

    #[test]
    fn the_widest_row_fits_a_terminal() {
        let mut components = Kind::ALL.into_iter().flat_map(Kind::components);
        assert!(components.all(|component| label(component).len() <= 20));
        let component = Component {
            stage: Stage::RxApp,
            part: None,
        };
        let mut text = Vec::new();
        row(&mut text, component, Nanos(900), Nanos(100), Nanos(1000)).unwrap();
        row(&mut text, component, Nanos(0), Nanos(1), Nanos(1000)).unwrap();
        row(&mut text, component, Nanos(1000), Nanos(0), Nanos(1000)).unwrap();
        let text = String::from_utf8(text).unwrap();
        assert_eq!(
            text,
            format!(
                "     rx.app                   100 ns  {}████▏\n     rx.app                     1 ns  █{}▏\n     rx.app                     0 ns  {}█▏\n",
                " ".repeat(36),
                " ".repeat(39),
                " ".repeat(39),
            )
        );
        assert!(text.lines().all(|line| line.chars().count() <= 80));
    }
}
