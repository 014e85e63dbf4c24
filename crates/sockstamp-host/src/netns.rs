//! Network namespaces and the interfaces in them, by name.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fs::{self, File, Metadata};
use std::io;
use std::num::NonZeroU32;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Error, Result, anyhow, bail};
use nix::errno::Errno;
use nix::net::if_::if_nametoindex;
use nix::sched::{CloneFlags, setns};
use nix::sys::statfs::{NSFS_MAGIC, statfs};
use sockstamp_model::container::{Container, Runtime, container_of};
use sockstamp_model::flow::NetnsInode;
use sockstamp_model::name::Name;

use crate::cgroup;
use crate::descriptors;

/// A namespace that is held by a descriptor: while this lives, its inode is no other one's, not
/// even after its name was deleted.
#[derive(Debug, Clone)]
pub struct Held {
    inode: NetnsInode,
    _file: Arc<File>,
}

impl Held {
    /// Return the inode of the namespace.
    #[must_use]
    pub fn inode(&self) -> NetnsInode {
        self.inode
    }
}

impl PartialEq for Held {
    fn eq(&self, other: &Self) -> bool {
        self.inode == other.inode
    }
}

impl Eq for Held {}

/// Hold a namespace, given a name of ip-netns(8) or a process in it.
///
/// # Errors
///
/// If there is none.
pub fn hold(name: &str) -> Result<Held> {
    let path = existing(name)?;
    let file = File::open(&path).with_context(|| format!("cannot open {}", path.display()))?;
    Ok(Held {
        inode: inode_of(&file.metadata()?)?,
        _file: Arc::new(file),
    })
}

/// Return the inode of this process's own namespace.
///
/// # Errors
///
/// If /proc is not there.
pub fn own() -> Result<NetnsInode> {
    inode(Path::new("/proc/self/ns/net")).context("cannot inspect our own network namespace")
}

/// Find the file of a namespace that there is, named as for [`hold`].
///
/// # Errors
///
/// If there is none.
pub fn existing(name: &str) -> Result<PathBuf> {
    if let Some(called) = called_otherwise(name) {
        bail!("no network namespace {name}: it is called {called}: write --netns {called}");
    }
    if name.contains('/') {
        bail!("no network namespace {name}: it is a name of ip-netns(8), or a process");
    }
    let path = path(name);
    let is_namespace = is_namespace(&path)
        .with_context(|| format!("no network namespace {name} ({})", path.display()))?;
    if !is_namespace {
        bail!("{} is no network namespace", path.display());
    }
    Ok(path)
}

/// Return the name or the process of a namespace that was named by its file or by its inode.
fn called_otherwise(name: &str) -> Option<String> {
    if name.contains('/') {
        let file = Path::new(name).strip_prefix("/var").ok();
        let file = file.map_or_else(|| PathBuf::from(name), |file| Path::new("/").join(file));
        return called(&file).filter(|called| is_namespace(&path(called)).unwrap_or(false));
    }
    let inode = NetnsInode(name.parse().ok()?);
    match path(name).exists() {
        true => None,
        false => files().get(&inode).and_then(|file| called(file)),
    }
}

/// Return the name of ip-netns(8) or the process that a file of [`files`] belongs to.
fn called(file: &Path) -> Option<String> {
    if let Ok(name) = file.strip_prefix("/run/netns") {
        return name.to_str().map(str::to_owned);
    }
    let process = file.to_str()?.strip_prefix("/proc/")?;
    let process = process.strip_suffix("/ns/net")?;
    process.parse::<u32>().ok().map(|_| process.to_owned())
}

fn is_namespace(path: &Path) -> Result<bool, Errno> {
    Ok(statfs(path)?.filesystem_type() == NSFS_MAGIC)
}

/// Iterate over the namespaces of ip-netns(8). A name without a namespace stays behind where one
/// was bound in a mount namespace that has ended, and exists for a moment in each `ip netns add`.
fn named_files() -> impl Iterator<Item = PathBuf> {
    entries("/run/netns").filter(|path| is_namespace(path).unwrap_or(false))
}

/// Return the names of network namespaces: of ip-netns(8), else of a container whose process is in
/// it.
#[must_use]
pub fn names() -> BTreeMap<NetnsInode, Name> {
    let mut containers = BTreeMap::new();
    let root = cgroup::mount();
    for process in processes() {
        let cgroup = fs::read(process.join("cgroup")).unwrap_or_default();
        let mut lines = cgroup.split(|&byte| byte == b'\n');
        let container = lines.find_map(|line| container_in(line, root.as_deref()));
        let container = container.filter(|container| container.runtime != Runtime::Systemd);
        if let (Some(container), Ok(inode)) = (container, inode(&process.join("ns/net"))) {
            add(&mut containers, inode, container);
        }
    }
    let mut names: BTreeMap<_, _> = containers
        .iter()
        .map(|(inode, container)| (*inode, name_of(container)))
        .collect();
    for file in named_files() {
        if let (Ok(inode), Some(name)) = (inode(&file), file.file_name()) {
            names.insert(inode, Name::from(name));
        }
    }
    if let Ok(own) = own() {
        names.remove(&own);
    }
    names
}

/// Take the container of a process in a namespace. One that a user claims, in a namespace of
/// root's, does not rename it.
fn add(containers: &mut BTreeMap<NetnsInode, Container>, inode: NetnsInode, container: Container) {
    let known = containers.get(&inode);
    if known.is_none_or(|known| known.user.is_some()) {
        containers.insert(inode, container);
    }
}

fn name_of(container: &Container) -> Name {
    let id = container.short_id();
    match container.user {
        // A claim is not to be confused with root's container of the same id.
        Some(user) => format!("user-{user}/{id}").into(),
        None => Name::from(id),
    }
}

/// Return the container in a line of cgroup(7)'s `/proc/PID/cgroup`. The line of version 2 begins
/// with `0::`.
fn container_in(line: &[u8], cgroup2: Option<&Path>) -> Option<Container> {
    match (line.strip_prefix(b"0::"), cgroup2) {
        (Some(path), Some(root)) => cgroup::container_at(root, path),
        _ => container_of(line),
    }
}

/// Return true if a namespace is one of these, or none are named.
#[must_use]
pub fn is_wanted(only: &[NetnsInode], netns: NetnsInode) -> bool {
    only.is_empty() || only.contains(&netns)
}

/// Do something in our own network namespace and in each other that can be entered, or in one of
/// them. There is an error for each that is kept from being entered by a lack of tasks or files.
pub fn in_each<T: Send>(
    only: Option<NetnsInode>,
    work: impl Fn() -> T + Sync,
) -> BTreeMap<NetnsInode, io::Result<T>> {
    in_each_of(&files(), only.as_slice(), work)
}

/// Do the same as [`in_each`], with the [`files`] of the namespaces, or in several of them.
pub fn in_each_of<T: Send>(
    files: &BTreeMap<NetnsInode, PathBuf>,
    only: &[NetnsInode],
    work: impl Fn() -> T + Sync,
) -> BTreeMap<NetnsInode, io::Result<T>> {
    let wanted = |inode: &NetnsInode| is_wanted(only, *inode);
    let own = own().ok();
    let mut done: BTreeMap<_, _> = own
        .filter(wanted)
        .map(|own| (own, Ok(work())))
        .into_iter()
        .collect();
    let others = files.iter();
    for (&namespace, path) in others.filter(|(inode, _)| wanted(inode) && Some(**inode) != own) {
        let there = enter(namespace, path, &work).transpose();
        done.extend(there.map(|there| (namespace, there)));
    }
    done
}

/// Do something in the network namespace that a file of [`files`] was of; `None` if that is gone,
/// or may not be entered.
///
/// # Errors
///
/// If the host is short of tasks or files.
pub fn enter<T: Send>(
    netns: NetnsInode,
    path: &Path,
    work: impl FnOnce() -> T + Send,
) -> io::Result<Option<T>> {
    let entered = File::open(path).and_then(|file| {
        // The path is a process's, and may be another's by now.
        let is_same = file.metadata()?.ino() == u64::from(netns.0);
        is_same.then(|| inside(file, work)).transpose()
    });
    match entered {
        Err(error) if is_gone_or_closed(&error) => Ok(None),
        entered => entered,
    }
}

fn is_gone_or_closed(error: &io::Error) -> bool {
    let kinds = [io::ErrorKind::NotFound, io::ErrorKind::PermissionDenied];
    // EINVAL: a namespace of another kind, which somebody bound to a name of ip-netns(8).
    let others = [Errno::ESRCH, Errno::EINVAL];
    kinds.contains(&error.kind())
        || others
            .iter()
            .any(|&errno| error.raw_os_error() == Some(errno as i32))
}

/// Do something in another network namespace, on a thread that ends there: one that went elsewhere
/// must not be used for anything else.
///
/// # Errors
///
/// If the namespace cannot be entered, which needs `CAP_SYS_ADMIN`, or the host is short of tasks.
fn inside<T: Send>(netns: File, work: impl FnOnce() -> T + Send) -> io::Result<T> {
    let there = || -> io::Result<T> {
        setns(netns, CloneFlags::CLONE_NEWNET)?;
        Ok(work())
    };
    thread::scope(|scope| {
        let thread = thread::Builder::new().spawn_scoped(scope, there)?;
        let ended = |_| Err(io::Error::other("the thread that entered it has ended"));
        thread.join().unwrap_or_else(ended)
    })
}

/// Return a file of each network namespace that has a name or a process: that of its name, which
/// outlives processes, if it has one.
#[must_use]
pub fn files() -> BTreeMap<NetnsInode, PathBuf> {
    let mut files = BTreeMap::new();
    let processes = processes().map(|process| process.join("ns/net"));
    for path in named_files().chain(processes) {
        if let Ok(namespace) = inode(&path) {
            files.entry(namespace).or_insert(path);
        }
    }
    files
}

/// Kinds of sockets that a measurement keeps in namespaces: for queues, link addresses, accept
/// queues, and twice for Unix sockets, of its target and of those that serve it.
const KINDS: usize = 5;

/// Return the [`files`] of as many namespaces as may keep sockets of each kind. They leave half of
/// the descriptors that a process may have, 1024 by default: without any, nothing can be measured.
pub(crate) fn files_for_sockets() -> BTreeMap<NetnsInode, PathBuf> {
    const USUAL: u64 = 1024;
    let limit = descriptors::of(std::process::id()).map_or(USUAL, |own| own.limit);
    files().into_iter().take(most_kept(limit)).collect()
}

fn most_kept(limit: u64) -> usize {
    const MOST: usize = 256;
    let limit = usize::try_from(limit).unwrap_or(usize::MAX);
    (limit / 2 / KINDS).min(MOST)
}

/// Return `@` and the name of a namespace, or its inode; nothing of the namespace `home`.
#[must_use]
pub fn seen_from(
    netns: NetnsInode,
    home: NetnsInode,
    names: &BTreeMap<NetnsInode, Name>,
) -> String {
    match names.get(&netns) {
        _ if netns == home => String::new(),
        Some(name) => format!("@{name}"),
        None => format!("@{netns}"),
    }
}

/// The [`files`] of all namespaces, kept while no task has begun: finding them takes a look at each
/// process.
#[derive(Debug, Default)]
pub struct Files {
    known: BTreeMap<NetnsInode, PathBuf>,
    /// When they were found, and the newest task then.
    found: Option<(Instant, Option<u64>)>,
}

impl Files {
    /// A task may get into another namespace without a new one: look again after this time.
    const OLDEST: Duration = Duration::from_secs(60);

    /// Return the files, found again if there may be others.
    pub fn look(&mut self) -> &BTreeMap<NetnsInode, PathBuf> {
        let (now, newest) = (Instant::now(), newest_task());
        if !self.hold(now, newest) {
            self.found = Some((now, newest));
            self.known = files();
        }
        &self.known
    }

    fn hold(&self, now: Instant, newest: Option<u64>) -> bool {
        self.found.is_some_and(|(at, then)| {
            newest.is_some() && then == newest && now.duration_since(at) < Self::OLDEST
        })
    }

    /// Find them at the next look: one of them is gone, and another may lead to its namespace.
    pub fn forget(&mut self) {
        self.found = None;
    }
}

/// Return the number of the task that began last: the last field of /proc/loadavg, proc(5).
fn newest_task() -> Option<u64> {
    let load = fs::read_to_string("/proc/loadavg").ok()?;
    load.split_whitespace().next_back()?.parse().ok()
}

fn entries(directory: &str) -> impl Iterator<Item = PathBuf> {
    let entries = fs::read_dir(directory).into_iter().flatten();
    entries.filter_map(|entry| Some(entry.ok()?.path()))
}

/// Iterate over the folders of processes in /proc, which has half as many other entries.
fn processes() -> impl Iterator<Item = PathBuf> {
    let is_number = |name: &OsStr| name.as_bytes().iter().all(u8::is_ascii_digit);
    entries("/proc").filter(move |path| path.file_name().is_some_and(is_number))
}

/// Iterate over the processes of this host.
pub fn pids() -> impl Iterator<Item = u32> {
    processes().filter_map(|path| path.file_name()?.to_str()?.parse().ok())
}

/// Return the folder in /proc of one process in each namespace.
pub(crate) fn a_process_of_each() -> BTreeMap<NetnsInode, PathBuf> {
    let mut found = BTreeMap::new();
    for process in processes() {
        if let Some(netns) = of_process(&process) {
            found.entry(netns).or_insert(process);
        }
    }
    found
}

/// Return the network namespace of a process, by its folder in /proc.
#[must_use]
pub fn of_process(process: &Path) -> Option<NetnsInode> {
    inode(&process.join("ns/net")).ok()
}

/// Return the index of an interface in a namespace, or in our own.
///
/// # Errors
///
/// If there is no such interface, no such namespace, or no right to enter it.
pub fn interface_index(name: &str, netns: Option<&str>) -> Result<NonZeroU32> {
    if let Some(netns) = netns {
        existing(netns)?;
    }
    let found = match netns {
        Some(netns) => index_there(name, netns),
        None => index_here(name),
    };
    found.map_err(|error| match elsewhere(name) {
        Some(told) => anyhow!("no interface {name} here: {told}"),
        None => error,
    })
}

/// Return where an interface is that was looked for in another network namespace.
fn elsewhere(name: &str) -> Option<String> {
    if let Some((interface, netns)) = name.split_once('@') {
        let index = netns.strip_prefix("if").unwrap_or_default();
        if index.parse::<u32>().is_ok() {
            return Some(format!(
                "ip-link(8) puts the other end behind @: write -i {interface}"
            ));
        }
        return Some(format!(
            "its network namespace has an option: write -i {interface} --netns {netns}"
        ));
    }
    let there = in_each(None, || if_nametoindex(name).is_ok());
    let files = files();
    let have = there.into_iter().filter(|(_, has)| matches!(has, Ok(true)));
    let names = have.filter_map(|(netns, _)| called(files.get(&netns)?));
    let names: Vec<_> = names.collect();
    let first = names.first()?;
    Some(format!(
        "it is in network namespace {}: write --netns {first}",
        names.join(", ")
    ))
}

fn index_there(name: &str, netns: &str) -> Result<NonZeroU32> {
    let file = File::open(existing(netns)?)?;
    inside(file, || index_here(name))
        .map_err(|error| match error.kind() {
            io::ErrorKind::PermissionDenied => {
                Error::new(error).context("cannot enter it, which needs CAP_SYS_ADMIN")
            }
            _ => Error::new(error).context("cannot enter it"),
        })
        .and_then(|index| index)
        .with_context(|| format!("in network namespace {netns}"))
}

/// Return the path that a name would have.
fn path(name: &str) -> PathBuf {
    let named = Path::new("/run/netns").join(name);
    let is_pid = name.parse::<u32>().is_ok();
    if is_pid && !named.exists() {
        Path::new("/proc").join(name).join("ns/net")
    } else {
        named
    }
}

/// Return the namespace of such a file, as `/proc/PID/ns/net`.
///
/// # Errors
///
/// If it cannot be inspected.
pub fn inode(path: &Path) -> Result<NetnsInode> {
    inode_of(&fs::metadata(path)?)
}

fn inode_of(file: &Metadata) -> Result<NetnsInode> {
    let inode = u32::try_from(file.ino());
    Ok(NetnsInode(
        inode.context("the inode of a namespace has 32 bits")?,
    ))
}

fn index_here(name: &str) -> Result<NonZeroU32> {
    let index = if_nametoindex(name).with_context(|| format!("no interface {name}"))?;
    NonZeroU32::new(index).context("the kernel counts interfaces from 1")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sockets_in_namespaces_leave_half_of_the_descriptors() {
        for limit in [0, 16, 1024, 2048] {
            assert!((most_kept(limit) * KINDS) as u64 <= limit / 2);
        }
        assert_eq!((most_kept(1024), most_kept(u64::MAX)), (102, 256));
        assert!(files_for_sockets().len() <= 256);
    }

    #[test]
    fn a_process_names_the_network_namespace_that_it_is_in() {
        let process = std::process::id().to_string();
        assert_eq!(hold(&process).unwrap().inode(), own().unwrap());
    }

    /// A task of a user, in root's container, may have a cgroup of its own there.
    #[test]
    fn a_claim_in_a_namespace_of_roots_container_does_not_rename_it() {
        let of = |path: &str| container_of(path).unwrap();
        let id = |digit: &str| digit.repeat(64);
        let root = of(&format!("/docker/{}", id("a")));
        let slice = "/user.slice/user-1000.slice";
        let claim = of(&format!("{slice}/docker-{}.scope", id("b")));
        for order in [[&root, &claim], [&claim, &root]] {
            let mut containers = BTreeMap::new();
            for container in order {
                add(&mut containers, NetnsInode(7), container.clone());
            }
            add(&mut containers, NetnsInode(8), claim.clone());
            let names = containers.values().map(name_of);
            let expected = ["aaaaaaaaaaaa", "user-1000/bbbbbbbbbbbb"].map(Name::from);
            assert!(names.eq(expected), "{order:?}");
        }
    }

    #[test]
    fn files_hold_until_another_task_begins_or_they_are_old() {
        let now = Instant::now();
        let mut files = Files::default();
        assert!(!files.hold(now, Some(7)));
        files.found = Some((now, Some(7)));
        assert!(files.hold(now, Some(7)));
        assert!(!files.hold(now, Some(8)));
        assert!(!files.hold(now, None));
        assert!(!files.hold(now + Files::OLDEST, Some(7)));
        files.forget();
        assert!(!files.hold(now, Some(7)));
    }

    /// The witness is the thread that begins.
    #[test]
    fn a_task_that_begins_is_the_newest() {
        let before = newest_task();
        thread::spawn(|| {}).join().unwrap();
        assert!(before.is_some() && newest_task() != before);
    }

    #[test]
    fn namespaces_are_found_again_by_a_look() {
        let mut files = Files::default();
        assert!(files.look().contains_key(&own().unwrap()));
    }

    #[test]
    fn a_file_elsewhere_is_no_network_namespace() {
        for name in ["../../etc/passwd", "/proc/self/ns/net", "", "."] {
            let error = hold(name).unwrap_err().to_string();
            assert!(error.contains("no network namespace"), "{name}: {error}");
        }
    }

    #[test]
    fn a_namespace_that_is_named_by_its_file_or_inode_has_another_name() {
        let process = std::process::id();
        let inode = own().unwrap().0.to_string();
        for name in [format!("/proc/{process}/ns/net"), inode] {
            let error = hold(&name).unwrap_err().to_string();
            let (_, called) = error.rsplit_once("write --netns ").unwrap();
            assert_eq!(hold(called).unwrap().inode(), own().unwrap(), "{error}");
        }
    }

    #[test]
    fn an_interface_has_its_namespace_in_an_option_of_its_own() {
        let error = interface_index("eth0@other", None).unwrap_err();
        let told = error.to_string();
        assert!(told.ends_with("write -i eth0 --netns other"), "{told}");
    }

    #[test]
    fn a_network_namespace_that_is_not_there_is_refused_by_its_name() {
        let error = hold("no-such-namespace").unwrap_err().to_string();
        assert!(
            error.starts_with("no network namespace no-such-namespace"),
            "{error}"
        );
    }
}
