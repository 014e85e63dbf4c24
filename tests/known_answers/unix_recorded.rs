//! Waits over Unix sockets in recordings, and those that are older than the measurement. The
//! client's own clock is the witness.

use std::path::Path;
use std::process::Command;
use std::thread;
use std::time::Duration;

use serde_json::Value;
use tempfile::tempdir;
use testbed::{Host, PATIENCE, Process, within_attempts};
use with::expected::ms;
use with::unix::{InVain, Service};
use with::{end, number, run, sockstamp, wait_attached};

use crate::unix_sockets::ASKS;

/// Return what a command prints about a recording.
fn told(words: &[&str], file: &Path) -> String {
    let mut command = Command::new(sockstamp());
    run(command.args(words).arg(file))
}

fn report(file: &Path) -> Value {
    serde_json::from_str(&told(&["report", "--format", "json"], file)).unwrap()
}

fn in_one_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

fn of_unix(report: &Value) -> Vec<&Value> {
    println!("{report}");
    let waits = report["waits"].as_array().unwrap().iter();
    waits.filter(|wait| wait["protocol"] == "unix").collect()
}

#[test]
fn a_recording_has_slow_answers_over_unix_sockets_with_the_time_of_their_client() {
    let host = Host::new("unix-rec").unwrap();
    let service = Service::start(&host, ["0.3", "1", "0"]);
    let path = service.path();
    within_attempts(|| {
        let directory = tempdir().unwrap();
        let file = directory.path().join("asks.parquet");
        let mut command = host.command(sockstamp());
        command.args(["record", "--every", "-o"]).arg(&file);
        command.args(["--", "python3", "-c", ASKS]).arg(&path);
        let mut process = Process::spawn({
            command.args(["again", "/"]);
            command
        })
        .unwrap();
        assert!(process.wait_status(PATIENCE).unwrap().success());
        let spent: u64 = process.stdout().trim().parse().unwrap();
        let report = report(&file);
        let waits = of_unix(&report);
        assert_eq!(waits.len(), 5);
        let found: u64 = waits.iter().map(|wait| number(&wait["lasted_ns"])).sum();
        if found > spent || found * 100 < spent * 95 {
            return Err(format!("{found} of {spent} ns"));
        }
        for wait in waits {
            assert_eq!(wait["remote"], path.to_str().unwrap());
            assert_eq!(wait["server"]["pid"], service.process.id());
            assert_eq!(
                (&wait["kind"], &wait["end"]),
                (&"answer".into(), &"data".into())
            );
            assert_eq!(wait["comm"], "python3");
        }
        let finding = &report["diagnosis"]["findings"][0];
        assert_eq!(finding["node"], "answer.unix");
        assert_eq!(
            (&finding["count"], &finding["tried"]),
            (&5.into(), &5.into())
        );
        let sentence = in_one_line(finding["sentence"].as_str().unwrap());
        let explained = in_one_line(&told(&["explain", "-r"], &file));
        assert!(explained.contains(&sentence), "{explained}");
        // Data ended all of them, and a filter asks for addresses.
        assert!(told(&["stuck", "-r"], &file).starts_with("nothing waited"));
        let mut filtered = Command::new(sockstamp());
        filtered.args(["report", "--format", "json"]).arg(&file);
        let of_tcp = serde_json::from_str(&run(filtered.arg("tcp"))).unwrap();
        assert!(of_unix(&of_tcp).is_empty());
        Ok(())
    });
}

#[test]
fn a_recording_has_what_a_unix_socket_never_answered() {
    let host = Host::new("unix-rec").unwrap();
    within_attempts(|| {
        let service = Service::start(&host, ["600", "1", "0"]);
        let directory = tempdir().unwrap();
        let file = directory.path().join("silent.parquet");
        let mut client = InVain::connect(&host, &service, "asks-in-vain");
        let record = record(&host, &client.process, &file);
        client.ask();
        // A question that is given up was looked at before.
        thread::sleep(Duration::from_secs(2));
        let [begun, ended] = client.give_up();
        end(record);
        let report = report(&file);
        let waits = of_unix(&report);
        assert_eq!(waits.len(), 3);
        for wait in &waits {
            assert_eq!(wait["end"], "given-up");
            assert_eq!(wait["comm"], "asks-in-vain");
            assert_eq!(wait["server"]["pid"], service.process.id());
            // Open questions are looked at each 100 ms.
            let lasted = number(&wait["lasted_ns"]);
            let since = number(&wait["since_ns"]);
            let real = ended - begun;
            assert!(lasted <= real && since >= begun, "{wait}");
            if lasted + ms(300) < real {
                return Err(format!("{lasted} of {real}"));
            }
        }
        let finding = &report["diagnosis"]["findings"][0];
        assert_eq!(
            (&finding["count"], &finding["tried"]),
            (&3.into(), &3.into())
        );
        let stuck = told(&["stuck", "-r"], &file);
        let line = format!(
            "waits for an answer of {}; given up",
            service.path().display()
        );
        assert_eq!(stuck.matches(&line).count(), 3, "{stuck}");
        Ok(())
    });
}

fn record(host: &Host, process: &Process, file: &Path) -> Process {
    let mut command = host.command(sockstamp());
    command.args(["record", "--every", "-p", &process.id().to_string()]);
    let mut record = Process::spawn({
        command.arg("-o").arg(file);
        command
    })
    .unwrap();
    wait_attached(&mut record);
    record
}

/// A question is open when measuring begins, and still when it ends.
#[test]
fn a_question_over_a_unix_socket_from_before_the_measurement_has_its_age() {
    let host = Host::new("unix-old").unwrap();
    within_attempts(|| {
        let service = Service::start(&host, ["600", "1", "0"]);
        let mut client = host.command("python3");
        client.args(["-c", BLOCKS]).arg(service.path());
        let mut client = Process::spawn(client).unwrap();
        client.wait_for_stdout("asked", PATIENCE).unwrap();
        let asked: u64 = client.stdout()["asked ".len()..].trim().parse().unwrap();
        let pid = client.id().to_string();
        let mut stat = host.command(sockstamp());
        stat.args(["stat", "-p", &pid, "--duration", "1s", "--format", "json"]);
        let report: Value = serde_json::from_str(&run(&mut stat)).unwrap();
        let waits = of_unix(&report);
        let [wait] = waits[..] else {
            return Err(format!("{waits:?}"));
        };
        assert_eq!(
            (&wait["kind"], &wait["end"]),
            (&"answer".into(), &"open".into())
        );
        assert_eq!(wait["pid"], client.id());
        assert_eq!(wait["server"]["pid"], service.process.id());
        assert_eq!(wait["remote"], service.path().to_str().unwrap());
        let since = number(&wait["since_ns"]);
        // The task has slept since a moment after it asked.
        match since + ms(1) >= asked && since <= asked + ms(20) {
            true => Ok(()),
            false => Err(format!("{since} {asked}")),
        }
    });
}

/// Asks once, tells when, and waits for ever.
const BLOCKS: &str = "
import socket, sys, time
c = socket.socket(socket.AF_UNIX); c.connect(sys.argv[1])
c.sendall(b'question'); print('asked', time.monotonic_ns(), flush=True); c.recv(9)
";
