//! The examples, against curl.

#[path = "../../examples/zerocopy_file_server.rs"]
#[expect(dead_code, reason = "its main() is the example's")]
mod example;
#[path = "../../examples/zerocopy_file_server_tokio.rs"]
#[expect(dead_code, reason = "its main() is the example's")]
mod of_tokio;

use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread::{self, JoinHandle};

use sockstamp::zerocopy::{Counters, Options};

use crate::common::byte;

fn checksum(path: &Path) -> String {
    let output = Command::new("sha256sum").arg(path).output().unwrap();
    assert!(output.status.success(), "{output:?}");
    String::from_utf8(output.stdout).unwrap()[..64].to_owned()
}

fn fetch(url: &str, to: &Path) {
    let output = Command::new("curl")
        .args([
            "--silent",
            "--show-error",
            "--fail",
            "--max-time",
            "30",
            "--output",
        ])
        .arg(to)
        .arg(url)
        .output()
        .unwrap();
    assert!(output.status.success(), "{output:?}");
}

/// Serve files of several lengths once each, by a thread that gets the listener, and compare.
fn each_file_arrives(serve: fn(TcpListener, PathBuf) -> JoinHandle<Counters>) {
    let directory = tempfile::tempdir().unwrap();
    let [served, fetched]: [PathBuf; 2] =
        ["served", "fetched"].map(|name| directory.path().join(name));
    for (length, most_lent) in [(0, 0), (Options::THRESHOLD - 1, 0), (5_000_003, 20)] {
        let content: Vec<u8> = (0..length).map(|at| byte(11, at)).collect();
        std::fs::write(&served, content).unwrap();
        for address in ["127.0.0.1:0", "[::1]:0"] {
            let listener = TcpListener::bind(address).unwrap();
            let url = format!("http://{}/", listener.local_addr().unwrap());
            let server = serve(listener, served.clone());
            fetch(&url, &fetched);
            assert_eq!(checksum(&fetched), checksum(&served));
            let counters = server.join().unwrap();
            assert_eq!(counters.lent > 0, most_lent > 0, "{counters:?}");
            assert!(counters.lent <= most_lent, "{counters:?}");
        }
    }
}

#[test]
fn curl_gets_the_file_as_it_is() {
    each_file_arrives(|listener, path| {
        thread::spawn(move || {
            let (stream, _) = listener.accept().unwrap();
            example::serve(&stream, &path).unwrap()
        })
    });
}

#[test]
fn curl_gets_the_file_as_it_is_from_tasks() {
    each_file_arrives(|listener, path| {
        thread::spawn(move || {
            let mut builder = tokio::runtime::Builder::new_current_thread();
            builder.enable_all().build().unwrap().block_on(async {
                listener.set_nonblocking(true).unwrap();
                let listener = tokio::net::TcpListener::from_std(listener).unwrap();
                let (stream, _) = listener.accept().await.unwrap();
                of_tokio::serve(stream, &path).await.unwrap()
            })
        })
    });
}
