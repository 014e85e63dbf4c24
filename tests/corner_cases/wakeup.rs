//! Test which task waited for the data, how it waited, and when it got a CPU.

use std::io::{ErrorKind, Read, Write};
use std::net::TcpStream;
use std::os::fd::{AsFd, AsRawFd};
use std::sync::{Arc, mpsc};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use io_uring::{IoUring, opcode, types::Fd};
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::epoll::{Epoll, EpollCreateFlags, EpollEvent, EpollFlags, EpollTimeout};
use nix::sys::select::{FdSet, select};
use nix::unistd::{Pid, gettid};
use testbed::{Hog, run_first_on, within_attempts};
use with::blocked::wait_blocked;
use with::skip;
use with::traced_hosts::{Connection, Loopback, Message, outline, pause};

/// The CPU where readers run, or are kept from running.
const READERS: usize = 0;
/// The CPU where data is sent, and arrives.
const SENDERS: usize = 1;

/// Time that readers are kept from running.
const HELD: Duration = Duration::from_millis(40);
/// Time into that at which the second message comes, which the reader takes together with the
/// first.
const SECOND: Duration = Duration::from_millis(20);
/// Time that a reader computes between waking up and reading.
const THINKING: Duration = Duration::from_millis(30);
/// Time of other work of the machine in between.
const SLACK: Duration = Duration::from_millis(3);

/// The way in which a reader waits.
#[derive(Debug, Clone, Copy)]
enum Wait {
    Read,
    Poll,
    Select,
    Epoll(EpollFlags),
    Uring,
}

impl Wait {
    /// Wait for data, compute for `thinking`, and take it. Where waiting and reading are one,
    /// the computing is left out.
    fn receive(self, mut socket: &TcpStream, thinking: Duration) -> usize {
        match self {
            Wait::Read => {}
            Wait::Poll => {
                let mut wanted = [PollFd::new(socket.as_fd(), PollFlags::POLLIN)];
                poll(&mut wanted, PollTimeout::NONE).unwrap();
            }
            Wait::Select => {
                let mut wanted = FdSet::new();
                wanted.insert(socket.as_fd());
                select(None, &mut wanted, None, None, None).unwrap();
            }
            Wait::Epoll(flags) => wait_on(&epoll_of(&[socket], flags)),
            Wait::Uring => return receive_by_ring(socket),
        }
        compute(thinking);
        socket.read(&mut [0; 1000]).unwrap()
    }
}

fn epoll_of(sockets: &[&TcpStream], flags: EpollFlags) -> Epoll {
    let epoll = Epoll::new(EpollCreateFlags::empty()).unwrap();
    for socket in sockets {
        epoll
            .add(socket, EpollEvent::new(EpollFlags::EPOLLIN | flags, 0))
            .unwrap();
    }
    epoll
}

fn wait_on(epoll: &Epoll) {
    epoll
        .wait(&mut [EpollEvent::empty()], EpollTimeout::NONE)
        .unwrap();
}

fn receive_by_ring(socket: &TcpStream) -> usize {
    let mut buffer = [0u8; 1000];
    let mut ring = IoUring::new(1).unwrap();
    let operation = opcode::Recv::new(Fd(socket.as_raw_fd()), buffer.as_mut_ptr(), 1000).build();
    // SAFETY: socket and buffer must stay valid until the operation is complete. They live until
    // this function returns, which is after the completion.
    unsafe { ring.submission().push(&operation) }.unwrap();
    loop {
        match ring.submit_and_wait(1) {
            Err(error) if error.kind() != ErrorKind::Interrupted => panic!("{error}"),
            _ => {}
        }
        if let Some(completion) = ring.completion().next() {
            return usize::try_from(completion.result()).unwrap();
        }
    }
}

fn compute(time: Duration) {
    let start = Instant::now();
    while start.elapsed() < time {
        std::hint::spin_loop();
    }
}

/// Run `reader` where readers run. Nothing ordinary disturbs it. Return it with its thread's id.
fn run<T: Send + 'static>(reader: impl FnOnce() -> T + Send + 'static) -> (JoinHandle<T>, Pid) {
    let (started, has_started) = mpsc::channel();
    let reader = thread::spawn(move || {
        run_first_on(READERS).unwrap();
        started.send(gettid()).unwrap();
        reader()
    });
    (reader, has_started.recv().unwrap())
}

/// Run `reader`, and return when it waits for data.
fn start<T: Send + 'static>(reader: impl FnOnce() -> T + Send + 'static) -> JoinHandle<T> {
    let (reader, thread) = run(reader);
    wait_blocked(thread);
    reader
}

/// Send one message by each of two connections, while readers are kept from running. When they no
/// longer were.
fn send_while_held(first: &Connection, second: &Connection) -> Duration {
    let send = || {
        run_first_on(SENDERS).unwrap();
        let hog = Hog::start(READERS, HELD).unwrap();
        (&first.client).write_all(&[0; 100]).unwrap();
        thread::sleep(SECOND);
        (&second.client).write_all(&[0; 100]).unwrap();
        hog.finish().unwrap()
    };
    thread::scope(|scope| scope.spawn(send).join().unwrap())
}

fn too_few_processors(test: &str) -> bool {
    let too_few = thread::available_parallelism().unwrap().get() < 2;
    if too_few {
        skip(test, "readers and senders need a processor each");
    }
    too_few
}

fn server(connection: &Connection) -> TcpStream {
    connection.server.try_clone().unwrap()
}

fn is_within(what: &str, time: Duration, least: Duration, most: Duration) -> Result<(), String> {
    if (least..=most).contains(&time) {
        Ok(())
    } else {
        Err(format!(
            "{what} is {time:?}, not within {least:?} and {most:?}"
        ))
    }
}

/// The reader ran when the hog let go of the processor, and read at once.
fn ran_at(message: &Message, end: Duration) -> Result<(), String> {
    let ran = message.stamp("ready") + message.stage("rx.wakeup");
    // The hog ends between its last reading of the clock and the next switch.
    is_within("running", ran, end, end + SLACK)?;
    is_within("rx.app", message.stage("rx.app"), Duration::ZERO, SLACK)
}

/// A reader that waits is kept from running: what was kept from it is `rx.wakeup`, from when its
/// last byte could be read. The same reader computes before the next read: that is `rx.app`.
fn held_and_thinking(wait: Wait) {
    if too_few_processors(&format!("{wait:?}")) {
        return;
    }
    within_attempts(|| {
        let setup = Loopback::new();
        let mut connection = setup.connect();
        let socket = server(&connection);
        let reader = start(move || (wait.receive(&socket, Duration::ZERO), socket));
        let end = send_while_held(&connection, &connection);
        let (bytes, socket) = reader.join().unwrap();
        if bytes != 200 {
            return Err(format!(
                "{bytes} bytes in the first read, not both messages"
            ));
        }

        let reader = start(move || wait.receive(&socket, THINKING));
        connection.client.write_all(&[0; 100]).unwrap();
        assert_eq!(reader.join().unwrap(), 100);

        let messages = setup.finish();
        let read = messages.read_at(connection.server_address);
        assert_eq!(outline(&read), [(200, "valid"), (100, "valid")]);
        ran_at(read[0], end)?;
        // Since the second message; the first would have waited for all the time.
        let held = HELD - SECOND;
        is_within("rx.wakeup", read[0].stage("rx.wakeup"), SLACK, held + SLACK)?;
        is_within(
            "the second rx.wakeup",
            read[1].stage("rx.wakeup"),
            Duration::ZERO,
            SLACK,
        )?;
        let thinking = match wait {
            Wait::Read | Wait::Uring => Duration::ZERO,
            _ => THINKING - SLACK,
        };
        is_within(
            "the second rx.app",
            read[1].stage("rx.app"),
            thinking,
            thinking + 2 * SLACK,
        )
    });
}

#[test]
fn the_wake_up_of_a_blocking_read_is_measured() {
    held_and_thinking(Wait::Read);
}

#[test]
fn the_wake_up_of_a_poll_is_measured() {
    held_and_thinking(Wait::Poll);
}

#[test]
fn the_wake_up_of_a_select_is_measured() {
    held_and_thinking(Wait::Select);
}

#[test]
fn the_wake_up_of_a_level_triggered_epoll_is_measured() {
    held_and_thinking(Wait::Epoll(EpollFlags::empty()));
}

#[test]
fn the_wake_up_of_an_edge_triggered_epoll_is_measured() {
    held_and_thinking(Wait::Epoll(EpollFlags::EPOLLET));
}

#[test]
fn the_wake_up_of_an_io_uring_is_measured() {
    held_and_thinking(Wait::Uring);
}

/// The first socket wakes the task, which leaves the queue of the epoll instance; it is still not
/// running when the second gets data.
#[test]
fn a_read_whose_task_another_socket_woke_has_its_wake_up() {
    if too_few_processors("a_read_whose_task_another_socket_woke_has_its_wake_up") {
        return;
    }
    within_attempts(|| {
        let setup = Loopback::new();
        let (first, second) = (setup.connect(), setup.connect());
        let mut sockets = [server(&first), server(&second)];
        let reader = start(move || {
            wait_on(&epoll_of(&[&sockets[0], &sockets[1]], EpollFlags::empty()));
            for socket in &mut sockets {
                socket.read_exact(&mut [0; 100]).unwrap();
            }
        });
        let end = send_while_held(&first, &second);
        reader.join().unwrap();

        let messages = setup.finish();
        for connection in [&first, &second] {
            let read = messages.read_at(connection.server_address);
            assert_eq!(outline(&read), [(100, "valid")]);
            ran_at(read[0], end)?;
        }
        Ok(())
    });
}

/// An event loop reads two sockets after one wake-up, and waits for its CPU again in between: that
/// is no waking up, which ended before it read the first.
#[test]
fn a_second_wait_for_a_cpu_after_one_wake_up_is_in_rx_app() {
    if too_few_processors("a_second_wait_for_a_cpu_after_one_wake_up_is_in_rx_app") {
        return;
    }
    within_attempts(|| {
        let setup = Loopback::new();
        let (first, second) = (setup.connect(), setup.connect());
        let mut sockets = [server(&first), server(&second)];
        let (taken, first_taken) = mpsc::channel();
        let (resumed, resume) = mpsc::channel();
        let reader = start(move || {
            wait_on(&epoll_of(&[&sockets[0], &sockets[1]], EpollFlags::empty()));
            sockets[0].read_exact(&mut [0; 100]).unwrap();
            taken.send(()).unwrap();
            resume.recv().unwrap();
            sockets[1].read_exact(&mut [0; 100]).unwrap();
        });
        let end = send_while_held(&first, &second);
        first_taken.recv().unwrap();
        let resume_while_held = || {
            run_first_on(SENDERS).unwrap();
            let hog = Hog::start(READERS, HELD).unwrap();
            resumed.send(()).unwrap();
            hog.finish().unwrap()
        };
        let second_end = thread::scope(|scope| scope.spawn(resume_while_held).join().unwrap());
        reader.join().unwrap();

        let messages = setup.finish();
        let read = messages.read_at(second.server_address);
        assert_eq!(outline(&read), [(100, "valid")]);
        let ran = read[0].stamp("ready") + read[0].stage("rx.wakeup");
        is_within("running", ran, end, end + SLACK)?;
        let taken = ran + read[0].stage("rx.app");
        is_within("reading", taken, second_end, second_end + SLACK)
    });
}

/// Two threads wait for the same sockets. The data of the first socket wakes the one that waited
/// last, which gets no CPU. That of the second wakes the other one, which takes both: it had waited
/// for the first data, too.
#[test]
fn a_read_by_another_of_several_that_waited_has_its_wake_up() {
    if too_few_processors("a_read_by_another_of_several_that_waited_has_its_wake_up") {
        return;
    }
    within_attempts(|| {
        let setup = Loopback::new();
        let (first, second) = (setup.connect(), setup.connect());
        let mut sockets = [server(&first), server(&second)];
        let epoll = Arc::new(epoll_of(&[&sockets[0], &sockets[1]], EpollFlags::empty()));
        let same = Arc::clone(&epoll);
        let taker = start(move || {
            run_first_on(SENDERS).unwrap();
            wait_on(&same);
            for socket in &mut sockets {
                socket.read_exact(&mut [0; 100]).unwrap();
            }
        });
        let other = start(move || {
            let patience = EpollTimeout::try_from(1000).unwrap();
            epoll.wait(&mut [EpollEvent::empty()], patience).unwrap();
        });
        send_while_held(&first, &second);
        taker.join().unwrap();
        other.join().unwrap();

        let messages = setup.finish();
        let [read, later] = [&first, &second].map(|connection| {
            let read = messages.read_at(connection.server_address);
            assert_eq!(outline(&read), [(100, "valid")]);
            (read[0].stamp("ready"), read[0].stage("rx.wakeup"))
        });
        let ran = read.0 + read.1;
        is_within("running", ran, later.0, later.0 + SLACK)
    });
}

/// A socket that was reported once (EPOLLONESHOT) wakes nobody until a task asks for it again:
/// until then nobody waits for its data.
#[test]
fn data_of_a_socket_that_nobody_asked_for_again_wakes_nobody() {
    let setup = Loopback::new();
    let mut connection = setup.connect();
    let mut socket = server(&connection);
    let epoll = Arc::new(Epoll::new(EpollCreateFlags::empty()).unwrap());
    let asked = |events| EpollEvent::new(EpollFlags::EPOLLONESHOT | events, 0);
    epoll
        .add(&connection.server, asked(EpollFlags::empty()))
        .unwrap();
    let same = Arc::clone(&epoll);
    let reader = start(move || {
        wait_on(&same);
        socket.read_exact(&mut [0; 100]).unwrap();
    });
    connection.client.write_all(&[0; 100]).unwrap();
    pause();
    epoll
        .modify(&connection.server, &mut asked(EpollFlags::EPOLLIN))
        .unwrap();
    reader.join().unwrap();

    assert_not_woken(setup, &connection);
}

fn assert_not_woken(setup: Loopback, connection: &Connection) {
    let messages = setup.finish();
    let read = messages.read_at(connection.server_address);
    assert_eq!(outline(&read), [(100, "valid")]);
    assert!(!read[0].has_stage("rx.wakeup"), "{read:?}");
}

#[test]
fn a_reader_that_looks_again_and_again_is_not_woken() {
    let setup = Loopback::new();
    let mut connection = setup.connect();
    let mut socket = server(&connection);
    socket.set_nonblocking(true).unwrap();
    let (reader, _) = run(move || {
        loop {
            match socket.read(&mut [0; 1000]) {
                Err(error) if error.kind() == ErrorKind::WouldBlock => std::hint::spin_loop(),
                result => return result.unwrap(),
            }
        }
    });
    pause();
    connection.client.write_all(&[0; 100]).unwrap();
    assert_eq!(reader.join().unwrap(), 100);

    assert_not_woken(setup, &connection);
}

#[test]
fn a_reader_that_is_busy_when_data_comes_is_not_woken() {
    let setup = Loopback::new();
    let mut connection = setup.connect();
    let mut socket = server(&connection);
    connection.client.write_all(&[0; 100]).unwrap();
    pause();
    wait_on(&epoll_of(&[&socket], EpollFlags::empty()));
    socket.read_exact(&mut [0; 100]).unwrap();

    assert_not_woken(setup, &connection);
}

/// One thread waits and hands the socket to another: between the two, the time is the
/// application's.
#[test]
fn a_reader_other_than_the_waiter_has_no_wake_up() {
    let setup = Loopback::new();
    let mut connection = setup.connect();
    let (mut socket, waited) = (server(&connection), server(&connection));
    let waiter = start(move || wait_on(&epoll_of(&[&waited], EpollFlags::empty())));
    connection.client.write_all(&[0; 100]).unwrap();
    waiter.join().unwrap();
    socket.read_exact(&mut [0; 100]).unwrap();

    assert_not_woken(setup, &connection);
}

#[test]
fn no_sched_measures_no_wake_up() {
    let setup = Loopback::with(&["--expert=sched=off"]);
    let mut connection = setup.connect();
    let socket = server(&connection);
    let reader = start(move || Wait::Read.receive(&socket, Duration::ZERO));
    connection.client.write_all(&[0; 100]).unwrap();
    assert_eq!(reader.join().unwrap(), 100);

    let messages = setup.finish();
    let read = messages.read_at(connection.server_address);
    assert_eq!(outline(&read), [(100, "valid")]);
    assert!(!read[0].has_stage("rx.wakeup"), "{read:?}");
    assert!(read[0].stage("rx.app") > Duration::ZERO, "{read:?}");
}
