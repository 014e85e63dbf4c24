//! A walk over a hierarchy of cgroups. Any user with a cgroup may make more in it, so the walk ends
//! after some directories. Those of the hierarchy's owner come first; then the users to which that
//! owner gave directories have equal parts of the rest, so that none hides what is another's.

use std::collections::{BTreeMap, VecDeque};
use std::ffi::OsString;
use std::fs::{self, DirEntry, Metadata};
use std::ops::ControlFlow;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// Directories to look into, by their paths from the root, with what the visitor returned for them.
type Queue<T> = VecDeque<(PathBuf, T)>;

/// Visit at most so many directories below the root, those near it before others. The visitor gets
/// the path from the root, and what it returned for the directory above; it may break off. Return
/// false if there was no room for some.
pub(crate) fn walk<T>(
    root: &Path,
    begin: T,
    most: usize,
    visit: impl FnMut(&Path, &Metadata, &T) -> ControlFlow<(), T>,
) -> bool {
    let all = || -> ControlFlow<(), bool> {
        let Ok(top) = fs::metadata(root) else {
            return ControlFlow::Continue(true);
        };
        let mut walk = Walk { root, visit };
        let mut left = most;
        let mut of_users = BTreeMap::<u32, Queue<T>>::new();
        let mut queue = VecDeque::from([(PathBuf::new(), begin)]);
        let mut all = walk.pass(&mut queue, &mut left, |queue, user, seen| {
            match user == top.uid() {
                true => queue.push_back(seen),
                false => of_users.entry(user).or_default().push_back(seen),
            }
        })?;
        let users = of_users.len();
        for (number, mut queue) in of_users.into_values().enumerate() {
            // A part that a user does not need is there for the next ones.
            let mut part = left / (users - number);
            left -= part;
            // A user may give directories to others: they stay in its part.
            all &= walk.pass(&mut queue, &mut part, |queue, _, seen| {
                queue.push_back(seen);
            })?;
            left += part;
        }
        ControlFlow::Continue(all)
    };
    all().continue_value().unwrap_or(true)
}

struct Walk<'a, V> {
    root: &'a Path,
    visit: V,
}

impl<V> Walk<'_, V> {
    /// Visit what is in the directories of a queue, and in those that `take` adds to it, until
    /// nothing is `left`. `take` gets the owner as well.
    fn pass<T>(
        &mut self,
        queue: &mut Queue<T>,
        left: &mut usize,
        mut take: impl FnMut(&mut Queue<T>, u32, (PathBuf, T)),
    ) -> ControlFlow<(), bool>
    where
        V: FnMut(&Path, &Metadata, &T) -> ControlFlow<(), T>,
    {
        while let Some((path, above)) = queue.pop_front() {
            // A directory that went away meanwhile has nothing in it.
            let entries = fs::read_dir(self.root.join(&path)).into_iter().flatten();
            for (name, metadata) in entries.flatten().filter_map(directory) {
                if *left == 0 {
                    return ControlFlow::Continue(false);
                }
                *left -= 1;
                let path = path.join(name);
                let seen = (self.visit)(&path, &metadata, &above)?;
                take(queue, metadata.uid(), (path, seen));
            }
        }
        ControlFlow::Continue(true)
    }
}

fn directory(entry: DirEntry) -> Option<(OsString, Metadata)> {
    let metadata = entry.metadata().ok()?;
    metadata.is_dir().then(|| (entry.file_name(), metadata))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::chown;

    use tempfile::TempDir;

    use super::*;

    /// Directories and their owners.
    fn hierarchy(directories: impl IntoIterator<Item = (String, u32)>) -> TempDir {
        let root = TempDir::new().unwrap();
        for (path, owner) in directories {
            let path = root.path().join(path);
            fs::create_dir_all(&path).unwrap();
            chown(&path, Some(owner), None).unwrap();
        }
        root
    }

    fn visited(root: &TempDir, most: usize) -> (Vec<String>, bool) {
        let mut visited = Vec::new();
        let all = walk(root.path(), (), most, |path, _, ()| {
            visited.push(path.display().to_string());
            ControlFlow::Continue(())
        });
        (visited, all)
    }

    #[test]
    fn no_user_takes_the_room_of_another() {
        let of = |user: u32, inside: u32| {
            let name = move |number| (format!("{user}/{number}/below"), user);
            [(user.to_string(), user)]
                .into_iter()
                .chain((0..inside).map(name))
        };
        // The intermediate directories stay root's, as those that a container made for it.
        let root = hierarchy(of(1000, 100).chain(of(1001, 3)).chain(of(1002, 100)));
        let (visited, all) = visited(&root, 3 + 30);
        assert!(!all);
        assert_eq!(visited.len(), 33);
        let of_user = |user: &str| {
            let paths = visited.iter();
            paths.filter(|path| path.starts_with(user)).count() - 1
        };
        assert_eq!(["1000", "1001", "1002"].map(of_user), [10, 6, 14]);
    }

    #[test]
    fn directories_that_users_give_away_are_in_their_part() {
        let given = (0..50).map(|user| (format!("1000/{user}"), 2000 + user));
        let others = [("1001".to_owned(), 1001), ("1001/a".to_owned(), 1001)];
        let root = hierarchy(
            [("1000".to_owned(), 1000)]
                .into_iter()
                .chain(given)
                .chain(others),
        );
        let (visited, all) = visited(&root, 2 + 10);
        assert!(
            !all && visited.contains(&"1001/a".to_owned()),
            "{visited:?}"
        );
    }

    #[test]
    fn a_visitor_may_break_off_and_all_is_told_from_a_part() {
        let root = hierarchy([("a/b".to_owned(), 0), ("c".to_owned(), 1000)]);
        fs::create_dir(root.path().join("c/d")).unwrap();
        let (mut near, all) = visited(&root, 3);
        assert_eq!((near.pop().as_deref(), all), (Some("a/b"), false));
        assert!(visited(&root, 4).1);
        let mut seen = 0;
        let all = walk(root.path(), (), 3, |_, _, ()| {
            seen += 1;
            ControlFlow::<_, ()>::Break(())
        });
        assert!(all && seen == 1);
        assert!(walk(Path::new("/nowhere"), (), 3, |_, _, ()| {
            ControlFlow::Continue(())
        }));
    }
}
