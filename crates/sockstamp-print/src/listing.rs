//! Everything that waits now, as a list.

use sockstamp_bpf::stuck::{Look, Open, OpenUnix};
use sockstamp_model::clock::Nanos;
use sockstamp_model::flow::NetnsInode;

use crate::colour::Brush;
use crate::numbers::counted;
use crate::open_waits::{self, Places};
use crate::peers::{self, Peer, Peers};

/// The waits that no look can know.
const UNSEEN: &str = "open questions over UDP, and those that event loops behind Unix sockets have \
                      read, leave nothing to see";

/// Return what waits long enough, the oldest first.
pub fn listed(look: &Look, slow: Nanos) -> Vec<&Open> {
    let long = |open: &&Open| open.wait.lasted >= slow;
    look.open.iter().filter(long).collect()
}

/// Do the same for Unix sockets.
pub fn listed_unix(look: &Look, slow: Nanos) -> Vec<&OpenUnix> {
    let long = |open: &&OpenUnix| open.wait.lasted >= slow;
    look.unix.iter().filter(long).collect()
}

/// Return the network namespaces of what waits long enough.
pub fn namespaces(look: &Look, slow: Nanos) -> impl Iterator<Item = NetnsInode> + Clone {
    let all = listed(look, slow)
        .into_iter()
        .map(|open| open.wait.flow.netns);
    let of_unix = listed_unix(look, slow)
        .into_iter()
        .map(|open| open.wait.netns);
    let all: Vec<_> = all.chain(of_unix).collect();
    all.into_iter()
}

/// Return what waits as lines, and how many there are, or none; if asked, `why` below each.
pub fn lines(
    slow: Nanos,
    look: &Look,
    listed: &[&Open],
    peers: &Peers,
    places: &Places,
    why: bool,
    brush: Brush,
) -> Vec<String> {
    let of_tcp = listed.iter().map(|open| {
        let peer = peers.get(&open.wait).map(Peer::words);
        let line = open_waits::line(open, places, brush) + &peer.unwrap_or_default();
        let reasons = why.then(|| open_waits::why(&open.wait));
        let lines = [line].into_iter().chain(reasons.into_iter().flatten());
        (open.wait.since, lines.collect::<Vec<_>>())
    });
    let of_unix = listed_unix(look, slow).into_iter().map(|open| {
        let peer = peers.of_unix(open).map(Peer::words);
        let server = peer.unwrap_or_else(|| peers::server(open));
        let line = open_waits::unix_line(open, places, brush) + &server;
        (open.wait.since, vec![line])
    });
    let mut all: Vec<_> = of_tcp.chain(of_unix).collect();
    all.sort_by_key(|(since, _)| *since);
    let lines = all.into_iter().flat_map(|(_, lines)| lines);
    lines.chain([count(look, listed, slow)]).collect()
}

/// Return the waits that may have lasted for this long, and are not known to.
pub fn doubtful(look: &Look, slow: Nanos) -> impl Iterator<Item = &Open> {
    let is_so = move |open: &&Open| open.at_least && open.wait.lasted < slow;
    look.open.iter().filter(is_so)
}

/// Return the count of waits, as far as it is known.
fn count(look: &Look, listed: &[&Open], slow: Nanos) -> String {
    let unknown: Vec<Nanos> = doubtful(look, slow).map(|open| open.wait.lasted).collect();
    let (known, unknown) = match unknown.iter().max() {
        None => (" waits", String::new()),
        Some(least) => (
            " is known to wait",
            of_unknown_age(unknown.len(), *least, slow),
        ),
    };
    let count = match listed.len() + listed_unix(look, slow).len() {
        0 => format!("nothing{known} {slow} or longer"),
        count => format!("{} of {slow} or longer", counted(count as u64, "wait")),
    };
    let sockets = counted(look.visited, "TCP socket");
    format!("{count}{unknown} on {sockets}; {UNSEEN}")
}

/// Tell of waits that may be longer.
fn of_unknown_age(count: usize, least: Nanos, slow: Nanos) -> String {
    let one_of_them = if count > 1 { "one of them " } else { "" };
    format!(
        ", and {count} for an unknown time, {one_of_them}at least {least} (stuck --for {} tells),",
        typed(slow)
    )
}

/// Return a time as options take it.
fn typed(time: Nanos) -> String {
    let units = [(1_000_000_000, "s"), (1_000_000, "ms"), (1_000, "us")];
    let whole = units
        .into_iter()
        .find(|(unit, _)| time.0.is_multiple_of(*unit));
    let (unit, name) = whole.unwrap_or((1_000, "us"));
    format!("{}{name}", time.0.div_ceil(unit))
}
