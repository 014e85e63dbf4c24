//! The names of processes: a message has that of the thread that called.

use std::collections::HashMap;
use std::fs;

use sockstamp_model::message::Message;
use sockstamp_model::name::Name;
use sockstamp_model::wait::Waits;

/// Processes whose names are kept.
const MOST: usize = 4096;

/// The names of processes, each looked up once.
#[derive(Debug, Default)]
pub struct ProcessNames(HashMap<u32, Option<Name>>);

impl ProcessNames {
    /// Return the name of a process, if it is there, or was when it was asked for first.
    pub fn of(&mut self, pid: u32) -> Option<&Name> {
        if pid != 0 && self.0.len() < MOST {
            self.0.entry(pid).or_insert_with(|| look_up(pid));
        }
        self.0.get(&pid)?.as_ref()
    }

    /// Give a message the name of its process.
    pub fn rename(&mut self, message: &mut Message) {
        if let Some(name) = self.of(message.pid) {
            message.comm.clone_from(name);
        }
    }

    /// Give waits the names of their processes.
    pub fn rename_waits(&mut self, waits: &mut Waits) {
        let list = waits.list.iter_mut().map(|wait| (wait.pid, &mut wait.comm));
        let attempts = waits.attempts.iter_mut();
        let attempts = attempts.map(|attempts| (attempts.key.pid, &mut attempts.comm));
        for (pid, comm) in list.chain(attempts) {
            if let Some(name) = self.of(pid) {
                comm.clone_from(name);
            }
        }
    }

    /// Iterate over those that are known.
    pub fn known(&self) -> impl Iterator<Item = (u32, &Name)> {
        let names = self.0.iter();
        names.filter_map(|(pid, name)| Some((*pid, name.as_ref()?)))
    }
}

fn look_up(pid: u32) -> Option<Name> {
    let comm = fs::read(format!("/proc/{pid}/comm")).ok()?;
    Some(Name::from(comm.trim_ascii_end()))
}

#[cfg(test)]
mod tests {
    use std::process;

    use super::*;

    #[test]
    fn a_process_has_its_name_in_each_of_its_threads() {
        let comm = fs::read("/proc/self/comm").unwrap();
        let mut names = ProcessNames::default();
        let of_thread = std::thread::Builder::new().name("elsewhere".to_owned());
        let named = of_thread.spawn(move || names.of(process::id()).cloned());
        let expected = Name::from(comm.trim_ascii_end());
        assert_eq!(named.unwrap().join().unwrap(), Some(expected));
    }

    #[test]
    fn processes_without_a_name_are_not_known() {
        let mut names = ProcessNames::default();
        assert_eq!(names.of(0), None);
        assert_eq!(names.of(u32::MAX), None);
        assert!(names.of(process::id()).is_some());
        assert!(names.known().map(|(pid, _)| pid).eq([process::id()]));
    }
}
