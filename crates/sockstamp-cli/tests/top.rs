//! `sockstamp top` on a terminal of tmux, next to a redis server and its benchmark.

use std::fs;
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use testbed::{Host, PATIENCE, Process, Tmux, within_attempts};
use with::programs::locked_service;
use with::unix::{InVain, Service};
use with::{hooks, sockstamp, wait_attached, wait_until};

/// The beginning of a colour by number (ISO 8613-6: SGR 38 and 48 with 5).
const COLOUR: &str = "8;5;";

/// A host where redis answers.
struct RedisHost {
    host: Host,
    _server: Process,
}

impl RedisHost {
    fn new(name: &str) -> RedisHost {
        let host = Host::new(name).unwrap();
        let server = host
            .spawn(
                "redis-server",
                &["--port", "6379", "--save", "", "--appendonly", "no"],
            )
            .unwrap();
        host.wait_for_port("127.0.0.1:6379".parse().unwrap(), PATIENCE)
            .unwrap();
        RedisHost {
            host,
            _server: server,
        }
    }

    /// Request until it is dropped.
    fn load(&self) -> Process {
        let arguments = ["-c", "2", "-l", "-q", "-t", "get"];
        self.host.spawn("redis-benchmark", &arguments).unwrap()
    }

    /// The command line of `top` for this host alone.
    fn top(&self, options: &str) -> String {
        let netns = self.host.netns_name();
        let hooks = hooks().join(" ");
        format!(
            "{} top {hooks} --netns {netns} --interval 300ms {options}",
            sockstamp()
        )
    }
}

/// The shell of a terminal, and what it runs.
struct Terminal(Tmux);

impl Terminal {
    fn new() -> Terminal {
        let tmux = Tmux::new(80, 24).unwrap();
        tmux.type_line("before=$(stty -g)").unwrap();
        Terminal(tmux)
    }

    /// Types a line for the shell once it waits for one: it may lose what comes earlier.
    #[track_caller]
    fn enter(&self, line: &str) {
        wait_until("the shell is ready", || {
            self.0.screen().unwrap().trim_end().ends_with("ready>")
        });
        self.0.type_line(line).unwrap();
    }

    /// Types the command and waits for its first picture.
    fn start(&self, command: &str) {
        self.enter(&format!("{command}; echo status $?"));
        self.sees(" sockstamp top  by comm,port");
    }

    #[track_caller]
    fn sees(&self, text: &str) -> String {
        self.0
            .wait_for(text, PATIENCE)
            .unwrap_or_else(|error| panic!("{error}"))
    }

    /// Wait until the screen has no such text.
    #[track_caller]
    fn sees_no_more(&self, text: &str) {
        wait_until(&format!("{text:?} has left the screen"), || {
            !self.0.screen().unwrap().contains(text)
        });
    }

    #[track_caller]
    fn press(&self, key: &str, then: &str) -> String {
        self.0.press(&[key]).unwrap();
        self.sees(then)
    }

    /// The terminal is as it was before: what was on the screen, its modes, its cursor.
    #[track_caller]
    fn assert_given_back(&self) {
        assert_eq!(self.0.state("alternate_on").unwrap(), "0");
        assert_eq!(self.0.state("cursor_flag").unwrap(), "1");
        self.enter("[ \"$before\" = \"$(stty -g)\" ] && echo as before");
        self.sees("\nas before");
    }

    #[track_caller]
    fn assert_ended(&self) {
        let screen = self.sees("status 0");
        assert!(!screen.contains("verdicts:"), "{screen}");
        self.assert_given_back();
    }

    /// The program that the shell runs.
    fn program(&self) -> Pid {
        let shell = self.0.state("pane_pid").unwrap();
        let children = fs::read_to_string(format!("/proc/{shell}/task/{shell}/children")).unwrap();
        Pid::from_raw(children.trim().parse().unwrap())
    }

    fn signal(&self, signal: Signal) {
        kill(self.program(), signal).unwrap();
    }
}

/// Questions that nobody answers are listed while they are open, and are a finding once they were
/// given up. The witnesses are ss(8), and the program's own count.
#[test]
fn pages_show_what_waits_and_what_was_given_up() {
    let host = Host::new("top-waits").unwrap();
    let terminal = Terminal::new();
    let (netns, hooks) = (host.netns_name(), hooks().join(" "));
    let program = sockstamp();
    let top = format!("{program} top {hooks} --netns {netns} --interval 300ms");
    terminal.start(&top);
    let script = "
import socket, threading, time
s = socket.socket(); s.bind(('127.0.0.1', 8001)); s.listen(9); given_up = []
def ask():
    c = socket.create_connection(('127.0.0.1', 8001)); c.settimeout(5); c.sendall(b'question')
    try: c.recv(1)
    except TimeoutError: given_up.append(c); c.close()
threads = [threading.Thread(target=ask) for _ in range(3)]
for t in threads: t.start()
for t in threads: t.join()
print('given up', len(given_up), flush=True); time.sleep(60)
";
    let mut asker = host.spawn("python3", &["-c", script]).unwrap();
    terminal.press("W", "TCP sockets; open questions");
    let screen = terminal.sees("waits for an answer of 127.0.0.1:8001");
    let ss = host.run("ss", &["-Htnp", "dport", "=", "8001"]).unwrap();
    let who = format!("{}/python3", asker.id());
    assert!(screen.contains(&who), "{screen}");
    assert!(ss.contains(&format!("pid={}", asker.id())), "{ss}");
    asker.wait_for_stdout("given up 3", PATIENCE).unwrap();
    terminal.sees_no_more("waits for an answer");
    terminal.press(
        "v",
        "diagnosis: 3 of 3 requests of python3 to 127.0.0.1:8001",
    );
    terminal.press("q", "status 0");
    terminal.assert_given_back();
}

/// The same at a Unix socket. The witness is the program's own count.
#[test]
fn pages_show_what_waits_at_a_unix_socket_and_what_was_given_up() {
    let host = Host::new("top-unix").unwrap();
    let service = Service::start(&host, ["600", "1", "0"]);
    let mut client = InVain::connect(&host, &service, "asks-in-vain");
    let pid = client.process.id();
    let terminal = Terminal::new();
    let hooks = hooks().join(" ");
    let program = sockstamp();
    terminal.start(&format!("{program} top {hooks} -p {pid} --interval 300ms"));
    client.ask();
    terminal.press("W", "waits for an answer of /");
    let screen = terminal.sees(&format!("{pid}/asks-in-vain"));
    assert_eq!(
        screen.matches("waits for an answer of /").count(),
        3,
        "{screen}"
    );
    client.give_up();
    terminal.sees_no_more("waits for an answer");
    terminal.press("v", "diagnosis: 3 of 3 requests of asks-in-vain to /");
    terminal.press("q", "status 0");
    terminal.assert_given_back();
}

/// While the page is shown, tasks of services that are slow are looked at.
#[test]
fn the_page_of_findings_shows_what_tasks_sleep_in() {
    let host = Host::new("top-locked").unwrap();
    let _programs = locked_service(&host);
    let terminal = Terminal::new();
    let (netns, hooks) = (host.netns_name(), hooks().join(" "));
    let program = sockstamp();
    terminal.start(&format!(
        "{program} top {hooks} --netns {netns} --interval 300ms"
    ));
    terminal.press("v", "diagnosis: python3 at :8077 takes");
    terminal.sees("(futex)");
    terminal.press("q", "status 0");
    terminal.assert_given_back();
}

#[test]
fn keys_lead_through_the_views() {
    let setup = RedisHost::new("top-keys");
    let terminal = Terminal::new();
    terminal.start(&setup.top(""));
    let _load = setup.load();

    // Names in the table lose their middle.
    let screen = terminal.sees("er 6379");
    assert!(
        screen.contains("msg/s") && screen.contains("netwk"),
        "{screen}"
    );
    let coloured = terminal.0.coloured_screen().unwrap();
    assert!(coloured.contains(COLOUR), "{coloured:?}");

    terminal.press("s", "sorted by messages");
    terminal.press("p", "share of 300ms");
    terminal.press("?", "PgUp PgDn");
    terminal.press("v", " measured messages, since the start");
    terminal.press("Escape", "Space pause");
    terminal.press("Space", "PAUSED");
    let held = terminal.0.screen().unwrap();
    thread::sleep(Duration::from_millis(900));
    assert_eq!(terminal.0.screen().unwrap(), held);
    terminal.press("Space", "Space pause");

    terminal.0.type_line("/SERVER").unwrap();
    terminal.sees("  /SERVER");
    terminal.sees("> redis-s");
    terminal.sees_no_more("redis-b");

    terminal.press("Enter", "flows of redis-server 6379");
    terminal.sees("> :6379 > 127");
    terminal.press("Enter", "last messages of redis-server 6379");
    // One of them is selected: its stages stand below.
    terminal.sees(" total ");
    terminal.press("Down", " > ");
    terminal.press("Escape", "flows of redis-server");
    terminal.press("Escape", "redis-b");

    terminal.0.resize(160, 50).unwrap();
    terminal.sees(" retr ");
    terminal.press("q", "status 0");
    terminal.assert_ended();
}

/// In a terminal a line of `trace` takes as many as it needs, of whole items.
#[test]
fn trace_fits_a_terminal_of_80_columns() {
    let setup = RedisHost::new("trace-width");
    let terminal = Terminal::new();
    let trace = format!("{} trace {} --", sockstamp(), hooks().join(" "));
    let netns = setup.host.netns_name();
    let ping = "redis-cli ping";
    terminal.enter(&format!(
        "clear; ip netns exec {netns} {trace} {ping}; echo status $?"
    ));
    let screen = terminal.sees("status 0");
    let lines: Vec<_> = screen.lines().collect();
    let first = lines.iter().position(|line| line.contains(" rx ")).unwrap();
    assert!(lines[first + 1].starts_with("                "), "{screen}");
    assert!(lines[first + 1].chars().count() < 80, "{screen}");
}

#[test]
fn messages_are_shown_as_waterfalls() {
    let setup = RedisHost::new("top-waterfall");
    let terminal = Terminal::new();
    terminal.start(&setup.top("--color=never"));
    let _load = setup.load();
    terminal.sees("redis-s");
    terminal.0.type_line("/redis-benchmark").unwrap();
    terminal.sees("> redis-b");
    terminal.press("Enter", " > 127.0.0.1:6379");
    terminal.press("Enter", "completed (UTC)");
    // Sent and received messages take turns: one or the other is at the cursor.
    let start = Instant::now();
    let screen = loop {
        let screen = terminal.0.screen().unwrap();
        if screen.contains(" tx.network ") || screen.contains(" rx.stack ") {
            break screen;
        }
        assert!(start.elapsed() < PATIENCE, "{screen}");
    };
    assert!(screen.contains("%  "), "{screen}");
    let coloured = terminal.0.coloured_screen().unwrap();
    assert!(!coloured.contains(COLOUR), "{coloured:?}");
    terminal.press("C-c", "status 0");
    terminal.assert_ended();
}

/// Wake-ups are for a picture, and once per second for groups: nothing else happens.
#[test]
fn without_traffic_top_sleeps_between_its_pictures() {
    const TIME: Duration = Duration::from_secs(5);
    let host = Host::new("top-idle").unwrap();
    let terminal = Terminal::new();
    let netns = host.netns_name();
    terminal.start(&format!(
        "{} top {} --netns {netns}",
        sockstamp(),
        hooks().join(" ")
    ));
    let program = terminal.program();
    let slept = || -> u64 {
        let status = fs::read_to_string(format!("/proc/{program}/status")).unwrap();
        let line = status
            .lines()
            .find_map(|line| line.strip_prefix("voluntary_ctxt_switches:"));
        line.unwrap().trim().parse().unwrap()
    };
    thread::sleep(Duration::from_secs(1));
    within_attempts(|| {
        let before = slept();
        thread::sleep(TIME);
        let woken = slept() - before;
        match woken <= 4 * TIME.as_secs() {
            true => Ok(()),
            false => Err(format!("woken {woken} times")),
        }
    });
    // A key ends the wait.
    within_attempts(|| {
        let pressed = Instant::now();
        terminal.press("?", "PgUp PgDn");
        let took = pressed.elapsed();
        terminal.press("Escape", "Space pause");
        match took < Duration::from_millis(700) {
            true => Ok(()),
            false => Err(format!("{took:?} until the help was there")),
        }
    });
    terminal.press("q", "status 0");
}

#[test]
fn signals_that_end_it_give_the_terminal_back() {
    let setup = RedisHost::new("top-signals");
    for signal in [Signal::SIGTERM, Signal::SIGINT, Signal::SIGHUP] {
        let terminal = Terminal::new();
        terminal.start(&setup.top(""));
        terminal.signal(signal);
        terminal.assert_ended();
    }
}

#[test]
fn top_ends_with_its_terminal() {
    let setup = RedisHost::new("top-hangup");
    let terminal = Terminal::new();
    terminal.start(&setup.top(""));
    let program = terminal.program();
    drop(terminal);
    wait_until("it has ended", || kill(program, None).is_err());
}

#[test]
fn top_can_be_suspended_and_resumed() {
    let setup = RedisHost::new("top-stop");
    let terminal = Terminal::new();
    terminal.enter(&setup.top("--color=never"));
    terminal.sees(" sockstamp top  by comm,port");
    for stop in ["key", "signal"] {
        match stop {
            "key" => terminal.0.press(&["C-z"]).unwrap(),
            _ => terminal.signal(Signal::SIGTSTP),
        }
        terminal.sees("Stopped");
        terminal.assert_given_back();
        terminal.enter("clear; fg");
        terminal.sees(" sockstamp top  by comm,port");
        assert_eq!(terminal.0.state("alternate_on").unwrap(), "1");
    }
    // Without a chance to restore the terminal: it is taken over again nevertheless.
    terminal.signal(Signal::SIGSTOP);
    terminal.sees("Stopped");
    // The terminal's modes are still ours: none makes a line end of Enter.
    terminal.0.press(&["f", "g", "C-j"]).unwrap();
    // Keys that come before it draws again are discarded.
    terminal.sees_no_more("Stopped");
    terminal.press("?", "PgUp PgDn");
    terminal.0.press(&["q"]).unwrap();
    terminal.sees("ready>");
    terminal.assert_given_back();
}

#[test]
fn once_prints_a_screen_of_text() {
    let setup = RedisHost::new("top-once");
    let mut command = Command::new(sockstamp());
    command.args(["top", "--once", "--interval", "1s", "--by", "comm,port"]);
    command
        .args(["--netns", setup.host.netns_name()])
        .args(hooks());
    let mut top = Process::spawn(command).unwrap();
    wait_attached(&mut top);
    let _load = setup.load();
    let text = top.wait(PATIENCE).unwrap();
    assert!(
        text.contains("er 6379") && text.contains("verdicts: valid "),
        "{text}"
    );
    assert!(
        !text.contains('\x1b') && text.lines().count() <= 24,
        "{text:?}"
    );
    assert!(
        text.lines().all(|line| line.chars().count() <= 80),
        "{text}"
    );
}

#[test]
fn a_terminal_that_claims_to_be_huge_is_drawn_on_in_bounded_memory() {
    const HALF_A_GIGABYTE: &str = "ulimit -v 524288";
    let host = Host::new("top-huge").unwrap();
    let terminal = Terminal::new();
    for ending in ["--duration 1s", "--once"] {
        let top = format!(
            "{} top {} --netns {}",
            sockstamp(),
            hooks().join(" "),
            host.netns_name()
        );
        terminal.enter(&format!(
            "stty rows 65535 cols 65535; ({HALF_A_GIGABYTE}; {top} {ending} >$(tty)); status=$?; \
             stty rows 24 cols 80; clear; echo \"{ending} status\" $status"
        ));
        terminal.sees(&format!("{ending} status 0"));
    }
}

#[test]
fn top_without_a_terminal_names_the_remedy() {
    let mut command = Command::new(sockstamp());
    command.arg("top");
    let mut top = Process::spawn(command).unwrap();
    assert_eq!(top.wait_status(PATIENCE).unwrap().code(), Some(1));
    assert_eq!(
        top.stderr(),
        "sockstamp: standard output is not a terminal: use --once\n"
    );

    let terminal = Terminal::new();
    terminal.enter(&format!("TERM=dumb {} top; echo status $?", sockstamp()));
    let screen = terminal.sees("status 1");
    assert!(screen.contains("use --once"), "{screen}");
}

#[test]
fn wrong_options_are_refused() {
    for (options, reason) in [
        (["--interval", "10ms"], "an interval is from 100ms to 60m"),
        (["--by", "port,colour"], "invalid value 'colour'"),
    ] {
        let output = Command::new(sockstamp())
            .arg("top")
            .args(options)
            .output()
            .unwrap();
        assert_eq!(output.status.code(), Some(2));
        let error = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(error.contains(reason), "{error}");
    }
}

/// Runs what follows on a terminal whose picture nobody reads any more, ends it by a signal, and
/// prints whether the terminal's modes are as before, whether the alternate screen was left, and
/// how the program ended.
const UNREAD: &str = "
import fcntl, os, pty, select, signal, struct, subprocess, sys, termios, time
master, slave = pty.openpty()
fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack('HHHH', 24, 80, 0, 0))
before = termios.tcgetattr(slave)
top = subprocess.Popen(sys.argv[1:], stdin=slave, stdout=slave, stderr=subprocess.DEVNULL,
                       env=dict(os.environ, TERM='xterm'), preexec_fn=os.setsid)
def read(seconds):
    return os.read(master, 65536) if select.select([master], [], [], seconds)[0] else b''
shown = b''
while b'sockstamp top' not in shown: shown += read(60)
full = os.open(os.ttyname(slave), os.O_WRONLY | os.O_NONBLOCK | os.O_NOCTTY)
def waits():
    # write(2) on standard output
    return open(f'/proc/{top.pid}/syscall').read().split()[:2] == ['1', '0x1']
while not waits():
    try: os.write(full, b'x')
    except BlockingIOError: time.sleep(0.01)
top.send_signal(signal.SIGTERM)
status = top.wait(60)
shown = b''
while more := read(0.2): shown += more
print(termios.tcgetattr(slave) == before, b'\\x1b[?1049l' in shown, status)
";

#[test]
fn a_terminal_that_nobody_reads_is_given_back() {
    let host = Host::new("top-unread").unwrap();
    let output = Command::new("python3")
        .args(["-c", UNREAD, sockstamp(), "top", "--interval", "100ms"])
        .args(["--netns", host.netns_name()])
        .args(hooks())
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    assert_eq!(said.trim(), "True True 0", "{output:?}");
}
