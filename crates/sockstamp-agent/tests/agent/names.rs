//! Names, images and pods of containers, from files as runtimes write them.

use std::fs;
use std::path::PathBuf;
use std::process::Command;

use tempfile::TempDir;
use testbed::{Cgroup, Host, PATIENCE, Process};
use with::agent::{Agent, Scrape};
use with::sockstamp;

const TX: &str = "direction=\"tx\"";

/// Connect to itself, and send bytes from then on.
const TALKS: &str = "
import socket, time
listener = socket.create_server(('127.0.0.1', 0))
client = socket.create_connection(listener.getsockname())
server = listener.accept()[0]
print('ready', flush=True)
while True:
    client.sendall(b'x')
    server.recv(1)
    time.sleep(0.02)
";

/// The directories that the agent sees instead of the host's.
struct Files(TempDir);

impl Files {
    fn new() -> Self {
        Self(TempDir::new().unwrap())
    }

    fn write(&self, path: &str, text: &str) {
        let path = self.path(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    fn path(&self, path: &str) -> PathBuf {
        self.0.path().join(path)
    }

    /// Return a command that becomes sockstamp where these files are. Namespaces stay where they
    /// are.
    fn command(&self) -> Command {
        for directory in ["lib", "log/containers", "run/containerd", "run/netns"] {
            fs::create_dir_all(self.path(directory)).unwrap();
        }
        let script = r#"set -e
            mount --rbind /run/netns "$0/run/netns"
            mount --bind "$0/lib" /var/lib; mount --bind "$0/log" /var/log; mount --rbind "$0/run" /run
            exec "$@""#;
        let mut command = Command::new("unshare");
        command.args(["--mount", "sh", "-c", script]);
        command.arg(self.0.path()).arg(sockstamp());
        command.env("NODE_NAME", "node-7");
        command
    }
}

/// A process that talks with itself in a container's cgroup.
struct Container {
    _process: Process,
    _cgroup: Cgroup,
}

impl Container {
    fn start(host: &Host, top: &Cgroup, path: &str) -> Self {
        let cgroup = top.below(path).unwrap();
        let mut command = host.command("python3");
        command.args(["-c", TALKS]);
        cgroup.start_in(&mut command).unwrap();
        let mut process = Process::spawn(command).unwrap();
        process.wait_for_stdout("ready", PATIENCE).unwrap();
        Self {
            _process: process,
            _cgroup: cgroup,
        }
    }
}

/// Ids that no container on this host has.
fn id(digit: u8) -> String {
    format!("{:08x}{}", std::process::id(), digit.to_string().repeat(56))
}

#[test]
fn series_have_the_names_that_runtimes_keep() {
    let host = Host::new("names").unwrap();
    let top = Cgroup::new("names").unwrap();
    let files = Files::new();
    let [docker, podman, containerd, unknown] = [1, 2, 3, 4].map(id);
    files.write(
        &format!("lib/docker/containers/{docker}/config.v2.json"),
        &format!(
            r#"{{"ID":"{docker}","Name":"/web","Config":{{"Image":"nginx:1.27","Labels":{{}}}}}}"#
        ),
    );
    files.write(
        "lib/containers/storage/overlay-containers/containers.json",
        &format!(
            r#"[{{"id":"{podman}","names":["db"],
                "metadata":"{{\"image-name\":\"docker.io/library/postgres:16\",\"name\":\"db\"}}"}}]"#
        ),
    );
    files.write(
        &format!("log/containers/shop-7d4b_default_cart-{containerd}.log"),
        "",
    );
    files.write(
        &format!("run/containerd/io.containerd.runtime.v2.task/k8s.io/{containerd}/config.json"),
        r#"{"annotations":{"io.kubernetes.cri.image-name":"registry/cart:3"}}"#,
    );
    let containers = [
        format!("system.slice/docker-{docker}.scope"),
        format!("machine.slice/libpod-{podman}.scope/container"),
        format!("kubepods.slice/cri-containerd-{containerd}.scope"),
        format!("kubepods/burstable/pod1/{unknown}"),
    ];
    let mut containers: Vec<_> = containers
        .iter()
        .map(|path| Container::start(&host, &top, path))
        .collect();
    let settings = format!(
        "sample = \"1000000/s\"\nmax_cost = \"none\"\nexpire = \"10s\"\n\
         by = [\"container_name\", \"image\", \"pod\", \"namespace\", \"node\"]\n\
         [probe]\nenabled = false\n[target]\nnetns = \"{}\"\n\
         [[rule]]\nmatch = {{ image = \"nginx:*\" }}\nlabels = {{ team = \"web\" }}\n\
         [[rule]]\nmatch = {{ namespace = \"default\" }}\nlabels = {{ team = \"shop\" }}\n",
        host.netns_name()
    );
    let agent = Agent::by(files.command(), &settings);
    let expected = [
        r#"container_name="web",image="nginx:1.27",pod="",namespace="",node="node-7",team="web""#,
        r#"container_name="db",image="docker.io/library/postgres:16",pod="",namespace="",node="node-7""#,
        r#"container_name="cart",image="registry/cart:3",pod="shop-7d4b",namespace="default",node="node-7",team="shop""#,
        r#"container_name="",image="",pod="",namespace="",node="node-7""#,
    ];
    let count =
        |scrape: &Scrape, labels: &str| scrape.sum("sockstamp_messages_total", &[labels, TX]);
    let scrape =
        agent.scrape_until(|scrape| expected.iter().all(|labels| count(scrape, labels) > 0.0));
    let all = scrape.values("sockstamp_messages_total", &[TX]);
    assert_eq!(
        all.len(),
        expected.len(),
        "a group has no other series: {}",
        scrape.0
    );

    // docker forgets a container that has ended, and the agent does not until its series end.
    fs::remove_dir_all(files.path("lib/docker")).unwrap();
    let before = count(&scrape, expected[0]);
    agent.scrape_until(|scrape| count(scrape, expected[0]) > before);
    drop(containers.remove(0));
    let last = agent.scrape();
    assert!(count(&last, expected[0]) > before);
    let later = agent.scrape_until(|scrape| {
        scrape
            .values("sockstamp_messages_total", &[expected[0]])
            .is_empty()
    });
    assert_eq!(later.sum("sockstamp_expired_groups_total", &[]), 1.0);
    assert!(count(&later, expected[1]) > 0.0);
}
