//! A client and a server on a link.

use std::net::SocketAddr;

use crate::{Stat, in_short, peer};
use serde_json::Value;
use testbed::{Family, Host, Link, LinkConfig, PATIENCE, Process};

/// Options of chrt(1): real time, as the link itself. Else what other programs of the machine keep
/// the CPU from programs that are measured is in their times, rightly.
pub const REAL_TIME: [&str; 2] = ["--rr", "1"];

/// A client and a server on a link, both real time. The client sends with Reno, which does not
/// pace: the default of the machine may be BBR, which does.
pub struct Pair {
    pub client: Host,
    pub server: Host,
    pub link: Link,
    pub address: SocketAddr,
}

impl Pair {
    pub fn relay(config: LinkConfig, family: Family) -> Pair {
        Pair::on(family, |client, server| Link::relay(client, server, config))
    }

    pub fn veth(family: Family) -> Pair {
        Pair::on(family, Link::veth)
    }

    fn on(family: Family, link: impl FnOnce(&Host, &Host) -> testbed::Result<Link>) -> Pair {
        let (client, server) = (Host::new("client").unwrap(), Host::new("server").unwrap());
        let link = link(&client, &server).unwrap();
        let address = SocketAddr::new(link.address_b(family), 7000);
        let pair = Pair {
            client,
            server,
            link,
            address,
        };
        pair.route("");
        pair
    }

    /// Give the client's route to the server `metrics` of ip-route(8), in force for connections to
    /// come.
    pub fn route(&self, metrics: &str) {
        let (to, device) = (self.address.ip().to_string(), self.link.interface_a());
        let words = ["route", "replace", &to, "dev", device, "congctl", "reno"];
        let words = words.into_iter().chain(metrics.split_whitespace());
        self.client.run("ip", &words.collect::<Vec<_>>()).unwrap();
    }

    /// A server on the port of `address`, a program of the testbed.
    pub fn serve(&self, words: &[&str]) -> Process {
        self.serve_with(&[&[&peer()[..]], words, &["--port", "7000"]].concat())
    }

    /// Do the same as [`serve`](Self::serve), with any program.
    pub fn serve_with(&self, words: &[&str]) -> Process {
        let process = self
            .server
            .spawn("chrt", &[&REAL_TIME, words].concat())
            .unwrap();
        self.server.wait_for_port(self.address, PATIENCE).unwrap();
        process
    }

    /// Return the report of `stat` with these options on the client while one of its programs runs.
    pub fn stat_client(&self, options: &[&str], words: &[&str]) -> Value {
        self.stat(&self.client, options, words)
    }

    /// Return the report of `stat` with these options on one side while a program of the client
    /// runs.
    pub fn stat(&self, side: &Host, options: &[&str], words: &[&str]) -> Value {
        let target = ["--netns", side.netns_name()];
        let stat = Stat::start(&[&target[..], options].concat());
        self.client
            .run("chrt", &[&REAL_TIME, words].concat())
            .unwrap();
        let report = stat.finish();
        println!("{}", in_short(&report));
        report
    }

    /// Do the same as [`stat_client`](Self::stat_client) for every message of a program of the
    /// testbed that talks to the server.
    pub fn stat_peer(&self, words: &str) -> Value {
        self.stat_peer_at(&self.client, &[], words)
    }

    /// Do the same as [`stat_peer`](Self::stat_peer), with these options, on one side.
    pub fn stat_peer_at(&self, side: &Host, options: &[&str], words: &str) -> Value {
        let address = self.address.to_string();
        let words: Vec<&str> = words.split_whitespace().collect();
        let to = ["--connect", &address];
        self.stat(side, options, &[&[&peer()[..]], &words[..], &to].concat())
    }

    /// Return the output of a program of the testbed that talks to the server.
    pub fn run_peer(&self, words: &str) -> Value {
        let address = self.address.to_string();
        let words: Vec<&str> = words.split_whitespace().collect();
        let to = ["--connect", &address];
        let peer = peer();
        let words = [&REAL_TIME[..], &[&peer], &words, &to].concat();
        let text = self.client.run("chrt", &words).unwrap();
        serde_json::from_str(&text).unwrap()
    }
}
