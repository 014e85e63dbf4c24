//! Find the names of containers on a thread of its own: runtimes may hang, and their files may be
//! many, long, or on a disk that does not answer.

mod interfaces;
mod runtimes;

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fs;
use std::path::PathBuf;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use sockstamp_host::container::{self, Details};
use sockstamp_metrics::Exposition;
use sockstamp_run::capabilities::{self, Capability};

use self::runtimes::{Counts, Runtimes};

/// Times to look for a container of which nothing is known, each after twice the wait of the one
/// before: a runtime may write its files after it has started the container.
const ATTEMPTS: u32 = 4;
const FIRST_WAIT: Duration = Duration::from_millis(250);
/// The wait for another turn, in times of the turn: users whose files take long delay others
/// little.
const REST: u32 = 16;

/// Settings of names.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Settings {
    /// Details that nobody has asked for during this time are forgotten.
    pub(crate) keep: Duration,
    /// The sockets of runtimes, the most trusted first.
    pub(crate) sockets: Arc<[PathBuf]>,
}

/// The details of containers.
#[derive(Debug)]
pub(crate) struct Names {
    shared: Arc<Shared>,
    counts: Arc<Counts>,
    /// The name of this host.
    pub(crate) node: String,
}

#[derive(Debug, Default)]
struct Shared {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct State {
    found: HashMap<String, Found>,
    wanted: HashMap<String, Wanted>,
    /// The end of the rest of each user that has had a turn.
    rests: HashMap<String, Instant>,
    settings: Settings,
    ended: bool,
}

#[derive(Debug)]
struct Found {
    details: Arc<Details>,
    asked: Instant,
}

#[derive(Debug)]
struct Wanted {
    attempts: u32,
    due: Instant,
}

impl Names {
    /// Start the thread, which keeps one capability: to read the files of users, as far as the
    /// caller may.
    pub(crate) fn start(settings: Settings) -> Result<Self> {
        let counts = Arc::new(Counts::default());
        let mut runtimes = Runtimes::new(Arc::clone(&counts));
        let find = move |sockets: &[PathBuf], wanted: &BTreeSet<String>| {
            let mut found = runtimes.details(sockets, wanted);
            complete(&mut found, container::details(wanted));
            found
        };
        Self::finding(find, settings, counts)
    }

    /// Look for containers, by their ids, with `find`.
    fn finding<F>(find: F, settings: Settings, counts: Arc<Counts>) -> Result<Self>
    where
        F: FnMut(&[PathBuf], &BTreeSet<String>) -> BTreeMap<String, Details> + Send + 'static,
    {
        let shared = Arc::new(Shared::default());
        shared.lock().settings = settings;
        let of_thread = Arc::clone(&shared);
        thread::Builder::new()
            .name("names".to_owned())
            .spawn(move || {
                capabilities::keep(&[Capability::CAP_DAC_READ_SEARCH]);
                of_thread.work(find);
            })
            .context("cannot start a thread")?;
        Ok(Self {
            shared,
            counts,
            node: node(),
        })
    }

    /// Look for further containers with these settings.
    pub(crate) fn set(&self, settings: Settings) {
        self.shared.lock().settings = settings;
    }

    /// Add the series about runtimes to an exposition.
    pub(crate) fn expose(&self, exposition: &mut Exposition) {
        self.counts.expose(exposition);
    }

    /// Return what is known of a container, by the value of its label; `None` while it is looked
    /// for.
    pub(crate) fn of(&self, container: &str) -> Option<Arc<Details>> {
        if container.is_empty() || container.ends_with(".service") {
            return Some(Arc::default());
        }
        let mut state = self.shared.lock();
        if let Some(found) = state.found.get_mut(container) {
            found.asked = Instant::now();
            return Some(Arc::clone(&found.details));
        }
        if !state.wanted.contains_key(container) {
            let wanted = Wanted {
                attempts: 0,
                due: Instant::now(),
            };
            state.wanted.insert(container.to_owned(), wanted);
            self.shared.changed.notify_one();
        }
        None
    }
}

impl Drop for Names {
    fn drop(&mut self) {
        self.shared.lock().ended = true;
        // The thread may be reading, and ends with the process.
        self.shared.changed.notify_one();
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn work(
        &self,
        mut find: impl FnMut(&[PathBuf], &BTreeSet<String>) -> BTreeMap<String, Details>,
    ) {
        let mut state = self.lock();
        while !state.ended {
            let now = Instant::now();
            let due = state.due(now);
            if due.is_empty() {
                let next = state
                    .wanted
                    .iter()
                    .map(|(id, wanted)| state.turn(id, wanted));
                let next = next.min();
                state = match next {
                    Some(next) => {
                        let wait = next.saturating_duration_since(now);
                        let waited = self.changed.wait_timeout(state, wait);
                        waited.unwrap_or_else(PoisonError::into_inner).0
                    }
                    None => self
                        .changed
                        .wait(state)
                        .unwrap_or_else(PoisonError::into_inner),
                };
                continue;
            }
            let sockets = Arc::clone(&state.settings.sockets);
            drop(state);
            let found = find(&sockets, &due);
            state = self.lock();
            state.rest(&due, now.elapsed());
            state.take(due, found, Instant::now());
        }
    }
}

impl State {
    /// Return containers to look for: root's, or else those of the user that has waited longest.
    fn due(&self, now: Instant) -> BTreeSet<String> {
        let due = self.wanted.iter();
        let due = due.map(|(id, wanted)| (id, self.turn(id, wanted)));
        let due: Vec<_> = due.filter(|(_, turn)| *turn <= now).collect();
        let first = due
            .iter()
            .map(|(id, turn)| (!user(id).is_empty(), turn, user(id)))
            .min();
        let of_first = |id: &String| first.is_some_and(|(.., first)| user(id) == first);
        let ids = due.iter().map(|(id, _)| *id);
        ids.filter(|id| of_first(id)).cloned().collect()
    }

    /// Return the time at which a container is looked for.
    fn turn(&self, id: &str, wanted: &Wanted) -> Instant {
        let rest = self.rests.get(user(id));
        rest.map_or(wanted.due, |rest| wanted.due.max(*rest))
    }

    /// Let the user rest whose containers were looked for during this time; root never rests.
    fn rest(&mut self, due: &BTreeSet<String>, took: Duration) {
        let now = Instant::now();
        self.rests.retain(|_, rest| *rest > now);
        let user = due.first().map(|id| user(id)).unwrap_or_default();
        if !user.is_empty() {
            self.rests.insert(user.to_owned(), now + took * REST);
        }
    }

    /// Keep what was found, and look once more for the others.
    fn take(&mut self, due: BTreeSet<String>, mut found: BTreeMap<String, Details>, now: Instant) {
        let keep = self.settings.keep;
        self.found.retain(|_, found| now - found.asked < keep);
        for id in due {
            let details = found.remove(&id);
            let Some(wanted) = self.wanted.get_mut(&id) else {
                continue;
            };
            wanted.attempts += 1;
            if details.is_none() && wanted.attempts < ATTEMPTS {
                wanted.due = now + FIRST_WAIT * 2_u32.pow(wanted.attempts - 1);
                continue;
            }
            self.wanted.remove(&id);
            let details = Arc::new(details.unwrap_or_default());
            self.found.insert(
                id,
                Found {
                    details,
                    asked: now,
                },
            );
        }
    }
}

/// Return the user that claims a container, as its id begins; nothing of root.
fn user(id: &str) -> &str {
    id.split_once('/').map_or("", |(user, _)| user)
}

/// Take from files what runtimes did not say.
fn complete(found: &mut BTreeMap<String, Details>, of_files: BTreeMap<String, Details>) {
    for (id, of_file) in of_files {
        let known = found.remove(&id).unwrap_or_default();
        let details = Details {
            name: known.name.or(of_file.name),
            image: known.image.or(of_file.image),
            pod: known.pod.or(of_file.pod),
            namespace: known.namespace.or(of_file.namespace),
        };
        found.insert(id, details);
    }
}

/// Return the cluster's name of the host, where the environment tells it.
pub(crate) fn node_name() -> Option<String> {
    std::env::var("NODE_NAME")
        .ok()
        .filter(|name| !name.is_empty())
}

fn node() -> String {
    node_name().unwrap_or_else(|| {
        let host = fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
        host.trim_end().to_owned()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const WAIT: Duration = Duration::from_secs(30);

    fn until_known(names: &Names, id: &str) -> Arc<Details> {
        let start = Instant::now();
        loop {
            match names.of(id) {
                Some(details) => return details,
                None => assert!(start.elapsed() < WAIT),
            }
            thread::sleep(Duration::from_millis(1));
        }
    }

    /// `known` is a container; of others there is nothing.
    fn find(_: &[PathBuf], wanted: &BTreeSet<String>) -> BTreeMap<String, Details> {
        let details = Details {
            name: Some("web".into()),
            ..Details::default()
        };
        let known = wanted.iter().filter(|id| *id == "known");
        known.map(|id| (id.clone(), details.clone())).collect()
    }

    #[test]
    fn details_are_found_beside_the_caller_and_services_have_none() {
        let settings = Settings {
            keep: WAIT,
            ..Settings::default()
        };
        let names = Names::finding(find, settings, Arc::default()).unwrap();
        assert_eq!(names.of("nginx.service"), Some(Arc::default()));
        assert_eq!(names.of(""), Some(Arc::default()));
        assert_eq!(names.of("known"), None);
        assert_eq!(until_known(&names, "known").name, Some("web".into()));
        let start = Instant::now();
        assert_eq!(*until_known(&names, "unknown"), Details::default());
        assert!(start.elapsed() >= FIRST_WAIT * 7);
    }

    #[test]
    fn users_have_turns_after_root_and_delay_only_themselves() {
        let mut state = State::default();
        let now = Instant::now();
        let due = |after| Wanted {
            attempts: 0,
            due: now + Duration::from_millis(after),
        };
        for (id, after) in [
            ("user-1/a", 0),
            ("user-1/b", 3),
            ("user-2/a", 1),
            ("root", 2),
        ] {
            state.wanted.insert(id.to_owned(), due(after));
        }
        let later = now + Duration::from_millis(5);
        let mut turn = |took| {
            let due = state.due(later);
            state.wanted.retain(|id, _| !due.contains(id));
            state.rest(&due, took);
            due.into_iter().collect::<Vec<_>>()
        };
        assert_eq!(turn(WAIT), ["root"]);
        assert_eq!(turn(WAIT), ["user-1/a", "user-1/b"]);
        assert_eq!(turn(Duration::ZERO), ["user-2/a"]);
        assert!(turn(Duration::ZERO).is_empty());
        // The first user's files took long.
        for id in ["user-1/c", "user-2/c", "other"] {
            state.wanted.insert(id.to_owned(), due(0));
        }
        for expected in ["other", "user-2/c"] {
            let due = state.due(now + WAIT);
            assert_eq!(due, BTreeSet::from([expected.to_owned()]));
            state.wanted.remove(expected);
        }
        assert!(state.due(now + WAIT).is_empty());
        assert!(!state.due(now + WAIT * (REST + 2)).is_empty());
    }

    #[test]
    fn details_are_kept_until_nobody_has_asked_for_a_while() {
        let mut state = State::default();
        state.settings.keep = Duration::from_secs(10);
        let begin = Instant::now();
        for (id, after) in [("old", 0), ("known", 5), ("new", 10)] {
            let asked = begin + Duration::from_secs(after);
            let details = Arc::default();
            state.found.insert(id.to_owned(), Found { details, asked });
        }
        state.take(
            BTreeSet::new(),
            BTreeMap::new(),
            begin + Duration::from_secs(14),
        );
        let mut left: Vec<_> = state.found.into_keys().collect();
        left.sort();
        assert_eq!(left, ["known", "new"]);
    }

    #[test]
    fn runtimes_are_believed_before_files() {
        let details = |name: &str, image: Option<&str>| Details {
            name: Some(name.into()),
            image: image.map(Into::into),
            ..Details::default()
        };
        let by_id = |id: &str, details: Details| BTreeMap::from([(id.to_owned(), details)]);
        let mut found = by_id("both", details("runtime", None));
        complete(&mut found, by_id("both", details("file", Some("nginx"))));
        complete(&mut found, by_id("one", details("file", None)));
        assert_eq!(found["both"], details("runtime", Some("nginx")));
        assert_eq!(found["one"], details("file", None));
    }
}
