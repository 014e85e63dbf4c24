//! The screen of `sockstamp top`: where the time goes, live.
//!
//! `app` is the state and its reaction to keys; `table` and `drill` are its figures;
//! `screen` turns them into lines of text. These know neither terminal nor kernel. `terminal`
//! and `feed` do. One thread runs everything: it waits for keys, signals and the session at once.

#![forbid(unsafe_code)]
// Names that others chose must not reach a terminal as they are: `sockstamp_run::escape` has the
// ways out.
#![deny(clippy::print_stderr, clippy::print_stdout)]

mod app;
mod bar;
mod drill;
mod feed;
mod groups;
mod look;
mod messages;
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
use std::os::fd::AsFd;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use crossterm::event::{self, Event, KeyEventKind, MouseEventKind};
use crossterm::terminal as crossterm_terminal;
use ratatui::layout::Size;
use signal_hook::consts::{SIGCONT, SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGTSTP, SIGWINCH};
use sockstamp_bpf::plan::Plan;
use sockstamp_bpf::{Grouped, Options, probe};
use sockstamp_explain::diagnosis::Scope;
use sockstamp_model::group::Grouping;

use self::app::{Action, App, Page};
use self::feed::Feed;
use self::paint::Paint;
use self::screen::Keys;
use self::terminal::{Input, KeyInput, Screen, bounded};
use sockstamp_print::output::Format;
use sockstamp_run::escape;
use sockstamp_run::signals::{self, Signals};
use sockstamp_run::stall::Watch;

/// Time for a key that has come to be read: crossterm looks at nothing without any.
const MOMENT: Duration = Duration::from_millis(1);
/// The size of a terminal that does not report its size.
const USUAL: Size = Size::new(80, 24);

/// The measurement, and how it is shown.
#[derive(Debug, Clone)]
pub struct Settings {
    /// The measurement. Its groups are those of `by`.
    pub wanted: Options,
    /// The time that is slow, and whose time is asked about.
    pub scope: Scope,
    /// The dimensions of the first screen.
    pub by: Grouping,
    /// The time between two updates.
    pub interval: Duration,
    /// The time after which the screen ends by itself.
    pub duration: Option<Duration>,
    /// Print one interval in this format, and end.
    pub once: Option<Format>,
    /// Draw with colours.
    pub colours: bool,
}

/// Show a measurement until a key, a signal or its duration ends it.
pub fn run(settings: Settings) -> Result<ExitCode> {
    let Settings {
        wanted,
        scope,
        by,
        interval,
        duration,
        once,
        colours,
    } = settings;
    let signals = signals::catch(&[SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGTSTP, SIGCONT, SIGWINCH])?;
    let watch = Watch::begin(duration.is_some(), Arc::default())?;
    watch.relieve_by(terminal::relieve);
    watch.set_deadline(duration.map(|duration| Instant::now() + duration));
    let facts = probe::facts();
    Plan::new(&facts, &wanted.request())?;
    let feed = Feed::start(facts, &wanted, scope)?;
    let mut top = Top {
        app: App::new(by, interval, scope.slow),
        feed,
        signals,
        resized: false,
        paint: Paint { colours },
        wanted,
        scope,
    };
    match once {
        Some(format) => top.once(interval, format)?,
        None => top.live(duration)?,
    }
    Ok(ExitCode::SUCCESS)
}

/// Check the terminal before loading: if there is none to draw on, suggest another way.
pub fn require_terminal() -> Result<()> {
    if !io::stdout().is_terminal() {
        bail!("standard output is not a terminal: use --once");
    }
    if env::var_os("TERM").is_none_or(|term| term.is_empty() || term == "dumb") {
        bail!("top cannot draw on this terminal (TERM): use --once");
    }
    Ok(())
}

/// The parts together.
struct Top {
    app: App,
    feed: Feed,
    signals: Signals,
    /// The picture has another size than the terminal.
    resized: bool,
    paint: Paint,
    /// The measurement, to begin it anew with other groups.
    wanted: Options,
    scope: Scope,
}

impl Top {
    /// Print one interval.
    fn once(&mut self, interval: Duration, format: Format) -> Result<()> {
        let end = Instant::now() + interval;
        while Instant::now() < end {
            let left = end.saturating_duration_since(Instant::now());
            self.feed
                .wait(left, &[self.signals.get_read().as_fd()], |_, _| {})?;
            if self.signals.pending().any(|origin| is_end(origin.signal)) {
                break;
            }
        }
        let snapshot = self.feed.snapshot()?;
        let mut output = io::stdout().lock();
        let written = match format {
            Format::Text => {
                self.app.on_snapshot(snapshot);
                let lines = screen::lines(&self.app, text_size(), self.paint, Keys::None);
                output.write_all(screen::text(&lines).as_bytes())
            }
            Format::Json => escape::json(&mut output, &snapshot.into_summary())
                .map_err(io::Error::from)
                .and_then(|()| writeln!(output)),
        };
        match written.and_then(|()| output.flush()) {
            Err(error) if error.kind() != io::ErrorKind::BrokenPipe => {
                Err(error).context("cannot write")
            }
            _ => Ok(()),
        }
    }

    fn live(&mut self, duration: Option<Duration>) -> Result<()> {
        let mut screen = Screen::open().context("cannot use the terminal")?;
        let keys = KeyInput::open().context("cannot use the terminal")?;
        let end = duration.map(|duration| Instant::now() + duration);
        let mut next = Instant::now() + self.app.interval;
        self.draw(&mut screen)?;
        // After an event there may be another one, which was read from the terminal already.
        let mut again = false;
        loop {
            let mut action = self.signal()?;
            let input = keys.poll().context("cannot wait for keys")?;
            if end.is_some_and(|end| Instant::now() >= end) || input == Input::Gone {
                action = Action::Quit;
            }
            let may_read = action == Action::Nothing && (again || input == Input::Some);
            let event = if may_read { event()? } else { None };
            again = event.is_some();
            action = event.map_or(action, |event| self.on_event(&event));
            match action {
                Action::Quit => return Ok(()),
                Action::Suspend => screen.suspend()?,
                Action::Redraw => screen.resume()?,
                Action::Regroup => {
                    self.wanted.groups = Some(Grouped::by(self.app.by.clone()));
                    self.feed.restart(&self.wanted, self.scope)?;
                    // A session may tell what it leaves alone.
                    screen.resume()?;
                }
                Action::Nothing | Action::Refresh => {}
            }
            let begins = [Action::Refresh, Action::Regroup].contains(&action);
            let is_due = begins || Instant::now() >= next;
            if is_due {
                self.app.on_snapshot(self.feed.snapshot()?);
                next = Instant::now() + self.app.interval;
            }
            if is_due || self.app.lacks_page() {
                self.fill_page()?;
            }
            self.feed.record(self.app.wants_messages());
            if is_due || again || action != Action::Nothing || std::mem::take(&mut self.resized) {
                self.draw(&mut screen)?;
            }
            let due = end.map_or(next, |end| end.min(next));
            self.wait(&keys, if again { Instant::now() } else { due })?;
        }
    }

    /// Get what the page over the view shows, beside the counters.
    fn fill_page(&mut self) -> Result<()> {
        match (self.app.page, self.app.summary()) {
            (Some(Page::Waits), _) => {
                let look = self.feed.look()?;
                self.app.on_look(look);
            }
            (Some(Page::Counters), Some(summary)) => {
                let diagnosis = self.feed.diagnose(summary)?;
                self.app.on_diagnosis(diagnosis);
            }
            _ => {}
        }
        Ok(())
    }

    /// Wait for a key, a signal, a message or this moment.
    fn wait(&mut self, keys: &KeyInput, until: Instant) -> Result<()> {
        let others = [keys.as_fd(), self.signals.get_read().as_fd()];
        let app = &mut self.app;
        self.feed.wait(
            until.saturating_duration_since(Instant::now()),
            &others,
            |group, message| {
                app.on_message(group, message);
            },
        )
    }

    fn draw(&self, screen: &mut Screen) -> Result<()> {
        let size = screen
            .fit()
            .context("cannot read the size of the terminal")?;
        let lines = screen::lines(&self.app, size, self.paint, Keys::Shown);
        screen.draw(lines).context("cannot draw")
    }

    fn on_event(&mut self, event: &Event) -> Action {
        match event {
            Event::Key(key) if key.kind != KeyEventKind::Release => self.app.on_key(*key),
            Event::Mouse(mouse) => {
                match mouse.kind {
                    MouseEventKind::ScrollDown => self.app.on_wheel(true),
                    MouseEventKind::ScrollUp => self.app.on_wheel(false),
                    _ => {}
                }
                Action::Nothing
            }
            _ => Action::Nothing,
        }
    }

    fn signal(&mut self) -> Result<Action> {
        let mut action = Action::Nothing;
        for signal in self.signals.pending().map(|origin| origin.signal) {
            action = match signal {
                _ if is_end(signal) => return Ok(Action::Quit),
                SIGTSTP => Action::Suspend,
                SIGWINCH => {
                    self.resized = true;
                    action
                }
                _ => Action::Redraw,
            };
        }
        Ok(action)
    }
}

/// Return the event that has come, if it is complete.
fn event() -> Result<Option<Event>> {
    let has_come = event::poll(MOMENT).context("cannot wait for keys")?;
    has_come
        .then(|| event::read().context("cannot read keys"))
        .transpose()
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
