//! The offsets of the clocks as a table, for SQL.

use std::io::Write;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use sockstamp_join::Trust;
use sockstamp_print::output::Unfinished;

use super::joined::Joined;

/// The columns. Lines are relative to `origin_ns` and `base_ns`, in nanoseconds and nanoseconds per
/// second.
const HEADER: &str =
    "begin_ns,end_ns,origin_ns,base_ns,least,least_drift,most,most_drift,quality,in_step";

/// Write a line per interval of the first host's monotonic clock in which both bounds are lines, or
/// one line for all times if the clocks are trusted.
pub(super) fn write(path: &Path, read: &[PathBuf], joined: &Joined) -> Result<()> {
    let file = Unfinished::new(path, read)?;
    let mut output = file.create()?;
    print(&mut output, joined).with_context(|| format!("cannot write {}", path.display()))?;
    file.finish()
}

fn print(output: &mut impl Write, joined: &Joined) -> std::io::Result<()> {
    let in_step = joined.settings.in_step;
    writeln!(output, "{HEADER}")?;
    if joined.settings.trust == Trust::Clocks {
        writeln!(output, "0,{},0,0,0,0,0,0,trusted,{in_step}", i64::MAX)?;
        return output.flush();
    }
    for interval in joined.join.clocks().intervals() {
        let [begin, end, origin] =
            [interval.begin, interval.end, interval.origin].map(|stamp| stamp.as_nanos());
        let (base, quality) = (interval.base.delta().as_nanos(), interval.quality.name());
        write!(output, "{begin},{end},{origin},{base},")?;
        for line in [interval.least, interval.most] {
            write!(output, "{},{},", line.offset, line.drift)?;
        }
        writeln!(output, "{quality},{in_step}")?;
    }
    output.flush()
}
