//! The deepest node that was seen and carries half of what is lost.

use super::slow::Parts;
use super::tree::Node;

/// The nodes at which a way down the tree ends.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Deepest {
    pub(super) node: Node,
    /// Its share of what is lost, in percent.
    pub(super) percent: u64,
    /// Its children with a quarter of it, where none has half, with their shares.
    pub(super) several: Vec<(Node, u64)>,
}

/// Go down while a child carries half of its parent; otherwise list those with a quarter.
pub(super) fn deepest(parts: &Parts, root: Node) -> Deepest {
    let whole = parts.whole();
    let percent = |node| share(parts.of(node), whole);
    let mut node = root;
    let several = loop {
        let of = parts.of(node);
        let has = |part: u64| move |child: &Node| parts.of(*child) * part >= of.max(1);
        let half = node
            .children()
            .filter(has(2))
            .max_by_key(|child| parts.of(*child));
        match half.or_else(|| for_others(parts, node)) {
            Some(child) => node = child,
            None => break node.children().filter(has(4)).collect::<Vec<_>>(),
        }
    };
    let of_others = FOR_OTHERS.contains(&node);
    Deepest {
        node,
        percent: match of_others {
            true => share(FOR_OTHERS.map(|node| parts.of(node)).iter().sum(), whole),
            false => percent(node),
        },
        several: several
            .into_iter()
            .map(|child| (child, percent(child)))
            .collect(),
    }
}

/// A turn is for an answer of others, too.
const FOR_OTHERS: [Node; 2] = [Node::ServiceAsks, Node::ServiceTurn];

/// Return the larger of both, where they have half of a service together.
fn for_others(parts: &Parts, node: Node) -> Option<Node> {
    let sum: u64 = FOR_OTHERS.map(|node| parts.of(node)).iter().sum();
    let is_half = node == Node::Service && sum * 2 >= parts.of(node).max(1);
    let larger = FOR_OTHERS.into_iter().max_by_key(|node| parts.of(*node));
    larger.filter(|_| is_half)
}

/// Return a share in whole percent.
pub(super) fn share(part: u64, whole: u64) -> u64 {
    let percent = (u128::from(part) * 100 + u128::from(whole) / 2).checked_div(u128::from(whole));
    u64::try_from(percent.unwrap_or(0)).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_for_others_counts_together() {
        let parts = |asks, turn, asleep| {
            let asked = [(Node::ServiceAsks, asks), (Node::ServiceTurn, turn)];
            Parts::divide(
                100,
                asked,
                if asleep {
                    Node::ServiceAsleep
                } else {
                    Node::ServiceUnknown
                },
            )
        };
        let found = deepest(&parts(14, 41, true), Node::Service);
        assert_eq!((found.node, found.percent), (Node::ServiceTurn, 55));
        let found = deepest(&parts(12, 33, false), Node::Service);
        assert_eq!((found.node, found.percent), (Node::ServiceUnknown, 55));
    }
}
