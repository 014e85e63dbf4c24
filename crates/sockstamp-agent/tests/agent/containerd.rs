//! Names from a real containerd, by both of its interfaces.

use std::io::{BufRead, BufReader, Read};
use std::net::{TcpListener, TcpStream};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use serde_json::Value;
use tempfile::TempDir;
use with::agent::Agent;
use with::{python, skip};

/// containerd, and two containers that connect to a port again and again. They end on drop.
struct Containerd {
    script: Child,
    directory: TempDir,
    /// Their ids, by interface.
    ids: Value,
}

impl Containerd {
    fn start(port: u16) -> Self {
        let directory = TempDir::new().unwrap();
        let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/agent/containerd.py");
        let mut script = python()
            .arg(script)
            .arg(directory.path())
            .arg(port.to_string())
            .arg(format!("/sockstamp-{}", std::process::id()))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut line = String::new();
        let output = script.stdout.as_mut().unwrap();
        BufReader::new(output).read_line(&mut line).unwrap();
        let mut containerd = Self {
            script,
            directory,
            ids: Value::Null,
        };
        containerd.ids = serde_json::from_str(&line).unwrap();
        containerd
    }

    fn id(&self, interface: &str) -> &str {
        self.ids[interface].as_str().unwrap()
    }
}

impl Drop for Containerd {
    fn drop(&mut self) {
        drop(self.script.stdin.take());
        let _ = self.script.wait();
    }
}

/// Read whatever connections bring, until told to stop.
fn serve(listener: &TcpListener, stop: &AtomicBool) {
    for connection in listener.incoming() {
        if stop.load(Ordering::Relaxed) {
            return;
        }
        let mut connection = connection.unwrap();
        connection
            .set_read_timeout(Some(Duration::from_secs(5)))
            .unwrap();
        // One that is cut off is over as well.
        let _ = connection.read(&mut [0; 64]);
    }
}

#[test]
fn a_real_containerd_tells_the_names_of_its_containers() {
    let runs = |program: &str| Command::new(program).arg("--version").output().is_ok();
    if !["containerd", "runc"].into_iter().all(runs) {
        let name = "a_real_containerd_tells_the_names_of_its_containers";
        return skip(name, "there is no containerd, or no runc");
    }
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let stop = AtomicBool::new(false);
    thread::scope(|scope| {
        scope.spawn(|| serve(&listener, &stop));
        let containerd = Containerd::start(address.port());
        let agent = Agent::start(&format!(
            "sample = \"1000000/s\"\nmax_cost = \"none\"\n\
             by = [\"container\", \"container_name\", \"image\", \"pod\", \"namespace\"]\n\
             runtime_sockets = [\"{}/containerd.sock\"]\n\
             [probe]\nenabled = false\n[target]\nfilter = \"tcp port {}\"",
            containerd.directory.path().display(),
            address.port()
        ));
        let image = r#"image="registry.test/busybox:1""#;
        let expected = [
            ("own", r#"container_name="shell""#, r#"pod="",namespace="""#),
            (
                "kubernetes",
                r#"container_name="cart""#,
                r#"pod="web-7d4b",namespace="shop""#,
            ),
        ];
        let scrape = agent.scrape_until(|scrape| {
            expected.iter().all(|(interface, name, of_pod)| {
                let id = format!("container=\"{}\"", containerd.id(interface));
                let labels = [&*id, name, image, of_pod, "direction=\"tx\""];
                scrape.sum("sockstamp_messages_total", &labels) > 0.0
            })
        });
        assert!(scrape.sum("sockstamp_runtime_requests_total", &["result=\"answered\""]) >= 1.0);
        let said = agent.process.stderr();
        assert_eq!(
            scrape.sum("sockstamp_runtime_requests_total", &["result=\"failed\""]),
            0.0,
            "{said}"
        );
        drop(containerd);
        stop.store(true, Ordering::Relaxed);
        // Wake the server.
        let _ = TcpStream::connect(address);
    });
}
