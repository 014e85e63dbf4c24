//! Sends and reads by io_uring(7), which make no system call of their own.

use std::io::{ErrorKind, Read, Write};
use std::os::fd::AsRawFd;
use std::thread;
use std::time::Instant;

use io_uring::{IoUring, opcode, squeue, types::Fd};
use nix::sys::socket::MsgFlags;
use socket2::SockRef;
use with::blocked::spawn_blocked;
use with::share;
use with::traced_hosts::{Check, Loopback, PAUSE, outline, pause, wait_acknowledged};

/// Cases of one host and one measurement.
#[test]
fn calls_by_io_uring_are_messages() {
    share!(
        a_send_is_a_message,
        an_io_uring_read_of_available_data_is_a_message,
        datagrams_are_messages,
        a_read_that_waits_for_data_is_one_message,
        a_send_that_found_no_room_begins_with_its_last_try,
    );
}

/// Run one operation to its end. The caller keeps everything that it names borrowed until then.
fn complete(operation: &squeue::Entry) -> i32 {
    let mut ring = IoUring::new(1).unwrap();
    // SAFETY: what the operation names must stay valid until it is complete. Both callers hold a
    // borrow of it during this call, which returns after the completion, or panics where nothing
    // was submitted.
    unsafe { ring.submission().push(operation) }.unwrap();
    loop {
        match ring.submit_and_wait(1) {
            Err(error) if error.kind() != ErrorKind::Interrupted => panic!("{error}"),
            _ => {}
        }
        if let Some(completion) = ring.completion().next() {
            return completion.result();
        }
    }
}

fn send(socket: &impl AsRawFd, data: &[u8]) -> i32 {
    let length = u32::try_from(data.len()).unwrap();
    complete(&opcode::Send::new(Fd(socket.as_raw_fd()), data.as_ptr(), length).build())
}

fn receive(socket: &impl AsRawFd, buffer: &mut [u8]) -> i32 {
    let length = u32::try_from(buffer.len()).unwrap();
    complete(&opcode::Recv::new(Fd(socket.as_raw_fd()), buffer.as_mut_ptr(), length).build())
}

fn a_send_is_a_message(setup: &Loopback) -> Check {
    let mut connection = setup.connect();
    assert_eq!(send(&connection.client, &[0; 100]), 100);
    connection.server.read_exact(&mut [0; 100]).unwrap();
    wait_acknowledged(&connection.client);
    Box::new(move |messages| {
        let sent = messages.sent_from(connection.client_address);
        assert_eq!(outline(&sent), [(100, "valid")]);
        assert_eq!(sent[0].number("pid"), u64::from(std::process::id()));
    })
}

fn an_io_uring_read_of_available_data_is_a_message(setup: &Loopback) -> Check {
    let mut connection = setup.connect();
    connection.client.write_all(&[0; 100]).unwrap();
    pause();
    assert_eq!(receive(&connection.server, &mut [0; 100]), 100);
    Box::new(move |messages| {
        let read = messages.read_at(connection.server_address);
        assert_eq!(outline(&read), [(100, "valid")]);
        assert!(read[0].stage("rx.app") >= PAUSE, "{read:?}");
    })
}

fn datagrams_are_messages(setup: &Loopback) -> Check {
    let bind = || setup.host.udp_bind("127.0.0.1:0".parse().unwrap()).unwrap();
    let (from, to) = (bind(), bind());
    from.connect(to.local_addr().unwrap()).unwrap();
    assert_eq!(send(&from, &[0; 100]), 100);
    pause();
    assert_eq!(receive(&to, &mut [0; 200]), 100);

    let (from, to) = (from.local_addr().unwrap(), to.local_addr().unwrap());
    Box::new(move |messages| {
        let (sent, read) = (messages.sent_from(from), messages.read_at(to));
        assert_eq!(outline(&sent), [(100, "valid")]);
        assert_eq!(outline(&read), [(100, "valid")]);
        assert!(read[0].stage("rx.app") >= PAUSE, "{read:?}");
    })
}

/// The kernel tries at once, waits for the socket, and tries again: the read is what the last try
/// did.
fn a_read_that_waits_for_data_is_one_message(setup: &Loopback) -> Check {
    let mut connection = setup.connect();
    let server = connection.server.try_clone().unwrap();
    let reader = spawn_blocked(move || receive(&server, &mut [0; 100]));
    pause();
    let start = Instant::now();
    connection.client.write_all(&[0; 100]).unwrap();
    assert_eq!(reader.join().unwrap(), 100);
    let took = start.elapsed();
    Box::new(move |messages| {
        let read = messages.read_at(connection.server_address);
        assert_eq!(outline(&read), [(100, "valid")]);
        assert!(read[0].stage("rx.app") < took, "{took:?} {read:?}");
    })
}

/// The kernel tries at once, waits for the socket without a call, and tries again: the send begins
/// with the last try. No send of another task ends in between.
fn a_send_that_found_no_room_begins_with_its_last_try(setup: &Loopback) -> Check {
    let mut connection = setup.connect();
    SockRef::from(&connection.server)
        .set_recv_buffer_size(8 << 10)
        .unwrap();
    SockRef::from(&connection.client)
        .set_send_buffer_size(64 << 10)
        .unwrap();
    // On a socket that never waits, the kernel would give up after the first try.
    let mut filled = 0;
    while let Ok(bytes) = nix::sys::socket::send(
        connection.client.as_raw_fd(),
        &[0; 1 << 16],
        MsgFlags::MSG_DONTWAIT,
    ) {
        filled += bytes;
    }
    let client = connection.client.try_clone().unwrap();
    let sender = thread::spawn(move || send(&client, &[0; 100]));
    pause();
    connection.server.read_exact(&mut vec![0; filled]).unwrap();
    assert_eq!(sender.join().unwrap(), 100);
    connection.server.read_exact(&mut [0; 100]).unwrap();
    wait_acknowledged(&connection.client);
    Box::new(move |messages| {
        let sent = messages.sent_from(connection.client_address);
        let last = sent.last().expect("a send");
        assert_eq!((last.bytes(), last.verdict()), (100, "valid"));
        assert!(last.stage("tx.copy") < PAUSE / 2, "{last:?}");
    })
}
