//! Programs, services and peers of a finding, as sentences have them.

use std::fmt::Display;

use crate::diagnosis::finding::Finding;
use crate::diagnosis::words::service;

/// Up to three names, else their number.
pub(super) fn names<T: Display>(names: &[T], count: usize, noun: &str) -> String {
    let names: Vec<_> = names.iter().map(ToString::to_string).collect();
    match names.split_last() {
        Some(_) if count > names.len() => format!("{count} {noun}"),
        Some((last, [])) => last.clone(),
        Some((last, others)) => format!("{} and {last}", others.join(", ")),
        None => format!("some {noun}"),
    }
}

fn few<T: Display>(all: &[T], noun: &str) -> String {
    names(&all[..all.len().min(3)], all.len(), noun)
}

pub(super) fn services(finding: &Finding) -> String {
    let services = finding.services.iter().copied().map(service);
    let paths = finding.paths.iter().map(ToString::to_string);
    let services: Vec<_> = services.chain(paths).collect();
    few(&services, "services")
}

pub(super) fn programs(finding: &Finding) -> String {
    let known: Vec<_> = finding
        .programs
        .iter()
        .filter(|name| !name.is_empty())
        .collect();
    match known.is_empty() {
        true => "a program".to_owned(),
        false => few(&known, "programs"),
    }
}

pub(super) fn peers(finding: &Finding) -> String {
    names(&finding.peers, finding.peer_count, "peers")
}

/// A program, with its port where it serves.
pub(super) fn server(finding: &Finding) -> String {
    format!("{} at {}", programs(finding), services(finding))
}
