//! One look at the tasks of a process, and what earlier ones have shown of them.

use std::collections::HashMap;
use std::path::Path;
use std::time::{Duration, Instant};

use sockstamp_explain::diagnosis::{Sleep, SleepLook};
use sockstamp_host::clock;
use sockstamp_host::file_lock::{self, Held};
use sockstamp_host::memory;
use sockstamp_host::pipe::Pipes;
use sockstamp_host::sessions;
use sockstamp_host::slept_for::{Awaited, Sockets};
use sockstamp_host::unix::{Service, Unix};
use sockstamp_model::name::Name;

use super::survey::{MOST_TASKS, Survey};
use super::task::{self, Task, clocks, numbers, of_task, states};

/// Keeps what later looks need.
pub(super) struct Looks {
    sockets: Sockets,
    pipes: Pipes,
    surveys: HashMap<u32, Survey>,
    /// The times for which tasks had run and waited for a CPU, when they were last awake.
    clocks: HashMap<u32, (u64, u64)>,
    /// The times for which tasks had run, when they were last asleep.
    asleep: HashMap<u32, Option<u64>>,
    /// Sessions at work, by the server whose processes they have, and when they were looked at.
    sessions: HashMap<u32, (Instant, Vec<Name>)>,
}

impl Looks {
    pub(super) fn new(unix: Unix) -> Self {
        Self {
            sockets: Sockets::new(unix),
            pipes: Pipes::default(),
            surveys: HashMap::new(),
            clocks: HashMap::new(),
            asleep: HashMap::new(),
            sessions: HashMap::new(),
        }
    }

    /// Look at the tasks of a process; `None` if it is gone.
    pub(super) fn look(&mut self, pid: u32) -> Option<SleepLook> {
        let mut look = SleepLook {
            parent: sessions::parent(pid),
            tracer: task::tracer(pid),
            ..SleepLook::new(pid, clock::now().ok()?)
        };
        let tasks = self.tasks(pid)?;
        let is_alone = tasks.len() == 1;
        let title = match is_alone {
            true => memory::title(pid),
            false => String::new(),
        };
        let mut tried = None;
        for number in tasks {
            let path = of_task(pid, number);
            let Some(task) = Task::read(&path, &title) else {
                continue;
            };
            let sleep = match task.sleep {
                None if self.runs(number, &path) => {
                    look.ran.push(task.name);
                    None
                }
                None => {
                    look.ready.push(task.name);
                    None
                }
                Some(sleep @ Sleep::FileLock) => Some(match file_lock::awaited(pid) {
                    Some(Held { holder, file }) => Sleep::HeldFile(holder, file),
                    None => sleep,
                }),
                Some(sleep @ Sleep::Timer) => {
                    let tried = tried.get_or_insert_with(|| file_lock::tried(pid)).clone();
                    let of = |Held { holder, file }| Sleep::TriedFile(holder, file);
                    Some(tried.map_or(sleep, of))
                }
                Some(Sleep::Pipe) => Some(self.piped(number, &mut look)),
                Some(sleep @ (Sleep::Idle | Sleep::Unix)) => {
                    Some(match self.awaited(sleep, number, &mut look) {
                        // Other tasks serve other clients.
                        Sleep::Client(_) if !is_alone => Sleep::Idle,
                        sleep => sleep,
                    })
                }
                sleep => sleep,
            };
            if sleep.is_none() || self.has_run(number, &path) {
                look.stirred.insert(number);
            }
            look.tasks.insert(number, sleep);
        }
        if look
            .tasks
            .values()
            .flatten()
            .any(|sleep| *sleep == Sleep::SessionLock)
        {
            look.sessions = self.sessions(pid);
        }
        Some(look)
    }

    /// Return the sessions at work of the server that has started a process.
    fn sessions(&mut self, pid: u32) -> Vec<Name> {
        const OLDEST: Duration = Duration::from_millis(200);
        let Some(server) = sessions::parent(pid) else {
            return Vec::new();
        };
        self.sessions.retain(|_, (at, _)| at.elapsed() < OLDEST);
        let look = || (Instant::now(), sessions::at_work(server));
        let (_, sessions) = self.sessions.entry(server).or_insert_with(look);
        sessions.clone()
    }

    /// Return the tasks of a process to look at: of many those that run now and then.
    fn tasks(&mut self, pid: u32) -> Option<Vec<u32>> {
        if let Some(survey) = self.surveys.get_mut(&pid) {
            return survey.chosen(pid);
        }
        let tasks = numbers(pid)?;
        match tasks.len() > MOST_TASKS {
            true => self.surveys.entry(pid).or_default().chosen(pid),
            false => Some(tasks),
        }
    }

    /// Return what a task waits for that waits for events or data.
    fn awaited(&mut self, sleep: Sleep, task: u32, look: &mut SleepLook) -> Sleep {
        let (awaited, ends_after) = self.sockets.slept_for(look.pid, task);
        let ends_after = ends_after.map(|after| (task, after.into()));
        look.ends_after.extend(ends_after);
        match awaited {
            Some(Awaited::Peer(peer)) => Sleep::Peer(peer),
            Some(Awaited::Service(service)) => of_service(service, look),
            Some(Awaited::Client(client)) => {
                look.reads.insert(task, client);
                Sleep::Client(client.ip())
            }
            Some(Awaited::Room(peer)) => Sleep::Room(peer),
            Some(Awaited::ServiceRoom(service)) => match of_service(service, look) {
                Sleep::Service(program, path) => Sleep::FullService(program, path),
                other => other,
            },
            Some(Awaited::Clients) => {
                look.for_clients.insert(task);
                Sleep::Idle
            }
            Some(Awaited::Any(services)) => {
                let busy = |(service, is_young): &(Service, bool)| *is_young || is_busy(service);
                match services.into_iter().find(busy) {
                    Some((service, _)) => of_service(service, look),
                    // A reader of a Unix socket that was accepted waits for a client.
                    None => Sleep::Idle,
                }
            }
            None => sleep,
        }
    }

    /// Name the process at the other end of the pipe that a task sleeps in, and note what its own
    /// tasks do.
    fn piped(&mut self, task: u32, look: &mut SleepLook) -> Sleep {
        let Some(other) = self.pipes.other_end(look.pid, task) else {
            return Sleep::Pipe;
        };
        look.theirs.extend(states(other.pid));
        let name = Name::from(format!("{} (PID {})", other.name, other.pid));
        match other.reads {
            true => Sleep::FullPipe(name),
            false => Sleep::EmptyPipe(name),
        }
    }

    /// Return true unless a task that sleeps has not run since it was last seen asleep.
    fn has_run(&mut self, task: u32, path: &Path) -> bool {
        let ran = clocks(path).map(|(ran, _)| ran);
        let before = keep(&mut self.asleep, task, ran);
        ran.is_none() || before.is_some_and(|before| before != ran)
    }

    /// Return true for a task that has run more than it has waited for a CPU since it was last
    /// awake: its state alone is the same.
    fn runs(&mut self, task: u32, path: &Path) -> bool {
        let Some((ran, waited)) = clocks(path) else {
            return true;
        };
        match keep(&mut self.clocks, task, (ran, waited)) {
            Some((before, waited_before)) => {
                ran > before && ran - before >= waited.saturating_sub(waited_before)
            }
            None => true,
        }
    }
}

/// Keep what is known of a task; return what was.
fn keep<T>(known: &mut HashMap<u32, T>, task: u32, now: T) -> Option<T> {
    const MOST: usize = 4096;
    if known.len() >= MOST {
        known.clear();
    }
    known.insert(task, now)
}

/// Name the service, and note what its own tasks do.
fn of_service(service: Service, look: &mut SleepLook) -> Sleep {
    let Service { path, process } = service;
    let Some((pid, name)) = process else {
        return Sleep::Service("a program".into(), path);
    };
    look.theirs.extend(states(pid));
    Sleep::Service(name, path)
}

/// Return true if a task of the service does not wait for events or data.
fn is_busy(service: &Service) -> bool {
    let pid = service.process.as_ref().map(|(pid, _)| *pid);
    let states = pid.map(states).unwrap_or_default();
    let is_idle = |state: &Option<Sleep>| {
        let has_nothing =
            |sleep: &Sleep| sleep.is_idle() || sleep.is_own_lock() || *sleep == Sleep::Unix;
        state.as_ref().is_some_and(has_nothing)
    };
    !states.iter().all(is_idle)
}
