//! Two kinds of hooks at the same time, each on a flow of its own: of the same traffic the stages
//! are the same.

use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};

use testbed::{Family, within_attempts};
use with::pair::Pair;
use with::{Trace, number, skip};

const ROUNDS: usize = 200;
const BYTES: usize = 64;
const APART_NS: u64 = 5_000;

#[test]
fn both_kinds_of_hooks_give_the_same_stamps() {
    within_attempts(the_same_stamps);
}

fn the_same_stamps() -> Result<(), String> {
    let pair = Pair::veth(Family::V4);
    let older = match Watched::try_new(&pair, "older", 7001) {
        Err(reason) if reason.contains("fentry") => {
            skip(
                "twins::both_kinds_of_hooks_give_the_same_stamps",
                reason.trim(),
            );
            return Ok(());
        }
        started => started.unwrap(),
    };
    let best = Watched::try_new(&pair, "best", 7002).unwrap();
    let mut flows = [older, best];
    for _ in 0..ROUNDS {
        flows.iter_mut().for_each(Watched::converse);
    }
    let [older, best] = flows.map(Watched::medians);
    println!("older {older:?}\nbest  {best:?}");
    assert!(older.keys().eq(best.keys()));
    for stage in [
        "tx.copy",
        "tx.queue",
        "tx.qdisc",
        "tx.network",
        "rx.stack",
        "rx.app",
    ] {
        let (older, best) = (older[stage], best[stage]);
        if older.abs_diff(best) > APART_NS {
            return Err(format!(
                "{stage}: {older} ns by older hooks, {best} ns by the best"
            ));
        }
    }
    Ok(())
}

/// A connection with both ends in this program, so that none waits for another to get a CPU. The
/// client's is watched.
struct Watched {
    trace: Trace,
    client: TcpStream,
    server: TcpStream,
}

impl Watched {
    fn try_new(pair: &Pair, hooks: &str, port: u16) -> Result<Watched, String> {
        let netns = pair.client.netns_name();
        let target = ["--netns", netns, "tcp", "port", &port.to_string()];
        let trace = Trace::try_start(
            "--every",
            &[&["--expert", &format!("hooks={hooks}")], &target[..]].concat(),
        )?;
        let address = SocketAddr::new(pair.address.ip(), port);
        let listener = pair.server.tcp_listen(address).unwrap();
        let client = pair.client.tcp_connect(address).unwrap();
        let (server, _) = listener.accept().unwrap();
        client.set_nodelay(true).unwrap();
        server.set_nodelay(true).unwrap();
        Ok(Watched {
            trace,
            client,
            server,
        })
    }

    /// A request and an answer.
    fn converse(&mut self) {
        let mut buffer = [1; BYTES];
        self.client.write_all(&buffer).unwrap();
        self.server.read_exact(&mut buffer).unwrap();
        self.server.write_all(&buffer).unwrap();
        self.client.read_exact(&mut buffer).unwrap();
    }

    /// Return the median of each stage. Every message is valid.
    fn medians(self) -> BTreeMap<String, u64> {
        let messages = self.trace.finish();
        assert_eq!(messages.len(), 2 * ROUNDS);
        let mut stages = BTreeMap::<String, Vec<u64>>::new();
        for message in &messages {
            assert_eq!(message["verdict"], "valid", "{message}");
            let present = message["stages"].as_object().unwrap();
            for (stage, value) in present.iter().filter(|(_, value)| !value.is_null()) {
                stages.entry(stage.clone()).or_default().push(number(value));
            }
        }
        stages
            .into_iter()
            .map(|(stage, times)| (stage, median(times)))
            .collect()
    }
}

fn median(mut times: Vec<u64>) -> u64 {
    times.sort_unstable();
    times[(times.len() - 1) / 2]
}
