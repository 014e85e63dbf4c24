//! Count what looks at this host left out for lack of room.

/// Counts of what evidence has not.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Unseen {
    /// Lists of sockets, locks or devices that were too long to be read whole.
    pub lists: u64,
    /// Looks at queues, and times that links went down.
    pub looks: u64,
}

impl Unseen {
    pub(super) fn notes(self) -> impl Iterator<Item = String> {
        let counts = [
            (
                self.lists,
                "lists of this host's sockets, locks or devices were too long to be read whole: \
                 what else they have is held against nothing",
            ),
            (
                self.looks,
                "looks at queues and links of this host found no room, and are held against nothing",
            ),
        ];
        let counts = counts.into_iter().filter(|(count, _)| *count > 0);
        counts.map(|(count, what)| format!("{count} {what}"))
    }
}
