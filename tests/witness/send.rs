//! Sends of TCP against the wire: wherever TCP splits what shares a packet, each message has the
//! times of its own last byte.

use std::io::{Read, Seek, SeekFrom, Write};
use std::net::Shutdown;
use std::os::fd::AsFd;
use std::thread;
use std::time::Duration;

use nix::sys::sendfile::sendfile;
use socket2::SockRef;
use testbed::{Family, LinkConfig, within_attempts};
use with::FAMILIES;
use with::sending::{Stream, Upper, WatchedSender};

fn link(milliseconds: u64) -> LinkConfig {
    LinkConfig::default().delay(Duration::from_millis(milliseconds) / 2)
}

/// The same numbers each time: a linear congruential generator (Numerical Recipes).
struct Numbers(u32);

impl Numbers {
    fn below(&mut self, end: u32) -> u32 {
        self.0 = self.0.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        (self.0 >> 8) % end
    }

    fn size(&mut self, end: u32) -> usize {
        1 + self.below(end) as usize
    }
}

fn no_delay(stream: &Stream<'_>) {
    stream.socket.set_nodelay(true).unwrap();
}

fn pause(milliseconds: u64) {
    thread::sleep(Duration::from_millis(milliseconds));
}

/// Check one kind of traffic over both families.
fn over_both_families(config: &LinkConfig, send: impl Fn(&mut Stream<'_>)) {
    within_attempts(|| {
        let setup = WatchedSender::new(config.clone());
        for family in FAMILIES {
            setup.with_reader(family, |stream| send(stream));
        }
        setup.check()
    });
}

fn bursts_of_thirty(stream: &mut Stream<'_>) {
    no_delay(stream);
    let mut numbers = Numbers(1);
    for _ in 0..6 {
        for _ in 0..30 {
            stream.send(200 + numbers.size(1800));
        }
        pause(90);
    }
}

fn random_sizes_and_gaps(stream: &mut Stream<'_>) {
    let mut numbers = Numbers(2);
    for _ in 0..160 {
        stream.send(numbers.size(6000));
        if numbers.below(3) == 0 {
            pause(numbers.below(12).into());
        }
    }
}

#[test]
fn sends_in_bursts_have_their_own_times() {
    over_both_families(&link(20), bursts_of_thirty);
}

#[test]
fn sends_in_bursts_have_their_own_times_without_segmentation_offload() {
    over_both_families(&link(20).offload(false), bursts_of_thirty);
}

/// A token bucket in front of the lower device cuts the packets that the upper one takes whole
/// (`tbf_segment()`): each message leaves with the part that has its last byte.
#[test]
fn sends_by_a_device_on_another_one_leave_by_the_lower() {
    for upper in [Upper::Macvlan, Upper::Bridge] {
        within_attempts(|| {
            let setup = WatchedSender::stacked(upper, "rate 40mbit burst 5kb latency 300ms");
            setup.with_reader(Family::V4, bursts_of_sixty);
            setup.check()
        });
    }
}

/// A redirection sends a copy of each packet on, which no socket owns: messages leave when the copy
/// does. The first message shows that, and is refused.
#[test]
fn sends_that_a_redirection_hands_on_leave_by_the_last_device() {
    within_attempts(|| {
        let setup = WatchedSender::redirected("rate 40mbit burst 70kb latency 300ms");
        for family in FAMILIES {
            setup.with_reader(family, |stream| {
                stream.send(100);
                pause(500);
                bursts_of_sixty(stream);
            });
        }
        setup.check()
    });
}

fn bursts_of_sixty(stream: &mut Stream<'_>) {
    no_delay(stream);
    let mut numbers = Numbers(4);
    for _ in 0..10 {
        for _ in 0..60 {
            stream.send(200 + numbers.size(1600));
        }
        pause(60);
    }
}

#[test]
fn sends_of_random_sizes_have_their_own_times() {
    over_both_families(&link(20), random_sizes_and_gaps);
}

#[test]
fn sends_have_their_own_times_under_loss() {
    over_both_families(&link(20).loss(0.02).offload(false), random_sizes_and_gaps);
}

#[test]
fn sends_have_their_own_times_under_reordering() {
    let config = link(20)
        .reorder(0.05)
        .reorder_hold(Duration::from_millis(4))
        .offload(false);
    over_both_families(&config, random_sizes_and_gaps);
}

#[test]
fn small_sends_behind_a_large_one_have_their_own_times() {
    over_both_families(&link(50), |stream| {
        for _ in 0..3 {
            stream.send(14_000);
            for _ in 0..40 {
                stream.send(1000);
            }
            pause(600);
        }
    });
}

#[test]
fn sends_into_a_small_window_have_their_own_times() {
    within_attempts(|| {
        let setup = WatchedSender::new(link(10));
        for family in FAMILIES {
            let listener = setup.listen(family);
            SockRef::from(&listener).set_recv_buffer_size(6000).unwrap();
            let mut stream = setup.connect(&listener);
            let (mut peer, _) = listener.accept().unwrap();
            thread::scope(|scope| {
                scope.spawn(move || while peer.read(&mut [0; 4096]).unwrap() > 0 {});
                let mut numbers = Numbers(3);
                for _ in 0..250 {
                    stream.send(numbers.size(1500));
                }
                stream.drain();
            });
        }
        setup.check()
    });
}

/// Two writes and a read, so that the second write waits for the acknowledgement of the first
/// (Nagle).
#[test]
fn requests_in_two_writes_have_their_own_times() {
    within_attempts(|| {
        let setup = WatchedSender::new(link(4));
        for family in FAMILIES {
            let listener = setup.listen(family);
            let mut stream = setup.connect(&listener);
            let (mut peer, _) = listener.accept().unwrap();
            thread::scope(|scope| {
                scope.spawn(move || {
                    let mut request = [0; 300];
                    while peer.read_exact(&mut request).is_ok() {
                        peer.write_all(&[1; 100]).unwrap();
                        peer.write_all(&[2; 2000]).unwrap();
                    }
                });
                for _ in 0..40 {
                    stream.send(100);
                    stream.send(200);
                    stream.receive(2100);
                }
                stream.drain();
            });
        }
        setup.check()
    });
}

/// `tcp_probe` is silent in CLOSE_WAIT.
#[test]
fn sends_to_a_peer_that_has_closed_its_side_have_their_own_times() {
    within_attempts(|| {
        let setup = WatchedSender::new(link(20));
        for family in FAMILIES {
            let listener = setup.listen(family);
            let mut stream = setup.connect(&listener);
            let (mut peer, _) = listener.accept().unwrap();
            peer.shutdown(Shutdown::Write).unwrap();
            assert_eq!(stream.socket.read(&mut [0]).unwrap(), 0);
            thread::scope(|scope| {
                scope.spawn(move || while peer.read(&mut [0; 1 << 16]).unwrap() > 0 {});
                bursts_of_thirty(&mut stream);
                random_sizes_and_gaps(&mut stream);
                stream.drain();
            });
        }
        setup.check()
    });
}

/// Data queued when the sender closes its side leaves, and is acknowledged, in FIN_WAIT1.
#[test]
fn sends_in_front_of_a_fin_have_their_own_times() {
    within_attempts(|| {
        let setup = WatchedSender::new(link(20));
        for family in [FAMILIES; 5].concat() {
            let listener = setup.listen(family);
            let mut stream = setup.connect(&listener);
            let (mut peer, _) = listener.accept().unwrap();
            thread::scope(|scope| {
                scope.spawn(move || while peer.read(&mut [0; 1 << 16]).unwrap() > 0 {});
                let mut numbers = Numbers(8);
                for _ in 0..40 {
                    stream.send(200 + numbers.size(1800));
                }
                stream.socket.shutdown(Shutdown::Write).unwrap();
                assert_eq!(stream.socket.read(&mut [0]).unwrap(), 0);
            });
        }
        setup.check()
    });
}

#[test]
fn sends_of_eight_threads_have_their_own_times_under_loss() {
    within_attempts(|| {
        let setup = WatchedSender::new(link(10).loss(0.01).offload(false));
        thread::scope(|scope| {
            for thread in 0..8 {
                let setup = &setup;
                scope.spawn(move || {
                    let family = if thread % 2 == 0 {
                        Family::V4
                    } else {
                        Family::V6
                    };
                    setup.with_reader(family, |stream| {
                        let mut numbers = Numbers(thread);
                        for _ in 0..80 {
                            stream.send(numbers.size(4000));
                            pause(numbers.below(4).into());
                        }
                    });
                });
            }
        });
        setup.check()
    });
}

#[test]
fn files_that_are_sent_have_their_own_times() {
    over_both_families(&link(20), |stream| {
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(&[9; 35_000]).unwrap();
        let mut numbers = Numbers(5);
        for _ in 0..120 {
            let bytes = 900 + numbers.size(34_000);
            file.seek(SeekFrom::Start(0)).unwrap();
            stream.call(|socket| sendfile(socket.as_fd(), file.as_fd(), None, bytes).unwrap());
            pause(numbers.below(8).into());
        }
    });
}

#[test]
fn paced_sends_have_their_own_times() {
    over_both_families(&link(10), |stream| {
        testbed::set_max_pacing_rate(&stream.socket, 2_000_000).unwrap();
        random_sizes_and_gaps(stream);
    });
}

#[test]
fn sends_by_bbr_have_their_own_times() {
    over_both_families(&link(10), |stream| {
        SockRef::from(&stream.socket)
            .set_tcp_congestion(b"bbr")
            .unwrap();
        random_sizes_and_gaps(stream);
    });
}

#[test]
fn corked_sends_have_their_own_times() {
    over_both_families(&link(10), |stream| {
        let mut numbers = Numbers(6);
        for _ in 0..30 {
            SockRef::from(&stream.socket).set_tcp_cork(true).unwrap();
            for _ in 0..4 {
                stream.send(numbers.size(900));
                pause(2);
            }
            SockRef::from(&stream.socket).set_tcp_cork(false).unwrap();
            pause(12);
        }
    });
}

/// Hundreds of messages in flight.
#[test]
fn bulk_sends_have_their_own_times() {
    over_both_families(&link(20), |stream| {
        for _ in 0..600 {
            stream.send(16_000);
        }
    });
}
