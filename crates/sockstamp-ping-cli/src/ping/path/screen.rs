//! The live view: a screen that is drawn again and again, and left as it was.

use std::io::{self, IsTerminal, Write};

/// The terminal's other screen (xterm's private mode 1049), until it is dropped.
#[derive(Debug)]
pub(super) struct Screen;

impl Screen {
    /// Return none if standard output is no terminal.
    pub(super) fn open() -> Option<Self> {
        let mut output = io::stdout();
        let is_open = output.is_terminal() && output.write_all(b"\x1b[?1049h\x1b[?25l").is_ok();
        is_open.then(|| Self)
    }

    /// Draw from the upper left corner.
    pub(super) fn draw(&mut self, text: &[u8]) -> io::Result<()> {
        let mut output = io::stdout().lock();
        output.write_all(b"\x1b[H")?;
        for line in text.split(|byte| *byte == b'\n') {
            output.write_all(line)?;
            output.write_all(b"\x1b[K\r\n")?;
        }
        output.write_all(b"\x1b[J")?;
        output.flush()
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        // Ignore the error: the terminal is gone.
        let _ = io::stdout().write_all(b"\x1b[?25h\x1b[?1049l");
        let _ = io::stdout().flush();
    }
}
