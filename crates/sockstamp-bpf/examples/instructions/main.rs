//! Count the instructions of a message while this measures, in a guest whose clock counts them: one
//! a nanosecond. Messages are those of TCP, except in rows `sockstamp.udp.…`.
//!
//! Print the compiler of the programs, then a line per row: name, instructions per message,
//! programs run per message; `lacking` if the kernel lacks the feature of the row. Both ends are in
//! one thread, over loopback, as in `kernel/series/count`: a message is sent, acknowledged and
//! read. Given the path of `sockstamp`, also count with that command next to the traffic
//! (`command.rs`). With `--programs ROW…` count only these rows, and print how often each program
//! ran per message and its instructions, including those of the kernel's account of it. With
//! `--beside COMMAND…` count while another tool runs. With `--windows` print how long attaching
//! and detaching takes per window of measuring. Root.

mod command;
mod traffic;

use std::num::NonZeroU32;
use std::os::fd::AsRawFd;
use std::path::Path;
use std::time::{Duration, Instant};
use std::{env, fs};

use sockstamp_bpf::{EntryHook, Error, Hooks, Options, ProgramCost, Sampling, Session, Target};
use sockstamp_host::cgroup;

use traffic::{Kind, LARGE, SMALL, Traffic};

/// Messages before the first that count, so that the connection's window has grown.
const WARM_UP: u64 = 200;
/// Messages of a batch, and batches, of which the median counts.
const BATCH: u64 = 200;
const BATCHES: usize = 5;
/// The time in which a session attaches programs that it needs.
const POLLS: u32 = 10;
const POLL: Duration = Duration::from_millis(10);

fn main() -> Result<(), Error> {
    println!("# clang {}", env!("CLANG_VERSION"));
    let words: Vec<String> = env::args().skip(1).collect();
    if let Some(("--programs", wanted)) = words
        .split_first()
        .map(|(word, rest)| (word.as_str(), rest))
    {
        return tell_programs(wanted);
    }
    if let Some(("--beside", command)) = words
        .split_first()
        .map(|(word, rest)| (word.as_str(), rest))
    {
        command::report_beside(command);
        return Ok(());
    }
    if words.first().is_some_and(|word| word == "--windows") {
        return tell_windows();
    }
    for name in ["sockstamp.nothing", "sockstamp.udp.nothing"] {
        report(name, Some(count(None, kind(name))));
    }
    for (name, options) in rows() {
        let counted = match Session::start(&options) {
            Ok(mut session) => Some(count(Some(&mut session), kind(name))),
            Err(Error::Plan(_)) => None,
            Err(error) => return Err(error),
        };
        report(name, counted);
    }
    if let Some(sockstamp) = words.first() {
        command::report_all(Path::new(sockstamp));
    }
    Ok(())
}

fn tell_programs(wanted: &[String]) -> Result<(), Error> {
    for (name, options) in rows() {
        if !wanted.iter().any(|wanted| wanted == name) {
            continue;
        }
        let mut session = Session::start(&options)?;
        report(name, Some(count(Some(&mut session), kind(name))));
        let mut traffic = Traffic::new(kind(name));
        warm_up(&mut traffic, Some(&mut session));
        for (program, account) in accounts(&session, &mut traffic) {
            if account.runs > 0 {
                let [runs, time] =
                    [account.runs, account.time].map(|sum| sum as f64 / BATCH as f64);
                println!("    {program:<30} {time:>7.0} {runs:>8.3}");
            }
        }
    }
    Ok(())
}

/// Windows of measuring that count.
const WINDOWS: u64 = 20;

/// Print nanoseconds per window: instructions of all CPUs, where the clock counts them.
fn tell_windows() -> Result<(), Error> {
    let options = Options {
        windows: NonZeroU32::new(4),
        ..selected()
    };
    let mut session = Session::start(&options)?;
    let windows = loop {
        session.poll(Duration::from_millis(100), &mut drop)?;
        let windows = session.summary().windows.unwrap_or_default();
        if windows.count >= WINDOWS {
            break windows;
        }
    };
    for (name, time) in [("attach", windows.attaching), ("detach", windows.detaching)] {
        println!("windows.{name:<26} {:>7}", time.0 / windows.count);
    }
    Ok(())
}

/// Return the messages of a row.
fn kind(name: &str) -> Kind {
    if name.starts_with("sockstamp.udp.") {
        Kind::Udp
    } else if name.ends_with(".large") {
        Kind::Tcp(LARGE)
    } else {
        Kind::Tcp(SMALL)
    }
}

fn rows() -> Vec<(&'static str, Options)> {
    let by = |entry| Options {
        entry,
        ..selected()
    };
    vec![
        ("sockstamp.unselected", unselected()),
        (
            "sockstamp.unselected.tcp",
            Options {
                target: Target {
                    filter: Some("tcp".parse().expect("a filter")),
                    ..nobody()
                },
                ..Options::default()
            },
        ),
        (
            "sockstamp.passed-over",
            Options {
                sampling: Sampling::OneIn(u32::MAX),
                ..selected()
            },
        ),
        ("sockstamp.measured", selected()),
        (
            "sockstamp.recorded",
            Options {
                record: true,
                ..selected()
            },
        ),
        ("sockstamp.in-step", in_step(false)),
        ("sockstamp.in-step.tagged", in_step(true)),
        ("sockstamp.in-step.large", in_step(false)),
        ("sockstamp.in-step.tagged.large", in_step(true)),
        (
            "sockstamp.unselected.no-causes",
            Options {
                causes: false,
                ..unselected()
            },
        ),
        (
            "sockstamp.passed-over.no-causes",
            Options {
                causes: false,
                sampling: Sampling::OneIn(u32::MAX),
                ..selected()
            },
        ),
        (
            "sockstamp.measured.no-causes",
            Options {
                causes: false,
                ..selected()
            },
        ),
        ("sockstamp.udp.unselected", unselected()),
        (
            "sockstamp.udp.passed-over",
            Options {
                sampling: Sampling::OneIn(u32::MAX),
                ..selected()
            },
        ),
        ("sockstamp.udp.measured", selected()),
        ("sockstamp.entry-by-tracepoint", by(EntryHook::Tracepoint)),
        ("sockstamp.entry-by-option-length", by(EntryHook::Callback)),
        ("sockstamp.entry-by-callback", by(EntryHook::Begin)),
        (
            "sockstamp.by-fentry",
            Options {
                hooks: Hooks::Older,
                ..selected()
            },
        ),
        (
            "sockstamp.by-fentry.unselected",
            Options {
                hooks: Hooks::Older,
                ..unselected()
            },
        ),
    ]
}

/// Measure every flow, this process's among them.
fn selected() -> Options {
    with(Target {
        cgroup: cgroup::mount(),
        ..Target::default()
    })
}

/// Measure what holds a multiple of 64 kB, with tags or without.
fn in_step(tag: bool) -> Options {
    Options {
        sampling: Sampling::InStep { bits: 16, cap: 100 },
        tag,
        ..selected()
    }
}

/// Measure none.
fn unselected() -> Options {
    with(nobody())
}

fn nobody() -> Target {
    Target {
        comms: vec!["no such task".into()],
        ..Target::default()
    }
}

fn with(target: Target) -> Options {
    Options {
        target,
        ..Options::default()
    }
}

/// Return instructions and program runs per message.
fn count(mut session: Option<&mut Session>, kind: Kind) -> (u128, f64) {
    let mut traffic = Traffic::new(kind);
    warm_up(&mut traffic, session.as_deref_mut());
    let mut batches = [(); BATCHES].map(|()| {
        let begun = Instant::now();
        traffic.pass(BATCH);
        begun.elapsed().as_nanos() / u128::from(BATCH)
    });
    batches.sort_unstable();
    (
        batches[BATCHES / 2],
        session.map_or(0.0, |session| runs(session, &mut traffic)),
    )
}

/// After the first datagram of a followed socket, the session attaches programs.
fn warm_up(traffic: &mut Traffic, session: Option<&mut Session>) {
    traffic.pass(1);
    if let (Some(session), true) = (session, traffic.is_udp()) {
        for _ in 0..POLLS {
            session.poll(POLL, &mut drop).expect("a poll");
        }
    }
    traffic.pass(WARM_UP);
}

fn runs(session: &Session, traffic: &mut Traffic) -> f64 {
    let runs: u64 = accounts(session, traffic)
        .iter()
        .map(|(_, account)| account.runs)
        .sum();
    runs as f64 / BATCH as f64
}

/// The kernel's account of a program.
struct Account {
    runs: u64,
    time: u64,
}

/// Return the accounts of a batch, by program. Keeping them costs instructions itself.
fn accounts(session: &Session, traffic: &mut Traffic) -> Vec<(String, Account)> {
    let account = ProgramCost::keep_account().expect("root");
    let before = accounts_so_far(session);
    traffic.pass(BATCH);
    let after = accounts_so_far(session);
    drop(account);
    let both = before.into_iter().zip(after);
    both.map(|((name, before), (_, after))| {
        let runs = after.runs - before.runs;
        let time = after.time - before.time;
        (name, Account { runs, time })
    })
    .collect()
}

/// `bpf_prog_show_fdinfo()`, kernel/bpf/syscall.c, v6.18.
fn accounts_so_far(session: &Session) -> Vec<(String, Account)> {
    let of = |descriptor| {
        let text =
            fs::read_to_string(format!("/proc/self/fdinfo/{descriptor}")).expect("an account");
        let number = |key| {
            let value = text.lines().find_map(|line| line.strip_prefix(key));
            value
                .and_then(|value| value.trim().parse::<u64>().ok())
                .expect("a number")
        };
        Account {
            runs: number("run_cnt:"),
            time: number("run_time_ns:"),
        }
    };
    let programs = session.programs().into_iter();
    programs
        .map(|(name, program)| (name, of(program.as_raw_fd())))
        .collect()
}

fn report(name: &str, counted: Option<(u128, f64)>) {
    match counted {
        Some((instructions, runs)) => println!("{name:<34} {instructions:>7} {runs:>8.3}"),
        None => println!("{name:<34} lacking"),
    }
}
