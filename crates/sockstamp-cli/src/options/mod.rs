//! Options that subcommands share, and what they mean.

pub(crate) mod choice;
pub(crate) mod chosen;
pub(crate) mod expert;
pub(crate) mod files;
pub(crate) mod filter;
pub(crate) mod heading;
pub(crate) mod least;
pub(crate) mod live;
pub(crate) mod measuring;
pub(crate) mod processes;
pub(crate) mod slow;
pub(crate) mod source;
pub(crate) mod target;
pub(crate) mod wrong_filter;
