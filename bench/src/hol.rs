//! Measure the cost of separating the wait for a missing segment in reads, where 1 % of the packets
//! are lost: time in the programs on their path, over the same without looking for missing
//! segments.

use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use sockstamp_bpf::{HolView, Options, ProgramCost, Session, Target};
use sockstamp_model::flow::NetnsInode;
use testbed::{Family, Host, Link, LinkConfig};

use crate::effort::Effort;
use crate::paired::{Spread, in_turn, to_float, values};
use crate::program_statistics::{self, Runs};
use crate::report::{Budget, Report};

const ROUND: Duration = Duration::from_millis(500);
const LOSS: f64 = 0.01;
/// Send three segments, and leave time for them, so few others wait for a lost one: a flow that
/// filled its window would make rounds very different.
const BLOCK: usize = 4 << 10;
const PAUSE: Duration = Duration::from_micros(100);
const ARRIVAL_HOOK: &str = "tcp_probe";
const READ_HOOKS: [&str; 2] = ["sk_data_ready", "sock_recv_length"];

/// Two hosts and the link between them.
struct LossyHosts {
    sender: Host,
    receiver: Host,
    link: Link,
}

impl LossyHosts {
    fn new() -> Result<Self> {
        let sender = Host::new("sender")?;
        let receiver = Host::new("receiver")?;
        // Single segments are lost then, and their successors arrive one by one.
        let config = LinkConfig::default().loss(LOSS).offload(false);
        let link = Link::relay(&sender, &receiver, config)?;
        Ok(Self {
            sender,
            receiver,
            link,
        })
    }

    fn connect(&self) -> Result<(TcpStream, TcpStream)> {
        let address = SocketAddr::new(self.link.address_b(Family::V4), 0);
        let listener = self.receiver.tcp_listen(address)?;
        let client = self.sender.tcp_connect(listener.local_addr()?)?;
        Ok((client, listener.accept()?.0))
    }

    fn session(&self, hol: HolView) -> Result<Session> {
        let netns =
            u32::try_from(self.receiver.netns_inode()).context("no inode of a namespace")?;
        let options = Options {
            target: Target {
                netns: vec![NetnsInode(netns)],
                ..Target::default()
            },
            hol,
            ..Options::default()
        };
        Ok(Session::start(&options)?)
    }

    fn round(&self, hol: HolView) -> Result<Sample> {
        let session = self.session(hol)?;
        let (client, server) = self.connect()?;
        let before = account(&session)?;
        let reads = transfer(client, server)?;
        Ok(Sample {
            programs: program_statistics::since(account(&session)?, &before),
            reads: to_float(reads),
            out_of_order: to_float(session.summary().rx.out_of_order),
        })
    }
}

fn account(session: &Session) -> Result<Vec<Runs>> {
    program_statistics::read(&session.programs(), "on_")
}

/// Return the number of reads.
fn transfer(mut client: TcpStream, mut server: TcpStream) -> Result<u64> {
    let sending = thread::spawn(move || {
        let block = vec![0; BLOCK];
        let begun = Instant::now();
        while begun.elapsed() < ROUND && client.write_all(&block).is_ok() {
            thread::sleep(PAUSE);
        }
        client.shutdown(Shutdown::Write)
    });
    let mut block = vec![0; 4 * BLOCK];
    let mut reads = 0;
    while server.read(&mut block)? > 0 {
        reads += 1;
    }
    sending.join().ok().context("the sender ended early")??;
    Ok(reads)
}

struct Sample {
    programs: Vec<Runs>,
    reads: f64,
    out_of_order: f64,
}

impl Sample {
    /// Time a read in these programs.
    fn nanoseconds(&self, wanted: impl Fn(&str) -> bool) -> f64 {
        let programs = self.programs.iter().filter(|program| wanted(&program.hook));
        to_float(programs.map(|program| program.nanoseconds).sum()) / self.reads
    }

    fn of_reads(&self) -> f64 {
        self.nanoseconds(|hook| READ_HOOKS.contains(&hook))
    }

    fn with_arrivals(&self) -> f64 {
        self.nanoseconds(|hook| hook == ARRIVAL_HOOK || READ_HOOKS.contains(&hook))
    }
}

/// Return for each round 1 plus the added part.
fn on_top(added: &[f64], reads: &[f64]) -> Vec<f64> {
    let of_round = |(added, read): (&f64, &f64)| 1.0 + added / read;
    added.iter().zip(reads).map(of_round).collect()
}

pub(crate) fn run(effort: Effort, report: &mut Report) -> Result<()> {
    let hosts = LossyHosts::new()?;
    let account = ProgramCost::keep_account()?;
    let [unseen, split] = in_turn(
        effort.rounds(12),
        [HolView::Unseen, HolView::Split],
        |hol| hosts.round(hol),
    )?;
    drop(account);
    let reads = values(&unseen, Sample::of_reads);
    let seen = values(&split, Sample::with_arrivals);
    let added = seen.iter().zip(values(&unseen, Sample::with_arrivals));
    let added: Vec<_> = added.map(|(seen, unseen)| seen - unseen).collect();
    report.add(
        "hol.cost",
        "×",
        Spread::of(&on_top(&added, &reads)),
        Some(Budget::AtMost(1.15)),
    );
    // Attribute tcp_probe, which causes and acknowledgements need as well, to this alone.
    report.add(
        "hol.cost.with-hook",
        "×",
        Spread::of_ratios(&seen, &reads),
        None,
    );
    report.add("hol.ours", "ns", Spread::of(&seen), None);
    let missing = values(&split, |sample| sample.out_of_order / sample.reads);
    report.add("hol.out-of-order", "per read", Spread::of(&missing), None);
    Ok(())
}
