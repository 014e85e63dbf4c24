//! `sockstamp join`: whole lives of messages, from the recordings of both hosts.

mod halves;
mod joined;
mod json;
mod lives;
mod offsets;
mod options;
mod sums;
mod text;
mod waterfall;

use std::collections::HashSet;
use std::fs;
use std::io::{self, IsTerminal, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, Result, bail};
use sockstamp_print::output::{Format, is_stdout};
use sockstamp_print::wrong_use::WrongUse;

use crate::options::files::{one_or_several, with_filter};
use crate::recordings::{all_files, identity};

use joined::Joined;
use lives::Lives;
pub use options::Options;

pub(crate) fn run(options: &Options) -> Result<ExitCode> {
    let (seconds, filter) = with_filter(&options.seconds, &options.filter, "join")?;
    let paths = [
        all_files(&one_or_several(&options.first, &options.firsts))?,
        all_files(&one_or_several(&options.second, &seconds))?,
    ];
    let choice = options.chosen.choice(&filter);
    refuse_one_for_both(&paths)?;
    let outputs = [&options.output, &options.lives, &options.clocks];
    refuse_one_twice(outputs.map(|path| path.as_deref()))?;
    if options.output.as_deref().is_some_and(is_stdout) {
        return Err(
            WrongUse("-o - is a recording, which is a file: write --lives -".to_owned()).into(),
        );
    }
    let mut lives = Lives::create(options, &paths.concat())?;
    let joined = Joined::of(options, &paths, &choice, &mut |life| lives.write(life))?;
    let apart = text::apart(&joined.hosts).filter(|_| joined.is_empty());
    // Without a joined message, files of earlier ones stay.
    if apart.is_none() {
        lives.finish()?;
        if let Some(path) = &options.clocks {
            offsets::write(path, &paths.concat(), &joined)?;
        }
    }
    // The table makes way for what `-` names.
    let is_taken = outputs.into_iter().flatten().any(|path| is_stdout(path));
    let (mut output, is_terminal): (Box<dyn Write>, _) = match is_taken {
        true => (Box::new(io::stderr()), io::stderr().is_terminal()),
        false => (Box::new(io::stdout()), io::stdout().is_terminal()),
    };
    let brush = options.colours.brush(is_terminal);
    let printed = match options.format {
        Format::Text => text::all(&mut output, &joined, brush),
        Format::Json => json::all(&mut output, &joined),
    };
    match printed {
        // A reader that has seen enough is no failure.
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => {
            Err(error).context("cannot print")
        }
        _ => match apart {
            Some(apart) => bail!("nothing was joined: {apart}"),
            None => Ok(ExitCode::SUCCESS),
        },
    }
}

/// Refuse a file as a recording of both hosts: a message is sent by one and read by the other.
fn refuse_one_for_both([first, second]: &[Vec<PathBuf>; 2]) -> Result<()> {
    let of_first: HashSet<_> = first.iter().filter_map(|path| identity(path)).collect();
    let is_of_both = |path: &&PathBuf| identity(path).is_some_and(|file| of_first.contains(&file));
    match second.iter().find(is_of_both) {
        Some(path) => bail!(
            "{} is named as a recording of both hosts: name one recording of each host",
            path.display()
        ),
        None => Ok(()),
    }
}

/// Refuse a file for two outputs: the later one would replace the other. A pipe or a device takes
/// both.
fn refuse_one_twice(outputs: [Option<&Path>; 3]) -> Result<()> {
    let mut places = HashSet::new();
    for path in outputs.into_iter().flatten() {
        let is_file = path.metadata().map_or(true, |there| there.is_file());
        if is_file && !places.insert(place(path)) {
            bail!(
                "{} is named for two outputs: write each to a file of its own",
                path.display()
            );
        }
    }
    Ok(())
}

/// Return a path without links, also that of a file to create.
fn place(path: &Path) -> PathBuf {
    let created = || {
        let directory = match path.parent() {
            Some(parent) if parent != Path::new("") => parent,
            _ => Path::new("."),
        };
        let directory = fs::canonicalize(directory)?;
        io::Result::Ok(directory.join(path.file_name().unwrap_or_default()))
    };
    fs::canonicalize(path)
        .or_else(|_| created())
        .unwrap_or_else(|_| path.to_owned())
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use tempfile::tempdir;

    use super::*;

    #[test]
    fn a_file_is_no_recording_of_both_hosts() {
        let directory = tempdir().unwrap();
        let [a, b, link] = ["a", "b", "link"].map(|name| directory.path().join(name));
        fs::write(&a, "a").unwrap();
        fs::write(&b, "b").unwrap();
        symlink(&a, &link).unwrap();
        assert!(refuse_one_for_both(&[vec![a.clone()], vec![b.clone()]]).is_ok());
        for same in [&a, &link] {
            let paths = [vec![a.clone()], vec![b.clone(), same.clone()]];
            let told = refuse_one_for_both(&paths).unwrap_err().to_string();
            assert!(told.contains("a recording of both hosts"), "{told}");
        }
    }

    #[test]
    fn a_file_takes_one_output() {
        let directory = tempdir().unwrap();
        let [x, y, link] = ["x", "y", "link"].map(|name| directory.path().join(name));
        let refuse =
            |outputs: [&Path; 2]| refuse_one_twice([Some(outputs[0]), None, Some(outputs[1])]);
        assert!(refuse([&x, &y]).is_ok());
        assert!(refuse([&x, &x]).is_err());
        assert!(refuse([&x, &directory.path().join("./x")]).is_err());
        fs::write(&x, "before").unwrap();
        symlink(&x, &link).unwrap();
        let told = refuse([&x, &link]).unwrap_err().to_string();
        assert!(told.contains("is named for two outputs"), "{told}");
        assert!(refuse([Path::new("/dev/null"); 2]).is_ok());
    }
}
