//! Faults of full buffers and windows, late readers and held locks: the last line of `stat` names
//! them.

use std::fs;
use std::io::{Read, Write};
use std::net::{Ipv4Addr, TcpStream};
use std::thread;
use std::time::Duration;

use testbed::{Family, HeldSocket, Host, LinkConfig, within_attempts};
use with::last_line::{last_line_while, room_for_a_page, tells};
use with::pair::Pair;
use with::programs::{nginx_with_page, run, serve_files, start_script, wait_read};

/// Leave datagrams unread for a second, and until a signal, with room for all of them.
const SLEEPING_DATAGRAMS: &str = "
import signal, socket, sys, time
signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGUSR1})
server = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
SO_RCVBUFFORCE = 33
server.setsockopt(socket.SOL_SOCKET, SO_RCVBUFFORCE, 16 << 20)
server.bind(('127.0.0.1', 5000))
open(sys.argv[1], 'w').close()
server.recv(2000)
time.sleep(1)
signal.sigwait({signal.SIGUSR1})
while True:
    server.recv(2000)
";

#[test]
fn a_reader_too_far_behind_is_diagnosed() {
    let host = Host::new("behind").unwrap();
    let send = "exec 3> /dev/udp/127.0.0.1/5000; for i in {1..6000}; do printf %100s >&3; done; kill -USR1";
    within_attempts(|| {
        // The server sleeps once.
        let server = start_script(&host, SLEEPING_DATAGRAMS);
        let process = server.id().to_string();
        let line = last_line_while(&["-p", &process, "--expert=attach=all"], || {
            host.run("bash", &["-c", &format!("{send} {process}")])
                .unwrap();
            wait_read(&host, 5000);
        });
        tells(line, "the reader falls behind: ")
    });
}

/// Ask for a page three times on one connection, with pauses.
const PAUSES: &str = "
import http.client, sys, time
server = http.client.HTTPConnection(sys.argv[1], int(sys.argv[2]))
for _ in range(4):
    server.request('GET', '/page')
    server.getresponse().read()
    time.sleep(0.8)
";

/// After each pause the first ten packets leave at once, and each round trip twice as many.
#[test]
fn slow_start_after_pauses_is_diagnosed() {
    let line = LinkConfig::default().delay(Duration::from_millis(25));
    let pair = Pair::relay(line, Family::V4);
    room_for_a_page(&pair);
    let folder = tempfile::tempdir().unwrap();
    let server = nginx_with_page(&pair.server, folder.path(), 60_000, pair.address);
    let (address, port) = (
        pair.address.ip().to_string(),
        pair.address.port().to_string(),
    );
    within_attempts(|| {
        let line = last_line_while(&["-p", &server.id().to_string()], || {
            let client = ["-c", PAUSES, &address, &port];
            pair.client.run("python3", &client).unwrap();
        });
        tells(line, "slow start: after each pause")
    });
}

/// The server writes 16 KB of the file at a time, and the path takes 60 ms for each.
#[test]
fn a_full_send_buffer_is_diagnosed() {
    let line = LinkConfig::default().delay(Duration::from_millis(30));
    let pair = Pair::relay(line, Family::V4);
    let room = ("net.ipv4.tcp_wmem", "4096 16384 16384");
    pair.server.set_sysctl(room.0, room.1).unwrap();
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("page"), vec![b'.'; 800_000]).unwrap();
    let server = serve_files(&pair.server, folder.path(), pair.address);
    let process = server.id().to_string();
    let download = format!("curl -s -o /dev/null http://{}/page", pair.address);
    within_attempts(|| {
        let line = last_line_while(&["-p", &process], || run(&pair.client, &download));
        tells(line, "the send buffer is full")
    });
}

/// Another thread sends from memory that does not come, as of a file on a slow file system: it has
/// the socket's lock meanwhile, and what arrives waits in the backlog.
#[test]
fn a_send_that_holds_the_receive_path_up_is_diagnosed() {
    let host = Host::new("backlog").unwrap();
    // Below the ports of clients.
    let listener = host.tcp_listen((Ipv4Addr::LOCALHOST, 5000).into()).unwrap();
    let mut client = host.tcp_connect(listener.local_addr().unwrap()).unwrap();
    let (mut server, _) = listener.accept().unwrap();
    within_attempts(|| {
        let line = last_line_while(&["--netns", host.netns_name()], || {
            for _ in 0..5 {
                delayed(&mut client, &mut server);
            }
        });
        tells(line, "the send call itself takes the time (tx.copy)")
    });
}

fn delayed(client: &mut TcpStream, server: &mut TcpStream) {
    let lock = HeldSocket::hold(server.try_clone().unwrap()).unwrap();
    client.write_all(&[0; 100]).unwrap();
    thread::sleep(Duration::from_millis(60));
    drop(lock);
    server.read_exact(&mut [0; 100]).unwrap();
}
