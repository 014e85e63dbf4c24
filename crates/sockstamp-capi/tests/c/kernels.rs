//! The programs without a checker, on any kernel. The lab's guests have no compiler: there the
//! programs lie where this test builds them on a host.

use std::path::PathBuf;
use std::process::Command;
use std::sync::OnceLock;

use crate::installed::{self, profile, root, run};
use crate::programs::{Service, echo_server, nanoseconds, reader};

fn program(name: &str) -> Command {
    static FOLDER: OnceLock<PathBuf> = OnceLock::new();
    let folder = FOLDER.get_or_init(|| {
        let folder = profile().join("c-programs");
        if has_compiler() {
            installed::built();
            run(Command::new(root().join("scripts/c-programs.sh"))
                .arg(profile().join("libsockstamp_capi.a"))
                .arg(&folder));
        }
        folder
    });
    Command::new(folder.join(name))
}

fn has_compiler() -> bool {
    Command::new("cc").arg("--version").output().is_ok()
}

#[test]
fn every_function_does_what_the_header_says_on_this_kernel() {
    run(&mut program("everything"));
}

#[test]
fn completions_and_stamps_are_read_from_memory_on_this_kernel() {
    let mut program = program("completions");
    let folder = tempfile::tempdir().unwrap();
    let service = Service::start(profile().join("sockstamp"), folder.path());
    run(program.arg(&service.path));
}

#[test]
fn requests_and_messages_have_their_stages_on_this_kernel() {
    for address in ["127.0.0.1:0", "[::1]:0"] {
        let server = echo_server(address);
        let output =
            run(program("udp_request").args([server.ip().to_string(), server.port().to_string()]));
        assert!(
            nanoseconds(&output, "packet scheduler at") <= nanoseconds(&output, "driver at"),
            "{output}"
        );
        let server = reader(address);
        let output =
            run(program("tcp_stages").args([server.ip().to_string(), server.port().to_string()]));
        let after = |kind| nanoseconds(&output, &format!("message 4 {kind}"));
        assert!(
            0 < after("sched") && after("sched") <= after("snd") && after("snd") <= after("ack"),
            "{output}"
        );
    }
}
