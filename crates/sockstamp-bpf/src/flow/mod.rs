//! Sockets that exist already: marked and adopted at the start, given back at the end.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{self, Read};
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;
use std::thread;

use libbpf_rs::{Iter, Link, ProgramMut};
use nix::sched::{CloneFlags, setns};
use sockstamp_model::flow::NetnsInode;

use crate::error::{Error, Tried};

/// Marks the TCP sockets that a selected task holds.
pub(crate) fn mark_sockets(program: &ProgramMut<'_>) -> Result<(), Error> {
    run_once(program, "look at the selected processes' sockets")
}

/// Lets an iterator program see everything once.
pub(crate) fn run_once(program: &ProgramMut<'_>, step: &str) -> Result<(), Error> {
    let link = program.attach().tried(step)?;
    run(&link).tried(step)
}

/// Marks the subflows by which MPTCP sockets of the selected tasks listen.
pub(crate) fn mark_listening_subflows(
    program: &ProgramMut<'_>,
    netns: Option<NetnsInode>,
) -> Result<(), Error> {
    run_where_wanted(program, netns, "look at listeners of MPTCP")
}

/// Selects connections that exist.
pub(crate) fn adopt(program: &ProgramMut<'_>, netns: Option<NetnsInode>) -> Result<(), Error> {
    run_where_wanted(program, netns, "look at existing connections")
}

/// Runs an iterator in this network namespace or in all that can be entered.
fn run_where_wanted(program: &ProgramMut<'_>, netns: Option<NetnsInode>, step: &str) -> Result<(), Error> {
    let link = program.attach().tried(step)?;
    let own = own_namespace().tried(step)?;
    let wanted = |inode| netns.is_none_or(|netns| u64::from(netns.0) == inode);
    if wanted(own) {
        run(&link).tried(step)?;
    }
    let others = network_namespaces()
        .into_iter()
        .filter(|&(inode, _)| inode != own && wanted(inode));
    run_in(link, others.map(|(_, namespace)| namespace).collect());
    Ok(())
}

/// Takes the selecting bit off every socket of ours, in every network namespace.
pub(crate) fn deselect(program: &ProgramMut<'_>) {
    let Ok(link) = program.attach() else { return };
    // Our own first: to enter a namespace, even this one, takes CAP_SYS_ADMIN (setns(2)).
    let _ = run(&link);
    run_in(link, network_namespaces().into_values().collect());
}

/// Runs an iterator in each of these namespaces. Best effort: one that vanishes meanwhile takes its
/// sockets along.
fn run_in(link: Link, namespaces: Vec<PathBuf>) {
    // The iterator walks the namespace of the thread that opens it (bpf_iter_init_seq_net(),
    // fs/proc/proc_net.c), and a thread that went elsewhere must not be used for anything else.
    let _ = thread::spawn(move || {
        for namespace in namespaces {
            let entered = File::open(namespace).map(|file| setns(file, CloneFlags::CLONE_NEWNET));
            if matches!(entered, Ok(Ok(()))) {
                let _ = run(&link);
            }
        }
    })
    .join();
}

/// Runs an iterator program to its end; it has no output.
fn run(link: &Link) -> io::Result<()> {
    let mut iterator = Iter::new(link).map_err(io::Error::other)?;
    io::copy(&mut iterator.by_ref(), &mut io::sink()).map(drop)
}

fn own_namespace() -> io::Result<u64> {
    fs::metadata("/proc/thread-self/ns/net").map(|found| found.ino())
}

/// A file for each network namespace that a process is in or that has a name (ip-netns(8)).
pub(crate) fn network_namespaces() -> BTreeMap<u64, PathBuf> {
    let of_processes = entries("/proc").map(|process| process.join("ns/net"));
    of_processes
        .chain(entries("/run/netns"))
        .filter_map(|path| Some((fs::metadata(&path).ok()?.ino(), path)))
        .collect()
}

fn entries(directory: &str) -> impl Iterator<Item = PathBuf> {
    fs::read_dir(directory)
        .into_iter()
        .flatten()
        .filter_map(|entry| Some(entry.ok()?.path()))
}
