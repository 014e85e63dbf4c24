//! Names for what the kernel knows by number: those of the groups that there are, and no others.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::hash::Hash;
use std::path::{Path, PathBuf};
use std::time::Instant;

use nix::net::if_::if_indextoname;
use rustc_hash::FxHashMap;
use sockstamp_host::cgroup::{self, Cgroup, DIRECTORIES};
use sockstamp_host::netns;
use sockstamp_model::flow::NetnsInode;
use sockstamp_model::name::Name;

use crate::error::Error;
use crate::flow::in_namespaces;
use crate::privilege::with_capabilities;

/// Rests after a look for names, in units of the time that it took: messages wait meanwhile.
const REST: u32 = 4;

/// A network namespace: its inode is another one's as soon as it is gone, its cookie never.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Namespace {
    pub(crate) inode: NetnsInode,
    /// The lower half of its cookie.
    pub(crate) cookie: u16,
}

/// An interface by its namespace and its index there.
pub(crate) type InterfaceIndex = (Namespace, u32);

/// The numbers of a group that have names.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Numbers {
    pub(crate) cgroup: Option<u64>,
    pub(crate) interface: Option<InterfaceIndex>,
    pub(crate) netns: Option<Namespace>,
}

/// The names of an interface and of its namespace.
#[derive(Debug, Clone)]
struct InterfaceNames {
    interface: Option<Name>,
    netns: Option<Name>,
}

/// Every number is looked up once, and keeps the name, or the lack of one, that it had then: the
/// key of a group has it, and a sum by keys would have a group twice whose key changes. The kernel
/// has room for a few thousand groups, so there are no more names than that.
#[derive(Debug)]
pub(crate) struct Names {
    cgroup2: PathBuf,
    directories: usize,
    cgroups: FxHashMap<u64, Option<Cgroup>>,
    interfaces: HashMap<InterfaceIndex, InterfaceNames>,
    /// Names of network namespaces that groups differ by.
    namespaces: HashMap<Namespace, Option<Name>>,
    own: Option<NetnsInode>,
    rests_until: Instant,
}

impl Names {
    pub(crate) fn new(cgroup2: &Path) -> Self {
        Self {
            cgroup2: cgroup2.to_owned(),
            directories: DIRECTORIES,
            cgroups: FxHashMap::default(),
            interfaces: HashMap::new(),
            namespaces: HashMap::new(),
            own: netns::own().ok(),
            rests_until: Instant::now(),
        }
    }

    /// Learn the names of all these by one look at the host, and forget all others. While it rests
    /// it learns nothing new.
    ///
    /// # Errors
    ///
    /// If capabilities cannot be dropped again: other network namespaces are entered with them.
    pub(crate) fn learn(
        &mut self,
        cgroups: &BTreeSet<u64>,
        interfaces: &BTreeSet<InterfaceIndex>,
        namespaces: &BTreeSet<Namespace>,
    ) -> Result<(), Error> {
        self.cgroups.retain(|id, _| cgroups.contains(id));
        self.namespaces
            .retain(|netns, _| namespaces.contains(netns));
        self.interfaces
            .retain(|index, _| interfaces.contains(index));
        let begun = Instant::now();
        if begun < self.rests_until {
            return Ok(());
        }
        self.learn_cgroups(cgroups);
        let interfaces: Vec<_> = unknown(interfaces, &self.interfaces);
        let namespaces: Vec<_> = unknown(namespaces, &self.namespaces);
        if !interfaces.is_empty() || !namespaces.is_empty() {
            with_capabilities(|| {
                self.learn_of_namespaces(&interfaces, &namespaces);
                Ok(())
            })?;
        }
        self.rests_until = Instant::now() + begun.elapsed() * REST;
        Ok(())
    }

    fn learn_cgroups(&mut self, wanted: &BTreeSet<u64>) {
        let unknown = wanted.iter().filter(|id| !self.cgroups.contains_key(id));
        let unknown: BTreeSet<_> = unknown.copied().collect();
        if !unknown.is_empty() {
            self.cgroups
                .extend(cgroup::paths(&self.cgroup2, unknown, self.directories));
        }
    }

    fn learn_of_namespaces(&mut self, interfaces: &[InterfaceIndex], namespaces: &[Namespace]) {
        let mut names = netns::names();
        // Of two that have a number one after the other, nothing tells whose name it is.
        for inode in shared(namespaces, interfaces) {
            names.remove(&inode);
        }
        for (index, interface) in interface_names(interfaces) {
            let (Namespace { inode: netns, .. }, _) = index;
            let known = || names.get(&netns).cloned();
            let name = || known().unwrap_or_else(|| netns.to_string().into());
            let netns = self.is_elsewhere(netns).then(name);
            self.interfaces
                .insert(index, InterfaceNames { interface, netns });
        }
        let named = namespaces
            .iter()
            .map(|netns| (*netns, names.get(&netns.inode).cloned()));
        self.namespaces.extend(named);
    }

    /// Return true if all of these were looked up.
    pub(crate) fn know(&self, numbers: &Numbers) -> bool {
        let cgroup = |id| self.cgroups.contains_key(&id);
        let interface = |index| self.interfaces.contains_key(&index);
        let netns = |netns| self.namespaces.contains_key(&netns);
        numbers.cgroup.is_none_or(cgroup)
            && numbers.interface.is_none_or(interface)
            && numbers.netns.is_none_or(netns)
    }

    /// End the rest: the next look is the last.
    pub(crate) fn wake(&mut self) {
        self.rests_until = Instant::now();
    }

    /// The path of a cgroup from the root of the hierarchy; `None` if it was gone when its name was
    /// to be learned.
    pub(crate) fn cgroup(&self, id: u64) -> Option<&Name> {
        Some(&self.known_cgroup(id)?.path)
    }

    /// The same cgroup, with its container.
    pub(crate) fn known_cgroup(&self, id: u64) -> Option<&Cgroup> {
        self.cgroups.get(&id)?.as_ref()
    }

    /// The name of an interface in a network namespace; `None` if it was gone, or we may not enter
    /// the namespace.
    pub(crate) fn interface(&self, index: InterfaceIndex) -> Option<Name> {
        self.interfaces.get(&index)?.interface.clone()
    }

    /// Return the name of a network namespace; `None` for ours, and where it had none when it was
    /// looked up.
    pub(crate) fn named(&self, netns: Namespace) -> Option<Name> {
        self.namespaces.get(&netns).cloned().flatten()
    }

    /// The name of an interface's network namespace that is not ours, or its inode.
    pub(crate) fn netns_of(&self, index: InterfaceIndex) -> Option<Name> {
        self.interfaces.get(&index)?.netns.clone()
    }

    fn is_elsewhere(&self, netns: NetnsInode) -> bool {
        netns.0 != 0 && Some(netns) != self.own
    }
}

fn unknown<N: Copy + Eq + Hash + Ord, V>(wanted: &BTreeSet<N>, known: &HashMap<N, V>) -> Vec<N> {
    let unknown = wanted.iter().filter(|number| !known.contains_key(number));
    unknown.copied().collect()
}

/// Return the numbers that several of these namespaces have.
fn shared(namespaces: &[Namespace], interfaces: &[InterfaceIndex]) -> Vec<NetnsInode> {
    let of_interfaces = interfaces.iter().map(|(netns, _)| netns);
    let all: BTreeSet<_> = namespaces.iter().chain(of_interfaces).collect();
    let all: Vec<_> = all.into_iter().map(|netns| netns.inode).collect();
    let pairs = all.windows(2).filter(|pair| pair[0] == pair[1]);
    pairs.map(|pair| pair[0]).collect()
}

fn interface_names(wanted: &[InterfaceIndex]) -> Vec<(InterfaceIndex, Option<Name>)> {
    let mut by_namespace: BTreeMap<NetnsInode, Vec<u32>> = BTreeMap::new();
    for &(netns, index) in wanted {
        by_namespace.entry(netns.inode).or_default().push(index);
    }
    let names: BTreeMap<_, BTreeMap<_, _>> = in_namespaces(&by_namespace, |indexes| {
        indexes
            .iter()
            .map(|&index| (index, interface_name(index)))
            .collect()
    });
    let name = |&(netns, index): &InterfaceIndex| names.get(&netns.inode)?.get(&index)?.clone();
    wanted.iter().map(|index| (*index, name(index))).collect()
}

/// No interface has an empty name (`dev_valid_name()`, net/core/dev.c, v6.18): that is how one that
/// is gone shows in nix 0.31.
fn interface_name(index: u32) -> Option<Name> {
    let name = if_indextoname(index).ok().filter(|name| !name.is_empty());
    name.map(|name| name.to_bytes().into())
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::{MetadataExt, chown};
    use std::time::Duration;

    use super::*;

    /// A hierarchy of directories, which is all that a walk sees of cgroups.
    struct Hierarchy(PathBuf);

    impl Hierarchy {
        fn new(name: &str) -> Self {
            let root =
                std::env::temp_dir().join(format!("sockstamp-{name}-{}", std::process::id()));
            fs::create_dir(&root).unwrap();
            Self(root)
        }

        fn make(&self, path: &str) -> u64 {
            let path = self.0.join(path);
            fs::create_dir_all(&path).unwrap();
            fs::metadata(path).unwrap().ino()
        }

        fn give_away(&self, path: &str) {
            chown(self.0.join(path), Some(1000), None).unwrap();
        }

        fn names(&self) -> Names {
            Names::new(&self.0)
        }
    }

    impl Drop for Hierarchy {
        fn drop(&mut self) {
            fs::remove_dir_all(&self.0).unwrap();
        }
    }

    fn learn(names: &mut Names, cgroups: &[u64]) {
        names.wake();
        let cgroups = cgroups.iter().copied().collect();
        let learned = names.learn(&cgroups, &BTreeSet::new(), &BTreeSet::new());
        learned.unwrap();
    }

    #[test]
    fn cgroups_keep_their_names_as_long_as_they_are_asked_for_and_no_longer() {
        let hierarchy = Hierarchy::new("kept");
        let (root, one, another) = (
            hierarchy.make(""),
            hierarchy.make("a.slice/b.service"),
            hierarchy.make("c"),
        );
        let mut names = hierarchy.names();
        learn(&mut names, &[root, one, 1]);
        fs::remove_dir_all(hierarchy.0.join("a.slice")).unwrap();
        learn(&mut names, &[root, one, another, 1]);
        assert_eq!(names.cgroup(root), Some(&"/".into()));
        assert_eq!(names.cgroup(one), Some(&"/a.slice/b.service".into()));
        assert_eq!(names.cgroup(another), Some(&"/c".into()));
        assert_eq!(names.cgroup(1), None);

        learn(&mut names, &[another]);
        assert_eq!(names.cgroups.len(), 1);
        learn(&mut names, &[one]);
        assert_eq!(names.cgroup(one), None);
    }

    #[test]
    fn cgroups_that_users_make_hide_none_of_roots() {
        let hierarchy = Hierarchy::new("hidden");
        let deep = hierarchy.make("system.slice/a/b/c/d.service");
        hierarchy.make("user.slice/user");
        for number in 0..100 {
            hierarchy.make(&format!("user.slice/user/{number}"));
            hierarchy.give_away(&format!("user.slice/user/{number}"));
        }
        hierarchy.give_away("user.slice/user");
        let last = hierarchy.make("user.slice/user/50/last");
        let mut names = hierarchy.names();
        names.directories = 20;
        learn(&mut names, &[deep, last]);
        assert_eq!(
            names.cgroup(deep),
            Some(&"/system.slice/a/b/c/d.service".into())
        );
        assert_eq!(names.cgroup(last), None);
    }

    #[test]
    fn names_are_learned_by_one_look_and_not_again_before_a_rest() {
        let hierarchy = Hierarchy::new("rest");
        let ids: Vec<_> = (0..50)
            .map(|number| hierarchy.make(&number.to_string()))
            .collect();
        let mut names = hierarchy.names();
        learn(&mut names, &ids);
        assert!(ids.iter().all(|&id| names.cgroup(id).is_some()));

        let another = hierarchy.make("another");
        names.rests_until = Instant::now() + Duration::from_secs(3600);
        let cgroups = BTreeSet::from([ids[0], another]);
        let learned = names.learn(&cgroups, &BTreeSet::new(), &BTreeSet::new());
        learned.unwrap();
        let knows = |names: &Names, id| {
            names.know(&Numbers {
                cgroup: Some(id),
                interface: None,
                netns: None,
            })
        };
        assert!(knows(&names, ids[0]) && !knows(&names, another));
        assert_eq!(names.cgroup(ids[0]), Some(&"/0".into()));
        assert_eq!(names.cgroup(another), None);
        learn(&mut names, &[ids[0], another]);
        assert_eq!(names.cgroup(another), Some(&"/another".into()));
    }

    #[test]
    fn a_number_that_two_namespaces_have_is_shared() {
        let namespace = |inode, cookie| Namespace {
            inode: NetnsInode(inode),
            cookie,
        };
        let namespaces = [namespace(1, 7), namespace(2, 8)];
        assert_eq!(shared(&namespaces, &[(namespace(2, 8), 3)]), []);
        let again = (namespace(1, 9), 3);
        assert_eq!(shared(&namespaces, &[again]), [NetnsInode(1)]);
    }

    #[test]
    fn interfaces_have_their_name_in_their_namespace() {
        let own = fs::metadata("/proc/self/ns/net").unwrap().ino();
        let namespace = |inode| Namespace {
            inode: NetnsInode(inode),
            cookie: 1,
        };
        let own = namespace(own.try_into().unwrap());
        let mut names = Names::new(Path::new("/nowhere"));
        let wanted = [(own, 1), (own, u32::MAX), (namespace(1), 1)];
        let learned = names.learn(&BTreeSet::new(), &wanted.into(), &BTreeSet::new());
        learned.unwrap();
        assert_eq!(names.interface(wanted[0]), Some("lo".into()));
        assert_eq!(names.interface(wanted[1]), None);
        assert_eq!(names.interface(wanted[2]), None);
        assert_eq!(names.interfaces.len(), 3, "none is looked for again");
    }
}
