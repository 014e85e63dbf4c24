//! `sockstamp agent`: always on, its figures for monitoring systems.
//!
//! One thread measures, reads the counters when a client requests them, and reads the configuration
//! again on SIGHUP. [`server`] has the other one, which talks to clients. Between readings only the
//! kernel counts.

mod config;
mod figures;
mod hindsight;
mod labels;
mod names;
mod notify;
mod otlp;
mod own;
mod owners;
mod prober;
mod rules;
mod server;
mod slow;
mod snapshot;
mod tls;
mod values;

use std::io::Write;
use std::net::{SocketAddr, TcpListener};
use std::os::fd::AsFd;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use anyhow::{Context, Result, bail};
use clap::{Args, ValueEnum};
use signal_hook::consts::{SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGUSR1};
use sockstamp_bpf::plan::Plan;
use sockstamp_bpf::{
    Ceiling, DroppedCapabilities, Options as SessionOptions, Sampling, Session, drop_capabilities, probe,
};
use sockstamp_export::otlp::Origin;
use sockstamp_export::{Exposition, Format, Pieces};
use sockstamp_host::cgroup;
use sockstamp_model::clock::Nanos;
use sockstamp_model::group::GroupKey;
use tokio::sync::oneshot;

use self::config::Config;
use self::figures::Figures;
use self::hindsight::Hindsight;
use self::names::Names;
use self::notify::Notifier;
use self::otlp::Sender;
use self::owners::{Owner, Owners};
use self::prober::Prober;
use self::rules::{Namer, Rule};
use self::server::{Answer, Question, Server, Want};
use self::slow::Slow;
use self::tls::Identity;
use crate::escape::complain;
use crate::filter::FilterWords;
use crate::measure::{Signals, catch_signals, complain_of, tell_what_is_left_alone};
use crate::target::{self, Target};

/// A request to an agent that runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Action {
    /// Keep the files of the last minutes, and print their directory
    Snapshot,
}

/// Options of `agent`.
#[derive(Debug, Args)]
pub struct Options {
    /// Send this request to the running agent, at the address of --listen or of the file
    #[arg(value_enum, conflicts_with = "check")]
    pub action: Option<Action>,
    /// Read settings from this file, and reload it on SIGHUP; docs/agent.md lists them
    #[arg(long, value_name = "FILE")]
    pub config: Option<PathBuf>,
    /// Check the file of --config, and exit
    #[arg(long, requires = "config")]
    pub check: bool,
    /// Serve HTTP at this address, instead of the file's [default: 127.0.0.1:9776]
    #[arg(long, value_name = "ADDRESS:PORT")]
    pub listen: Option<SocketAddr>,
}

/// Without a scrape the counters are read this often: ended groups must not accumulate.
const UNASKED: Duration = Duration::from_secs(60);
/// New groups are looked for this often, where rules may hold for them.
const NEW_GROUPS: Duration = Duration::from_secs(1);
/// While containers are looked for, the answer is looked for this often.
const NAMES: Duration = Duration::from_millis(100);
/// Scrapes within this time get the same figures.
const FRESH: Duration = Duration::from_millis(200);

pub(crate) fn run(options: &Options) -> Result<ExitCode> {
    let config = read(options)?;
    if options.check {
        writeln!(
            std::io::stdout(),
            "{}: good",
            options.config.clone().unwrap_or_default().display()
        )
        .context("cannot write")?;
        return Ok(ExitCode::SUCCESS);
    }
    if options.action == Some(Action::Snapshot) {
        return snapshot::ask(&config);
    }
    let signals =
        catch_signals(&[SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGUSR1]).context("cannot catch signals")?;
    let wanted = session_options(&config)?;
    Plan::new(&probe::facts(), &wanted.request())?;
    let listener =
        TcpListener::bind(config.listen).with_context(|| format!("cannot listen on {}", config.listen))?;
    let address = listener.local_addr().context("cannot listen")?;
    let token = config.token()?;
    let identity = identity(&config)?;
    // First, with the capabilities that measuring drops.
    let prober = Prober::start(probes(&config, &wanted))?;
    let names = Names::start(kept_names(&config))?;
    let measuring = Measuring::start(&wanted)?;
    let figures = Figures::new(config.limits());
    let mut agent = Agent {
        hindsight: start_hindsight(&config, &figures)?,
        sender: start_sender(&config, &figures)?,
        figures,
        server: Server::start(listener, token, identity.as_ref())?,
        identity,
        slow: Slow::default(),
        owners: Owners::default(),
        names,
        unnamed: Vec::new(),
        prober,
        options,
        config,
        wanted,
        measuring,
        looked: Instant::now(),
        series: None,
        told_of_native: false,
        is_ending: false,
        notifier: Notifier::new(),
    };
    agent.slow.set(agent.config.page.slower_than);
    if !address.ip().is_loopback() {
        warn_of_the_network(&agent.config);
    }
    let scheme = agent.config.scheme();
    complain(format_args!("listening on {scheme}://{address}"));
    agent.notifier.ready();
    agent.work(signals)?;
    Ok(ExitCode::SUCCESS)
}

fn identity(config: &Config) -> Result<Option<Arc<Identity>>> {
    let table = config.tls.as_ref();
    table.map(|table| Identity::read(table).map(Arc::new)).transpose()
}

/// Warn about an agent that can be reached over the network.
fn warn_of_the_network(config: &Config) {
    match (&config.tls, &config.token_file) {
        (Some(_), Some(_)) => {}
        (Some(_), None) => {
            complain("anyone who can reach the address can read the metrics: there is no token")
        }
        (None, Some(_)) => complain("the token and the metrics cross the network without encryption"),
        (None, None) => complain(
            "anyone who can reach the address can read the metrics: there is neither encryption nor a token",
        ),
    }
}

fn start_hindsight(config: &Config, figures: &Figures) -> Result<Option<Hindsight>> {
    let table = config.hindsight.as_ref();
    table
        .map(|table| Hindsight::start(table, &figures.hindsight))
        .transpose()
}

/// Agents of a host are distinguished by their addresses.
fn start_sender(config: &Config, figures: &Figures) -> Result<Option<Sender>> {
    let table = config.otlp.as_ref();
    let instance = config.listen.port().to_string();
    table
        .map(|table| Sender::start(table, &instance, &figures.sent))
        .transpose()
}

fn read(options: &Options) -> Result<Config> {
    let config = Config::read(options.config.as_deref())?;
    Ok(Config {
        listen: options.listen.unwrap_or(config.listen),
        ..config
    })
}

fn session_options(config: &Config) -> Result<SessionOptions> {
    let table = &config.target;
    let target = Target {
        comms: table.comm.clone(),
        cgroup: table.cgroup.clone(),
        container: table.container.clone(),
        netns: table.netns.clone(),
        interface: table.interface.clone(),
        filter: FilterWords(config.filter()),
        ..Target::default()
    };
    Ok(SessionOptions {
        target: target::resolve(&target)?,
        sampling: Sampling::RateCap(config.rate_cap.get()),
        max_cost: config.max_cost.0.map(|millionths| Ceiling {
            millionths,
            windows: true,
        }),
        max_flows: config.max_flows.map(std::num::NonZeroU32::get),
        memory: u64::from(config.max_memory) << 20,
        groups: Some(config.grouped()),
        udp: config.udp,
        record: config.takes_messages(),
        slower_than: config.slower_than().map(Nanos::from),
        ..SessionOptions::default()
    })
}

fn probes(config: &Config, wanted: &SessionOptions) -> prober::Settings {
    prober::Settings {
        table: config.probe.clone(),
        target: wanted.target.clone(),
        expire: config.expire,
    }
}

/// A session, and the capabilities that it does without while it runs.
struct Measuring {
    // Dropped before the session, which needs its capabilities to clean up.
    dropped: Option<DroppedCapabilities>,
    session: Session,
}

impl Measuring {
    fn start(wanted: &SessionOptions) -> Result<Self> {
        let session = Session::start(wanted)?;
        tell_what_is_left_alone(&session, wanted)?;
        Ok(Self {
            dropped: Some(drop_capabilities()?),
            session,
        })
    }
}

struct Agent<'a> {
    options: &'a Options,
    config: Config,
    /// The settings that the session was started with.
    wanted: SessionOptions,
    measuring: Measuring,
    figures: Figures,
    /// The last minutes on disk, if they are wanted.
    hindsight: Option<Hindsight>,
    /// The way to a receiver of OpenTelemetry's protocol, if there is one.
    sender: Option<Sender>,
    /// The last slow messages, for the page.
    slow: Slow,
    owners: Owners,
    names: Names,
    /// New groups, of whose containers nothing is known yet, by their slots.
    unnamed: Vec<(u32, GroupKey)>,
    prober: Prober,
    server: Server,
    /// The certificate of the server, if it uses TLS.
    identity: Option<Arc<Identity>>,
    looked: Instant,
    /// The series of the last look.
    series: Option<Arc<Exposition>>,
    /// The log has said that a client reads classic histograms.
    told_of_native: bool,
    /// No later look will count what this one leaves.
    is_ending: bool,
    notifier: Notifier,
}

impl Agent<'_> {
    fn work(mut self, mut signals: Signals) -> Result<()> {
        loop {
            let due = self.due();
            let others = [signals.get_read().as_fd(), self.server.wake().as_fd()];
            let (hindsight, sender, slow) = (&mut self.hindsight, &mut self.sender, &mut self.slow);
            let owners = &self.owners;
            self.measuring.session.wait(Some(due), &others, &mut |message| {
                let owner = owners.of(&message);
                if let Some(hindsight) = hindsight {
                    hindsight.push(&message, owner);
                }
                if let Some(sender) = sender {
                    sender.push(&message, owner);
                }
                slow.push(&message, owner);
            })?;
            self.meet_groups()?;
            if let Some(refusal) = self.measuring.session.take_refusal() {
                complain_of(refusal);
            }
            for origin in signals.pending() {
                match origin.signal {
                    SIGHUP => self.reload(),
                    SIGUSR1 => self.snapshot(None),
                    _ => return self.end(),
                }
            }
            for question in self.server.questions() {
                self.answer(question)?;
            }
            if self.looked.elapsed() >= UNASKED {
                self.look()?;
            }
            if self.sender.as_ref().is_some_and(Sender::is_due) {
                self.send_series()?;
            }
        }
    }

    /// Apply the rules to new groups, as soon as their containers are known.
    fn meet_groups(&mut self) -> Result<()> {
        let session = &mut self.measuring.session;
        let new = session.take_new_groups();
        if new.is_empty() && self.unnamed.is_empty() {
            return Ok(());
        }
        let namer = namer(&self.config, &self.names);
        // A slot may have another group by now.
        self.unnamed
            .retain(|(slot, _)| new.iter().all(|(other, _)| slot != other));
        for (slot, key) in std::mem::take(&mut self.unnamed).into_iter().chain(new) {
            let Some(details) = namer.details(&key) else {
                self.owners.set(slot, Owner::new(&key, None, Arc::default()));
                self.unnamed.push((slot, key));
                continue;
            };
            let rule = namer.rule(&key);
            session.cap_group(slot, Rule::cap(rule))?;
            self.owners.set(slot, Owner::new(&key, rule, details));
        }
        Ok(())
    }

    /// Hand over what waited long enough, and return the time until something else is due.
    fn due(&mut self) -> Duration {
        let written = self.hindsight.as_mut().and_then(Hindsight::tick);
        self.sender.as_mut().map(Sender::tick);
        let dues = [
            written,
            self.sender.as_ref().map(Sender::wait),
            self.notifier.alive(),
        ];
        let looked = UNASKED.saturating_sub(self.looked.elapsed());
        let looked = match self.config.rules.is_empty() && !self.config.needs_details() {
            true => looked,
            // Rules hold for a new group soon, and runtimes forget containers that have ended.
            false => looked.min(NEW_GROUPS),
        };
        let looked = match self.unnamed.is_empty() {
            true => looked,
            false => looked.min(NAMES),
        };
        dues.into_iter().flatten().fold(looked, Duration::min)
    }

    /// Send the last figures.
    fn end(&mut self) -> Result<()> {
        match self.sender {
            Some(_) => {
                self.is_ending = true;
                self.look()?;
                self.send_series()
            }
            None => Ok(()),
        }
    }

    fn send_series(&mut self) -> Result<()> {
        let series = self.series()?;
        let origin = Origin {
            resource: Vec::new(),
            began: self.figures.started(),
            now: SystemTime::now(),
        };
        if let Some(sender) = &mut self.sender {
            sender.series(series, origin);
        }
        Ok(())
    }

    fn answer(&mut self, question: Question) -> Result<()> {
        // The client may have gone.
        if question.answer.is_closed() {
            return Ok(());
        }
        let answer = match question.want {
            Want::Ready => Answer::from("ready\n"),
            Want::Config => toml::to_string(&self.config)
                .context("cannot write the settings")?
                .into(),
            Want::Slow => self.slow.json().context("cannot write the slow messages")?.into(),
            Want::Metrics(format) => Answer::Series(self.metrics(format)?),
            Want::Snapshot => {
                self.snapshot(Some(question.answer));
                return Ok(());
            }
            Want::Explain => match &mut self.hindsight {
                Some(hindsight) => {
                    hindsight.explain(question.answer);
                    return Ok(());
                }
                None => Answer::from("nothing is recorded: the configuration has no [hindsight]\n"),
            },
        };
        // It may have gone just now.
        let _ = question.answer.send(answer);
        Ok(())
    }

    /// Keep the last minutes; without an answer the client learns that there are none.
    fn snapshot(&mut self, client: Option<oneshot::Sender<Answer>>) {
        match &mut self.hindsight {
            Some(hindsight) => hindsight.snapshot(client),
            None => complain("no snapshot: the configuration has no [hindsight]"),
        }
    }

    fn metrics(&mut self, format: Format) -> Result<Pieces> {
        if format == Format::OpenMetrics && !std::mem::replace(&mut self.told_of_native, true) {
            complain("Prometheus reads classic histograms: for native ones, see docs/agent.md");
        }
        Ok(format.pieces(self.series()?))
    }

    /// Return all series, as of 200 ms ago at most.
    fn series(&mut self) -> Result<Arc<Exposition>> {
        if self.series.is_none() || self.looked.elapsed() >= FRESH {
            self.look()?;
        }
        let (figures, server, prober) = (&mut self.figures, &self.server, &self.prober);
        let has_hooks = self.config.netstacklat;
        let series = self.series.get_or_insert_with(|| {
            let mut exposition = figures.exposition(server.dropped(), has_hooks);
            prober.expose(&mut exposition);
            Arc::new(exposition)
        });
        Ok(Arc::clone(series))
    }

    fn look(&mut self) -> Result<()> {
        // Series without another reader grow in place.
        self.series = None;
        let namer = Namer {
            waits: !self.is_ending,
            ..namer(&self.config, &self.names)
        };
        self.figures.look(&mut self.measuring.session, &namer)?;
        self.looked = Instant::now();
        Ok(())
    }

    /// Read the configuration again. If anything is wrong with it, nothing changes.
    fn reload(&mut self) {
        let result = self.try_reload();
        self.figures.reloaded(result.is_ok());
        match result {
            Ok(()) => complain("the configuration was read again"),
            Err(error) => complain(format_args!("the configuration is unchanged: {error:#}")),
        }
    }

    fn try_reload(&mut self) -> Result<()> {
        let config = read(self.options)?;
        if config.listen != self.config.listen {
            bail!("a new address to listen on needs a restart");
        }
        if config.token_file != self.config.token_file {
            bail!("a new token needs a restart");
        }
        if config.tls != self.config.tls {
            bail!("new file names in [tls] need a restart; new content of the same files does not");
        }
        config.hindsight.as_ref().map(hindsight::check).transpose()?;
        let key = config.tls.as_ref().map(tls::certified).transpose()?;
        let wanted = session_options(&config)?;
        let probed = probes(&self.config, &self.wanted);
        if wanted != self.wanted {
            self.replace(&wanted)?;
            self.wanted = wanted;
        }
        if config.hindsight != self.config.hindsight {
            // The old one ends first: both may have the same directory.
            self.hindsight = None;
            self.hindsight = start_hindsight(&config, &self.figures)?;
        }
        if config.otlp != self.config.otlp {
            // The new one first: it may be refused.
            self.sender = start_sender(&config, &self.figures)?;
        }
        if let Some((identity, key)) = self.identity.as_ref().zip(key) {
            identity.replace(key);
        }
        self.slow.set(config.page.slower_than);
        self.figures.set_limits(config.limits());
        self.names.keep(kept_names(&config));
        if (&config.by, &config.rules) != (&self.config.by, &self.config.rules) {
            self.look()?;
            self.figures.rename();
            self.measuring.session.renew_groups();
        }
        let probes = probes(&config, &self.wanted);
        if probes != probed {
            self.prober.set(probes);
        }
        self.config = config;
        self.series = None;
        Ok(())
    }

    /// Start a new measurement. The old session runs until the new one does; messages that both see
    /// are counted once.
    fn replace(&mut self, wanted: &SessionOptions) -> Result<()> {
        self.measuring.dropped = None;
        let started = Measuring::start(wanted);
        let old = match started {
            Ok(new) => std::mem::replace(&mut self.measuring, new),
            Err(error) => {
                self.measuring.dropped = Some(drop_capabilities()?);
                return Err(error);
            }
        };
        self.owners = Owners::default();
        self.unnamed.clear();
        let last = Namer {
            waits: false,
            ..namer(&self.config, &self.names)
        };
        self.figures.finish(old.session, &last)?;
        self.figures.begin(&mut self.measuring.session)
    }
}

/// Names are kept until series have ended, and for the look before that.
fn kept_names(config: &Config) -> Duration {
    config.expire + UNASKED * 2
}

fn namer<'a>(config: &'a Config, names: &'a Names) -> Namer<'a> {
    Namer {
        by: &config.by,
        rules: &config.rules,
        cgroups: cgroup::mount().unwrap_or_default(),
        names: Some(names).filter(|_| config.needs_details()),
        node: &names.node,
        waits: true,
    }
}
