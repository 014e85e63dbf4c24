use std::io::Write;
use std::net::{IpAddr, Shutdown, TcpStream, UdpSocket};
use std::num::NonZeroUsize;
use std::os::fd::{AsFd, BorrowedFd};
use std::thread;
use std::time::Duration;

use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use sockstamp::zerocopy::{How, Receive, ReceiveCounters, ZeroCopyReceiver, ZeroCopySender};
use testbed::Family;

use crate::common::{LOOPBACKS, Network, all_back, always, fill, first_difference, send, tcp_pair};

const WINDOW: NonZeroUsize = NonZeroUsize::new(1 << 20).unwrap();
const PAGE: usize = 4096;

fn readable(socket: BorrowedFd<'_>) {
    let mut fds = [PollFd::new(socket, PollFlags::POLLIN)];
    assert_eq!(poll(&mut fds, PollTimeout::from(10_000_u16)), Ok(1));
}

fn receives_all(stream: TcpStream, seed: u64) -> ReceiveCounters {
    let mut receiver = ZeroCopyReceiver::new(stream, WINDOW, 16 * 1024).unwrap();
    receives_rest(&mut receiver, seed, 0);
    receiver.counters()
}

/// Receive to the end and compare with the stream of `seed`, from a place in it.
fn receives_rest(receiver: &mut ZeroCopyReceiver<TcpStream>, seed: u64, mut at: usize) {
    loop {
        readable(receiver.socket().as_fd());
        match receiver.receive().unwrap() {
            Receive::Data(received) => {
                assert_eq!(received.mapped.len() % PAGE, 0);
                assert_eq!(received.mapped.as_ptr().addr() % PAGE, 0);
                for part in received.parts() {
                    assert_eq!(first_difference(part, seed, at), None, "at {at}");
                    at += part.len();
                }
            }
            Receive::WouldBlock => {}
            Receive::End => break,
        }
    }
    let counters = receiver.counters();
    assert_eq!(counters.mapped + counters.copied, at as u64);
}

/// 200 writes of 16 pages.
fn sends_pages(stream: TcpStream, seed: u64) {
    let mut sender = ZeroCopySender::new(stream, always()).unwrap();
    for turn in 0..200 {
        let mut buffer = vec![0; 16 * PAGE];
        fill(&mut buffer, seed, turn * 16 * PAGE);
        assert_eq!(send(&mut sender, buffer, How::default()), None);
    }
    all_back(&mut sender);
}

fn check_pages(client: TcpStream, server: TcpStream) {
    let writer = thread::spawn(move || sends_pages(client, 8));
    let counters = receives_all(server, 8);
    writer.join().unwrap();
    assert_eq!(counters.mapped + counters.copied, 200 * 16 * PAGE as u64);
    assert!(counters.mapped > counters.copied, "{counters:?}");
}

#[test]
fn sends_without_a_copy_on_this_host_are_mapped() {
    for address in LOOPBACKS {
        let (client, server) = tcp_pair(address);
        check_pages(client, server);
    }
}

/// Each packet has a page of payload: headers of 20 or 40 bytes for IP, 20 for TCP, 12 for its
/// timestamps.
#[test]
fn packets_with_a_page_of_payload_are_mapped() {
    let network = Network::new();
    for (family, headers) in [(Family::V4, 52), (Family::V6, 72)] {
        let mtu = (PAGE + headers).to_string();
        for (host, interface) in [
            (&network.a, network.link.interface_a()),
            (&network.b, network.link.interface_b()),
        ] {
            host.run("ip", &["link", "set", interface, "mtu", &mtu])
                .unwrap();
        }
        let address: IpAddr = network.link.address_b(family);
        let listener = network.b.tcp_listen((address, 0).into()).unwrap();
        let client = network
            .a
            .tcp_connect(listener.local_addr().unwrap())
            .unwrap();
        check_pages(client, listener.accept().unwrap().0);
    }
}

#[test]
fn bytes_that_cannot_be_mapped_are_copied() {
    for address in LOOPBACKS {
        let (mut client, server) = tcp_pair(address);
        let writer = thread::spawn(move || {
            let mut at = 0;
            for turn in 0..300 {
                let mut bytes = vec![0; 1 + turn * 37];
                fill(&mut bytes, 9, at);
                at += bytes.len();
                client.write_all(&bytes).unwrap();
            }
            at as u64
        });
        let counters = receives_all(server, 9);
        assert_eq!(counters.copied, writer.join().unwrap());
    }
}

#[test]
fn no_data_the_end_and_a_reset_are_distinguished() {
    for address in LOOPBACKS {
        let (mut client, server) = tcp_pair(address);
        let mut receiver = ZeroCopyReceiver::new(&server, WINDOW, 0).unwrap();
        assert_eq!(receiver.receive().unwrap(), Receive::WouldBlock);
        client.write_all(b"last").unwrap();
        client.shutdown(Shutdown::Write).unwrap();
        readable(server.as_fd());
        let Receive::Data(received) = receiver.receive().unwrap() else {
            panic!("four bytes came");
        };
        assert_eq!((received.mapped, received.copied), (&b""[..], &b"last"[..]));
        for _ in 0..2 {
            readable(server.as_fd());
            assert_eq!(receiver.receive().unwrap(), Receive::End);
        }

        let (client, mut server) = tcp_pair(address);
        server.write_all(b"never read").unwrap();
        readable(client.as_fd());
        let mut receiver = ZeroCopyReceiver::new(&server, WINDOW, 0).unwrap();
        drop(client);
        let reset = loop {
            match receiver.receive() {
                Ok(Receive::WouldBlock) => thread::sleep(Duration::from_millis(1)),
                other => break other.map(|_| ()).unwrap_err(),
            }
        };
        let said = std::io::Error::from(Errno::ECONNRESET);
        assert!(reset.to_string().ends_with(&said.to_string()), "{reset}");
    }
}

#[test]
fn a_view_stays_while_more_arrives() {
    let (client, server) = tcp_pair(LOOPBACKS[0]);
    let writer = thread::spawn(move || sends_pages(client, 10));
    let small = NonZeroUsize::new(4 * PAGE).unwrap();
    let mut receiver = ZeroCopyReceiver::new(server, small, 0).unwrap();
    let mut at = 0;
    for _ in 0..20 {
        readable(receiver.socket().as_fd());
        let Receive::Data(received) = receiver.receive().unwrap() else {
            panic!("something is there");
        };
        thread::sleep(Duration::from_millis(1));
        for part in received.parts() {
            assert_eq!(first_difference(part, 10, at), None);
            at += part.len();
        }
    }
    assert!(receiver.counters().mapped > 0);
    receiver.release();
    receives_rest(&mut receiver, 10, at);
    writer.join().unwrap();
}

#[test]
fn other_sockets_cannot_be_mapped() {
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    let error = ZeroCopyReceiver::new(socket, WINDOW, 0).unwrap_err();
    let said = std::io::Error::from(Errno::ENODEV);
    assert_eq!(error.to_string(), format!("mmap on a socket: {said}"));
}
