//! Track which sends are complete, from the ranges of ids that the kernel reports. No I/O, no
//! allocation per send.

use std::collections::VecDeque;

use crate::error_queue::ZeroCopyRange;

/// The effect of a range on a [`Window`], in sends.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Matched {
    /// Sends that were in flight until now.
    pub(super) completed: u64,
    /// Completed by an earlier range.
    pub(super) repeated: u64,
    /// Sends that were not issued.
    pub(super) unknown: u64,
}

/// Return the number of sends in a range: 1 to 2^32.
pub(super) fn sends(range: ZeroCopyRange) -> u64 {
    u64::from(range.last.wrapping_sub(range.first)) + 1
}

/// The sends in flight, in order of their ids, each with the data needed at its completion.
#[derive(Debug)]
pub(super) struct Window<T> {
    /// The id of the first slot.
    base: u32,
    /// `None` is complete; the first slot never is.
    slots: VecDeque<Option<T>>,
}

impl<T> Window<T> {
    /// Ids within half of their range are newer; the others are older.
    const MOST: usize = 1 << 31;

    /// A window whose first send has the id `first`.
    pub(super) fn starting_at(first: u32) -> Self {
        Self {
            base: first,
            slots: VecDeque::new(),
        }
    }

    /// Make room for one more send, so that the next [`issue`](Self::issue) allocates nothing.
    /// `false`: there are too many.
    pub(super) fn reserve(&mut self) -> bool {
        self.slots.reserve(1);
        self.slots.len() < Self::MOST
    }

    /// Assign the next id to a send.
    pub(super) fn issue(&mut self, send: T) -> u32 {
        let id = self.next();
        self.slots.push_back(Some(send));
        id
    }

    /// Skip the next `ids`: they belong to sends without a waiter.
    pub(super) fn skip(&mut self, ids: u32) {
        self.slots.extend((0..ids).map(|_| None));
        self.advance();
    }

    /// Return how far the end of `range` is beyond the last send, in sends.
    pub(super) fn ahead(&self, range: ZeroCopyRange) -> u32 {
        let ahead = range.last.wrapping_sub(self.next()).wrapping_add(1);
        if ahead.cast_signed() > 0 { ahead } else { 0 }
    }

    /// Hand each send of `range` that was in flight until now to `each`, in order.
    ///
    /// Take one step per id of the range in the window. The kernel reports an id once, so this is
    /// amortised constant time per send.
    pub(super) fn complete(&mut self, range: ZeroCopyRange, mut each: impl FnMut(T)) -> Matched {
        let distance = range.first.wrapping_sub(self.base).cast_signed();
        let begin = i64::from(distance);
        let end = begin + i64::from(range.last.wrapping_sub(range.first)) + 1;
        let issued = i64::try_from(self.slots.len()).unwrap_or(i64::MAX);

        let inside = |offset: i64| usize::try_from(offset.clamp(0, issued)).unwrap_or(0);
        let mut completed = 0;
        for slot in self.slots.range_mut(inside(begin)..inside(end)) {
            if let Some(send) = slot.take() {
                completed += 1;
                each(send);
            }
        }
        self.advance();
        let unknown = (end - begin.max(issued)).max(0).cast_unsigned();
        Matched {
            completed,
            repeated: sends(range) - unknown - completed,
            unknown,
        }
    }

    /// Return the span of the window in sends: those in flight, and those completed after one in
    /// flight.
    #[cfg(test)]
    fn span(&self) -> usize {
        self.slots.len()
    }

    fn next(&self) -> u32 {
        let span = u32::try_from(self.slots.len()).expect("at most MOST, by reserve()");
        self.base.wrapping_add(span)
    }

    fn advance(&mut self) {
        while let Some(None) = self.slots.front() {
            self.slots.pop_front();
            self.base = self.base.wrapping_add(1);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    fn range(first: u32, last: u32) -> ZeroCopyRange {
        ZeroCopyRange {
            first,
            last,
            copied: false,
        }
    }

    fn completed<T>(window: &mut Window<T>, range: ZeroCopyRange) -> (Vec<T>, Matched) {
        let mut sends = Vec::new();
        let matched = window.complete(range, |send| sends.push(send));
        (sends, matched)
    }

    fn matched(completed: u64, repeated: u64, unknown: u64) -> Matched {
        Matched {
            completed,
            repeated,
            unknown,
        }
    }

    #[test]
    fn ranges_across_the_wrap_are_matched() {
        let mut window = Window::starting_at(u32::MAX - 1);
        let ids: Vec<u32> = "abcd".chars().map(|send| window.issue(send)).collect();
        assert_eq!(ids, [u32::MAX - 1, u32::MAX, 0, 1]);
        assert_eq!(
            completed(&mut window, range(u32::MAX, 0)),
            (vec!['b', 'c'], matched(2, 0, 0))
        );
        assert_eq!(window.span(), 4, "the first is in flight");
        assert_eq!(
            completed(&mut window, range(u32::MAX - 1, u32::MAX - 1)),
            (vec!['a'], matched(1, 0, 0))
        );
        assert_eq!(window.span(), 1);
        assert_eq!(window.issue('e'), 2);
    }

    #[test]
    fn an_id_that_was_never_issued_completes_nothing() {
        let mut window = Window::starting_at(0);
        window.issue('a');
        assert_eq!(
            completed(&mut window, range(1, 3)),
            (vec![], matched(0, 0, 3))
        );
        assert_eq!(
            completed(&mut window, range(u32::MAX - 4, 2)),
            (vec!['a'], matched(1, 5, 2))
        );
    }

    #[test]
    fn a_range_of_all_ids_ends_within_the_window() {
        let mut window = Window::starting_at(7);
        window.issue('a');
        let all = range(7, 6);
        assert_eq!(sends(all), 1 << 32);
        assert_eq!(
            completed(&mut window, all),
            (vec!['a'], matched(1, 0, u64::from(u32::MAX)))
        );
    }

    #[test]
    fn ids_that_are_left_out_are_not_waited_for() {
        let mut window = Window::starting_at(0);
        window.issue('a');
        assert_eq!(window.ahead(range(0, 2)), 2);
        window.skip(2);
        assert_eq!(window.ahead(range(0, 2)), 0);
        assert_eq!(window.issue('b'), 3);
        assert_eq!(
            completed(&mut window, range(0, 3)),
            (vec!['a', 'b'], matched(2, 2, 0))
        );
        assert_eq!(window.span(), 0);
    }

    #[derive(Debug, Clone)]
    enum Step {
        Issue,
        Complete(u32, u32),
    }

    fn steps() -> impl Strategy<Value = Vec<Step>> {
        let step = prop_oneof![
            2 => Just(Step::Issue),
            1 => (0..60_u32, 0..6_u32).prop_map(|(first, more)| Step::Complete(first, more)),
        ];
        proptest::collection::vec(step, 0..200)
    }

    proptest! {
        /// Against a set of the ids in flight: each send completes once, when the first range with
        /// its id comes.
        #[test]
        fn each_send_completes_once(
            start in prop_oneof![Just(0_u32), Just(u32::MAX - 20), any::<u32>()],
            steps in steps(),
        ) {
            let mut window = Window::starting_at(start);
            let mut in_flight = BTreeSet::new();
            let mut issued = 0_u32;
            for step in steps {
                match step {
                    Step::Issue => {
                        prop_assert_eq!(window.issue(issued), start.wrapping_add(issued));
                        in_flight.insert(issued);
                        issued += 1;
                    }
                    Step::Complete(first, more) => {
                        let ids = first..=first + more;
                        let expected: Vec<u32> = in_flight
                            .iter()
                            .copied()
                            .filter(|id| ids.contains(id))
                            .collect();
                        let unknown = ids.clone().filter(|&id| id >= issued).count() as u64;
                        in_flight.retain(|id| !ids.contains(id));
                        let (sends, matched) = completed(
                            &mut window,
                            range(start.wrapping_add(first), start.wrapping_add(first + more)),
                        );
                        prop_assert_eq!(matched.completed, sends.len() as u64);
                        prop_assert_eq!(matched.unknown, unknown);
                        prop_assert_eq!(
                            matched.completed + matched.repeated + unknown,
                            u64::from(more) + 1,
                        );
                        prop_assert_eq!(sends, expected);
                        let oldest = in_flight.first().copied().unwrap_or(issued);
                        prop_assert_eq!(window.span(), (issued - oldest) as usize);
                    }
                }
            }
        }

        /// However the kernel merges and orders completions, all sends complete and nothing is
        /// left.
        #[test]
        fn merged_and_shuffled_ranges_complete_everything(
            start in any::<u32>(),
            lengths in proptest::collection::vec(1..50_u32, 1..40),
            order in any::<u64>(),
        ) {
            let mut window = Window::starting_at(start);
            let mut ranges = Vec::new();
            for length in lengths {
                let ids: Vec<u32> = (0..length).map(|_| window.issue(())).collect();
                ranges.push(range(ids[0], ids[ids.len() - 1]));
            }
            let sends: u64 = ranges.iter().map(|&range| sends(range)).sum();
            ranges.sort_by_key(|range| {
                (u64::from(range.first) ^ order).wrapping_mul(0x9e37_79b9_7f4a_7c15)
            });
            let completed: u64 = ranges
                .iter()
                .map(|&range| window.complete(range, |()| {}).completed)
                .sum();
            prop_assert_eq!(completed, sends);
            prop_assert_eq!(window.span(), 0);
        }
    }
}
