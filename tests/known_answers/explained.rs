//! Faults that occur at times: `explain` names them first while it measures, in the words of
//! docs/diagnosis.md.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::thread;
use std::time::Duration;

use socket2::SockRef;
use testbed::{Host, within_attempts};
use with::explained::{explained, names};

/// Five more than a conclusion needs.
const FLOWS: usize = 25;
/// Fast questions of a flow, in front of the one with the fault.
const FAST: usize = 130;
const FAULT: Duration = Duration::from_millis(50);
const QUESTION: usize = 100;

/// The server's part in a fault: the first byte of a question.
#[derive(Clone, Copy)]
enum Server {
    IsFast,
    AnswersLate,
    ReadsLate,
}

/// Return a question of this many bytes, which begins with its length after the first byte.
fn question(server: Server, length: usize) -> Vec<u8> {
    let mut question = vec![0; length];
    question[0] = server as u8;
    question[1..5].copy_from_slice(&u32::try_from(length).unwrap().to_le_bytes());
    question
}

fn serve(mut socket: &TcpStream) {
    let mut head = [0; 5];
    while socket.read_exact(&mut head).is_ok() {
        let length = u32::from_le_bytes([head[1], head[2], head[3], head[4]]) as usize;
        let sleep_if = |server| {
            if head[0] == server as u8 {
                thread::sleep(FAULT);
            }
        };
        sleep_if(Server::ReadsLate);
        socket.read_exact(&mut vec![0; length - 5]).unwrap();
        sleep_if(Server::AnswersLate);
        socket.write_all(&[1; 50]).unwrap();
    }
}

/// Check the report about connections over the loopback of a host. The last question of each is
/// asked with a fault.
fn of_connections(
    kind: &str,
    component: &str,
    words: &str,
    prepare: impl Fn(&Host),
    fault: impl Fn(&Host, &mut TcpStream),
) {
    let host = Host::new("faults").unwrap();
    prepare(&host);
    let listener = host.tcp_listen("127.0.0.1:0".parse().unwrap()).unwrap();
    let address = listener.local_addr().unwrap();
    let ask = || {
        for _ in 0..FLOWS {
            let mut socket = host.tcp_connect(address).unwrap();
            let (server, _) = listener.accept().unwrap();
            thread::scope(|scope| {
                scope.spawn(move || serve(&server));
                for _ in 0..FAST {
                    socket
                        .write_all(&question(Server::IsFast, QUESTION))
                        .unwrap();
                    socket.read_exact(&mut [0; 50]).unwrap();
                }
                fault(&host, &mut socket);
                socket.read_exact(&mut [0; 50]).unwrap();
                drop(socket);
            });
        }
    };
    let target = ["--netns", host.netns_name(), "tcp"];
    within_attempts(|| names(&explained(&target, ask), kind, component, words));
}

fn as_it_is(_: &Host) {}

#[test]
fn a_slow_handler_is_explained() {
    of_connections(
        "answers",
        "peer.answer peer",
        "usual cure: That of the peer",
        as_it_is,
        |_, socket| {
            socket
                .write_all(&question(Server::AnswersLate, QUESTION))
                .unwrap();
        },
    );
}

#[test]
fn a_late_reader_is_explained() {
    of_connections("reads", "rx.app", "usual cure: ", as_it_is, |_, socket| {
        socket
            .write_all(&question(Server::IsFast, QUESTION))
            .unwrap();
        thread::sleep(FAULT);
    });
}

/// The acknowledgement that the second write waits for is delayed.
#[test]
fn nagles_algorithm_and_a_delayed_acknowledgement_are_explained() {
    of_connections(
        "sends",
        "tx.queue nagle",
        "TCP_NODELAY",
        as_it_is,
        |_, socket| {
            let question = question(Server::IsFast, QUESTION);
            socket.write_all(&question[..50]).unwrap();
            socket.write_all(&question[50..]).unwrap();
        },
    );
}

#[test]
fn a_send_buffer_that_the_peer_does_not_empty_is_explained() {
    of_connections(
        "sends",
        "tx.copy sndbuf",
        "sndbuf_limited",
        as_it_is,
        |_, socket| {
            SockRef::from(&*socket)
                .set_send_buffer_size(10_000)
                .unwrap();
            socket
                .write_all(&question(Server::ReadsLate, 500_000))
                .unwrap();
        },
    );
}

/// The program holds the end of its question back.
#[test]
fn a_cork_that_stays_is_explained() {
    of_connections(
        "sends",
        "tx.queue cork",
        "Clear TCP_CORK",
        as_it_is,
        |_, socket| {
            let corked = SockRef::from(&*socket);
            corked.set_tcp_cork(true).unwrap();
            let written = (&*socket).write_all(&question(Server::IsFast, QUESTION));
            written.unwrap();
            thread::sleep(FAULT);
            corked.set_tcp_cork(false).unwrap();
        },
    );
}

/// The window is small, and its reader late; the sender has room for all.
#[test]
fn a_slow_reader_at_the_peer_is_explained() {
    let small_window = |host: &Host| {
        host.set_sysctl("net.ipv4.tcp_rmem", "4096 16384 16384")
            .unwrap();
        host.set_sysctl("net.ipv4.tcp_wmem", "4096 4194304 4194304")
            .unwrap();
    };
    of_connections(
        "sends",
        "tx.queue rwnd",
        "rwnd_limited",
        small_window,
        |_, socket| {
            socket
                .write_all(&question(Server::ReadsLate, 300_000))
                .unwrap();
        },
    );
}

/// Datagrams of another program fill the queue of the device in front of the question.
#[test]
fn a_queue_that_bulk_data_fills_is_explained() {
    let slow_device = |host: &Host| {
        let tbf = "qdisc add dev lo root tbf rate 20mbit burst 70kb limit 2mb";
        host.run("tc", &tbf.split(' ').collect::<Vec<_>>()).unwrap();
    };
    of_connections(
        "sends",
        "tx.qdisc",
        "fq_codel",
        slow_device,
        |host, socket| {
            let [bulk, sink] =
                [(); 2].map(|()| host.udp_bind("127.0.0.1:0".parse().unwrap()).unwrap());
            bulk.connect(sink.local_addr().unwrap()).unwrap();
            bulk.set_nonblocking(true).unwrap();
            // Until its send buffer is full.
            while bulk.send(&[0; 1400]).is_ok() {}
            socket
                .write_all(&question(Server::IsFast, QUESTION))
                .unwrap();
        },
    );
}

#[test]
fn a_slow_service_of_datagrams_is_explained() {
    let host = Host::new("dns").unwrap();
    // The lower port counts as that of the service.
    let server = host.udp_bind("127.0.0.1:53".parse().unwrap()).unwrap();
    let ask = || {
        thread::scope(|scope| {
            scope.spawn(|| {
                let mut question = [0; QUESTION];
                for number in 1..=FLOWS * FAST {
                    let (_, from) = server.recv_from(&mut question).unwrap();
                    if number % FAST == 0 {
                        thread::sleep(FAULT);
                    }
                    server.send_to(&question[..50], from).unwrap();
                }
            });
            for _ in 0..FLOWS {
                let socket = host.udp_bind("127.0.0.1:0".parse().unwrap()).unwrap();
                socket.connect("127.0.0.1:53").unwrap();
                for _ in 0..FAST {
                    socket.send(&[1; QUESTION]).unwrap();
                    socket.recv(&mut [0; QUESTION]).unwrap();
                }
            }
        });
    };
    let target = ["--netns", host.netns_name(), "udp"];
    let words = "usual cure: That of the peer";
    within_attempts(|| {
        names(
            &explained(&target, ask),
            "answers",
            "peer.answer peer",
            words,
        )
    });
}
