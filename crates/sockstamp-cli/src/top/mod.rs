//! `sockstamp top`: where the time goes, live.
//!
//! [`app`] is the state and its reaction to keys; [`table`] and [`drill`] are its figures;
//! [`screen`] turns them into lines of text. These know neither terminal nor kernel. [`terminal`]
//! and [`feed`] do. One thread runs everything: it waits for keys, and serves the session in
//! between.

mod app;
mod bar;
mod drill;
mod feed;
mod groups;
mod messages;
mod options;
mod pages;
mod paint;
#[cfg(test)]
mod sample;
mod screen;
#[cfg(test)]
mod svg;
mod table;
mod terminal;
#[cfg(test)]
mod tests;
mod units;

use std::env;
use std::io::{self, IsTerminal, Write};
use std::process::ExitCode;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use crossterm::event::{self, Event, KeyEventKind};
use crossterm::terminal as crossterm_terminal;
use ratatui::layout::Size;
use signal_hook::consts::{SIGCONT, SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGTSTP};
use signal_hook::iterator::Signals;
use sockstamp_bpf::plan::Plan;
use sockstamp_bpf::probe;
use sockstamp_model::group::Grouping;

pub use self::options::Options;

use self::app::{Action, App};
use self::feed::Feed;
use self::paint::Paint;
use self::screen::Keys;
use self::terminal::{Screen, bounded};
use crate::colour;
use crate::measure::{Measurement, Recorded};

/// Longest delay in noticing a key, a signal or a record.
const STEP: Duration = Duration::from_millis(50);
/// The size of a terminal that does not report its size.
const USUAL: Size = Size::new(80, 24);

pub(crate) fn run(options: &Options) -> Result<ExitCode> {
    if !options.once {
        require_terminal()?;
    }
    let signals =
        Signals::new([SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGTSTP, SIGCONT]).context("cannot catch signals")?;
    let by = Grouping::new(options.by.iter().copied()).context("--by needs a dimension")?;
    let mut wanted = Measurement {
        target: &options.target,
        command: &[],
        duration: options.duration,
        recorded: if options.once {
            Recorded::None
        } else {
            Recorded::All
        },
        groups: Some(by.clone()),
        measuring: &options.measuring,
        tag: false,
    }
    .options()?;
    wanted.max_cost = options.measuring.ceiling(true);
    let facts = probe::facts();
    Plan::new(&facts, &wanted.request())?;
    let feed = Feed::start(facts, &wanted)?;
    let paint = Paint {
        colours: !options.no_color && colour::wanted(),
    };
    let mut top = Top {
        app: App::new(by, options.interval),
        feed,
        signals,
        paint,
    };
    if options.once {
        top.once(options.interval)?;
    } else {
        top.live(options.duration)?;
    }
    Ok(ExitCode::SUCCESS)
}

/// Check the terminal before loading: if there is none to draw on, suggest another way.
fn require_terminal() -> Result<()> {
    if !io::stdout().is_terminal() {
        bail!("standard output is not a terminal: use --once");
    }
    if env::var_os("TERM").is_none_or(|term| term.is_empty() || term == "dumb") {
        bail!("sockstamp cannot draw on this terminal (TERM): use --once");
    }
    Ok(())
}

/// The parts together.
struct Top {
    app: App,
    feed: Feed,
    signals: Signals,
    paint: Paint,
}

impl Top {
    /// Print one interval.
    fn once(&mut self, interval: Duration) -> Result<()> {
        let end = Instant::now() + interval;
        while Instant::now() < end {
            self.feed.poll(STEP.min(end - Instant::now()), |_, _| {})?;
            if self.signals.pending().any(is_end) {
                break;
            }
        }
        self.app.on_snapshot(self.feed.look()?);
        let lines = screen::lines(&self.app, text_size(), self.paint, Keys::None);
        let mut output = io::stdout().lock();
        match output
            .write_all(screen::text(&lines).as_bytes())
            .and_then(|()| output.flush())
        {
            Err(error) if error.kind() != io::ErrorKind::BrokenPipe => Err(error).context("cannot write"),
            _ => Ok(()),
        }
    }

    fn live(&mut self, duration: Option<Duration>) -> Result<()> {
        let mut screen = Screen::open().context("cannot use the terminal")?;
        let end = duration.map(|duration| Instant::now() + duration);
        let mut next = Instant::now() + self.app.interval;
        self.draw(&mut screen)?;
        loop {
            let mut action = self.signal()?;
            if end.is_some_and(|end| Instant::now() >= end) {
                action = Action::Quit;
            }
            let mut changed = false;
            if action == Action::Nothing && event::poll(STEP).context("cannot wait for keys")? {
                action = self.on_event(&event::read().context("cannot read keys")?);
                changed = true;
            }
            let app = &mut self.app;
            self.feed
                .poll(Duration::ZERO, |group, message| app.on_message(group, message))?;
            match action {
                Action::Quit => return Ok(()),
                Action::Suspend => screen.suspend()?,
                Action::Redraw => screen.resume()?,
                Action::Nothing | Action::Look => {}
            }
            if action == Action::Look || Instant::now() >= next {
                self.app.on_snapshot(self.feed.look()?);
                next = Instant::now() + self.app.interval;
                changed = true;
            }
            self.feed.record(self.app.wants_messages());
            if changed || action != Action::Nothing {
                self.draw(&mut screen)?;
            }
        }
    }

    fn draw(&self, screen: &mut Screen) -> Result<()> {
        let size = screen.fit().context("cannot read the size of the terminal")?;
        let lines = screen::lines(&self.app, size, self.paint, Keys::Shown);
        screen.draw(lines).context("cannot draw")
    }

    fn on_event(&mut self, event: &Event) -> Action {
        match event {
            Event::Key(key) if key.kind != KeyEventKind::Release => self.app.on_key(*key),
            _ => Action::Nothing,
        }
    }

    fn signal(&mut self) -> Result<Action> {
        let mut action = Action::Nothing;
        for signal in self.signals.pending() {
            action = match signal {
                _ if is_end(signal) => return Ok(Action::Quit),
                SIGTSTP => Action::Suspend,
                _ => Action::Redraw,
            };
        }
        Ok(action)
    }
}

fn is_end(signal: i32) -> bool {
    [SIGINT, SIGTERM, SIGHUP, SIGQUIT].contains(&signal)
}

/// The terminal's, where there is one.
fn text_size() -> Size {
    if !io::stdout().is_terminal() {
        return USUAL;
    }
    crossterm_terminal::size().map_or(USUAL, |(width, height)| {
        bounded(Size::new(width, height.saturating_sub(1)))
    })
}
