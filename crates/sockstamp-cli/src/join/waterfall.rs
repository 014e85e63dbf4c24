//! Draw a message's life on both hosts.

use std::io::{self, Write};

use sockstamp_join::Life;
use sockstamp_model::clock::Nanos;
use sockstamp_print::bar::bar_between;
use sockstamp_print::line::time_of_day;
use sockstamp_print::paragraph::wrapped;

pub(super) fn one(output: &mut dyn Write, life: &Life) -> io::Result<()> {
    let words = format!(
        "{} from {}/{} {} to {}/{} {} {} B at {}",
        life.total(),
        life.sender.pid,
        life.sender.comm,
        life.sender.address,
        life.reader.pid,
        life.reader.comm,
        life.reader.address,
        life.bytes,
        time_of_day(life.time.as_nanos()).as_str(),
    );
    writeln!(output, "{}", wrapped("   slowest:", words.split(' '), ""))?;
    let mut begin = Nanos::ZERO;
    for (stage, duration) in life.present() {
        if duration > Nanos::ZERO {
            let bar = bar_between(begin, duration, life.total());
            writeln!(output, "     {:<21}{duration:>10}  {bar}", stage.name())?;
        }
        begin = begin + duration;
    }
    Ok(())
}
