//! The findings of a diagnosis: for people, and as JSON.

use std::io::{self, Write};

use serde::Serialize;
use sockstamp_explain::diagnosis::tree::Node;
use sockstamp_explain::diagnosis::{Diagnosis, JSON_VERSION, ServiceTime, Why};
use sockstamp_model::clock::Nanos;

use crate::colour::Brush;
use crate::paragraph::wrapped;

/// Findings as they are printed.
#[derive(Debug, Clone, Copy)]
pub struct Shown<'a> {
    /// The findings.
    pub diagnosis: &'a Diagnosis,
    /// Also what stands behind each, how to check it, and its usual cure.
    pub why: bool,
}

impl Shown<'_> {
    /// Print services that ask others, the worst findings, the number of others, and notes.
    pub fn print(&self, output: &mut dyn Write, brush: Brush) -> io::Result<()> {
        let services = self.diagnosis.services.iter();
        for service in services.filter(|service| is_told(service)).take(PRINTED) {
            let words = of_service(service);
            writeln!(output, "{}", wrapped(" app.service:", words.split(' '), ""))?;
        }
        let (printed, others) = self.diagnosis.printed();
        for finding in printed {
            let next = match finding.next.as_str() {
                "" => String::new(),
                next => format!(" → sockstamp {next}"),
            };
            let words = format!("{}{next}", finding.sentence);
            let sentence = wrapped(" diagnosis:", words.split(' '), "");
            writeln!(output, "{}", brush.bold(&sentence))?;
            if self.why {
                why(output, &finding.why)?;
            }
        }
        if others > 0 {
            let more = &self.diagnosis.more;
            writeln!(output, "            and {others} more: sockstamp {more}")?;
        }
        for note in &self.diagnosis.notes {
            writeln!(output, "{}", wrapped(" note:", note.split(' '), ""))?;
        }
        Ok(())
    }
}

/// As many services are printed, and as many of the peers of each.
const PRINTED: usize = 3;

/// Return true for a service with parts that the table of stages does not have.
fn is_told(service: &ServiceTime) -> bool {
    let percent = |node| service.percent(node);
    percent(Node::ServiceAsks) + percent(Node::ServiceTurn) > 0
}

/// The parts of slow requests, the largest first, and whom the service asked.
fn of_service(service: &ServiceTime) -> String {
    let mut parts = PARTS.map(|(node, name)| (service.percent(node), name));
    parts.sort_by_key(|(percent, _)| std::cmp::Reverse(*percent));
    let parts = parts.iter().filter(|(percent, _)| *percent > 0);
    let parts: Vec<_> = parts
        .map(|(percent, name)| match *name {
            "asks" => format!("{percent} % asks {}", asked(service)),
            name => format!("{percent} % {name}"),
        })
        .collect();
    let requests = match service.count {
        1 => "1 slow request".to_owned(),
        count => format!("{count} slow requests"),
    };
    let port = service.service.port();
    let program = &service.program;
    format!("{requests} at :{port} ({program}): {}", parts.join(", "))
}

const PARTS: [(Node, &str); 7] = [
    (Node::ServiceAsks, "asks"),
    (Node::ServiceTurn, "turn"),
    (Node::ServiceRunning, "running"),
    (Node::ServiceRunnable, "runnable"),
    (Node::ServiceThrottled, "throttled"),
    (Node::ServiceAsleep, "asleep"),
    (Node::ServiceUnknown, "not known"),
];

/// The peers, and the questions to each for one answer.
fn asked(service: &ServiceTime) -> String {
    let of = service.count.max(1) as f64;
    let peers = service.asked.iter().take(PRINTED).map(|asked| {
        let each = asked.questions as f64 / of;
        match asked.questions {
            0 => asked.peer.to_string(),
            _ => format!("{} ({each:.1} questions each)", asked.peer),
        }
    });
    let others = service.asked.len().saturating_sub(PRINTED);
    let others = (others > 0).then(|| format!("{others} others"));
    peers.chain(others).collect::<Vec<_>>().join(" and ")
}

fn why(output: &mut dyn Write, why: &Why) -> io::Result<()> {
    reasons(why)
        .into_iter()
        .try_for_each(|line| writeln!(output, "{line}"))
}

/// Return what stands behind a node, how to check it, and its usual cure, as paragraphs.
pub fn reasons(why: &Why) -> [String; 4] {
    [
        ("   evidence:", why.evidence),
        ("   the same from here:", why.alike),
        ("   check:", why.check),
        ("   usual cure:", why.cure),
    ]
    .map(|(label, words)| wrapped(label, words.split(' '), ""))
}

/// The object `diagnosis` of `--format json`.
#[derive(Debug, Serialize)]
pub struct Json<'a> {
    version: u32,
    /// What counted as slow.
    slow_ns: Nanos,
    #[serde(flatten)]
    diagnosis: &'a Diagnosis,
}

impl<'a> Json<'a> {
    /// Take a diagnosis of times from this one on.
    pub fn new(diagnosis: &'a Diagnosis, slow: Nanos) -> Self {
        Self {
            version: JSON_VERSION,
            slow_ns: slow,
            diagnosis,
        }
    }
}
