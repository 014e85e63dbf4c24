//! Run the service: one thread, which never blocks on others. Workers do what may block.

use std::collections::VecDeque;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::net::sockopt::socket_peercred;
use rustix::net::{SocketFlags, accept_with};
use sockstamp::completions::protocol::{Refusal, Reply, Request, Status};
use sockstamp_model::line_limit::LineLimit;

use super::application::{Application, Slot};
use super::areas::Areas;
use super::client::{Arrived, Client, Gone, Kind, Message, Passed};
use super::listener::Listener;
use super::publisher::Publisher;
use super::workers::Workers;
use crate::error::{Error, Tried};
use crate::privilege::{DroppedCapabilities, drop_capabilities};

/// Limits of the service.
#[derive(Debug, Clone, Copy)]
pub struct Limits {
    /// Connections, each of one application, and areas of memory.
    pub applications: u32,
    /// The part of these that one user may have.
    pub of_a_user: u32,
}

/// Lines of the log within a minute: those that one user causes, and all.
const LINES_OF_A_USER: u32 = 20;
const LINES: u32 = 200;

/// Time without accepting connections after one failed for lack of descriptors or memory.
const PAUSE: Duration = Duration::from_secs(1);

/// Serves applications that connect.
pub struct Server {
    publisher: Publisher,
    dropped: DroppedCapabilities,
    listener: Listener,
    limits: Limits,
    clients: Vec<Client>,
    /// Clients ever accepted, which is how they are numbered.
    accepted: u64,
    workers: Workers,
    arrivals: (Sender<Arrived>, Receiver<Arrived>),
    areas: Areas,
    free: VecDeque<u32>,
    accepts_again: Option<Instant>,
    refused: u64,
    log: Box<dyn FnMut(&str)>,
    lines: LineLimit<u32>,
}

impl std::fmt::Debug for Server {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Server").finish_non_exhaustive()
    }
}

/// Name a job for a worker.
struct Ready {
    stop: bool,
    accept: bool,
    /// Events by client.
    clients: Vec<PollFlags>,
}

impl Server {
    /// Take capabilities out of effect while it serves; `log` gets a line for each action.
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
            dropped: drop_capabilities()?,
            listener,
            limits,
            clients: Vec::new(),
            accepted: 0,
            workers: Workers::new()?,
            arrivals: channel(),
            areas: Areas::default(),
            free: (0..limits.applications).collect(),
            accepts_again: None,
            refused: 0,
            log: Box::new(log),
            lines: LineLimit::new(LINES_OF_A_USER, LINES),
        })
    }

    /// Serve until `stop` can be read.
    ///
    /// # Errors
    ///
    /// [`Error::Io`] if waiting fails.
    pub fn serve(&mut self, stop: BorrowedFd<'_>) -> Result<(), Error> {
        loop {
            let ready = self.wait(stop)?;
            if ready.stop {
                self.report_left_out();
                return Ok(());
            }
            // Go from the last to the first, so that removing one moves only those already served.
            for (client, events) in ready.clients.iter().enumerate().rev() {
                self.look_after(client, *events);
            }
            while let Ok(arrived) = self.arrivals.1.try_recv() {
                self.arrived(&arrived);
            }
            if ready.accept {
                self.accept();
            }
            self.publisher.expire();
        }
    }

    fn wait(&mut self, stop: BorrowedFd<'_>) -> Result<Ready, Error> {
        let wanted = |wanted: bool| match wanted {
            true => PollFlags::IN,
            false => PollFlags::empty(),
        };
        let pausing = self.accepts_again.is_some_and(|end| Instant::now() < end);
        if !pausing {
            self.accepts_again = None;
        }
        let accepts = !pausing && !self.workers.is_full();
        let mut watched = vec![
            PollFd::from_borrowed_fd(stop, PollFlags::IN),
            PollFd::from_borrowed_fd(self.workers.events(), PollFlags::IN),
            PollFd::from_borrowed_fd(self.listener.as_fd(), wanted(accepts)),
        ];
        watched.extend(self.clients.iter().map(|client| {
            let receives = !client.receiving && self.workers.has_room(client.user);
            PollFd::from_borrowed_fd(client.connection.as_fd(), wanted(receives))
        }));
        let end = self
            .accepts_again
            .into_iter()
            .chain(self.publisher.next_end())
            .min();
        match poll(&mut watched, end.map(until).as_ref()) {
            Ok(_) | Err(Errno::INTR) => {}
            Err(errno) => return Err(std::io::Error::from(errno)).tried("wait for applications"),
        }
        let events: Vec<_> = watched.iter().map(PollFd::revents).collect();
        self.workers.rest();
        Ok(Ready {
            stop: !events[0].is_empty(),
            accept: accepts && !events[2].is_empty(),
            clients: events[3..].to_vec(),
        })
    }

    /// Receive a client's message even if the client has disconnected since, but not a second one
    /// before the first is answered.
    fn look_after(&mut self, client: usize, events: PollFlags) {
        if events.contains(PollFlags::IN) {
            self.clients[client].receive(&self.workers, self.arrivals.0.clone());
        } else if !events.is_empty() {
            self.forget(client);
        }
    }

    fn accept(&mut self) {
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        let connection = match accept_with(&self.listener, flags) {
            Ok(connection) => connection,
            Err(Errno::AGAIN | Errno::INTR | Errno::CONNABORTED) => return,
            Err(errno) => {
                self.accepts_again = Some(Instant::now() + PAUSE);
                return (self.log)(&format!("cannot accept a connection: {errno}"));
            }
        };
        let Ok(peer) = socket_peercred(&connection) else {
            return;
        };
        self.accepted += 1;
        let client = Client {
            number: self.accepted,
            connection: Arc::new(connection),
            user: peer.uid.as_raw(),
            process: peer.pid.as_raw_nonzero().get(),
            receiving: false,
            application: None,
        };
        let of_user = |other: &&Client| other.user == client.user;
        if self.clients.len() >= self.limits.applications as usize
            || self.clients.iter().filter(of_user).count() >= self.limits.of_a_user as usize
        {
            self.refused += 1;
            let _ = client.send(Reply::Refused(Refusal::TooManyApplications));
            self.say_of(
                client.user,
                &format!("{client}: refused: {}", Refusal::TooManyApplications),
            );
            self.close(client);
            return;
        }
        self.clients.push(client);
    }

    /// A worker has received from a client, which may have been forgotten since.
    fn arrived(&mut self, arrived: &Arrived) {
        let is_it = |client: &Client| client.number == arrived.client;
        let Some(client) = self.clients.iter().position(is_it) else {
            return;
        };
        self.clients[client].receiving = false;
        let result = match &arrived.message {
            Ok(Some(message)) => self.serve_client(client, message),
            Ok(None) => Ok(()),
            Err(Gone) => Err(Gone),
        };
        if result.is_err() {
            self.forget(client);
        }
    }

    /// Serve one request; an application that sends more waits for its next turn.
    fn serve_client(&mut self, client: usize, message: &Message) -> Result<(), Gone> {
        let reply = match message.request {
            Some(request) => self.answer(client, request, message.passed.as_ref()),
            None => Err(Refusal::Malformed),
        };
        match reply {
            Ok(Some(reply)) => self.clients[client].send(reply),
            Ok(None) => Ok(()),
            Err(refusal) => {
                self.refused += 1;
                let told = self.clients[client].send(Reply::Refused(refusal));
                self.say(client, &format!("refused: {refusal}"));
                match refusal {
                    Refusal::Malformed => Err(Gone),
                    _ => told,
                }
            }
        }
    }

    fn answer(
        &mut self,
        client: usize,
        request: Request,
        passed: Option<&Passed>,
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
            Request::Status => self.status().map(Reply::Status).map(Some),
        }
    }

    fn join(&mut self, client: usize) -> Result<Reply, Refusal> {
        if self.clients[client].application.is_some() {
            return Err(Refusal::Malformed);
        }
        self.require_memory(self.clients[client].user)?;
        let index = *self.free.front().ok_or(Refusal::TooManyApplications)?;
        let publisher = &self.publisher;
        let memory = self.dropped.raised(|| publisher.give_memory(index));
        let (memory, map) = memory.map_err(|error| self.failed(&error))?;
        self.free.pop_front();
        self.areas.give(map, self.clients[client].user);
        let sockets = self.publisher.sockets();
        self.clients[client].application = Some(Application {
            index,
            memory,
            slots: vec![Slot::Free; sockets as usize],
        });
        self.say(client, "joined");
        Ok(Reply::Joined { sockets })
    }

    /// Count kept memory of former applications against their user's limit.
    fn require_memory(&mut self, user: u32) -> Result<(), Refusal> {
        let Limits {
            applications,
            of_a_user,
        } = self.limits;
        let exceeded = |areas: &Areas| {
            areas.count() >= applications as usize || areas.of(user) >= of_a_user as usize
        };
        if exceeded(&self.areas) {
            self.look_for_areas()?;
        }
        match exceeded(&self.areas) {
            true => Err(Refusal::MemoryInUse),
            false => Ok(()),
        }
    }

    fn look_for_areas(&mut self) -> Result<(), Refusal> {
        let existing = self.publisher.existing_areas();
        let existing = existing.map_err(|error| self.failed(&error))?;
        self.areas.keep(&existing);
        Ok(())
    }

    fn register(&mut self, client: usize, socket: &Passed, stamps: bool) -> Result<Reply, Refusal> {
        let select = socket.kind? == Kind::Tcp && stamps && self.publisher.can_select();
        let application = self.clients[client]
            .application
            .as_mut()
            .ok_or(Refusal::Malformed)?;
        let result = application.register(&mut self.publisher, socket.as_fd(), select);
        let registered = result.map_err(|error| self.failed(&error))??;
        if select {
            let publisher = &mut self.publisher;
            if let Err(error) = self.dropped.raised(|| publisher.let_select()) {
                self.release(client, registered.slot, registered.registration);
                return Err(self.failed(&error));
            }
        }
        Ok(Reply::Registered(registered))
    }

    fn release(&mut self, client: usize, slot: u32, released: u64) {
        let Some(application) = &mut self.clients[client].application else {
            return;
        };
        if let Err(error) = application.release(&self.publisher, slot, released) {
            self.failed(&error);
        }
        self.keep_callbacks_for_stamped();
    }

    fn keep_callbacks_for_stamped(&mut self) {
        let mut applications = self
            .clients
            .iter()
            .filter_map(|client| client.application.as_ref());
        if !applications.any(Application::is_stamped) {
            self.publisher.leave_callbacks();
        }
    }

    fn status(&mut self) -> Result<Status, Refusal> {
        self.look_for_areas()?;
        let joined = self
            .clients
            .iter()
            .filter_map(|client| client.application.as_ref());
        let sockets = joined.clone().map(Application::registered).sum::<usize>();
        Ok(Status {
            applications: u32::try_from(joined.count()).unwrap_or(u32::MAX),
            sockets: u32::try_from(sockets).unwrap_or(u32::MAX),
            refused: self.refused,
            torn: self.publisher.torn(),
            areas: self.areas.count() as u64,
        })
    }

    /// The application is gone: its marks no longer mean anything.
    fn forget(&mut self, client: usize) {
        if self.clients[client].application.is_some() {
            self.say(client, "left");
        }
        let mut client = self.clients.swap_remove(client);
        if let Some(application) = client.application.take() {
            let result = application.end(&self.publisher);
            self.free.push_back(application.index);
            if let Err(error) = result {
                self.failed(&error);
            }
            self.keep_callbacks_for_stamped();
        }
        self.close(client);
    }

    /// Drop the client, with descriptors that nothing has received.
    fn close(&mut self, client: Client) {
        self.workers
            .run(client.user, move || drop(client.connection));
    }

    fn failed(&mut self, error: &Error) -> Refusal {
        let cause = std::error::Error::source(error).map(ToString::to_string);
        (self.log)(&format!("{error}: {}", cause.unwrap_or_default()));
        Refusal::Failed
    }

    fn say(&mut self, client: usize, what: &str) {
        let client = &self.clients[client];
        let (user, line) = (client.user, format!("{client}: {what}"));
        self.say_of(user, &line);
    }

    /// A user may cause any number of lines.
    fn say_of(&mut self, user: u32, line: &str) {
        match self.lines.admit(user, Instant::now()) {
            Some(0) => (self.log)(line),
            Some(left_out) => {
                (self.log)(&format!("{line} ({left_out} lines were left out before)"))
            }
            None => {}
        }
    }

    fn report_left_out(&mut self) {
        let left_out = self.lines.take_left_out();
        if left_out > 0 {
            (self.log)(&format!("{left_out} lines were left out"));
        }
    }
}

/// Return the time until then, rounded up.
fn until(end: Instant) -> Timespec {
    let left = end.saturating_duration_since(Instant::now()) + Duration::from_millis(1);
    Timespec::try_from(left).unwrap_or_default()
}
