//! Check what `stat -- COMMAND` prints for psql and ssh: they waited for their servers as long as
//! their own clocks, or those of the servers, show.

use std::fs::{self, Permissions};
use std::net::SocketAddr;
use std::os::unix::fs::{PermissionsExt, chown};
use std::path::{Path, PathBuf};
use std::process::Command;

use nix::sys::signal::Signal;
use serde_json::Value;
use tempfile::TempDir;
use testbed::{Host, PATIENCE, Process, within_attempts};
use with::expected::{ms, within};
use with::unprivileged::NOBODY;
use with::{number, stat_command};

/// Return the time that a command waited for a peer's data, of all that it waited for; check that
/// all of it and its own are the wall time.
fn waited_for(wall_time: &Value, peer: SocketAddr) -> Result<u64, String> {
    println!("{wall_time}");
    let waits = wall_time["waits"].as_array().unwrap();
    let sum: u64 = waits.iter().map(|wait| number(&wait["ns"])).sum();
    assert_eq!(
        sum + number(&wall_time["own_ns"]),
        number(&wall_time["wall_ns"])
    );
    let peer = peer.to_string();
    let for_peer = |wait: &&Value| wait["kind"] == "waiting" && wait["peer"] == peer.as_str();
    let wait = waits.iter().find(for_peer);
    let wait = wait.unwrap_or_else(|| panic!("it did not wait for {peer}: {wall_time}"));
    if waits.first() != Some(wait) {
        return Err(format!("it waited longer for {}", waits[0]));
    }
    Ok(number(&wait["ns"]))
}

/// A database of the newest PostgreSQL here, which refuses to run as root.
struct Database {
    server: Process,
    _folder: TempDir,
}

impl Database {
    const PORT: &str = "5432";

    fn start(host: &Host) -> Self {
        let folder = tempfile::tempdir().unwrap();
        fs::set_permissions(folder.path(), Permissions::from_mode(0o755)).unwrap();
        let data = folder.path().join("data");
        fs::create_dir(&data).unwrap();
        chown(&data, Some(NOBODY), Some(NOBODY)).unwrap();
        let at = data.to_str().unwrap();
        let make = [
            "-U",
            "one",
            "--auth",
            "trust",
            "--no-sync",
            "--locale",
            "C",
            at,
        ];
        let made = as_nobody(host, "initdb").args(make).output().unwrap();
        assert!(made.status.success(), "{made:?}");
        let mut server = as_nobody(host, "postgres");
        server.args(["-D", at, "-h", "127.0.0.1", "-p", Self::PORT]);
        // Its socket in the file system would be in a folder of root's.
        server.args(["-c", "unix_socket_directories=", "-c", "fsync=off"]);
        let server = Process::spawn(server).unwrap();
        let address = format!("127.0.0.1:{}", Self::PORT).parse().unwrap();
        host.wait_for_port(address, PATIENCE).unwrap();
        Self {
            server,
            _folder: folder,
        }
    }
}

/// The server releases its shared memory before its files are removed.
impl Drop for Database {
    fn drop(&mut self) {
        let _ = self.server.signal(Signal::SIGINT);
        let _ = self.server.wait_status(PATIENCE);
    }
}

fn as_nobody(host: &Host, program: &str) -> Command {
    let mut command = host.command("setpriv");
    let nobody = NOBODY.to_string();
    command.args(["--reuid", &nobody, "--regid", &nobody, "--clear-groups"]);
    command
        .arg(newest_postgresql().join(program))
        .current_dir("/");
    command
}

/// Debian keeps each version's programs in `/usr/lib/postgresql/VERSION/bin`.
fn newest_postgresql() -> PathBuf {
    let version = |path: &Path| path.file_name()?.to_str()?.parse::<u32>().ok();
    let folders = fs::read_dir("/usr/lib/postgresql").unwrap();
    let newest = folders
        .map(|entry| entry.unwrap().path())
        .max_by_key(|path| version(path));
    newest.unwrap().join("bin")
}

/// psql's `\timing`: from before a query is sent to after its answer is read.
#[test]
fn psqls_wait_for_a_slow_query_is_separate_from_its_own_time() {
    let host = Host::new("database").unwrap();
    let _database = Database::start(&host);
    let address = format!("127.0.0.1:{}", Database::PORT).parse().unwrap();
    let ask = [
        "-X",
        "-h",
        "127.0.0.1",
        "-U",
        "one",
        "-d",
        "postgres",
        "-c",
        "\\timing",
    ];
    let ask = [&["psql"], &ask[..], &["-c", "select pg_sleep(0.5)"]].concat();
    within_attempts(|| {
        let measured = stat_command(&host, &ask);
        assert!(measured.status.success(), "{measured:?}");
        let time = measured
            .stdout
            .lines()
            .find_map(|line| line.strip_prefix("Time: "));
        let millis: f64 = time.unwrap().split_once(" ms").unwrap().0.parse().unwrap();
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "half a second"
        )]
        let query = (millis * 1e6) as u64;
        let wall_time = &measured.report["wall_time"];
        let waited = waited_for(wall_time, address)?;
        // The session is opened by a few more answers, each from a process that starts.
        within("the wait", waited, query - ms(2)..=query + ms(60))
    });
}

/// A server of SSH for root, whose only key is in the folder.
fn serve_ssh(host: &Host, folder: &Path, port: u16) -> Process {
    let run = |program: &str, words: &[&str]| host.run(program, words).unwrap();
    let at = folder.to_str().unwrap();
    run(
        "ssh-keygen",
        &["-q", "-t", "ed25519", "-N", "", "-f", &format!("{at}/key")],
    );
    run(
        "dropbearkey",
        &["-t", "ed25519", "-f", &format!("{at}/host")],
    );
    let home = folder.join("home");
    let keys = home.join(".ssh");
    fs::create_dir_all(&keys).unwrap();
    fs::copy(folder.join("key.pub"), keys.join("authorized_keys")).unwrap();
    for folder in [&home, &keys] {
        fs::set_permissions(folder, Permissions::from_mode(0o700)).unwrap();
    }
    // The server looks for keys in root's home alone: in its mount namespace that is another one.
    let script = format!(
        "mount --bind {at}/home ~root && exec dropbear -F -E -m -s -p 127.0.0.1:{port} -r {at}/host -P {at}/pid"
    );
    let server = host.spawn("unshare", &["-m", "sh", "-c", &script]).unwrap();
    let address = SocketAddr::from(([127, 0, 0, 1], port));
    host.wait_for_port(address, PATIENCE).unwrap();
    server
}

/// The time between the clocks that the remote command reads before and after its sleep. It begins
/// by a line that the client sends: sshd answers a request for a command before that runs, and the
/// client's end of input comes before or after the answer.
#[test]
fn sshs_wait_for_a_remote_command_is_separate_from_its_own_time() {
    let host = Host::new("ssh").unwrap();
    let folder = tempfile::tempdir().unwrap();
    let _server = serve_ssh(&host, folder.path(), 22);
    let key = folder.path().join("key");
    let mut login = vec!["ssh", "-F", "none", "-i", key.to_str().unwrap()];
    for option in [
        "BatchMode=yes",
        "IdentitiesOnly=yes",
        "StrictHostKeyChecking=no",
        "UserKnownHostsFile=/dev/null",
    ] {
        login.extend(["-o", option]);
    }
    let remote = "read line; begin=$(date +%s%N); sleep 0.5; echo $begin; date +%s%N";
    let local = format!(
        "(sleep 0.3; echo) | {} root@127.0.0.1 '{remote}'",
        login.join(" ")
    );
    within_attempts(|| {
        let measured = stat_command(&host, &["sh", "-c", &local]);
        assert!(measured.status.success(), "{measured:?}");
        let times: Vec<u64> = measured
            .stdout
            .lines()
            .map(|line| line.parse().unwrap())
            .collect();
        let [begin, end] = times[..] else {
            panic!("{measured:?}");
        };
        let wall_time = &measured.report["wall_time"];
        let waited = waited_for(wall_time, SocketAddr::from(([127, 0, 0, 1], 22)))?;
        // Keys are exchanged and a shell is started before.
        within("the wait", waited, end - begin..=end - begin + ms(400))
    });
}
