//! A program that uses SO_TIMESTAMPING itself sees the same with and without a measurement.

use testbed::{Host, PATIENCE, within_attempts};
use with::Trace;
use with::traced_hosts::{Message, Messages};

/// Send as its arguments say, and print each stamp of the error queue (kind and id) and how often
/// poll() woke for one. Constants: include/uapi/linux/net_tstamp.h, errqueue.h and
/// asm-generic/socket.h.
const PROGRAM: &str = "
import select, socket, struct, sys, time
SO_TIMESTAMPING, SO_EE_ORIGIN_TIMESTAMPING, IP_RECVERR = 37, 4, 11
TX_SOFTWARE, SOFTWARE, OPT_ID, TX_SCHED, TX_ACK, OPT_TSONLY, OPT_ID_TCP = 2, 16, 128, 256, 512, 2048, 65536
RECORD = TX_SOFTWARE | TX_SCHED | TX_ACK
listener = socket.create_server(('127.0.0.1', 0))
client = socket.create_connection(listener.getsockname())
server, _ = listener.accept()
client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

def timestamping(flags):
    client.setsockopt(socket.SOL_SOCKET, SO_TIMESTAMPING, SOFTWARE | OPT_ID | OPT_TSONLY | flags)

def send_stamped(data):
    client.sendmsg([data], [(socket.SOL_SOCKET, SO_TIMESTAMPING, struct.pack('I', RECORD))])

def cork(on):
    client.setsockopt(socket.IPPROTO_TCP, socket.TCP_CORK, on)

def read(length):
    while length:
        length -= len(server.recv(length))

def stamps():
    poll = select.poll()
    poll.register(client.fileno(), 0)
    wakeups = 0
    seen = []
    while poll.poll(300):
        wakeups += 1
        while True:
            try:
                _, control, _, _ = client.recvmsg(0, 512, socket.MSG_ERRQUEUE)
            except BlockingIOError:
                break
            for level, kind, data in control:
                if (level, kind) == (socket.IPPROTO_IP, IP_RECVERR):
                    _, origin, _, _, _, info, id = struct.unpack('=IBBBBII', data[:16])
                    assert origin == SO_EE_ORIGIN_TIMESTAMPING
                    seen.append((('snd', 'sched', 'ack')[info], id))
    return wakeups, seen

def each(flags):
    timestamping(RECORD | flags)
    for _ in range(3):
        client.sendall(b'x' * 100)
        read(100)
        print(*stamps())

def merged():
    timestamping(0)
    for order in ([True, False], [False, True], [True, False, True], [False, False]):
        cork(1)
        for stamped in order:
            send_stamped(b'x' * 100) if stamped else client.sendall(b'x' * 100)
        cork(0)
        read(100 * len(order))
        print(*stamps())

{'opt-id': lambda: each(0), 'opt-id-tcp': lambda: each(OPT_ID_TCP), 'merged': merged}[sys.argv[1]]()
";

fn run(host: &Host, what: &str) -> String {
    let program = host.spawn("python3", &["-c", PROGRAM, what]).unwrap();
    program.wait(PATIENCE).unwrap()
}

/// Compare what the program sees alone and under `trace`; return what `trace` saw of its sends. How
/// often poll() wakes depends on how soon an ACK comes.
fn compare(what: &str) -> Messages {
    let mut seen = None;
    within_attempts(|| {
        let host = Host::new("corner").unwrap();
        let alone = run(&host, what);
        let trace = Trace::start(&["--netns", host.netns_name()]);
        let measured = run(&host, what);
        seen = Some(Messages::new(trace.finish()));
        assert!(alone.contains("('ack', "), "{alone}");
        match alone == measured {
            true => Ok(()),
            false => Err(format!("{measured} instead of {alone}")),
        }
    });
    seen.unwrap()
}

/// In the order of the sends: one that is refused is shown at once, others when they are
/// acknowledged.
fn verdicts(messages: &Messages) -> Vec<&str> {
    let mut sent = messages.sent();
    sent.sort_by_key(|message| message.number("seq_end"));
    sent.into_iter().map(Message::verdict).collect()
}

#[test]
fn stamps_of_each_send_are_the_same() {
    for what in ["opt-id", "opt-id-tcp"] {
        assert_eq!(verdicts(&compare(what)), ["valid"; 3], "{what}");
    }
}

/// Our mark would move the program's stamp to the later send: that one is not measured.
#[test]
fn stamps_of_sends_that_ask_for_them_one_by_one_are_the_same() {
    let messages = compare("merged");
    assert_eq!(
        verdicts(&messages),
        [
            ["valid", "app-stamp"].as_slice(),
            &["valid", "valid"],
            &["valid", "app-stamp", "valid"],
            &["valid", "valid"],
        ]
        .concat()
    );
}
