//! `sockstamp ping --path`: every hop of the way to a host, with the kernel's times.

mod hop;
mod mtu;
mod print;
mod screen;

use std::collections::HashMap;
use std::io::Write;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow, bail};
use nix::errno::Errno;
use sockstamp::socket_options::PathMtu;
use sockstamp_ping::{
    AnswerKind, Engine, Event, Limits, ONE_PATH_PAYLOAD, Outcome, Protocol, Refusal, RefusalKind,
    Target, TargetId,
};
use sockstamp_print::destination::Stream;
use sockstamp_print::output::Reported;
use sockstamp_run::escape::complain;
use sockstamp_run::wording::in_words;

use super::follow::{Listener, Signals, follow};
use super::hosts::{self, Host};
use super::{FAILED, Options, UNANSWERED, icmp, json, write_object};
use hop::Hop;
use mtu::{Fate, Search};
use screen::Screen;

/// Hops that are looked for together.
const WINDOW: u8 = 10;
/// The engine spreads the first probes of targets over their interval, but one size follows the
/// other, and few of them are answered by errors, which routers limit.
const NEXT_SIZE: Duration = Duration::from_millis(10);
/// As traceroute(8)'s.
const MOST_HOPS: u8 = 30;

/// Probe the path to a host, and print its hops.
pub fn run(options: &Options) -> Result<ExitCode> {
    let (host, target) = only_host(options)?;
    let read = options.targets.as_slice();
    let output = Reported::to(options.output.open_beside(Stream::Output, read)?);
    let signals = Signals::catch()?;
    let (mut engine, events) = Engine::start(Limits::default())?;
    let mut walk = Walk::new(options, host, target, output);
    let walked = walk
        .begin(&mut engine)
        .and_then(|()| follow(&mut engine, events, &signals, &mut walk));
    engine.stop();
    walked?;
    walk.end()?;
    Ok(walk.exit_code())
}

fn only_host(options: &Options) -> Result<(Host, Target)> {
    let mut hosts = hosts::read(options)?;
    match (hosts.probed.pop(), hosts.probed.is_empty()) {
        (Some(only), true) => Ok(only),
        _ => bail!("--path follows the path to one host, from one network namespace"),
    }
}

/// The purpose of a target of the engine.
#[derive(Debug, Clone, Copy)]
enum Role {
    /// Probe the hop of this number, from 1.
    Hop(u8),
    /// Learn whether packets of this size arrive.
    Size(usize),
}

struct Walk<'a> {
    options: &'a Options,
    host: Host,
    /// The target as it is probed, but for its hop limit.
    target: Target,
    roles: HashMap<TargetId, Role>,
    hops: Vec<Hop>,
    /// The hop that the target answers as, or where the path ends before it.
    last: Option<u8>,
    is_reached: bool,
    search: Search,
    output: Reported,
    screen: Option<Screen>,
    drawn: Instant,
}

impl<'a> Walk<'a> {
    fn new(options: &'a Options, host: Host, mut target: Target, output: Reported) -> Self {
        let settings = &mut target.settings;
        settings.one_path = true;
        settings.linger = Duration::ZERO;
        if !matches!(target.protocol, Protocol::Tcp { .. }) {
            settings.payload = settings.payload.max(ONE_PATH_PAYLOAD);
        }
        let is_shown = options.output.is_terminal(Stream::Output);
        let is_live = is_shown && !options.quiet && !options.is_json();
        Self {
            options,
            search: Search::new(host.address.is_ipv4()),
            host,
            target,
            roles: HashMap::new(),
            hops: Vec::new(),
            last: None,
            is_reached: false,
            output,
            screen: is_live.then(Screen::open).flatten(),
            drawn: Instant::now(),
        }
    }

    fn begin(&mut self, engine: &mut Engine) -> Result<()> {
        self.look_further(engine)?;
        self.next_size(engine)
    }

    fn add(&mut self, engine: &mut Engine, target: Target, role: Role) -> Result<()> {
        let added = engine.add(target);
        let added = added.with_context(|| format!("cannot probe {}", self.host.address))?;
        self.roles.insert(added.id, role);
        Ok(())
    }

    /// Look for the next hops.
    fn look_further(&mut self, engine: &mut Engine) -> Result<()> {
        let known = self.hop_count();
        for number in known + 1..=(known + WINDOW).min(MOST_HOPS) {
            self.hops.push(Hop::default());
            let mut target = self.target.clone();
            target.settings.hop_limit = Some(number);
            self.add(engine, target, Role::Hop(number))?;
        }
        Ok(())
    }

    fn hop_count(&self) -> u8 {
        u8::try_from(self.hops.len()).unwrap_or(MOST_HOPS)
    }

    /// Send a probe of the next size, unless the path MTU is known.
    fn next_size(&mut self, engine: &mut Engine) -> Result<()> {
        let Some(size) = self.search.next() else {
            return Ok(());
        };
        let mut target = self.target.clone();
        if matches!(target.protocol, Protocol::Tcp { .. }) {
            // A SYN has no payload.
            target.protocol = Protocol::Icmp;
        }
        let settings = &mut target.settings;
        settings.payload = size - overhead(&self.host);
        settings.path_mtu = Some(PathMtu::Probe);
        settings.hop_limit = None;
        settings.count = Some(1);
        settings.interval = NEXT_SIZE;
        settings.preload = 1;
        settings.flood = false;
        self.add(engine, target, Role::Size(size))
    }

    fn outcome(
        &mut self,
        engine: &mut Engine,
        id: TargetId,
        seq: u64,
        outcome: &Outcome,
    ) -> Result<()> {
        match self.roles.get(&id) {
            Some(Role::Hop(number)) => self.at_hop(engine, *number, seq, outcome),
            Some(Role::Size(size)) => {
                let fate = fate(outcome);
                self.search.take(*size, fate, self.is_reached);
                match outcome {
                    Outcome::Abandoned => Ok(()),
                    _ => self.next_size(engine),
                }
            }
            None => Ok(()),
        }
    }

    fn at_hop(
        &mut self,
        engine: &mut Engine,
        number: u8,
        seq: u64,
        outcome: &Outcome,
    ) -> Result<()> {
        if self.options.is_json() && !self.options.quiet {
            self.object(number, seq, outcome)?;
        }
        let Some(hop) = self.hops.get_mut(usize::from(number) - 1) else {
            return Ok(());
        };
        match outcome {
            Outcome::Answered(answer) => {
                let is_error = answer.kind == AnswerKind::PortUnreachable;
                hop.answer(answer.from, answer.times.rtt, is_error);
                self.is_reached = true;
                self.ends_at(engine, number);
            }
            Outcome::Refused(refusal) => {
                hop.answer(router(refusal, &self.host), refusal.times.rtt, true);
                if refusal.kind != RefusalKind::HopLimit {
                    hop.refused = Some(icmp::meaning(self.host.address, refusal));
                    self.ends_at(engine, number);
                }
            }
            Outcome::Lost => hop.lost += 1,
            Outcome::NotSent(error) => {
                hop.not_sent += 1;
                hop.refused = Some(in_words(&error.to_string()));
            }
            Outcome::Abandoned => {}
        }
        self.go_on(engine)
    }

    /// The path is no longer than that.
    fn ends_at(&mut self, engine: &mut Engine, number: u8) {
        if self.last.is_some_and(|last| last <= number) {
            return;
        }
        self.last = Some(number);
        self.hops.truncate(number.into());
        let beyond = |role: &Role| matches!(role, Role::Hop(hop) if *hop > number);
        self.roles.retain(|id, role| {
            let is_beyond = beyond(role);
            if is_beyond {
                engine.remove(*id);
            }
            !is_beyond
        });
    }

    /// Look further if all hops so far have had their chance and one of the last window answered.
    fn go_on(&mut self, engine: &mut Engine) -> Result<()> {
        let window = self.hops.len().saturating_sub(WINDOW.into());
        let newest = &self.hops[window..];
        let is_known = newest.iter().all(|hop| hop.sent() + hop.not_sent > 0);
        let is_alive = newest.iter().any(|hop| hop.answered > 0);
        match self.last.is_none() && is_known && is_alive && self.hop_count() < MOST_HOPS {
            true => self.look_further(engine),
            false => Ok(()),
        }
    }

    fn object(&mut self, number: u8, seq: u64, outcome: &Outcome) -> Result<()> {
        let line = json::Line::outcome(&self.host, seq, outcome).at_hop(number);
        let printed = write_object(&mut self.output, &line);
        printed.context("cannot write")
    }

    fn draw(&mut self) -> Result<()> {
        const EVERY: Duration = Duration::from_millis(200);
        if self.screen.is_none() || self.drawn.elapsed() < EVERY {
            return Ok(());
        }
        self.drawn = Instant::now();
        let mut text = Vec::new();
        self.report().print(&mut text)?;
        let drawn = match &mut self.screen {
            Some(screen) => screen.draw(&text),
            None => Ok(()),
        };
        drawn.context("cannot write")
    }

    fn report(&self) -> print::Report<'_> {
        print::Report {
            host: &self.host,
            options: self.options,
            hops: self.shown(),
            search: &self.search,
            is_reached: self.is_reached,
        }
    }

    /// Hops beyond the last one that answered are one row too many, unless nobody knows the end.
    fn shown(&self) -> &[Hop] {
        let answering = self.hops.iter().rposition(|hop| hop.answered > 0);
        let end = match (self.last, answering) {
            (None, Some(place)) => (place + 2).min(self.hops.len()),
            (None, None) => self.hops.len().min(1),
            (Some(_), _) => self.hops.len(),
        };
        &self.hops[..end]
    }

    fn end(&mut self) -> Result<()> {
        self.screen = None;
        if self.output.is_unread() {
            return Ok(());
        }
        let mut text = Vec::new();
        match self.options.is_json() {
            true => write_object(&mut text, &self.report().json())?,
            false => self.report().print(&mut text)?,
        }
        let printed = self
            .output
            .write_all(&text)
            .and_then(|()| self.output.flush());
        printed.context("cannot write")
    }

    fn exit_code(&self) -> ExitCode {
        let is_sent = self.hops.iter().any(|hop| hop.sent() > 0);
        match (self.is_reached, is_sent) {
            (true, _) => ExitCode::SUCCESS,
            (false, true) => ExitCode::from(UNANSWERED),
            (false, false) => ExitCode::from(FAILED),
        }
    }
}

impl Listener for Walk<'_> {
    fn take(&mut self, engine: &mut Engine, event: &Event) -> Result<()> {
        match event {
            Event::Probe {
                target,
                seq,
                outcome,
            } => self.outcome(engine, *target, *seq, outcome),
            Event::Late { target, .. } | Event::LateRefusal { target, .. } => {
                if let Some(Role::Hop(number)) = self.roles.get(target)
                    && let Some(hop) = self.hops.get_mut(usize::from(*number) - 1)
                {
                    hop.late += 1;
                }
                Ok(())
            }
            Event::Ended { target, end } => {
                self.roles.remove(target);
                match json::failure(end) {
                    Some(why) => Err(anyhow!("{}: {why}", self.host.address)),
                    None => Ok(()),
                }
            }
            _ => Ok(()),
        }
    }

    fn rest(&mut self, _engine: &mut Engine) -> Result<()> {
        self.draw()?;
        let flushed = self.output.flush();
        flushed.context("cannot write")
    }

    fn asked(&self) {
        for line in self.report().lines() {
            complain(line);
        }
    }

    fn is_done(&self) -> bool {
        self.output.is_unread() || self.roles.is_empty()
    }
}

/// The header of the packet, and that of ICMP or UDP.
fn overhead(host: &Host) -> usize {
    const HEADER: usize = 8;
    HEADER + if host.address.is_ipv4() { 20 } else { 40 }
}

/// The router that refused a probe; our own address if this host did.
fn router(refusal: &Refusal, host: &Host) -> std::net::IpAddr {
    refusal.from.unwrap_or(match host.address.is_ipv4() {
        true => std::net::Ipv4Addr::LOCALHOST.into(),
        false => std::net::Ipv6Addr::LOCALHOST.into(),
    })
}

fn fate(outcome: &Outcome) -> Fate {
    match outcome {
        Outcome::Answered(_) => Fate::Arrived,
        Outcome::Refused(Refusal {
            kind: RefusalKind::TooBig { mtu },
            from: Some(from),
            ..
        }) => Fate::TooBig {
            from: *from,
            mtu: usize::try_from(*mtu).unwrap_or(0),
        },
        Outcome::NotSent(error) if error.raw_os_error() == Some(Errno::EMSGSIZE as i32) => {
            Fate::Refused
        }
        Outcome::Lost => Fate::Lost,
        _ => Fate::Other,
    }
}
