//! Services behind Unix sockets, and clients of theirs.

use std::fs;
use std::path::PathBuf;

use tempfile::TempDir;
use testbed::{Host, PATIENCE, Process};

use crate::wait_until;

/// Serves a path: after some seconds it answers each message with `bytes`, as often as `count`.
const SERVES: &str = "
import socket, sys, threading, time
path, delay, count, pause = sys.argv[1], *map(float, sys.argv[2:])
s = socket.socket(socket.AF_UNIX); s.bind(path); s.listen(50)
def serve(c):
    while c.recv(4096):
        if not count: continue
        time.sleep(delay)
        for _ in range(int(count)): c.sendall(b'answer'); time.sleep(pause)
while True:
    threading.Thread(target=serve, args=s.accept()[:1], daemon=True).start()
";

/// Asks on three connections at once, once a file is there, and gives up once another one is.
/// Prints when the first question was asked and when the last one was given up, by CLOCK_MONOTONIC.
const ASKS_IN_VAIN: &str = "
import os, socket, sys, threading, time
path, go, ready, enough, name = sys.argv[1:]
open('/proc/self/comm', 'w').write(name)
def connect():
    c = socket.socket(socket.AF_UNIX); c.connect(path); c.settimeout(0.5); return c
kept, begun, ended = [connect() for _ in range(3)], [], []
open(ready, 'w').close()
while not os.path.exists(go): time.sleep(0.01)
def ask(c):
    begun.append(time.monotonic_ns()); c.sendall(b'question')
    while not os.path.exists(enough):
        try: c.recv(9)
        except TimeoutError: pass
    ended.append(time.monotonic_ns()); c.close()
threads = [threading.Thread(target=ask, args=(c,)) for c in kept]
for t in threads: t.start()
for t in threads: t.join()
print('given up', len(ended), min(begun), max(ended), flush=True); time.sleep(600)
";

/// A service that a script serves at a path, which is its first word.
pub struct Service {
    pub folder: TempDir,
    pub process: Process,
}

impl Service {
    /// Answer after some seconds, so often, with a pause after each: `["0.3", "1", "0"]`.
    pub fn start(host: &Host, options: [&str; 3]) -> Self {
        Self::of(host, SERVES, &options)
    }

    pub fn of(host: &Host, script: &str, options: &[&str]) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("service");
        let mut command = host.command("python3");
        command.args(["-c", script]).arg(&path).args(options);
        let process = Process::spawn(command).unwrap();
        wait_until("the service is there", || path.exists());
        Self { folder, process }
    }

    pub fn path(&self) -> PathBuf {
        self.folder.path().join("service")
    }
}

/// A client that asks a service on three connections, and gives up.
pub struct InVain {
    pub process: Process,
    go: PathBuf,
    enough: PathBuf,
}

impl InVain {
    /// Connect, under this name of a process; the questions wait for [`ask`](Self::ask).
    pub fn connect(host: &Host, service: &Service, name: &str) -> Self {
        let names = ["go", "ready", "enough"];
        let [go, ready, enough] = names.map(|name| service.folder.path().join(name));
        let mut command = host.command("python3");
        command.args(["-c", ASKS_IN_VAIN]).arg(service.path());
        command.args([&go, &ready, &enough]).arg(name);
        let process = Process::spawn(command).unwrap();
        wait_until("the client is connected", || fs::exists(&ready).unwrap());
        Self {
            process,
            go,
            enough,
        }
    }

    pub fn ask(&self) {
        fs::write(&self.go, "").unwrap();
    }

    /// Return when the first question was asked, and when the last one was given up, in nanoseconds
    /// of CLOCK_MONOTONIC.
    pub fn give_up(&mut self) -> [u64; 2] {
        fs::write(&self.enough, "").unwrap();
        let told = self.process.wait_for_stdout("given up 3", PATIENCE);
        told.unwrap();
        let told = self.process.stdout();
        let mut words = told.split_whitespace().skip(3);
        [(); 2].map(|()| words.next().unwrap().parse().unwrap())
    }
}
