//! Try the order of what the BPF programs write and read without a lock, for the pairs listed here:
//! their C as Rust, for Miri, which shows orders that no machine here does (scripts/miri.sh). Plain
//! accesses are relaxed, and barriers of `kernel/order.bpf.h` fences. Without them each pair fails
//! there but one, of loads before stores: Miri delays no load.

use std::sync::atomic::{AtomicU64, Ordering, fence};
use std::thread;

const TURNS: u64 = 40;

fn load(word: &AtomicU64) -> u64 {
    word.load(Ordering::Relaxed)
}

fn store(word: &AtomicU64, value: u64) {
    word.store(value, Ordering::Relaxed);
}

/// `order_loads()`, `order_stores()`, `order_loads_and_stores()`
fn order() {
    fence(Ordering::SeqCst);
}

/// `__sync_lock_test_and_set()`
fn exchange(word: &AtomicU64, value: u64) -> u64 {
    order();
    let found = word.swap(value, Ordering::Relaxed);
    order();
    found
}

/// `__sync_val_compare_and_swap()`: one that fails orders nothing.
fn replace(word: &AtomicU64, expected: u64, value: u64) -> bool {
    order();
    let (success, failure) = (Ordering::Relaxed, Ordering::Relaxed);
    let replaced = word
        .compare_exchange(expected, value, success, failure)
        .is_ok();
    if replaced {
        order();
    }
    replaced
}

/// `fully_ordered()`, and atomic operations whose result is used.
fn ordered<T>(operation: impl FnOnce() -> T) -> T {
    order();
    let found = operation();
    order();
    found
}

/// `service_parts`, `quota_notes`, `got_cpu`, `struct reader`, `struct udp_reader`
#[test]
fn a_slot_that_is_written_over_is_not_taken_for_what_it_was() {
    let [tag, ran, delay] = [const { AtomicU64::new(0) }; 3];
    thread::scope(|scope| {
        scope.spawn(|| {
            for turn in 1..TURNS {
                store(&tag, 0);
                order();
                store(&ran, turn);
                store(&delay, 2 * turn);
                order();
                store(&tag, turn);
            }
        });
        for _ in 0..TURNS {
            let turn = load(&tag);
            order();
            let copy = (load(&ran), load(&delay));
            order();
            if turn != 0 && load(&tag) == turn {
                assert_eq!(copy, (turn, 2 * turn));
            }
            thread::yield_now();
        }
    });
}

/// `struct exchange` and `struct udp_exchange`
#[test]
fn the_time_of_an_answer_is_that_of_its_state() {
    let [state, ns] = [const { AtomicU64::new(0) }; 2];
    thread::scope(|scope| {
        scope.spawn(|| {
            for turn in 1..TURNS {
                store(&state, 0);
                order();
                store(&ns, turn);
                exchange(&state, turn);
            }
        });
        for _ in 0..2 {
            scope.spawn(|| {
                for _ in 0..TURNS {
                    let turn = load(&state);
                    order();
                    let time = load(&ns);
                    if turn != 0 && replace(&state, turn, 0) {
                        assert_eq!(time, turn);
                    }
                    thread::yield_now();
                }
            });
        }
    });
}

/// `udp_arrival_store()`, `udp_arrival_at()`, `udp_take()`, and the read of `rx_head`
#[test]
fn what_is_queued_was_noted_and_an_arrival_is_whole() {
    let [even, odd] = [const { [const { AtomicU64::new(0) }; 2] }; 2];
    let place_of = |counter: u64| {
        if counter.is_multiple_of(2) {
            &even
        } else {
            &odd
        }
    };
    let [head, queue] = [const { AtomicU64::new(0) }; 2];
    thread::scope(|scope| {
        scope.spawn(|| {
            for counter in 0..TURNS {
                let [next, data] = place_of(counter);
                ordered(|| head.fetch_add(1, Ordering::Relaxed));
                exchange(next, 0);
                store(data, counter);
                exchange(next, counter + 1);
                // The kernel's queue, whose lock is given back.
                queue.store(counter + 1, Ordering::Release);
            }
        });
        for _ in 0..TURNS {
            let queued = load(&queue);
            order();
            assert!(load(&head) >= queued);
            let counter = queued.saturating_sub(1);
            let [next, data] = place_of(counter);
            if load(next) == counter + 1 {
                order();
                let copy = load(data);
                order();
                assert!(load(next) != counter + 1 || copy == counter);
            }
            thread::yield_now();
        }
    });
}

/// `udp_set_flag()`, `udp_sendmsg_ends()`, `udp_complete_send_if_over()`
#[test]
fn the_end_of_a_call_or_the_driver_completes_a_send_and_sees_all_of_it() {
    const LEFT: u64 = 1;
    const OPEN: u64 = 1;
    const WAITING: u64 = 2;
    const ENDED: u64 = 3;
    for _ in 0..TURNS {
        let [flags, snd, bytes, completed] = [const { AtomicU64::new(0) }; 4];
        let state = AtomicU64::new(OPEN);
        let complete_if_over = || {
            if load(&flags) & LEFT != 0 && replace(&state, WAITING, ENDED) {
                assert_eq!((load(&snd), load(&bytes)), (7, 8));
                completed.fetch_add(1, Ordering::Relaxed);
            }
        };
        thread::scope(|scope| {
            scope.spawn(|| {
                store(&snd, 7);
                ordered(|| flags.fetch_or(LEFT, Ordering::Relaxed));
                complete_if_over();
            });
            scope.spawn(|| {
                store(&bytes, 8);
                exchange(&state, WAITING);
                complete_if_over();
            });
        });
        assert_eq!(load(&completed), 1);
    }
}

/// `udp_note_queued()`, `udp_stays()`
#[test]
fn a_send_that_has_not_left_has_the_name_of_its_last_packet() {
    let [left, name] = [const { AtomicU64::new(0) }; 2];
    thread::scope(|scope| {
        scope.spawn(|| {
            for packet in 1..TURNS {
                ordered(|| left.fetch_or(1, Ordering::Relaxed));
                store(&name, packet);
                ordered(|| left.store(2 * packet, Ordering::Relaxed));
            }
        });
        for _ in 0..TURNS {
            let packet = load(&left) / 2;
            order();
            assert!(load(&name) >= packet);
        }
    });
}

/// `udp_release_slot()`, `udp_take_free()`
#[test]
fn a_slot_is_cleared_after_it_was_read() {
    for _ in 0..TURNS {
        let (used, bytes) = (AtomicU64::new(1), AtomicU64::new(5));
        thread::scope(|scope| {
            scope.spawn(|| {
                assert_eq!(load(&bytes), 5);
                store(&bytes, 6);
                ordered(|| used.fetch_and(0, Ordering::Relaxed));
            });
            scope.spawn(|| {
                for _ in 0..TURNS {
                    if ordered(|| used.fetch_or(1, Ordering::Relaxed)) == 0 {
                        assert_eq!(load(&bytes), 6);
                        return store(&bytes, 0);
                    }
                    thread::yield_now();
                }
            });
        });
    }
}

/// `arrivals_set_state()`, `rx_find_arrival()`
#[test]
fn arrivals_that_move_are_looked_for_again() {
    let [state, arrival] = [const { AtomicU64::new(0) }; 2];
    let state_now = || ordered(|| state.fetch_or(0, Ordering::Relaxed));
    thread::scope(|scope| {
        scope.spawn(|| {
            for turn in 1..TURNS {
                exchange(&state, 2 * turn - 1);
                store(&arrival, turn);
                exchange(&state, 2 * turn);
            }
        });
        for _ in 0..TURNS {
            let before = state_now();
            let seen = load(&arrival);
            if before.is_multiple_of(2) && state_now() == before {
                assert_eq!(seen, before / 2);
            }
            thread::yield_now();
        }
    });
}

/// `rx->done`, and `id` of `struct path`
#[test]
fn what_was_read_is_given_back_after_that() {
    for _ in 0..TURNS {
        let (id, snd) = (AtomicU64::new(1), AtomicU64::new(5));
        thread::scope(|scope| {
            scope.spawn(|| {
                let seen = load(&snd);
                order();
                store(&id, 0);
                assert_eq!(seen, 5);
            });
            scope.spawn(|| {
                for _ in 0..TURNS {
                    if replace(&id, 0, 2) {
                        return store(&snd, 0);
                    }
                    thread::yield_now();
                }
            });
        });
    }
}

/// `window`, `run_clock`, and counts of what was added to a map: `groups_made`, `drops_added`
#[test]
fn what_was_written_before_is_seen_with_what_tells_of_it() {
    let [length, opens] = [const { AtomicU64::new(0) }; 2];
    thread::scope(|scope| {
        scope.spawn(|| {
            for turn in 1..TURNS {
                store(&length, turn);
                order();
                store(&opens, turn);
            }
        });
        for _ in 0..TURNS {
            let turn = load(&opens);
            order();
            assert!(load(&length) >= turn);
            thread::yield_now();
        }
    });
}

/// `hop_end()`, `hop_hand_over()`
#[test]
fn the_way_of_a_packet_is_whole_once_it_is_over() {
    const OPEN: u64 = 2;
    const OVER: u64 = 3;
    const HELD: u64 = 4;
    for _ in 0..TURNS {
        let (state, seen) = (AtomicU64::new(OPEN), AtomicU64::new(0));
        thread::scope(|scope| {
            scope.spawn(|| {
                store(&seen, 4);
                replace(&state, OPEN, OVER);
            });
            scope.spawn(|| {
                if !replace(&state, OPEN, HELD) {
                    order();
                    assert_eq!(load(&seen), 4);
                }
            });
        });
    }
}

/// `SLOT_BUSY`
const BUSY: u64 = 1;

/// `struct told`, whose owner is `queue`
#[derive(Default)]
struct Told {
    queue: AtomicU64,
    receiver: AtomicU64,
    first: AtomicU64,
    last: AtomicU64,
}

impl Told {
    /// `pool_note_told()`, with `slot_take_from()`
    fn note(&self, queue: u64, receiver: u64, arrival: u64) {
        let before = load(&self.queue);
        if before == BUSY || !replace(&self.queue, before, BUSY) {
            return;
        }
        let goes_on = before == queue && load(&self.receiver) == receiver;
        if !goes_on || load(&self.last) + 1 != arrival {
            store(&self.receiver, receiver);
            store(&self.first, arrival);
        }
        store(&self.last, arrival);
        order();
        store(&self.queue, queue);
    }

    /// `pool_was_told()`
    fn was_told(&self, queue: u64, receiver: u64, arrival: u64) -> bool {
        if load(&self.queue) != queue {
            return false;
        }
        order();
        let numbers = || (load(&self.first), load(&self.last));
        let (first, last) = numbers();
        let covers = arrival.wrapping_sub(first) <= last.wrapping_sub(first);
        let told = load(&self.receiver) == receiver && covers;
        order();
        told && load(&self.queue) == queue && numbers() == (first, last)
    }
}

/// `slot_take()`: `got_cpu`, `sleepers`, `tolds`
#[test]
fn a_slot_that_others_take_is_extended_by_its_owner_alone() {
    const NEVER: u64 = 1 << 20;
    let told = Told::default();
    thread::scope(|scope| {
        for pair in 1..3 {
            let told = &told;
            scope.spawn(move || {
                // Each pair is told of arrivals below the other's, or above.
                for turn in 1..TURNS {
                    told.note(10 * pair, 20 * pair, turn + (pair - 1) * NEVER / 2);
                    thread::yield_now();
                }
            });
        }
        for _ in 0..TURNS {
            for pair in 1..3 {
                assert!(!told.was_told(10 * pair, 20 * pair, NEVER));
                assert!(!told.was_told(10 * pair, 20 * pair, NEVER / 4));
            }
            thread::yield_now();
        }
    });
}
