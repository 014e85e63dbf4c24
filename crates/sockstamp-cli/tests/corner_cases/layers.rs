//! Layers between send calls and TCP: kernel TLS calls TCP itself, and keeps TCP's result.

use std::io::{ErrorKind, Read, Write};
use std::net::TcpStream;
use std::thread;
use std::time::Duration;

use nix::errno::Errno;
use nix::sys::socket::setsockopt;
use nix::sys::socket::sockopt::{TcpTlsTx, TcpUlp, TlsCryptoInfo};
use socket2::SockRef;

use crate::common::skip;
use crate::traced_hosts::{Loopback, wait_until};

/// A wait that stands out from what a call takes, also under emulation.
const WAIT: Duration = Duration::from_secs(3);
const SMALL: usize = 100;
/// As many bytes as a record takes.
const LARGE: usize = 16 << 10;
/// The header, the nonce and the tag of a record: RFC 5246 and RFC 5288.
const RECORD: u64 = 5 + 8 + 16;

/// Has the kernel seal what is written, with some key: the reader opens nothing. Returns false if
/// it has no TLS.
fn seal(socket: &TcpStream) -> bool {
    match setsockopt(socket, TcpUlp::default(), b"tls") {
        Err(Errno::ENOENT) => return false,
        put => put.unwrap(),
    }
    let parameters = libc::tls12_crypto_info_aes_gcm_128 {
        info: libc::tls_crypto_info {
            version: libc::TLS_1_2_VERSION,
            cipher_type: libc::TLS_CIPHER_AES_GCM_128,
        },
        iv: [1; libc::TLS_CIPHER_AES_GCM_128_IV_SIZE],
        key: [2; libc::TLS_CIPHER_AES_GCM_128_KEY_SIZE],
        salt: [3; libc::TLS_CIPHER_AES_GCM_128_SALT_SIZE],
        rec_seq: [0; libc::TLS_CIPHER_AES_GCM_128_REC_SEQ_SIZE],
    };
    setsockopt(socket, TcpTlsTx, &TlsCryptoInfo::Aes128Gcm(parameters)).unwrap();
    true
}

/// Writes until the send buffer is full.
fn fill(mut socket: &TcpStream) {
    loop {
        match socket.write(&[7; LARGE]) {
            Ok(_) => {}
            Err(error) if error.kind() == ErrorKind::WouldBlock => return,
            Err(error) => panic!("{error}"),
        }
    }
}

/// Reads until nothing comes any more.
fn drain(mut socket: &TcpStream) {
    let mut buffer = vec![0; 1 << 16];
    while socket.read(&mut buffer).is_ok_and(|bytes| bytes > 0) {}
}

/// The last call for a full buffer fails inside: TLS keeps the record, and the call succeeds. The
/// entry of the call must not become that of a later one.
#[test]
fn a_send_by_tls_that_failed_inside_adds_no_wait_to_the_next_one() {
    let loopback = Loopback::new();
    let connection = loopback.connect();
    let (client, server) = (&connection.client, &connection.server);
    SockRef::from(server).set_recv_buffer_size(8 << 10).unwrap();
    SockRef::from(client).set_send_buffer_size(64 << 10).unwrap();
    server.set_read_timeout(Some(Duration::from_millis(700))).unwrap();
    client.set_nonblocking(true).unwrap();
    if !seal(client) {
        let name = "layers::a_send_by_tls_that_failed_inside_adds_no_wait_to_the_next_one";
        return skip(name, "the kernel has no TLS");
    }
    for _ in 0..3 {
        fill(client);
        thread::sleep(WAIT);
        drain(server);
        wait_until("there is room again", || {
            let sent = (&*client).write(&[7; SMALL]);
            sent.is_ok_and(|bytes| bytes == SMALL)
        });
        drain(server);
    }
    let address = connection.client_address;
    let messages = loopback.finish();
    let sent = messages.sent_from(address);
    let valid = || sent.iter().filter(|message| message.verdict() == "valid");
    let whole = [LARGE, SMALL].map(|bytes| bytes as u64 + RECORD);
    assert!(valid().any(|message| message.bytes() == whole[1]), "{sent:?}");
    assert!(
        valid().any(|message| !whole.contains(&message.bytes())),
        "no record was cut short: {sent:?}"
    );
    for message in valid() {
        assert!(message.stage("tx.copy") < WAIT / 2, "{message:?}");
    }
}
