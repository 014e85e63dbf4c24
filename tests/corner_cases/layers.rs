//! Layers between send calls and TCP: kernel TLS and sockmap call TCP themselves, and keep TCP's
//! result.

use std::io::{ErrorKind, Read, Write};
use std::net::TcpStream;
use std::thread;
use std::time::Duration;

use nix::errno::Errno;
use nix::sys::socket::setsockopt;
use nix::sys::socket::sockopt::{TcpTlsTx, TcpUlp, TlsCryptoInfo};
use socket2::SockRef;
use testbed::PATIENCE;
use testbed_bpf::redirect::{Bytes, Redirect};
use with::traced_hosts::{Connection, Loopback, Messages};
use with::{skip, wait_until};

/// A wait clearly longer than a call, also under emulation.
const WAIT: Duration = Duration::from_secs(3);
const SMALL: usize = 100;
/// The number of bytes of a record.
const LARGE: usize = 16 << 10;
/// The header, the nonce and the tag of a record: RFC 5246 and RFC 5288.
const RECORD: u64 = 5 + 8 + 16;

/// Have the kernel seal what is written, with some key: the reader opens nothing. Return false if
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

/// Write until the send buffer is full.
fn fill(mut socket: &TcpStream) {
    loop {
        match socket.write(&[7; LARGE]) {
            Ok(_) => {}
            Err(error) if error.kind() == ErrorKind::WouldBlock => return,
            Err(error) => panic!("{error}"),
        }
    }
}

/// Read until nothing comes any more.
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
    SockRef::from(client)
        .set_send_buffer_size(64 << 10)
        .unwrap();
    server
        .set_read_timeout(Some(Duration::from_millis(700)))
        .unwrap();
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
    assert!(
        valid().any(|message| message.bytes() == whole[1]),
        "{sent:?}"
    );
    assert!(
        valid().any(|message| !whole.contains(&message.bytes())),
        "no record was cut short: {sent:?}"
    );
    for message in valid() {
        assert!(message.stage("tx.copy") < WAIT / 2, "{message:?}");
    }
}

/// A program that talks to a proxy, and the proxy to a reader that lags behind.
struct Proxied {
    loopback: Loopback,
    outer: Connection,
    inner: Connection,
    _redirect: Redirect,
}

impl Proxied {
    fn new(bytes: Bytes) -> Proxied {
        let loopback = Loopback::new();
        let (outer, inner) = (loopback.connect(), loopback.connect());
        SockRef::from(&inner.server)
            .set_recv_buffer_size(256 << 10)
            .unwrap();
        SockRef::from(&inner.client)
            .set_send_buffer_size(64 << 10)
            .unwrap();
        inner
            .server
            .set_read_timeout(Some(Duration::from_millis(700)))
            .unwrap();
        let from = match bytes {
            Bytes::Received => &outer.server,
            Bytes::Sent => &outer.client,
        };
        let redirect = Redirect::new(bytes, from, &inner.client).unwrap();
        Proxied {
            loopback,
            outer,
            inner,
            _redirect: redirect,
        }
    }

    /// Have sends fail for a while, twice, and try again much later.
    fn stall(&self) {
        /// Enough to fill the buffers between.
        const WRITES: usize = 64;
        let mut client = &self.outer.client;
        for _ in 0..2 {
            let writes = (0..WRITES).take_while(|_| client.write(&[7; LARGE]).is_ok());
            println!("{} writes", writes.count());
            thread::sleep(WAIT);
            drain(&self.inner.server);
            wait_until("there is room again", || {
                let sent = client.write(&[7; SMALL]);
                sent.is_ok_and(|bytes| bytes == SMALL)
            });
            drain(&self.inner.server);
        }
    }

    /// No message that the proxy sent has a wait of an earlier try.
    fn check(self) {
        let address = self.inner.client_address;
        let messages: Messages = self.loopback.finish();
        let sent = messages.sent_from(address);
        let valid: Vec<_> = sent
            .iter()
            .filter(|message| message.verdict() == "valid")
            .collect();
        println!("{} of {} valid", valid.len(), sent.len());
        assert!(!valid.is_empty(), "{sent:?}");
        for message in valid {
            assert!(message.stage("tx.copy") < WAIT / 2, "{message:?}");
        }
    }
}

/// The kernel's worker does not wait: it fails inside, and tries again when there is room.
#[test]
fn bytes_that_a_sockmap_sends_on_later_have_no_wait_of_an_earlier_try() {
    let proxied = Proxied::new(Bytes::Received);
    proxied.stall();
    proxied.check();
}

/// The program's call waits inside, for the other socket, until that gives up.
#[test]
fn a_send_through_a_sockmap_has_no_wait_of_an_earlier_one_that_gave_up() {
    let proxied = Proxied::new(Bytes::Sent);
    let patience = Some(Duration::from_millis(300));
    proxied.inner.client.set_write_timeout(patience).unwrap();
    proxied
        .outer
        .client
        .set_write_timeout(Some(PATIENCE))
        .unwrap();
    proxied.stall();
    proxied.check();
}
