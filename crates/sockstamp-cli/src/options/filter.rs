//! The filter expression among the arguments: its words may be one argument each or one together,
//! as with tcpdump(8).

use clap::error::ErrorKind;
use clap::{Arg, ArgMatches, Args, Command, Error, FromArgMatches};
use sockstamp_model::filter::{Filter, FilterError};

/// The heading of the options that select messages.
pub(crate) const HEADING: &str = "Target";

const ID: &str = "filter";
const HELP: &str = "Messages of flows that match, in the syntax of pcap-filter(7): tcp, udp, ip, ip6, \
    [src|dst] host|net|port|portrange VALUE, and, or, not, parentheses; src is the end that sends a message";

/// The first word of a filter is one of these: pcap-filter(7).
pub(crate) const FILTER_WORDS: [&str; 13] = [
    "tcp",
    "udp",
    "ip",
    "ip6",
    "src",
    "dst",
    "host",
    "net",
    "port",
    "portrange",
    "not",
    "and",
    "or",
];

/// The parsed words; no words mean no filter.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct FilterWords(pub Option<Filter>);

impl FilterWords {
    pub(crate) fn read(text: &str) -> Result<Self, FilterError> {
        if text.trim().is_empty() {
            return Ok(Self(None));
        }
        text.parse().map(|filter| Self(Some(filter)))
    }
}

impl FromArgMatches for FilterWords {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, Error> {
        let words = matches.get_many::<String>(ID).unwrap_or_default();
        let text = words.map(String::as_str).collect::<Vec<_>>().join(" ");
        Self::read(&text).map_err(|error| Error::raw(ErrorKind::ValueValidation, error))
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}

impl Args for FilterWords {
    fn augment_args(command: Command) -> Command {
        let words = Arg::new(ID).value_name("FILTER").num_args(0..);
        command.arg(words.help(HELP).help_heading(HEADING))
    }

    fn augment_args_for_update(command: Command) -> Command {
        Self::augment_args(command)
    }
}
