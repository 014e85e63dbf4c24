//! Check the verifier's cost of the programs on this kernel. Root.

use std::collections::BTreeSet;
use std::process;

use sockstamp_bpf::completions::Publisher;
use sockstamp_bpf::plan::Plan;
use sockstamp_bpf::programs::PROGRAMS;
use sockstamp_bpf::{Grouped, Options, Packets, Session, Stuck, Target, packets, probe, unix};

/// Half of the kernel's million: another compiler's or kernel's path through the same program may
/// be twice as long.
const MOST: u32 = 500_000;

#[test]
fn every_program_is_far_from_the_verifiers_limit() {
    let options = Options {
        record: true,
        host_path: true,
        groups: Some(Grouped::by(
            "pid,cgroup,port,peer,interface".parse().unwrap(),
        )),
        ..Options::default()
    };
    let session = Session::start(&options).unwrap();
    let publisher = Publisher::attach(1, 1).unwrap();
    let packets = Packets::start(&packets::Options {
        all_stages: true,
        ..packets::Options::default()
    });
    let packets = packets.unwrap();
    // Each condition adds instructions.
    let of_process = Target {
        pids: vec![process::id()],
        comms: vec!["verified".into()],
        ..Target::default()
    };
    let of_others = [
        publisher.verified(),
        packets.verified(),
        Stuck::start(&of_process).and_then(|stuck| stuck.verified()),
        unix::verified(),
    ];
    println!("clang {}", env!("CLANG_VERSION"));
    let verified = session.verified().unwrap();
    // A start does without a program that the verifier refuses, where another one serves as well.
    let facts = probe::try_what_is_used(probe::facts(), &options).unwrap();
    let plan = Plan::new(&facts, &options.request()).unwrap();
    let needed = PROGRAMS.iter().filter(|program| program.is_needed(&plan));
    let needed: BTreeSet<_> = needed.map(|program| program.name).collect();
    let loaded: BTreeSet<_> = verified.iter().map(|(name, _)| name.as_str()).collect();
    assert_eq!(loaded, needed);
    let of_others = of_others.into_iter().flat_map(Result::unwrap);
    for (program, instructions) in verified.iter().cloned().chain(of_others) {
        println!("verified {program} {instructions}");
        assert!(
            (1..MOST).contains(&instructions),
            "{program}: {instructions}"
        );
    }
}
