//! The option of colours.

use clap::Args;

use crate::print::colour::{Brush, Color};

/// The option of what prints text.
#[derive(Debug, Clone, Copy, Default, Args)]
pub struct Colours {
    /// Use colours in text
    #[arg(long, value_name = "WHEN", value_enum, default_value_t)]
    pub color: Color,
}

impl Colours {
    /// Return the brush for an output.
    pub(crate) fn brush(self, is_terminal: bool) -> Brush {
        self.color.brush(is_terminal)
    }
}
