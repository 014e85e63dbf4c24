//! The answers of each hop of a path, and the meaning of its loss.

use std::net::IpAddr;

use sockstamp_model::clock::Nanos;
use sockstamp_model::histogram::Histogram;

use super::super::jitter::Jitter;
use super::super::spread::Spread;

/// The answers to the probes with one hop limit.
#[derive(Debug, Default)]
pub(super) struct Hop {
    pub(super) answered: u64,
    pub(super) lost: u64,
    pub(super) late: u64,
    pub(super) not_sent: u64,
    /// The addresses that answered, and how often: several where the route changed, or load is
    /// shared by packet.
    pub(super) addresses: Vec<(IpAddr, u64)>,
    pub(super) rtt: Histogram,
    pub(super) spread: Spread,
    pub(super) jitter: Jitter,
    /// All answers are ICMP errors, whose rate hosts and routers limit.
    pub(super) by_errors: bool,
    /// Why the path ends here, short of its target.
    pub(super) refused: Option<String>,
}

/// The meaning of the loss of a hop.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Verdict {
    /// No loss, or as little as chance explains.
    Clean,
    /// Later hops lose less: the hop forwards, and does not always answer.
    Limited,
    /// A hop that answers no probe, and forwards.
    Silent,
    /// The first hop by whose answers packets are missing that later hops lack, too.
    Lossy,
    /// The same, but all hops from here on answer by ICMP errors, which routers limit: either.
    LossyOrLimited,
    /// No answer from here on.
    Dark,
}

impl Verdict {
    /// A word for it, as in JSON.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Clean => "clean",
            Self::Limited => "rate-limited",
            Self::Silent => "silent",
            Self::Lossy => "lossy",
            Self::LossyOrLimited => "lossy-or-rate-limited",
            Self::Dark => "no-answer",
        }
    }
}

impl Hop {
    pub(super) fn answer(&mut self, from: IpAddr, time: Nanos, is_error: bool) {
        self.by_errors = is_error && (self.by_errors || self.answered == 0);
        self.answered += 1;
        match self.addresses.iter_mut().find(|(known, _)| *known == from) {
            Some((_, count)) => *count += 1,
            None => self.addresses.push((from, 1)),
        }
        self.rtt.record(time, 1);
        self.spread.record(time);
        self.jitter.record(time);
    }

    /// Return the probes whose result is known.
    pub(super) fn sent(&self) -> u64 {
        self.answered + self.lost
    }

    /// Return the lost ones in tenths of a percent.
    pub(super) fn loss_per_mille(&self) -> Option<u64> {
        (self.lost * 1000 + self.sent() / 2).checked_div(self.sent())
    }

    /// Return the address that answered most.
    pub(super) fn address(&self) -> Option<IpAddr> {
        let most = self.addresses.iter().max_by_key(|(_, count)| *count)?;
        Some(most.0)
    }
}

/// Return what the loss of each hop means. A router answers when it has time, and few times a
/// second (`net.ipv4.icmp_ratelimit` on Linux), but what it does not forward is missing from all
/// later hops: the loss of the path up to a hop is at most the least loss from there on.
pub(super) fn verdicts(hops: &[Hop]) -> Vec<Verdict> {
    let mut verdicts = Vec::with_capacity(hops.len());
    let mut before: Option<&Hop> = None;
    for (place, hop) in hops.iter().enumerate() {
        let Some(best) = least_lossy(&hops[place..]) else {
            verdicts.push(Verdict::Dark);
            continue;
        };
        let verdict = if hop.answered == 0 {
            Verdict::Silent
        } else if loses_more(hop, best) {
            Verdict::Limited
        } else if loses_more(best, before.unwrap_or(&Hop::perfect(best))) {
            match is_sure(best, &hops[place..]) {
                true => Verdict::Lossy,
                false => Verdict::LossyOrLimited,
            }
        } else {
            Verdict::Clean
        };
        // The first hop is blamed that lacks it by its own answers, and no later one.
        if !matches!(verdict, Verdict::Silent | Verdict::Limited) {
            before = Some(best);
        }
        verdicts.push(verdict);
    }
    verdicts
}

/// Return the hop with the least loss, of those that answer.
fn least_lossy(hops: &[Hop]) -> Option<&Hop> {
    let answering = hops.iter().filter(|hop| hop.answered > 0);
    answering.min_by(|one, other| {
        let (one, other) = (
            u128::from(one.lost) * u128::from(other.sent()),
            u128::from(other.lost) * u128::from(one.sent()),
        );
        one.cmp(&other)
    })
}

/// Return true if the least loss of some hops is that of answers whose rate nobody limits, or such
/// answers show the same.
fn is_sure(best: &Hop, hops: &[Hop]) -> bool {
    let replies = |hop: &&Hop| hop.answered > 0 && !hop.by_errors;
    !best.by_errors
        || hops
            .iter()
            .filter(replies)
            .any(|hop| !loses_more(hop, best))
}

/// Return true if one loses more than another by more than chance: the difference of the shares is
/// three standard deviations of it, with the shares of both together (a test of two proportions),
/// and two probes.
fn loses_more(one: &Hop, other: &Hop) -> bool {
    let (n, m) = (one.sent() as f64, other.sent() as f64);
    let (lost, also) = (one.lost as f64, other.lost as f64);
    let (share, less) = (lost / n.max(1.0), also / m.max(1.0));
    let both = (lost + also) / (n + m).max(1.0);
    let deviation = (both * (1.0 - both) * (n.max(1.0).recip() + m.max(1.0).recip())).sqrt();
    one.lost >= 2 && share - less > 3.0 * deviation
}

impl Hop {
    /// A hop that was probed as often, and lost none.
    fn perfect(like: &Self) -> Self {
        Self {
            answered: like.sent(),
            ..Self::default()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hop(answered: u64, lost: u64) -> Hop {
        Hop {
            answered,
            lost,
            ..Hop::default()
        }
    }

    fn names(hops: &[Hop]) -> Vec<&'static str> {
        verdicts(hops).into_iter().map(Verdict::name).collect()
    }

    #[test]
    fn loss_that_later_hops_lack_is_a_limit() {
        let hops = [hop(100, 0), hop(30, 70), hop(0, 100), hop(100, 0)];
        assert_eq!(names(&hops), ["clean", "rate-limited", "silent", "clean"]);
    }

    #[test]
    fn loss_that_stays_begins_at_one_hop() {
        let hops = [hop(100, 0), hop(78, 22), hop(81, 19), hop(80, 20)];
        assert_eq!(names(&hops), ["clean", "lossy", "clean", "clean"]);
    }

    /// Nobody beyond answers otherwise: a router that answers once a second looks the same.
    #[test]
    fn loss_that_errors_alone_show_may_be_a_limit() {
        let errors = |answered, lost| Hop {
            by_errors: true,
            ..hop(answered, lost)
        };
        let hops = [errors(100, 0), errors(20, 80), errors(0, 100)];
        let expected = ["clean", "lossy-or-rate-limited", "no-answer"];
        assert_eq!(names(&hops), expected);
        let hops = [errors(100, 0), errors(80, 20), hop(75, 25)];
        assert_eq!(names(&hops), ["clean", "lossy", "clean"]);
        let hops = [errors(20, 80), hop(80, 20)];
        assert_eq!(names(&hops), ["rate-limited", "lossy"]);
    }

    #[test]
    fn a_limit_before_a_lossy_hop_is_told_from_it() {
        let hops = [hop(100, 0), hop(10, 90), hop(80, 20), hop(80, 20)];
        assert_eq!(names(&hops), ["clean", "rate-limited", "lossy", "clean"]);
        let hops = [hop(10, 90), hop(100, 0), hop(75, 25)];
        assert_eq!(names(&hops), ["rate-limited", "clean", "lossy"]);
    }

    #[test]
    fn chance_is_no_loss_and_silence_at_the_end_is_dark() {
        let hops = [hop(10, 0), hop(9, 1), hop(0, 10), hop(0, 10)];
        assert_eq!(names(&hops), ["clean", "clean", "no-answer", "no-answer"]);
    }

    #[test]
    fn the_address_of_a_hop_is_the_one_that_answers_most() {
        let mut hop = Hop::default();
        for last in [1, 2, 2] {
            hop.answer([10, 0, 0, last].into(), Nanos::from_millis(1), true);
        }
        assert_eq!(hop.address(), Some([10, 0, 0, 2].into()));
        assert_eq!(hop.addresses.len(), 2);
    }
}
