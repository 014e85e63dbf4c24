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
        match half {
            Some(child) => node = child,
            None => break node.children().filter(has(4)).collect::<Vec<_>>(),
        }
    };
    Deepest {
        node,
        percent: percent(node),
        several: several
            .into_iter()
            .map(|child| (child, percent(child)))
            .collect(),
    }
}

/// Return a share in whole percent.
pub(super) fn share(part: u64, whole: u64) -> u64 {
    let percent = (u128::from(part) * 100 + u128::from(whole) / 2).checked_div(u128::from(whole));
    u64::try_from(percent.unwrap_or(0)).unwrap_or(u64::MAX)
}
