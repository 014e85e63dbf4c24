//! Advise what to look at and to do if a stage or a part of one makes messages slow.

use sockstamp_model::part::Part;
use sockstamp_model::stage::Stage;

use crate::component::Component;
use crate::diagnosis::tree::Node;

/// The meaning of a stage or a part, ways to check it, and its cure.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Advice {
    /// The thing that takes the time.
    pub meaning: &'static str,
    /// Ways to confirm it.
    pub check: &'static str,
    /// Its usual cure.
    pub cure: &'static str,
}

/// A check and a cure.
pub type Action = (&'static str, &'static str);

/// Iterate over all parts and all stages that are explained as a whole, in the order of stages.
pub fn all() -> impl Iterator<Item = (Component, Advice)> {
    let components = Stage::ALL.into_iter().flat_map(|stage| {
        let whole = Component { stage, part: None };
        let parts = Part::of(stage).map(move |part| Component {
            stage,
            part: Some(part),
        });
        let is_whole =
            Part::of(stage).next().is_none() || matches!(stage, Stage::RxWakeup | Stage::RxApp);
        is_whole.then_some(whole).into_iter().chain(parts)
    });
    components.map(|component| (component, of(component)))
}

/// Return the advice for a stage or a part.
#[must_use]
pub fn of(component: Component) -> Advice {
    let (meaning, (check, cure)) = match component.part {
        Some(part) => (part.description(), of_part(part)),
        None => (component.stage.description(), of_stage(component.stage)),
    };
    Advice {
        meaning,
        check,
        cure,
    }
}

/// Return the actions of a node of docs/diagnosis.md.
#[must_use]
pub fn at(node: Node) -> Action {
    let about = node.about();
    (about.check, about.cure)
}

fn of_stage(stage: Stage) -> Action {
    match stage {
        Stage::TxCopy => of_part(Part::Copy),
        Stage::TxQueue => of_part(Part::Other),
        Stage::TxQdisc => at(Node::DeliveryDevice),
        Stage::TxNic => (
            "`ethtool -S DEVICE`: pause frames, full rings; `ethtool -g DEVICE`; `sar -n DEV`: the link's load.",
            "A faster link, or less data on it; no pause frames (`ethtool -A`); shorter rings of the device.",
        ),
        Stage::TxNetwork => of_part(Part::Excess),
        Stage::RxNic => (
            "`ethtool -c DEVICE`: rx-usecs, adaptive-rx; `mpstat -P ALL`: %irq, %soft.",
            "Less interrupt coalescing (`ethtool -C`), or interrupts on CPUs that are less busy.",
        ),
        Stage::RxStack => at(Node::ReadStack),
        Stage::RxHol => at(Node::ReadMissing),
        Stage::RxWakeup => at(Node::ReadRunnable),
        Stage::RxApp => at(Node::ReadUnknown),
        Stage::AppService => of_part(Part::ServiceOther),
        Stage::PeerAnswer => of_part(Part::Peer),
        Stage::PeerRest => (
            "`sockstamp trace`: `peer.rest` read by read; the peer's `app.service` and `tx.queue`; `ss -ti`: retrans, rcv_rtt.",
            "At the peer: answers sent at once, or without a rate limit; on the path: less loss. A reader that needs only the head waits for less.",
        ),
        Stage::ClientPause => (
            "`sockstamp trace`: `client.pause` by client; at the client, what it does between two requests.",
            "None is needed: the client asks for nothing meanwhile.",
        ),
        Stage::ClientRequest => (
            "`sockstamp trace`: `client.request` by client; `ss -ti`: rcv_rtt, rcv_space, rcv_ooopack; the client's `tx.queue`.",
            "At the client: requests sent at once; on the path: less loss, or more bandwidth for large uploads.",
        ),
        Stage::ConnHandshake => of_part(Part::SynAgain),
        Stage::ConnAccept => at(Node::Accept),
        Stage::NetForward => (
            "`ss -ti` at the sender: rtt, minrtt, retrans; `sockstamp ping` between the hosts; the error of the clocks in the report of `sockstamp join`.",
            "That of the network between the hosts: shorter queues at its bottleneck, less loss, a shorter path.",
        ),
        Stage::NetBack => (
            "`ss -ti` at the sender: rtt, minrtt; a late ACK in `sockstamp pcap` of both hosts.",
            "None is needed if no send waits for the ACK; otherwise that of the network on the way back.",
        ),
    }
}

fn of_part(part: Part) -> Action {
    match part {
        Part::Copy => (
            "`perf top -p PID`: copies, page faults, allocation; `/proc/PID/schedstat`: waits for a CPU.",
            "Smaller sends, or MSG_ZEROCOPY for large ones; a CPU for the sending task.",
        ),
        Part::Sndbuf => at(Node::DeliveryRoom),
        Part::Neighbour | Part::HandshakeNeighbour => at(Node::DeliveryResolving),
        Part::Cwnd => at(Node::DeliveryCongestion),
        Part::Rwnd => at(Node::DeliveryWindow),
        Part::Pacing => (
            "`ss -ti`: pacing_rate, delivery_rate; `tc qdisc show`: maxrate of fq.",
            "A higher SO_MAX_PACING_RATE or maxrate, if one is set; otherwise TCP paces at the rate of the path: that of a full congestion window.",
        ),
        Part::Tsq => (
            "`tc -s qdisc show dev DEVICE`: backlog, rate; tx.qdisc and tx.nic of the same messages.",
            "That of the packet scheduler and the device; for small sends net.ipv4.tcp_autocorking=0.",
        ),
        Part::Nagle => at(Node::DeliveryNagle),
        Part::Cork => at(Node::DeliveryCork),
        Part::Retransmit => at(Node::DeliveryLoss),
        Part::Other => (
            "`perf top -p PID`; `/proc/net/softnet_stat`: time_squeeze; `mpstat -P ALL`: %soft.",
            "Fewer and larger sends; more CPU for the sending task and for softirqs.",
        ),
        Part::Path => (
            "`ss -ti`: minrtt; `sockstamp ping PEER`.",
            "A closer peer, or a shorter path to it.",
        ),
        Part::DelayedAck => (
            "`ss -ti` at the peer: ato; `sockstamp pcap`: an ACK of its own, 40 ms to 200 ms late.",
            "None is needed if no send waits for the ACK; otherwise TCP_NODELAY, or an answer that carries it.",
        ),
        Part::Excess => (
            "`ss -ti`: rtt compared with minrtt, retrans; `nstat -az TcpRetransSegs`.",
            "Shorter queues at the bottleneck of the path (fq_codel, cake), or less bulk data there; that of loss.",
        ),
        Part::Runqueue | Part::WakeupUnknown | Part::Runnable => at(Node::ReadRunnable),
        Part::ServiceRunning => at(Node::ServiceRunning),
        Part::ServiceRunnable => at(Node::ServiceRunnable),
        Part::ServiceBlocked => at(Node::ServiceAsleep),
        Part::WakeupThrottled | Part::AppThrottled | Part::ServiceThrottled => {
            at(Node::ReadThrottled)
        }
        Part::Running => (
            "`perf top -p PID`: the work before the read.",
            "Less work between reads, or a task of its own for it.",
        ),
        Part::Blocked => (
            "`strace -p PID`, `/proc/PID/stack`: a lock, a disk, or another service.",
            "Asynchronous work, or more tasks; otherwise that of the lock, the disk or the service.",
        ),
        Part::Unknown => at(Node::ReadUnknown),
        Part::ServiceOther => (
            "`perf top -p PID`, `strace -p PID`; `sockstamp explain`: its answers from other services.",
            "Less work per answer; otherwise that of the service, lock or disk that it waits for.",
        ),
        Part::Network => (
            "`ss -ti`: minrtt; `sockstamp ping PEER`; `sockstamp stat --by peer`.",
            "Fewer round trips (connections that stay open, several questions at once), or a closer peer.",
        ),
        Part::Peer => at(Node::AnswerPeer),
        Part::SynAgain | Part::RoundTrip => at(Node::ConnectAgain),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::component::Kind;

    #[test]
    fn every_stage_and_part_has_a_meaning_a_check_and_a_cure() {
        assert!(all().count() >= Part::COUNT);
        let explained = Kind::ALL.into_iter().flat_map(Kind::components);
        let wholes = Stage::ALL.map(|stage| Component { stage, part: None });
        let advice = explained
            .chain(wholes)
            .map(|component| (component, of(component)));
        for (component, advice) in advice.chain(all()) {
            for text in [advice.meaning, advice.check, advice.cure] {
                assert!(text.len() > 10, "{component}: {advice:?}");
            }
            assert!(
                advice.check.ends_with('.') && advice.cure.ends_with('.'),
                "{component}"
            );
        }
    }

    #[test]
    fn advice_is_about_the_part_that_takes_the_time() {
        let cure = |part: Part| of_part(part).1;
        assert!(cure(Part::Nagle).contains("TCP_NODELAY"));
        assert!(cure(Part::AppThrottled).contains("quota"));
        assert_ne!(cure(Part::Runnable), cure(Part::Blocked));
        assert_ne!(cure(Part::Network), cure(Part::Peer));
    }
}
