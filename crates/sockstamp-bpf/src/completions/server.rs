//! The service: one thread, which waits for nobody.

use std::collections::VecDeque;
use std::io::{IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use libbpf_rs::MapHandle;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::net::ipproto::{TCP, UDP};
use rustix::net::sockopt::{socket_domain, socket_peercred, socket_protocol};
use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, SocketFlags, accept_with, recvmsg, sendmsg,
};
use sockstamp::completions::protocol::{REQUEST_BYTES, Refusal, Registered, Reply, Request, Status};

use super::closing::Closing;
use super::listener::Listener;
use super::publisher::Publisher;
use crate::error::{Error, Tried};
use crate::privilege::Lowered;

/// How much is served.
#[derive(Debug, Clone, Copy)]
pub struct Limits {
    /// Connections, each of one application.
    pub applications: u32,
    /// Of these, connections of one user.
    pub of_a_user: u32,
}

/// Serves applications that connect.
pub struct Server {
    publisher: Publisher,
    lowered: Lowered,
    listener: Listener,
    limits: Limits,
    clients: Vec<Client>,
    free: VecDeque<u32>,
    closing: Closing,
    /// No connection could be accepted the last time, for want of descriptors or memory: not the next moment either.
    exhausted: bool,
    refused: u64,
    log: Box<dyn FnMut(&str)>,
}

impl std::fmt::Debug for Server {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Server").finish_non_exhaustive()
    }
}

struct Client {
    connection: OwnedFd,
    user: u32,
    process: i32,
    application: Option<Application>,
}

/// What an application has after it joined.
struct Application {
    index: u32,
    memory: MapHandle,
    slots: Vec<Slot>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Slot {
    Free,
    Registered {
        registration: u64,
        /// Its sends are stamped without error-queue entries.
        stamped: bool,
    },
    /// A program that runs may still write it.
    Released,
}

/// A client has gone, or must go.
struct Gone;

impl Server {
    /// Takes capabilities out of effect for as long as it serves; `log` gets a line for whatever is done.
    ///
    /// # Errors
    ///
    /// [`Error::Io`] if capabilities cannot be taken out of effect.
    pub fn new(
        publisher: Publisher,
        listener: Listener,
        limits: Limits,
        log: impl FnMut(&str) + 'static,
    ) -> Result<Self, Error> {
        Ok(Self {
            publisher,
            lowered: Lowered::lower()?,
            listener,
            limits,
            clients: Vec::new(),
            free: (0..limits.applications).collect(),
            closing: Closing::default(),
            exhausted: false,
            refused: 0,
            log: Box::new(log),
        })
    }

    /// Serves until `stop` can be read.
    ///
    /// # Errors
    ///
    /// [`Error::Io`] if waiting fails.
    pub fn serve(&mut self, stop: BorrowedFd<'_>) -> Result<(), Error> {
        loop {
            let ready = self.wait(stop)?;
            if ready[0] {
                return Ok(());
            }
            // From the last, so that taking one out moves only those that had their turn.
            for client in (0..self.clients.len()).rev() {
                if ready[2 + client] && self.serve_client(client).is_err() {
                    self.forget(client);
                }
            }
            if ready[1] {
                self.accept();
            }
        }
    }

    fn wait(&mut self, stop: BorrowedFd<'_>) -> Result<Vec<bool>, Error> {
        const PAUSE: Timespec = Timespec {
            tv_sec: 1,
            tv_nsec: 0,
        };
        let exhausted = std::mem::take(&mut self.exhausted);
        let accepted = if exhausted {
            PollFlags::empty()
        } else {
            PollFlags::IN
        };
        let clients = self.clients.iter().map(|client| client.connection.as_fd());
        let mut watched = vec![
            PollFd::from_borrowed_fd(stop, PollFlags::IN),
            PollFd::from_borrowed_fd(self.listener.as_fd(), accepted),
        ];
        watched.extend(clients.map(|client| PollFd::from_borrowed_fd(client, PollFlags::IN)));
        match poll(&mut watched, exhausted.then_some(&PAUSE)) {
            Ok(_) | Err(Errno::INTR) => {}
            Err(errno) => return Err(std::io::Error::from(errno)).tried("wait for applications"),
        }
        Ok(watched
            .iter()
            .map(|watched| !watched.revents().is_empty())
            .collect())
    }

    fn accept(&mut self) {
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        let connection = match accept_with(&self.listener, flags) {
            Ok(connection) => connection,
            Err(errno) => {
                self.exhausted = !matches!(errno, Errno::AGAIN | Errno::INTR | Errno::CONNABORTED);
                if self.exhausted {
                    (self.log)(&format!("cannot accept a connection: {errno}"));
                }
                return;
            }
        };
        let Ok(peer) = socket_peercred(&connection) else {
            return;
        };
        let client = Client {
            connection,
            user: peer.uid.as_raw(),
            process: peer.pid.as_raw_nonzero().get(),
            application: None,
        };
        let of_user = self
            .clients
            .iter()
            .filter(|other| other.user == client.user)
            .count();
        if self.clients.len() >= self.limits.applications as usize
            || of_user >= self.limits.of_a_user as usize
            || !self.closing.has_room(client.user)
        {
            self.refuse(&client, Refusal::TooManyApplications);
            self.closing.close(client.user, client.connection);
            return;
        }
        self.clients.push(client);
    }

    /// One request; an application that sends more waits until the others had their turn.
    fn serve_client(&mut self, client: usize) -> Result<(), Gone> {
        let Some(Arrived { request, passed }) = receive(&self.clients[client].connection)? else {
            return Ok(());
        };
        let reply = match request {
            Some(request) => self.answer(client, request, passed.first().map(AsFd::as_fd)),
            None => Err(Refusal::Malformed),
        };
        let user = self.clients[client].user;
        for descriptor in passed {
            self.closing.close(user, descriptor);
        }
        match reply {
            Ok(Some(reply)) => self.clients[client].send(reply),
            Ok(None) => Ok(()),
            Err(refusal) => {
                self.refused += 1;
                let told = self.clients[client].send(Reply::Refused(refusal));
                self.say(client, &format!("refused: {refusal}"));
                if matches!(refusal, Refusal::Malformed | Refusal::NotASocket) || !self.closing.has_room(user)
                {
                    return Err(Gone);
                }
                told
            }
        }
    }

    fn answer(
        &mut self,
        client: usize,
        request: Request,
        passed: Option<BorrowedFd<'_>>,
    ) -> Result<Option<Reply>, Refusal> {
        match request {
            Request::Join => self.join(client).map(Some),
            Request::Register { stamps } => {
                let socket = passed.ok_or(Refusal::NotASocket)?;
                self.register(client, socket, stamps).map(Some)
            }
            Request::Release { slot, registration } => {
                self.release(client, slot, registration);
                Ok(None)
            }
            Request::Status => Ok(Some(Reply::Status(self.status()))),
        }
    }

    fn join(&mut self, client: usize) -> Result<Reply, Refusal> {
        if self.clients[client].application.is_some() {
            return Err(Refusal::Malformed);
        }
        let index = *self.free.front().ok_or(Refusal::TooManyApplications)?;
        let publisher = &self.publisher;
        let memory = self.lowered.raised(|| publisher.give_memory(index));
        let memory = memory.map_err(|error| self.failed(&error))?;
        self.free.pop_front();
        let sockets = self.publisher.sockets();
        self.clients[client].application = Some(Application {
            index,
            memory,
            slots: vec![Slot::Free; sockets as usize],
        });
        self.say(client, "joined");
        Ok(Reply::Joined { sockets })
    }

    fn register(&mut self, client: usize, socket: BorrowedFd<'_>, stamps: bool) -> Result<Reply, Refusal> {
        let tcp = check(socket)?;
        let select = stamps && tcp && self.publisher.can_select();
        let application = self.clients[client]
            .application
            .as_mut()
            .ok_or(Refusal::Malformed)?;
        let result = application.register(&mut self.publisher, socket, select);
        let mut registered = result.map_err(|error| self.failed(&error))??;
        if select {
            let publisher = &mut self.publisher;
            let selected = self.lowered.raised(|| publisher.select(socket));
            match selected {
                Ok(stamped) => {
                    registered.stamps = stamped;
                    self.note_stamped(client, registered);
                }
                Err(error) => {
                    self.release(client, registered.slot, registered.registration);
                    return Err(self.failed(&error));
                }
            }
        }
        Ok(Reply::Registered(registered))
    }

    fn note_stamped(&mut self, client: usize, registered: Registered) {
        let application = self.clients[client].application.as_mut();
        let slot = application.and_then(|application| application.slots.get_mut(registered.slot as usize));
        if let Some(Slot::Registered { stamped, .. }) = slot {
            *stamped = registered.stamps;
        }
        self.keep_callbacks_for_stamped();
    }

    fn keep_callbacks_for_stamped(&mut self) {
        let applications = self
            .clients
            .iter()
            .filter_map(|client| client.application.as_ref());
        let mut slots = applications.flat_map(|application| &application.slots);
        if !slots.any(|slot| matches!(slot, Slot::Registered { stamped: true, .. })) {
            self.publisher.stop_callbacks();
        }
    }

    fn release(&mut self, client: usize, slot: u32, released: u64) {
        let Some(application) = &mut self.clients[client].application else {
            return;
        };
        let place = application.place(&self.publisher, slot);
        match application.slots.get_mut(slot as usize) {
            Some(slot @ &mut Slot::Registered { registration, .. }) if registration == released => {
                *slot = Slot::Released;
            }
            _ => return,
        }
        if let Err(error) = self.publisher.unmark(place) {
            self.failed(&error);
        }
        self.keep_callbacks_for_stamped();
    }

    fn status(&self) -> Status {
        let joined = self
            .clients
            .iter()
            .filter_map(|client| client.application.as_ref());
        let sockets = joined.clone().map(Application::registered).sum::<usize>();
        Status {
            applications: u32::try_from(joined.count()).unwrap_or(u32::MAX),
            sockets: u32::try_from(sockets).unwrap_or(u32::MAX),
            refused: self.refused,
            torn: self.publisher.torn(),
        }
    }

    /// Nothing of it stays: its marks mean nothing from here on.
    fn forget(&mut self, client: usize) {
        if self.clients[client].application.is_some() {
            self.say(client, "left");
        }
        let Client {
            connection,
            user,
            application,
            ..
        } = self.clients.swap_remove(client);
        if let Some(application) = application {
            let result = application.end(&self.publisher);
            self.free.push_back(application.index);
            if let Err(error) = result {
                self.failed(&error);
            }
            self.keep_callbacks_for_stamped();
        }
        self.closing.close(user, connection);
    }

    fn refuse(&mut self, client: &Client, refusal: Refusal) {
        self.refused += 1;
        let _ = client.send(Reply::Refused(refusal));
        (self.log)(&format!("{client}: refused: {refusal}"));
    }

    fn failed(&mut self, error: &Error) -> Refusal {
        let cause = std::error::Error::source(error).map(ToString::to_string);
        (self.log)(&format!("{error}: {}", cause.unwrap_or_default()));
        Refusal::Failed
    }

    fn say(&mut self, client: usize, what: &str) {
        (self.log)(&format!("{}: {what}", self.clients[client]));
    }
}

impl Application {
    fn place(&self, publisher: &Publisher, slot: u32) -> u32 {
        self.index * publisher.sockets() + slot
    }

    fn register(
        &mut self,
        publisher: &mut Publisher,
        socket: BorrowedFd<'_>,
        select: bool,
    ) -> Result<Result<Registered, Refusal>, Error> {
        let Some(slot) = self.free_slot(publisher)? else {
            return Ok(Err(Refusal::TooManySockets));
        };
        let number = u32::try_from(slot).unwrap_or(u32::MAX);
        let written = Publisher::written(&self.memory, number)?;
        let Some(registration) = publisher.mark(self.place(publisher, number), socket, select)? else {
            return Ok(Err(Refusal::AlreadyRegistered));
        };
        self.slots[slot] = Slot::Registered {
            registration,
            stamped: false,
        };
        Ok(Ok(Registered {
            slot: number,
            stamps: false,
            registration,
            ranges_written: written.ranges,
            stamps_written: written.stamps,
        }))
    }

    /// A place is given again once no program can be writing about its last socket.
    fn free_slot(&mut self, publisher: &Publisher) -> Result<Option<usize>, Error> {
        let free = |slots: &[Slot]| slots.iter().position(|slot| *slot == Slot::Free);
        if free(&self.slots).is_none() && self.slots.contains(&Slot::Released) {
            publisher.place_memory(self.index, &self.memory)?;
            for slot in &mut self.slots {
                if *slot == Slot::Released {
                    *slot = Slot::Free;
                }
            }
        }
        Ok(free(&self.slots))
    }

    fn registered(&self) -> usize {
        let registered = |slot: &&Slot| matches!(slot, Slot::Registered { .. });
        self.slots.iter().filter(registered).count()
    }

    fn end(&self, publisher: &Publisher) -> Result<(), Error> {
        for (slot, _) in (0..).zip(&self.slots) {
            publisher.unmark(self.place(publisher, slot))?;
        }
        publisher.take_memory(self.index)
    }
}

impl Client {
    /// A client that does not read its replies goes.
    fn send(&self, reply: Reply) -> Result<(), Gone> {
        let memory = match (&reply, &self.application) {
            (Reply::Joined { .. }, Some(application)) => Some([application.memory.as_fd()]),
            _ => None,
        };
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
        let mut control = SendAncillaryBuffer::new(&mut space);
        if let Some(memory) = &memory {
            control.push(SendAncillaryMessage::ScmRights(memory));
        }
        let flags = SendFlags::DONTWAIT | SendFlags::NOSIGNAL;
        let sent = sendmsg(
            &self.connection,
            &[IoSlice::new(&reply.to_bytes())],
            &mut control,
            flags,
        );
        sent.map(drop).map_err(|_| Gone)
    }
}

impl std::fmt::Display for Client {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "process {} of user {}", self.process, self.user)
    }
}

/// One message of a client.
struct Arrived {
    /// `None` if it is none.
    request: Option<Request>,
    passed: Vec<OwnedFd>,
}

/// Nothing if nothing has come.
fn receive(connection: &OwnedFd) -> Result<Option<Arrived>, Gone> {
    // One byte more than there may be: what is longer is seen to be.
    let mut bytes = [0; REQUEST_BYTES + 1];
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    let flags = RecvFlags::DONTWAIT | RecvFlags::CMSG_CLOEXEC;
    let mut parts = [IoSliceMut::new(&mut bytes)];
    let length = match recvmsg(connection, &mut parts, &mut control, flags) {
        Ok(message) if message.bytes > 0 => message.bytes,
        Err(Errno::AGAIN | Errno::INTR) => return Ok(None),
        Ok(_) | Err(_) => return Err(Gone),
    };
    let mut passed = Vec::new();
    for message in control.drain() {
        if let RecvAncillaryMessage::ScmRights(descriptors) = message {
            passed.extend(descriptors);
        }
    }
    Ok(Some(Arrived {
        request: Request::from_bytes(&bytes[..length]),
        passed,
    }))
}

/// Whether it is TCP, and not UDP; asks nothing that waits, whatever `descriptor` is.
fn check(descriptor: BorrowedFd<'_>) -> Result<bool, Refusal> {
    let domain = socket_domain(descriptor).map_err(|_| Refusal::NotASocket)?;
    let protocol = socket_protocol(descriptor).map_err(|_| Refusal::NotASocket)?;
    if ![AddressFamily::INET, AddressFamily::INET6].contains(&domain) {
        return Err(Refusal::WrongSocket);
    }
    match protocol {
        Some(TCP) => Ok(true),
        Some(UDP) => Ok(false),
        _ => Err(Refusal::WrongSocket),
    }
}
