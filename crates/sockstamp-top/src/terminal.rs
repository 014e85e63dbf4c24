//! The terminal: taken over, given back however the program ends, and drawn on.

use std::fs::File;
use std::io::{self, IsTerminal, Stdout, Write, stdout};
use std::mem::ManuallyDrop;
use std::os::fd::{AsFd, BorrowedFd};
use std::panic;
use std::sync::Once;
use std::sync::atomic::{AtomicBool, Ordering};

use crossterm::event::{DisableMouseCapture, EnableMouseCapture};
use crossterm::terminal::{EnterAlternateScreen, LeaveAlternateScreen};
use crossterm::{cursor, execute, terminal};
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use ratatui::backend::CrosstermBackend;
use ratatui::layout::{Position, Rect, Size};
use ratatui::text::{Line, Text};
use ratatui::{Terminal, TerminalOptions, Viewport};
use rustix::termios::{QueueSelector, tcflush};

/// The terminal is ours at the moment. It makes sure that it is restored only once.
static OURS: AtomicBool = AtomicBool::new(false);

/// The largest screen: the text of an 8K display in a small font. A terminal's user sets its size
/// (TIOCSWINSZ), up to 65535 by 65535, and two screens are kept, of about 40 bytes per cell.
const LARGEST: Size = Size::new(1280, 540);

/// Bound the size of the picture.
pub(super) fn bounded(size: Size) -> Size {
    Size::new(
        size.width.min(LARGEST.width),
        size.height.min(LARGEST.height),
    )
}

/// The input that has come from a terminal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Input {
    None,
    Some,
    /// The terminal was closed: a wait for it would end at once, for ever.
    Gone,
}

/// The terminal from which keys come, to wait for them.
#[derive(Debug)]
pub(super) struct KeyInput(File);

impl KeyInput {
    /// Open the terminal from which crossterm reads: standard input, or else the one that controls
    /// the process.
    pub(super) fn open() -> io::Result<Self> {
        let input = io::stdin();
        match input.is_terminal() {
            true => input
                .as_fd()
                .try_clone_to_owned()
                .map(|input| Self(input.into())),
            false => File::open("/dev/tty").map(Self),
        }
    }

    /// Return whether something has come.
    pub(super) fn poll(&self) -> io::Result<Input> {
        let mut watched = [PollFd::new(self.0.as_fd(), PollFlags::POLLIN)];
        poll(&mut watched, PollTimeout::ZERO)?;
        Ok(match watched[0].revents().unwrap_or(PollFlags::empty()) {
            events if events.is_empty() => Input::None,
            events if events == PollFlags::POLLIN => Input::Some,
            _ => Input::Gone,
        })
    }
}

impl AsFd for KeyInput {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

/// The terminal while it is ours; dropping it gives it back.
#[derive(Debug)]
pub(super) struct Screen {
    /// Not dropped: it would show the cursor again, which is done here, and panic where neither the
    /// terminal nor standard error is there any more.
    terminal: ManuallyDrop<Terminal<CrosstermBackend<Stdout>>>,
}

impl Screen {
    /// Take over the terminal. From now on a panic restores it before it prints its message.
    pub(super) fn open() -> io::Result<Self> {
        give_back_on_panic();
        take()?;
        match draw_on_terminal() {
            Ok(terminal) => Ok(Self {
                terminal: ManuallyDrop::new(terminal),
            }),
            Err(error) => {
                give_back()?;
                Err(error)
            }
        }
    }

    /// Fit the picture to the terminal; return its size.
    pub(super) fn fit(&mut self) -> io::Result<Size> {
        let size = bounded(self.terminal.size()?);
        if self.terminal.get_frame().area().as_size() != size {
            self.terminal.resize(Rect::from((Position::ORIGIN, size)))?;
        }
        Ok(size)
    }

    /// Draw the differences from the last screen.
    pub(super) fn draw(&mut self, lines: Vec<Line<'static>>) -> io::Result<()> {
        let text = Text::from(lines);
        self.terminal
            .draw(|frame| frame.render_widget(&text, frame.area()))?;
        Ok(())
    }

    /// Forget the last screen: other output may have overwritten it.
    pub(super) fn redraw(&mut self) -> io::Result<()> {
        // Not by clear(): it asks the terminal where its cursor is, and fails if no answer comes.
        let area = self.terminal.get_frame().area();
        self.terminal.resize(area)
    }

    /// Restore the terminal and stop the process group; take over the terminal again when it
    /// continues.
    pub(super) fn suspend(&mut self) -> io::Result<()> {
        give_back()?;
        // All of the group, as the terminal does it: a script that runs us would go on to wait.
        kill(Pid::from_raw(0), Signal::SIGSTOP)?;
        self.resume()
    }

    /// Take over the terminal again: while we were stopped, a shell has set its modes.
    pub(super) fn resume(&mut self) -> io::Result<()> {
        give_back()?;
        take()?;
        self.redraw()
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        // A terminal that no longer exists needs nothing.
        let _ = give_back();
    }
}

/// Use a viewport of bounded size: one of the whole terminal takes memory for any size it claims.
fn draw_on_terminal() -> io::Result<Terminal<CrosstermBackend<Stdout>>> {
    let viewport = Viewport::Fixed(Rect::default());
    Terminal::with_options(
        CrosstermBackend::new(stdout()),
        TerminalOptions { viewport },
    )
}

fn take() -> io::Result<()> {
    OURS.store(true, Ordering::SeqCst);
    let taken = terminal::enable_raw_mode().and_then(|()| {
        execute!(
            stdout(),
            EnterAlternateScreen,
            EnableMouseCapture,
            cursor::Hide
        )
    });
    if taken.is_err() {
        give_back()?;
    }
    taken
}

fn give_back() -> io::Result<()> {
    if !OURS.swap(false, Ordering::SeqCst) {
        return Ok(());
    }
    // Both, whatever becomes of the other.
    let left = execute!(
        stdout(),
        DisableMouseCapture,
        LeaveAlternateScreen,
        cursor::Show
    );
    terminal::disable_raw_mode().and(left)?;
    stdout().flush()
}

/// Leave room on a terminal that takes nothing, as of a connection that hangs: what it has not
/// shown is lost, so that the thread that draws can end, and give the terminal back. Its modes are
/// given back at once, whatever becomes of that thread.
pub(super) fn relieve() {
    if !OURS.load(Ordering::SeqCst) {
        return;
    }
    // A terminal that no longer exists needs nothing.
    let _ = terminal::disable_raw_mode();
    let _ = tcflush(stdout(), QueueSelector::OFlush);
    // The thread sleeps for the reader, which has not read: a signal has it look again.
    let _ = kill(Pid::this(), Signal::SIGWINCH);
}

fn give_back_on_panic() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let previous = panic::take_hook();
        panic::set_hook(Box::new(move |report| {
            let _ = give_back();
            previous(report);
        }));
    });
}

#[cfg(test)]
mod tests {
    use std::env;

    use testbed::Tmux;

    use super::*;

    const NAME: &str = "terminal::tests::a_panic_gives_the_terminal_back";
    const CRASH: &str = "SOCKSTAMP_TEST_CRASH";

    /// This test is two programs: the one that crashes on the terminal, and the one that looks on.
    #[test]
    fn a_panic_gives_the_terminal_back() {
        if env::var_os(CRASH).is_some() {
            let mut screen = Screen::open().unwrap();
            screen.fit().unwrap();
            screen.draw(vec![Line::raw("a picture")]).unwrap();
            panic!("the crash of the test");
        }
        let wait = std::time::Duration::from_secs(20);
        let tmux = Tmux::new(80, 24).unwrap();
        tmux.type_line("before=$(stty -g)").unwrap();
        let program = env::current_exe().unwrap();
        tmux.type_line(&format!(
            "RUST_BACKTRACE=0 {CRASH}=1 {} --exact {NAME} --nocapture; \
             [ \"$before\" = \"$(stty -g)\" ] && echo modes as before",
            program.display()
        ))
        .unwrap();
        let screen = tmux.wait_for("\nmodes as before", wait).unwrap();
        assert!(screen.contains("the crash of the test"), "{screen}");
        assert!(!screen.contains("a picture"), "{screen}");
        assert_eq!(tmux.state("alternate_on").unwrap(), "0");
        assert_eq!(tmux.state("cursor_flag").unwrap(), "1");
    }
}
