//! Operate the programs and their maps for the service.

use std::collections::HashSet;
use std::fs::File;
use std::io::{self, Read};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::time::Instant;

use libbpf_rs::libbpf_sys::bpf_map_create_opts;
use libbpf_rs::skel::{OpenSkel, Skel};
use libbpf_rs::{Iter, Link, MapCore, MapFlags, MapHandle, MapType};

use super::attachment::Attachment;
use super::programs::{PROGRAMS, Plan};
use crate::abi::raw;
use crate::error::{Error, Tried};
use crate::object;
use crate::opening;
use crate::plan::cannot_load;
use crate::probe;
use crate::skeleton::completions::{CompletionsSkel, CompletionsSkelBuilder};
use crate::verified;

/// BPF_F_MMAPABLE and BPF_F_INNER_MAP of include/uapi/linux/bpf.h: as the inner map that the
/// programs declare.
const MEMORY_FLAGS: u32 = 1 << 10 | 1 << 12;

/// `struct completions_mark`: the fields that user space sets come first.
mod mark {
    use std::ops::Range;

    pub(super) const ASKED: usize = 1;
    pub(super) const SELECT: usize = 2;
    pub(super) const SLOT: Range<usize> = 4..8;
    pub(super) const REGISTRATION: Range<usize> = 8..16;
}

/// The programs, attached, and the memory of applications.
pub struct Publisher {
    skeleton: CompletionsSkel<'static>,
    /// Sees entries of error queues.
    _reports: Link,
    /// Walks over the maps of the host.
    areas: Link,
    sockets: u32,
    registrations: u64,
    /// While an application is about to have a connection stamped.
    selection: Attachment,
    /// While a connection is stamped.
    callbacks: Attachment,
    cgroup2: Option<File>,
}

impl std::fmt::Debug for Publisher {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Publisher").finish_non_exhaustive()
    }
}

/// Counts of the rings in a slot, where a new socket's completions begin.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Written {
    pub(super) ranges: u64,
    pub(super) stamps: u64,
}

impl Publisher {
    /// Load and attach, with room for this many applications of this many sockets each.
    ///
    /// # Errors
    ///
    /// [`Error::Plan`] where something is missing, and [`Error::Bpf`] where the kernel refuses.
    pub fn attach(applications: u32, sockets: u32) -> Result<Self, Error> {
        let facts = probe::facts();
        if let Some(obstacle) = cannot_load(&facts) {
            return Err(obstacle.into());
        }
        let tx_timestamping = facts.tx_timestamping == Some(true);
        let mut open = opening::open(CompletionsSkelBuilder::default())?;
        if let Some(settings) = open.maps.rodata_data.as_mut() {
            settings.setting_sockets = sockets;
            settings.setting_casts = facts.casts == Some(true);
        }
        open.maps
            .registrations
            .set_max_entries(applications.saturating_mul(sockets))
            .and_then(|()| open.maps.applications.set_max_entries(applications))
            .tried("size the maps")?;
        object::choose(
            &mut open,
            &PROGRAMS,
            &Plan {
                tcp_stamps: tx_timestamping,
            },
        );
        let cgroup2 = match &facts.cgroup2 {
            Some(root) if tx_timestamping => {
                Some(File::open(root).tried(format!("open {}", root.display()))?)
            }
            _ => None,
        };
        let skeleton = open.load().tried("load the programs")?;
        let reports = skeleton.progs.completions_error_report.attach();
        let reports = reports.tried("attach completions_error_report")?;
        let areas = skeleton.progs.completions_areas.attach();
        Ok(Self {
            areas: areas.tried("attach completions_areas")?,
            skeleton,
            _reports: reports,
            sockets,
            registrations: 0,
            selection: Attachment::default(),
            callbacks: Attachment::default(),
            cgroup2,
        })
    }

    /// Return the number of slots for sockets per application.
    pub(super) fn sockets(&self) -> u32 {
        self.sockets
    }

    /// Give memory to an application, in the slot of an earlier one, and return its id. Only the
    /// programs can write it: a frozen map can be neither mapped writable nor updated, through any
    /// descriptor (`bpf_map_mmap()`, `map_freeze()`, kernel/bpf/syscall.c, v6.1).
    pub(super) fn give_memory(&self, application: u32) -> Result<(MapHandle, u32), Error> {
        let options = bpf_map_create_opts {
            sz: size_of::<bpf_map_create_opts>() as _,
            map_flags: MEMORY_FLAGS,
            ..Default::default()
        };
        let memory = MapHandle::create(
            MapType::Array,
            Some("sockstamp_areas"),
            4,
            u32::try_from(size_of::<raw::area>()).unwrap_or(u32::MAX),
            self.sockets,
            &options,
        )
        .tried("make memory for an application")?;
        memory
            .freeze()
            .tried("make an application's memory read-only")?;
        let about = memory.info().tried("inspect an application's memory")?;
        self.put_memory(application, &memory)?;
        Ok((memory, about.info.id))
    }

    /// Return once no program runs any more that began before: a map of maps waits for them
    /// whenever it is updated (`maybe_wait_bpf_programs()`, kernel/bpf/syscall.c, v6.1 and v7.2).
    pub(super) fn put_memory(&self, application: u32, memory: &MapHandle) -> Result<(), Error> {
        let descriptor = memory.as_fd().as_raw_fd();
        self.skeleton
            .maps
            .applications
            .update(
                &application.to_ne_bytes(),
                &descriptor.to_ne_bytes(),
                MapFlags::ANY,
            )
            .tried("put an application's memory in its slot")
    }

    /// Forgets an application's memory: it lives on as long as the application has it mapped, and
    /// nothing writes it.
    pub(super) fn take_memory(&self, application: u32) -> Result<(), Error> {
        let applications = &self.skeleton.maps.applications;
        applications
            .delete(&application.to_ne_bytes())
            .tried("take an application's memory")
    }

    /// The ids of the maps that exist and are memory of applications, of this service or another.
    pub(super) fn existing_areas(&self) -> Result<HashSet<u32>, Error> {
        let mut ids = Vec::new();
        let read = Iter::new(&self.areas)
            .map_err(io::Error::other)
            .and_then(|mut maps| maps.read_to_end(&mut ids));
        read.tried("look for memory of applications")?;
        let (ids, _) = ids.as_chunks::<4>();
        Ok(ids.iter().map(|id| u32::from_ne_bytes(*id)).collect())
    }

    /// Return the counts in a slot of an application.
    pub(super) fn written(memory: &MapHandle, slot: u32) -> Result<Written, Error> {
        let area = memory
            .lookup(&slot.to_ne_bytes(), MapFlags::ANY)
            .tried("read an application's memory")?
            .unwrap_or_default();
        let word = |word: usize| {
            let bytes = area
                .get(8 * word..8 * word + 8)
                .and_then(|bytes| bytes.try_into().ok());
            bytes.map_or(0, u64::from_ne_bytes)
        };
        Ok(Written {
            ranges: word(0),
            stamps: word(1),
        })
    }

    /// Publish what happens on `socket` in a slot of `registrations` from now on, `select`ed or
    /// not; return `None` if it is published elsewhere already.
    pub(super) fn mark(
        &mut self,
        slot: u32,
        socket: BorrowedFd<'_>,
        select: bool,
    ) -> Result<Option<u64>, Error> {
        if self.is_marked(socket)? {
            return Ok(None);
        }
        self.registrations += 1;
        let registration = self.registrations;
        self.set_registration(slot, registration)?;
        let marks = &self.skeleton.maps.sockstamp_marks;
        let mut mark = vec![0; marks.value_size() as usize];
        if let Some(earlier) = self.look(socket)? {
            mark[mark::ASKED] = earlier[mark::ASKED];
        }
        mark[mark::SELECT] = u8::from(select);
        mark[mark::SLOT].copy_from_slice(&slot.to_ne_bytes());
        mark[mark::REGISTRATION].copy_from_slice(&registration.to_ne_bytes());
        marks
            .update(&socket.as_raw_fd().to_ne_bytes(), &mark, MapFlags::ANY)
            .tried("mark the socket")?;
        Ok(Some(registration))
    }

    /// Stop writing into a slot, except by programs that run already.
    pub(super) fn unmark(&self, slot: u32) -> Result<(), Error> {
        self.set_registration(slot, 0)
    }

    /// A mark whose registration ended means nothing.
    fn is_marked(&self, socket: BorrowedFd<'_>) -> Result<bool, Error> {
        let Some(mark) = self.look(socket)? else {
            return Ok(false);
        };
        let (registration, slot) = (&mark[mark::REGISTRATION], &mark[mark::SLOT]);
        let current = self
            .skeleton
            .maps
            .registrations
            .lookup(slot, MapFlags::ANY)
            .tried("inspect a registration")?;
        Ok(current.is_some_and(|current| current == registration))
    }

    fn look(&self, socket: BorrowedFd<'_>) -> Result<Option<Vec<u8>>, Error> {
        let marks = &self.skeleton.maps.sockstamp_marks;
        marks
            .lookup(&socket.as_raw_fd().to_ne_bytes(), MapFlags::ANY)
            .tried("inspect the socket")
    }

    /// Return true if TCP sends can be stamped without error-queue entries.
    pub(super) fn can_select(&self) -> bool {
        self.cgroup2.is_some()
    }

    /// Let applications have sends of marked connections stamped: each by a call of setsockopt(2)
    /// of its own, soon.
    pub(super) fn let_select(&mut self) -> Result<(), Error> {
        self.start_callbacks()?;
        let Some(cgroup2) = &self.cgroup2 else {
            return Ok(());
        };
        let select = &self.skeleton.progs.completions_select;
        self.selection.want(|| {
            let link = select.attach_cgroup(cgroup2.as_raw_fd());
            link.tried("attach to setsockopt")
        })?;
        // Detach it soon, because it costs each setsockopt(2) of the host.
        self.selection.leave(Instant::now());
        Ok(())
    }

    /// Marked connections are stamped from now on.
    pub(super) fn start_callbacks(&mut self) -> Result<(), Error> {
        let Some(cgroup2) = &self.cgroup2 else {
            return Ok(());
        };
        let callbacks = &self.skeleton.progs.completions_sockops;
        self.callbacks.want(|| {
            let link = callbacks.attach_cgroup(cgroup2.as_raw_fd());
            link.tried("attach to the callbacks of TCP")
        })
    }

    /// No marked connection is stamped any more. Otherwise each connection of the host would
    /// continue to pay for the callbacks.
    pub(super) fn leave_callbacks(&mut self) {
        self.callbacks.leave(Instant::now());
    }

    /// Return when there is something to detach.
    pub(super) fn next_end(&self) -> Option<Instant> {
        [&self.selection, &self.callbacks]
            .into_iter()
            .filter_map(Attachment::ends)
            .min()
    }

    /// Detach programs that have been unused for a while.
    pub(super) fn expire(&mut self) {
        let now = Instant::now();
        self.selection.expire(now);
        self.callbacks.expire(now);
    }

    /// Entries that left a queue while they were read, of all sockets.
    pub(super) fn torn(&self) -> u64 {
        self.skeleton
            .maps
            .bss_data
            .as_ref()
            .map_or(0, |data| data.entries_torn)
    }

    /// Return the same as [`Session::verified`](crate::Session::verified).
    ///
    /// # Errors
    ///
    /// Those of that function.
    pub fn verified(&self) -> Result<Vec<(String, u32)>, Error> {
        verified::of(self.skeleton.object())
    }

    fn set_registration(&self, slot: u32, registration: u64) -> Result<(), Error> {
        self.skeleton
            .maps
            .registrations
            .update(
                &slot.to_ne_bytes(),
                &registration.to_ne_bytes(),
                MapFlags::ANY,
            )
            .tried("set a registration")
    }
}
