//! The examples, each linked both ways, under valgrind and built with the address sanitizer: no
//! error, no leak, and the right output.

use std::fs;
use std::io::{self, BufRead, BufReader, Read};
use std::net::{SocketAddr, TcpListener, UdpSocket};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use crate::installed::{Linkage, installed, root, run, sockstamp};

/// The checker for memory faults of a program.
#[derive(Debug, Clone, Copy)]
enum Checker {
    Valgrind,
    AddressSanitizer,
}

const ALL: [(Linkage, Checker); 4] = [
    (Linkage::Shared, Checker::Valgrind),
    (Linkage::Static, Checker::Valgrind),
    (Linkage::Shared, Checker::AddressSanitizer),
    (Linkage::Static, Checker::AddressSanitizer),
];

/// Build the program; return it with its checker.
fn checked(source: PathBuf, linkage: Linkage, checker: Checker) -> Command {
    let mut flags = vec![concat!("-DVERSION=\"", env!("CARGO_PKG_VERSION"), "\"")];
    if let Checker::AddressSanitizer = checker {
        flags.push("-fsanitize=address,undefined");
    }
    let name = source.file_stem().unwrap().to_string_lossy();
    let program = installed().path(&format!("{name}-{linkage:?}-{checker:?}"));
    installed().compile(&source, linkage, &flags, &program);
    let mut command = match checker {
        Checker::Valgrind => Command::new("valgrind"),
        Checker::AddressSanitizer => Command::new(&program),
    };
    if let Checker::Valgrind = checker {
        command
            .args(["--quiet", "--error-exitcode=99", "--leak-check=full"])
            .args(["--errors-for-leak-kinds=definite,indirect,possible"])
            .arg(&program);
    }
    command
        .env("LD_LIBRARY_PATH", installed().path("lib"))
        .env("ASAN_OPTIONS", "detect_leaks=1")
        .env("UBSAN_OPTIONS", "halt_on_error=1");
    command
}

fn example(name: &str) -> PathBuf {
    root().join(format!("crates/sockstamp-capi/examples/{name}.c"))
}

fn test_program(name: &str) -> PathBuf {
    root().join(format!("crates/sockstamp-capi/tests/c/{name}.c"))
}

/// A server that sends everything back, until the test ends.
pub(crate) fn echo_server(address: &str) -> SocketAddr {
    let server = UdpSocket::bind(address).unwrap();
    let address = server.local_addr().unwrap();
    thread::spawn(move || {
        let mut bytes = [0; 1500];
        while let Ok((length, from)) = server.recv_from(&mut bytes) {
            server.send_to(&bytes[..length], from).unwrap();
        }
    });
    address
}

/// As for a container without a C library.
#[test]
fn a_program_can_be_static_as_a_whole() {
    let program = installed().path("udp_request-whole");
    installed().compile(
        &example("udp_request"),
        Linkage::Static,
        &["-static"],
        &program,
    );
    let server = echo_server("127.0.0.1:0");
    let output = run(Command::new(&program).args(["127.0.0.1", &server.port().to_string()]));
    assert!(nanoseconds(&output, "driver at") > 0, "{output}");
}

/// The number before ` ns` in the line that begins so.
pub(crate) fn nanoseconds(output: &str, line: &str) -> i64 {
    let line = output.lines().find_map(|found| found.strip_prefix(line));
    let number = line.and_then(|rest| rest.trim().split(' ').next());
    number
        .unwrap_or_else(|| panic!("{output}"))
        .parse()
        .unwrap()
}

#[test]
fn a_udp_request_is_stamped_on_its_way() {
    let servers = ["127.0.0.1:0", "[::1]:0"].map(echo_server);
    for (linkage, checker) in ALL {
        for server in servers {
            let mut program = checked(example("udp_request"), linkage, checker);
            let output = run(program.args([server.ip().to_string(), server.port().to_string()]));
            let scheduler = nanoseconds(&output, "packet scheduler at");
            let driver = nanoseconds(&output, "driver at");
            let answer = nanoseconds(&output, "answer");
            assert!(scheduler <= driver, "{output}");
            // The program waits for as long.
            assert!((1..20_000_000_000).contains(&answer), "{output}");
        }
    }
}

/// A server that reads whatever comes, until the test ends.
pub(crate) fn reader(address: &str) -> SocketAddr {
    let listener = TcpListener::bind(address).unwrap();
    let address = listener.local_addr().unwrap();
    thread::spawn(move || {
        for connection in listener.incoming() {
            io::copy(&mut connection.unwrap(), &mut io::sink()).unwrap();
        }
    });
    address
}

#[test]
fn each_stage_of_each_tcp_send_is_printed() {
    let servers = ["127.0.0.1:0", "[::1]:0"].map(reader);
    for (linkage, checker) in ALL {
        for server in servers {
            let mut program = checked(example("tcp_stages"), linkage, checker);
            let output = run(program.args([server.ip().to_string(), server.port().to_string()]));
            for message in 0..5 {
                let after = |kind| nanoseconds(&output, &format!("message {message} {kind}"));
                let [scheduler, driver, acknowledged] = ["sched", "snd", "ack"].map(after);
                assert!(0 < scheduler && scheduler <= driver, "{output}");
                assert!(driver <= acknowledged, "{output}");
            }
        }
    }
}

fn checksum(path: &Path) -> String {
    run(Command::new("sha256sum").arg(path))[..64].to_owned()
}

#[test]
fn curl_gets_the_file_as_it_is() {
    let [served, fetched] = ["served", "fetched"].map(|name| installed().path(name));
    let lengths = [0, 5_000_003];
    for (linkage, checker) in ALL {
        for length in lengths {
            let content: Vec<u8> = (0..length)
                .map(|at: u32| ((at / 4096) ^ at).to_le_bytes()[0])
                .collect();
            fs::write(&served, content).unwrap();
            let mut program = checked(example("zerocopy_file_server"), linkage, checker);
            program.arg(&served).args(["0", "2"]);
            let mut server = program
                .stdout(Stdio::piped())
                .stderr(Stdio::piped())
                .spawn()
                .unwrap();
            let mut output = BufReader::new(server.stdout.take().unwrap());
            let mut line = String::new();
            output.read_line(&mut line).unwrap();
            let port = line.trim().strip_prefix("port ").unwrap().to_owned();
            for host in ["127.0.0.1", "[::1]"] {
                run(Command::new("curl")
                    .args([
                        "--silent",
                        "--show-error",
                        "--fail",
                        "--max-time",
                        "30",
                        "--output",
                    ])
                    .arg(&fetched)
                    .arg(format!("http://{host}:{port}/")));
                assert_eq!(checksum(&fetched), checksum(&served));
            }
            let ended = server.wait_with_output().unwrap();
            let errors = String::from_utf8_lossy(&ended.stderr).into_owned();
            assert!(ended.status.success() && errors.is_empty(), "{errors}");
            line.clear();
            output.read_to_string(&mut line).unwrap();
            assert_eq!(line.lines().count(), 2, "{line}");
            let copied_only = |counters: &str| counters.starts_with("lent 0,");
            assert!(
                line.lines().all(|line| copied_only(line) == (length == 0)),
                "{line}"
            );
        }
    }
}

#[test]
fn every_function_does_what_the_header_says() {
    for (linkage, checker) in ALL {
        run(&mut checked(test_program("everything"), linkage, checker));
    }
}

/// `sockstamp notifications`, until this is dropped.
pub(crate) struct Service {
    process: Child,
    pub(crate) path: PathBuf,
}

impl Service {
    pub(crate) fn start(sockstamp: PathBuf, folder: &Path) -> Self {
        let path = folder.join("notifications.sock");
        let process = Command::new(sockstamp)
            .args(["notifications", "--socket"])
            .arg(&path)
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let mut service = Self { process, path };
        let start = Instant::now();
        while !service.path.exists() {
            assert!(
                start.elapsed() < Duration::from_secs(60),
                "it does not listen"
            );
            assert!(
                service.process.try_wait().unwrap().is_none(),
                "it has ended"
            );
            thread::sleep(Duration::from_millis(10));
        }
        service
    }
}

impl Drop for Service {
    fn drop(&mut self) {
        self.process.kill().unwrap();
        self.process.wait().unwrap();
    }
}

#[test]
fn completions_and_stamps_are_read_from_memory() {
    let service = Service::start(sockstamp(), &installed().path(""));
    for (linkage, checker) in ALL {
        run(checked(test_program("completions"), linkage, checker).arg(&service.path));
    }
}
