//! Connections whose peers read at their own pace: a player, a program that compresses or stores
//! what it gets. Who reads its own answer slowly waits for itself, unless others wait behind it.

use std::collections::BTreeMap;

use sockstamp_model::flow::Flow;
use sockstamp_model::wait::{Connection, End, Sending};

use super::clocks;
use crate::diagnosis::evidence::sleep::{Sleep, Slept};
use crate::diagnosis::finding::Finding;
use crate::diagnosis::host::cpu::union;
use crate::diagnosis::slow::{self, Role, Slow, Socket};
use crate::diagnosis::tally::{Account, Counted};
use crate::diagnosis::tree::Node;
use crate::diagnosis::worth::OCCASIONS;

/// Note for each wait whether its peer is known to set the pace. One that takes nothing may hang,
/// or have a large buffer to read from: its window stays closed for a long time, too.
pub(in crate::diagnosis) fn set(waits: &mut [Slow], sending: &BTreeMap<Socket, Sending>) {
    for wait in waits {
        let sending = sending.get(&wait.socket());
        wait.seen.sets_pace = sending.is_some_and(|sending| !has_small_window(sending));
    }
}

/// Return true if the peer took half a window or more in each round trip while its window was full,
/// and most of one is under way: its buffer is small, and its program takes what comes.
fn has_small_window(sending: &Sending) -> bool {
    let Connection {
        min_rtt: Some(round_trip),
        peer_window,
        unacknowledged,
        unsent,
        segment,
        ..
    } = sending.connection
    else {
        return false;
    };
    let half = peer_window / 2;
    let is_under_way = unacknowledged >= half || unsent == 0;
    let taken = u128::from(sending.sends) * u128::from(segment) * u128::from(round_trip.0);
    half > 0 && is_under_way && taken >= u128::from(half) * u128::from(sending.window.0)
}

/// Note the waits that waits of other connections hold for, for half of their time: an event loop
/// that reads a little late meanwhile waits for another thing. Note, too, beside which no request
/// of another was open, and no other connection was pushed to.
pub(in crate::diagnosis) fn waited_for(
    waits: &mut [Slow],
    held: &[Option<usize>],
    sending: &BTreeMap<Socket, Sending>,
) {
    let mut shared = BTreeMap::<usize, Vec<(u64, u64)>>::new();
    for (of, by) in held.iter().enumerate() {
        let Some(by) = *by else { continue };
        let (upper, lower) = (&waits[of], &waits[by]);
        if upper.socket() != lower.socket() && !upper.faces(lower) {
            let span = (upper.begin.max(lower.begin), upper.end.min(lower.end));
            shared.entry(by).or_default().push(span);
        }
    }
    for (by, spans) in shared {
        waits[by].seen.is_waited_for = union(spans) * 2 >= waits[by].time();
    }
    let mut requests = BTreeMap::<u32, Vec<(Socket, u64, u64)>>::new();
    for wait in waits.iter().filter(|wait| wait.key.root == Node::Service) {
        let open = requests.entry(wait.pid).or_default();
        open.push((wait.socket(), wait.begin, wait.end));
    }
    for wait in waits.iter_mut().filter(|wait| wait.seen.sets_pace) {
        let others = requests.get(&wait.pid).into_iter().flatten();
        let mut others = others.filter(|(socket, ..)| *socket != wait.socket());
        let is_asked = others.any(|(_, begin, end)| *begin < wait.end && wait.begin < *end);
        wait.seen.is_alone = !is_asked && !sending.values().any(|one| is_pushed_beside(one, wait));
    }
}

/// Return true for another connection of a service that is sent more than it asks.
fn is_pushed_beside(other: &Sending, wait: &Slow) -> bool {
    let service = |flow: &Flow| (flow.netns, flow.local.port());
    let is_other = slow::socket(&other.flow) != wait.socket();
    is_other && service(&other.flow) == service(&wait.flow) && other.sends > other.receives
}

/// Return true if those that a service answers read at their own pace, and nobody else waits.
pub(in crate::diagnosis) fn is_readers_own(account: &Account<'_>, finding: &Finding) -> bool {
    let is_own = |wait: &Slow| {
        let seen = &wait.seen;
        let is_alone = seen.others == 0 && !seen.is_waited_for;
        is_alone && seen.sets_pace && seen.unread.is_none()
    };
    // Late acknowledgements of others beside it tell of no window, and somebody may wait by chance
    // behind a part of it.
    let waits = account.counted.iter();
    let waits = waits.filter(|counted| counted.wait.is_mostly(Node::DeliveryWindow));
    let (own, others): (Vec<_>, Vec<_>) = waits.cloned().partition(|one| is_own(one.wait));
    let time = |waits: &[Counted<'_>]| waits.iter().map(|one| one.wait.time()).sum::<u64>();
    let is_most = time(&own) >= time(&others).saturating_mul(9);
    let others = Account {
        counted: others,
        ..Account::default()
    };
    let are_own = !own.is_empty() && is_most && others.occasions().len() < OCCASIONS;
    finding.node == Node::DeliveryWindow && finding.role == Role::Serves && are_own
}

/// Return true if a service reads what came at a tick of its own: it sleeps for a timer between
/// reads.
pub(in crate::diagnosis) fn keeps_a_tick(account: &Account<'_>, finding: &Finding) -> bool {
    let for_timer = |slept: &Slept| slept.sleep == Sleep::Timer && slept.looks * 5 >= slept.of * 4;
    let ticks = |wait: &Slow| wait.seen.slept.as_ref().is_some_and(for_timer);
    let mut waits = account.counted.iter().map(|counted| counted.wait);
    account.root() == Some(Node::Read)
        && finding.role == Role::Serves
        && waits.all(ticks)
        && clocks::are_read_at_ticks(account)
}

/// Return true if a command reads its answers late, and does or waits for something of its own
/// meanwhile, such as a program that it hands them to: the rest of its time tells of that.
pub(in crate::diagnosis) fn is_late_by_itself(finding: &Finding) -> bool {
    let is_own = matches!(finding.node, Node::ReadUnknown | Node::ReadAsleep);
    is_own && finding.role == Role::Asks
}

/// Return true if a program that asks has not read what was there at an earlier look, as who is
/// sent more than it reads (a subscription), or who plays what it gets.
pub(in crate::diagnosis) fn lags(account: &Account<'_>, finding: &Finding) -> bool {
    let mut waits = account.counted.iter().map(|counted| counted.wait);
    is_late_by_itself(finding) && waits.all(|wait| wait.how == End::Open && !is_kept(wait))
}

/// Return true if more than the program itself was seen to keep it from reading.
fn is_kept(wait: &Slow) -> bool {
    let slept = wait.seen.slept.as_ref().map(|slept| &slept.sleep);
    let for_others = matches!(slept, Some(Sleep::Peer(_) | Sleep::Service(..)));
    wait.seen.held_up || wait.seen.ran.is_some() || for_others
}

/// Return true if a program that asks reads the rest of its answers late, and nothing but itself
/// was seen to keep it from that.
pub(in crate::diagnosis) fn reads_when_it_likes(account: &Account<'_>, finding: &Finding) -> bool {
    let waits = || account.counted.iter().map(|counted| counted.wait);
    // A look at the socket does not know what is unread.
    let are_more = waits().all(|wait| wait.seen.is_more || wait.how == End::Open);
    let is_known = waits().any(|wait| wait.seen.is_more);
    is_late_by_itself(finding) && are_more && is_known && !waits().any(is_kept)
}

#[cfg(test)]
mod tests {

    use sockstamp_model::clock::{Nanos, Timestamp};
    use sockstamp_model::fixture;
    use sockstamp_model::flow::{Flow, Opened, Protocol, SocketCookie};
    use sockstamp_model::message::Message;
    use sockstamp_model::part::Part;
    use sockstamp_model::stage::{Direction, Stage};
    use sockstamp_model::wait::{Connection, End, Kind, Waits};

    use crate::diagnosis::tests::{MS, at, flow, sending, sent, summary, wait};
    use crate::diagnosis::{Case, Diagnosis, Scope, Sleep, SleepLook};

    fn pushed() -> impl Iterator<Item = Message> {
        let to = flow("10.0.0.1:80", "10.0.0.2:50000");
        (0..6).map(move |of| {
            let mut message = sent(to, of * 1_000, Part::Rwnd, 600);
            message.opened = Some(Opened::Accepted);
            message.pid = 10;
            message
        })
    }

    /// The peer took so many segments meanwhile.
    fn read(sends: u32, others: impl Iterator<Item = Message>) -> Diagnosis {
        let connection = Connection {
            unsent: 100_000,
            ..Connection::default()
        };
        read_by(sends, connection, others)
    }

    fn read_by(
        sends: u32,
        connection: Connection,
        others: impl Iterator<Item = Message>,
    ) -> Diagnosis {
        let mut case = Case::new(Scope::default());
        pushed()
            .chain(others)
            .for_each(|message| case.message(&message));
        let clocks = sending(flow("10.0.0.1:80", "10.0.0.2:50000"), connection);
        case.waits(&Waits {
            sending: vec![sockstamp_model::wait::Sending {
                sends,
                window: clocks.seen_for,
                ..clocks
            }],
            ..Waits::default()
        });
        case.diagnose(&summary())
    }

    /// Reads of a service whose only task sleeps for a timer between them.
    fn ticked(protocol: Protocol, late: u64) -> Diagnosis {
        let mut case = Case::new(Scope::default());
        for of in 0..20 {
            let from = Flow {
                protocol,
                ..flow("10.0.0.1:27015", "10.0.0.2:50000")
            };
            let mut message = fixture::message(Direction::Rx);
            (message.flow, message.comm) = (from, "game".into());
            (message.pid, message.opened) = (10, Some(Opened::Accepted));
            message.stages[Stage::RxApp] = Some(Nanos(late * MS));
            message.parts[Part::Blocked] = Some(Nanos(late * MS));
            (message.stamps.ready, message.stamps.read) = (at(of * 100), at(of * 100 + late));
            case.message(&message);
            case.sleeps([SleepLook {
                tasks: [(10, Some(Sleep::Timer))].into(),
                stirred: [10].into(),
                ..SleepLook::new(10, Timestamp::from_nanos((of * 100 + late / 2) * MS))
            }]);
        }
        case.diagnose(&summary())
    }

    #[test]
    fn datagrams_that_are_read_at_a_tick_are_a_note() {
        let tick = ticked(Protocol::Udp, 30);
        assert_eq!(tick.findings, []);
        assert!(tick.notes[0].contains("at a tick of its own"), "{tick:?}");
        assert_eq!(ticked(Protocol::Udp, 80).findings.len(), 1);
        assert_eq!(ticked(Protocol::Tcp, 30).findings.len(), 1);
    }

    #[test]
    fn a_peer_that_reads_at_its_own_pace_is_a_note() {
        let paced = read(300, std::iter::empty());
        assert_eq!(paced.findings, []);
        assert!(paced.notes[0].contains("the pace itself"), "{paced:?}");
        // A reader of six megabytes a minute has a large buffer to read from first.
        let buffered = read(0, std::iter::empty());
        assert_eq!(buffered.findings, []);
    }

    /// As of one film beside pages: it has nine tenths of the time.
    #[test]
    fn a_peer_that_sets_the_pace_hides_no_others() {
        let beside = |count: u64| {
            let pages = (0..count).map(|of| {
                let to = flow("10.0.0.1:80", &format!("10.0.0.3:{}", 50_000 + of));
                let mut message = sent(to, of * 1_000 + 700, Part::Rwnd, 60);
                message.opened = Some(Opened::Accepted);
                message.pid = 10;
                message
            });
            read(300, pages).findings.len()
        };
        assert_eq!(beside(2), 0);
        assert_eq!(beside(4), 1);
    }

    /// As of a page beside two films, whose acknowledgement is delayed.
    #[test]
    fn an_acknowledgement_beside_a_peer_that_sets_the_pace_is_no_reader() {
        let page = flow("10.0.0.1:80", "10.0.0.3:50000");
        let mut late = wait(Kind::Acknowledgement, End::Open, 7_900, 40);
        (late.flow, late.comm, late.pid) = (page, "nginx".into(), 10);
        late.opened = Some(Opened::Accepted);
        let clocks = |of| {
            let known = Connection {
                min_rtt: Some(Nanos(4 * MS)),
                peer_window: 65_536,
                segment: 1_448,
                unsent: if of == page { 0 } else { 100_000 },
                ..Connection::default()
            };
            let sending = sending(of, known);
            sockstamp_model::wait::Sending {
                sends: 25,
                window: if of == page {
                    Nanos(0)
                } else {
                    sending.seen_for
                },
                ..sending
            }
        };
        let mut case = Case::new(Scope::default());
        pushed().for_each(|message| case.message(&message));
        case.waits(&Waits {
            list: vec![late],
            sending: vec![clocks(page), clocks(flow("10.0.0.1:80", "10.0.0.2:50000"))],
            ..Waits::default()
        });
        let told = case.diagnose(&summary());
        assert_eq!(told.findings, []);
        assert!(told.notes[0].contains("the pace itself"), "{told:?}");
    }

    #[test]
    fn nobody_else_waits_where_no_other_request_is_open() {
        let told_with = |cookie, beside: u32| {
            let to = Flow {
                cookie: SocketCookie(cookie),
                ..flow("10.0.0.1:80", "10.0.0.3:50000")
            };
            let mut request = wait(Kind::Service, End::Data, 900, 1_000);
            (request.flow, request.pid) = (to, 10);
            request.opened = Some(Opened::Accepted);
            let mut case = Case::new(Scope::default());
            pushed().for_each(|message| case.message(&message));
            let clocks = sending(flow("10.0.0.1:80", "10.0.0.2:50000"), Connection::default());
            let other = sending(flow("10.0.0.1:80", "10.0.0.4:50001"), Connection::default());
            let other = sockstamp_model::wait::Sending {
                sends: beside,
                ..other
            };
            let clocks = sockstamp_model::wait::Sending {
                sends: 300,
                window: clocks.seen_for,
                ..clocks
            };
            case.waits(&Waits {
                list: vec![request],
                sending: vec![clocks, other],
                ..Waits::default()
            });
            let paces = |note: &String| note.contains("the pace itself");
            let notes = case.diagnose(&summary()).notes;
            notes.into_iter().find(paces).unwrap()
        };
        let told = |cookie| told_with(cookie, 0);
        let own = pushed().next().unwrap().flow.cookie.0;
        assert!(told(own).ends_with("itself, and nobody else waits for it"));
        assert!(told(own + 1).ends_with("the pace itself"));
        // A loop that sends to one after the other keeps the others waiting.
        assert!(told_with(own, 9).ends_with("the pace itself"));
    }

    #[test]
    fn a_peer_with_a_small_buffer_is_a_finding() {
        // Each of the 166 round trips of five seconds carries a window of four segments.
        let connection = Connection {
            min_rtt: Some(Nanos(30 * MS)),
            unsent: 100_000,
            unacknowledged: 4_096,
            peer_window: 4_096,
            segment: 1_024,
            ..Connection::default()
        };
        let small = read_by(660, connection.clone(), std::iter::empty());
        assert!(small.findings[0].sentence.contains("is small"), "{small:?}");
        let slow = read_by(100, connection, std::iter::empty());
        assert_eq!(slow.findings, []);
    }

    #[test]
    fn a_peer_that_others_wait_behind_is_a_finding() {
        // The program reads the request of another client once it has room for the first one's
        // answer.
        let behind = (0..6).map(|of| {
            let mut message = fixture::message(Direction::Rx);
            message.flow = flow("10.0.0.1:80", "10.0.0.3:50001");
            message.comm = "nginx".into();
            message.pid = 10;
            message.opened = Some(Opened::Accepted);
            message.stages[Stage::RxApp] = Some(Nanos(550 * MS));
            message.stamps.ready = at(of * 1_000 + 20);
            message.stamps.read = at(of * 1_000 + 570);
            message
        });
        let behind = read(300, behind);
        assert!(behind.findings[0].sentence.contains("rwnd"), "{behind:?}");
    }

    /// Reads of the rest of an answer by a program that was asked about, which slept in this.
    fn viewed(sleep: Option<Sleep>, has_first_byte: bool) -> Diagnosis {
        let mut case = Case::new(Scope {
            is_program: true,
            ..Scope::default()
        });
        for of in 1..9 {
            let mut message = fixture::message(Direction::Rx);
            message.flow = flow("10.0.0.1:50000", "10.0.0.2:80");
            (message.comm, message.pid) = ("player".into(), 10);
            message.opened = Some(Opened::Connected);
            message.stages[Stage::RxApp] = Some(Nanos(900 * MS));
            message.stages[Stage::PeerAnswer] = has_first_byte.then_some(Nanos(MS));
            (message.stamps.ready, message.stamps.read) = (at(of * 1_000 - 900), at(of * 1_000));
            case.message(&message);
        }
        case.sleeps((0..80).map(|at| SleepLook {
            tasks: [(10, sleep.clone())].into(),
            stirred: [10].into(),
            ..SleepLook::new(10, Timestamp::from_nanos(at * 100 * MS))
        }));
        case.diagnose(&summary())
    }

    #[test]
    fn a_program_that_reads_on_when_it_likes_is_a_note() {
        let player = viewed(Some(Sleep::Timer), false);
        assert_eq!(player.findings, []);
        assert!(player.notes[0].contains("a pace of its own"), "{player:?}");
        assert_eq!(viewed(Some(Sleep::Timer), true).findings.len(), 1);
        for kept in [
            Sleep::Disk,
            Sleep::Stopped,
            Sleep::Peer("10.0.0.9:3306".parse().unwrap()),
        ] {
            assert_eq!(viewed(Some(kept), false).findings.len(), 1);
        }
    }
}
