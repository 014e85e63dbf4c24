//! Random measurements with known culprits: each is found, and healthy ones stay silent.

use std::net::SocketAddr;

use fastrand::Rng;
use sockstamp_model::clock::Nanos;
use sockstamp_model::flow::{Flow, NetnsInode, Protocol, SocketCookie};
use sockstamp_model::name::Name;
use sockstamp_model::summary::Summary;
use sockstamp_model::wait::End;

use super::case::Case;
use super::finding::Diagnosis;
use super::scope::Scope;
use super::slow::{Key, Parts, Role, Seen, Slow};
use super::tally::Tried;
use super::tree::Node;

const MS: u64 = 1_000_000;
const DURATION: u64 = 10_000 * MS;
const TREES: usize = 10_000;

/// One program that waits for some services in one way.
struct Load {
    program: Name,
    root: Node,
    role: Role,
    services: Vec<SocketAddr>,
    pid: u32,
}

/// What is wrong: one node, of one service of one load.
#[derive(Clone, Copy)]
struct Culprit {
    load: usize,
    service: usize,
    leaf: Node,
}

struct World {
    rng: Rng,
    case: Case,
    cookie: u64,
    rtt: u64,
}

const ROOTS: [(Node, Role); 6] = [
    (Node::Answer, Role::Asks),
    (Node::Service, Role::Serves),
    (Node::Delivery, Role::Asks),
    (Node::Read, Role::Serves),
    (Node::Connect, Role::Asks),
    (Node::Accept, Role::Serves),
];

/// Leaves that can be lost; in a connect the path is due.
fn leaves(root: Node) -> Vec<Node> {
    let children: Vec<_> = root
        .children()
        .filter(|node| !node.is_free() && !node.is_path() && *node != Node::AcceptQueue)
        .collect();
    match children.is_empty() {
        true => vec![root],
        false => children,
    }
}

impl World {
    fn new(seed: u64) -> Self {
        let mut rng = Rng::with_seed(seed);
        let rtt = rng.u64(0..60) * MS;
        Self {
            rng,
            case: Case::new(Scope::default()),
            cookie: 0,
            rtt,
        }
    }

    fn load(&mut self, number: usize) -> Load {
        let (root, role) = ROOTS[self.rng.usize(0..ROOTS.len())];
        let count = match role {
            Role::Asks => [1, 2, 3, 10][self.rng.usize(0..4)],
            Role::Serves => 1,
        };
        let number = u8::try_from(number).unwrap();
        let service = |of: u8| match role {
            Role::Asks => SocketAddr::from(([10, 0, number, of], 8000)),
            Role::Serves => SocketAddr::from(([0, 0, 0, 0], 8000 + u16::from(number))),
        };
        Load {
            program: Name::from(format!("program{number}")),
            root,
            role,
            services: (1..=count).map(service).collect(),
            pid: 100 + u32::from(number),
        }
    }

    fn flow(&mut self, load: &Load, service: usize) -> Flow {
        self.cookie += 1;
        let service = load.services[service];
        let other = SocketAddr::from(([10, 9, 0, 1], 40_000 + u16::try_from(self.cookie).unwrap()));
        let (local, remote) = match load.role {
            Role::Asks => (other, service),
            Role::Serves => (service, other),
        };
        Flow {
            netns: NetnsInode(1),
            protocol: Protocol::Tcp,
            local,
            remote,
            cookie: SocketCookie(self.cookie),
        }
    }

    fn wait(&mut self, load: &Load, flow: Flow, begin: u64, parts: Parts) {
        let key = Key::new(load.root, load.program.clone(), load.role, &flow);
        self.case.add(Slow {
            key,
            flow,
            pid: load.pid,
            is_new: false,
            begin,
            end: begin + parts.whole(),
            weight: 1,
            parts,
            how: End::Data,
            seen: Seen {
                rtt: Some(self.rtt),
                members: 1,
                ..Seen::default()
            },
        });
    }

    /// The time that nobody loses, and noise around it.
    fn base(&mut self, load: &Load) -> Parts {
        let noise = self.rng.u64(0..9) * MS;
        let mut parts = Parts::default();
        let path = load.root.children().find(|node| node.is_path());
        match path.filter(|_| load.root.has_round_trip()) {
            Some(path) => parts.add(path, self.rtt.max(10 * MS) + noise),
            None => {
                let leaves = leaves(load.root);
                parts.add(leaves[self.rng.usize(0..leaves.len())], 10 * MS + noise);
            }
        }
        parts
    }

    /// Ordinary waits: some connections, each with pauses.
    fn ordinary(&mut self, load: &Load, service: usize, culprit: Option<Node>) {
        let slow = self.rng.u64(40..100);
        let each = self.rng.usize(3..5);
        let mut sum = 0_u128;
        for _ in 0..each {
            let flow = self.flow(load, service);
            let mut at = self.rng.u64(0..400) * MS;
            while at < DURATION - 1_500 * MS {
                let mut parts = self.base(load);
                if let Some(leaf) = culprit.filter(|_| self.rng.u64(0..100) < slow) {
                    self.guilt(&mut parts, leaf);
                }
                sum += u128::from(parts.whole());
                let whole = parts.whole();
                self.wait(load, flow, at, parts);
                at += whole + self.rng.u64(500..1_500) * MS;
            }
        }
        let count = self.case.of_service(load.services[service]);
        let key = Key::of_service(
            load.root,
            load.program.clone(),
            load.role,
            load.services[service],
        );
        self.case.try_key(
            key,
            Tried {
                count,
                failed: 0,
                sum_ns: sum,
                prompted: 0,
            },
        );
    }

    /// The culprit carries 70 % or more of what is lost, its siblings in the tree the rest.
    fn guilt(&mut self, parts: &mut Parts, leaf: Node) {
        let more = self.rng.u64(40..400) * MS;
        let own = more * self.rng.u64(70..=100) / 100;
        parts.add(leaf, own);
        let leaves = leaves(leaf.root());
        parts.add(leaves[self.rng.usize(0..leaves.len())], more - own);
    }

    /// A worker or a subscriber: its connection always has a question open.
    fn subscriber(&mut self) {
        let load = Load {
            program: "worker".into(),
            root: Node::Answer,
            role: Role::Asks,
            services: vec![SocketAddr::from(([10, 8, 0, 1], 6379))],
            pid: 7,
        };
        let flow = self.flow(&load, 0);
        let mut at = 0;
        while at < DURATION {
            let parts = Parts::divide(self.rng.u64(100..3_000) * MS, [], Node::AnswerPeer);
            let whole = parts.whole();
            self.wait(&load, flow, at, parts);
            at += whole + MS / 10;
        }
    }

    /// A connection that has waited for news since long ago.
    fn zombie(&mut self) {
        let load = Load {
            program: "zombie".into(),
            root: Node::Answer,
            role: Role::Asks,
            services: vec![SocketAddr::from(([10, 8, 0, 2], 5672))],
            pid: 8,
        };
        let flow = self.flow(&load, 0);
        let parts = Parts::divide(DURATION, [], Node::AnswerPeer);
        self.wait(&load, flow, 0, parts);
    }

    /// Everything stands still once, for less than a second.
    fn stall(&mut self, load: &Load) {
        let at = self.rng.u64(2_000..8_000) * MS;
        for service in 0..load.services.len() {
            let flow = self.flow(load, service);
            let leaves = leaves(load.root);
            let parts = Parts::divide(
                self.rng.u64(100..700) * MS,
                [],
                leaves[self.rng.usize(0..leaves.len())],
            );
            self.wait(load, flow, at, parts);
        }
    }
}

fn world(seed: u64, culprits: usize) -> (Diagnosis, Vec<(Culprit, Name, SocketAddr)>) {
    let mut world = World::new(seed);
    let loads: Vec<_> = (0..world.rng.usize(2..4))
        .map(|of| world.load(of))
        .collect();
    let mut guilty = Vec::new();
    for (number, load) in loads.iter().enumerate().take(culprits) {
        let leaves = leaves(load.root);
        guilty.push(Culprit {
            load: number,
            service: world.rng.usize(0..load.services.len()),
            leaf: leaves[world.rng.usize(0..leaves.len())],
        });
    }
    for (number, load) in loads.iter().enumerate() {
        for service in 0..load.services.len() {
            let culprit = guilty
                .iter()
                .find(|of| of.load == number && of.service == service)
                .map(|of| of.leaf);
            world.ordinary(load, service, culprit);
        }
    }
    if world.rng.bool() {
        world.subscriber();
    }
    if world.rng.bool() {
        world.zombie();
    }
    if world.rng.bool() {
        let load = world.rng.usize(0..loads.len());
        world.stall(&loads[load]);
    }
    let summary = Summary {
        duration: Nanos(DURATION),
        ..Summary::default()
    };
    let named = guilty.into_iter().map(|of| {
        let load = &loads[of.load];
        (of, load.program.clone(), load.services[of.service])
    });
    let named = named.collect();
    (world.case.diagnose(&summary), named)
}

fn adds_up(diagnosis: &Diagnosis) {
    for finding in &diagnosis.findings {
        let parts: u64 = finding.parts.values().sum();
        assert_eq!(parts, finding.lost.0, "{finding:?}");
    }
}

#[test]
fn culprits_are_found() {
    let mut missed = 0;
    for seed in 0..TREES as u64 {
        let culprits = 1 + usize::from(seed % 4 == 0);
        let (diagnosis, guilty) = world(seed, culprits);
        adds_up(&diagnosis);
        let (printed, _) = diagnosis.printed();
        let is_found = |(culprit, program, service): &(Culprit, Name, SocketAddr)| {
            // These connections pause.
            let leaf = match culprit.leaf {
                Node::DeliveryCongestion => Node::DeliveryRestart,
                leaf => leaf,
            };
            printed.iter().any(|finding| {
                finding.node == leaf
                    && finding.programs == [program.clone()]
                    && finding.services == [*service]
            })
        };
        let all = guilty.iter().all(is_found) && printed.len() == guilty.len();
        missed += usize::from(!all);
    }
    assert!(missed * 100 <= TREES * 2, "{missed} of {TREES} missed");
}

#[test]
fn healthy_ones_are_silent() {
    let mut alarms = 0;
    for seed in 0..TREES as u64 {
        let (diagnosis, _) = world(seed, 0);
        alarms += usize::from(!diagnosis.findings.is_empty());
    }
    assert!(alarms * 1000 <= TREES, "{alarms} of {TREES} false alarms");
}
