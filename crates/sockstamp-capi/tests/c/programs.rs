//! The examples, each linked both ways, under valgrind and built with the address sanitizer: no error, no leak, and the right
//! output.

use std::net::{SocketAddr, UdpSocket};
use std::path::PathBuf;
use std::process::Command;
use std::thread;

use crate::installed::{Linkage, installed, root, run};

/// What looks for faults of memory while a program runs.
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

/// The program, built, with what it is run by.
fn checked(source: PathBuf, linkage: Linkage, checker: Checker) -> Command {
    let flags: &[&str] = match checker {
        Checker::Valgrind => &[],
        Checker::AddressSanitizer => &["-fsanitize=address,undefined"],
    };
    let program = installed().compile(&source, linkage, flags);
    let mut command = match checker {
        Checker::Valgrind => Command::new("valgrind"),
        Checker::AddressSanitizer => Command::new(&program),
    };
    if let Checker::Valgrind = checker {
        command
            .args([
                "--quiet",
                "--error-exitcode=99",
                "--leak-check=full",
                "--track-fds=yes",
            ])
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

/// A server that sends everything back, until the test ends.
fn echo_server(address: &str) -> SocketAddr {
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

/// The number before ` ns` in the line that begins so.
fn nanoseconds(output: &str, line: &str) -> i64 {
    let line = output.lines().find_map(|found| found.strip_prefix(line));
    let number = line.and_then(|rest| rest.trim().split(' ').next());
    number.unwrap_or_else(|| panic!("{output}")).parse().unwrap()
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
            assert!((1..2_000_000_000).contains(&answer), "{output}");
        }
    }
}
