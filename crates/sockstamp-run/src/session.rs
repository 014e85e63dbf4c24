//! A session, and the capabilities that it does without while it runs.

use anyhow::{Result, bail};
use sockstamp_bpf::facts::Facts;
use sockstamp_bpf::{DroppedCapabilities, Options, Sampling, Session, drop_capabilities};

use crate::escape::complain;
use crate::target;

/// A session that runs without capabilities.
#[derive(Debug)]
pub struct Unprivileged {
    // Dropped before the session, which needs its capabilities to clean up.
    dropped: Option<DroppedCapabilities>,
    /// The session.
    pub session: Session,
}

impl Unprivileged {
    /// Start a session on a host of which this is known, and report what it leaves alone.
    ///
    /// # Errors
    ///
    /// If the kernel or its configuration lets it not measure as requested.
    pub fn start(facts: Facts, options: &Options) -> Result<Self> {
        let session = Session::start_with(facts, options)?;
        tell_what_is_left_alone(&session, options)?;
        Ok(Self {
            dropped: Some(drop_capabilities()?),
            session,
        })
    }

    /// Take the capabilities back, to start or to end a session.
    pub fn raise(&mut self) {
        self.dropped = None;
    }

    /// Drop them again.
    ///
    /// # Errors
    ///
    /// If the kernel refuses it.
    pub fn lower(&mut self) -> Result<()> {
        self.dropped = Some(drop_capabilities()?);
        Ok(())
    }

    /// Take the capabilities back, and return the session.
    #[must_use]
    pub fn into_session(self) -> Session {
        drop(self.dropped);
        self.session
    }
}

/// End what programs do, and report marks that stay on sockets.
pub fn give_back(session: &mut Session) {
    if let Err(refusal) = session.give_back() {
        let refusal = anyhow::Error::from(refusal);
        complain(format_args!(
            "sockets stay marked until they are closed: {refusal:#}"
        ));
    }
}

/// Report that a measuring window is left out.
pub fn complain_of(refusal: sockstamp_bpf::Error) {
    let refusal = anyhow::Error::from(refusal);
    complain(format_args!("a measuring window is left out: {refusal:#}"));
}

/// Report what is silently left unmeasured, or unlimited.
///
/// # Errors
///
/// If every message is wanted below a ceiling, and the cost is unknown.
pub fn tell_what_is_left_alone(session: &Session, options: &Options) -> Result<()> {
    if !options.new_only && !session.plan().namespaces && target::is_elsewhere(&options.target)? {
        complain(
            "existing connections in other network namespaces are not measured: CAP_SYS_ADMIN is missing",
        );
    }
    for place in session.stuck() {
        complain(format_args!(
            "{place}: existing connections are not measured: a task does not release the lock of one"
        ));
    }
    for name in target::names_without_process(&options.target.comms) {
        complain(format_args!("no process is named {name} yet"));
    }
    let (pids, comms) = (&options.target.pids, &options.target.comms);
    if !comms.is_empty() {
        for (pid, name) in target::with_other_names(pids, comms) {
            complain(format_args!(
                "process {pid} is named {name}: nothing of it is measured, as both --pid and --comm \
                 must hold"
            ));
        }
    }
    if let (true, Err(reason)) = (options.request().udp, &session.plan().udp) {
        complain(format_args!("UDP is not measured: {reason}"));
    }
    if options.max_cost.is_some() && !session.holds_cost() {
        if options.sampling == Sampling::Every {
            bail!(
                "whether every message can be measured below the ceiling is unknown: the kernel reports the cost \
                 only with CAP_SYS_ADMIN; --max-cost none measures at any cost"
            );
        }
        complain("the cost is not limited: the kernel reports it only with CAP_SYS_ADMIN");
    }
    let asks = options.nic_stamps.is_some() && session.plan().spares_nics();
    if options.nic_reads.is_some() && !asks && !session.plan().follows_nics() {
        complain(
            "--nic-stamps changes nothing: no NIC stamps sends here, or everything that it receives",
        );
    }
    for reason in session.unread_clocks() {
        complain(format_args!("the clock of a NIC cannot be read: {reason}"));
    }
    Ok(())
}
