//! The thread that measures. It reads the counters when a client requests them, and the
//! configuration again on SIGHUP. Between readings only the kernel counts.

use std::net::{SocketAddr, TcpListener};
use std::os::fd::AsFd;
use std::os::unix::net::UnixListener;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use anyhow::{Context, Result};
use nix::sys::resource::{Resource, getrlimit, setrlimit};
use signal_hook::consts::{SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGUSR1};
use sockstamp_bpf::plan::Plan;
use sockstamp_bpf::{Options as SessionOptions, probe};
use sockstamp_host::cgroup;
use sockstamp_metrics::catalogue::MAX_MEMORY;
use sockstamp_metrics::ledger::Naming;
use sockstamp_metrics::otlp::{Origin, unix_nanos};
use sockstamp_metrics::{Exposition, Format, Labels, Pieces, Value};
use sockstamp_model::group::GroupKey;
use sockstamp_model::summary::Summary;
use sockstamp_run::escape::{complain, inform, limit_lines, report_left_out};
use sockstamp_run::session::{Unprivileged, complain_of};
use sockstamp_run::signals::{self, Signals};
use tokio::sync::oneshot;

use crate::ceiling::CeilingLog;
use crate::checked::{Checked, Secrets};
use crate::config::Config;
use crate::ending::Ending;
use crate::findings::Findings;
use crate::full::FullLog;
use crate::hindsight::Hindsight;
use crate::http::local::{self, LocalSocket};
use crate::http::question::{Answer, Answered, Question, Refusal, Want};
use crate::http::server::Server;
use crate::http::tls::Identity;
use crate::names::{self, Names};
use crate::notify::Notifier;
use crate::otlp::Sender;
use crate::otlp::client::Client;
use crate::owners::{Owner, Owners};
use crate::prober::{self, Prober};
use crate::readings::Readings;
use crate::rules::{Namer, Rule};
use crate::slow::Slow;
use crate::takers::Takers;
use crate::target_watch::TargetWatch;

/// The settings of an agent.
#[derive(Debug, Clone, Default)]
pub struct Options {
    /// The file that they are in; without one, all have their defaults.
    pub config: Option<PathBuf>,
    /// The address of the HTTP server, instead of the file's.
    pub listen: Option<SocketAddr>,
}

/// Without a scrape the counters are read this often: ended groups must not accumulate.
const UNASKED: Duration = Duration::from_secs(60);
/// New groups are looked for this often, where rules may hold for them.
const NEW_GROUPS: Duration = Duration::from_secs(1);
/// While containers are looked for, the answer is read this often.
const NAMES: Duration = Duration::from_millis(100);
/// Scrapes within this time get the same figures.
const FRESH: Duration = Duration::from_millis(200);

/// Measure and serve until a signal ends the agent.
///
/// # Errors
///
/// If settings are wrong, if the kernel or its configuration lets it not measure, or if the address
/// is taken.
pub fn run(options: &Options) -> Result<()> {
    limit_lines();
    let config = read(options)?;
    let checked = Checked::new(&config)?;
    raise_descriptors();
    let signals = signals::catch(&[SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGUSR1])?;
    Plan::new(&probe::facts(), &checked.wanted.request())?;
    let listener = TcpListener::bind(config.listen)
        .with_context(|| format!("cannot listen on {}", config.listen))?;
    let address = listener.local_addr().context("cannot listen")?;
    let agent = Agent::start(options, config, checked, listener)?;
    if !address.ip().is_loopback() {
        warn_of_the_network(&agent.config);
    }
    let scheme = agent.config.scheme();
    inform(format_args!("listening on {scheme}://{address}"));
    agent.notifier.ready();
    let ended = agent.work(signals);
    report_left_out();
    ended
}

/// Find out whether an agent can have these settings.
///
/// # Errors
///
/// If something is wrong with them, or with what they name.
pub fn check(options: &Options) -> Result<()> {
    Checked::new(&read(options)?).map(|_| ())
}

/// Return all settings, those of the file and the defaults of the others, as a file has them.
///
/// # Errors
///
/// If something is wrong with the file.
pub fn settings(options: &Options) -> Result<String> {
    toml::to_string(&read(options)?).context("cannot print the settings")
}

/// Have the running agent keep the last minutes, and return their directory.
///
/// # Errors
///
/// If it does not run with these settings, or refuses.
pub fn snapshot(options: &Options) -> Result<String> {
    crate::snapshot::ask(&read(options)?)
}

/// Probes take many descriptors in each network namespace whose peers answer no echo. Measuring
/// works with what there is.
fn raise_descriptors() {
    if let Ok((_, most)) = getrlimit(Resource::RLIMIT_NOFILE) {
        let _ = setrlimit(Resource::RLIMIT_NOFILE, most, most);
    }
}

/// Listen for the owner of the agent, who needs no token. Without it, snapshots need a token.
fn listen_locally(listener: &TcpListener, has_token: bool) -> Option<(UnixListener, LocalSocket)> {
    let path = local::path(listener.local_addr().ok()?.port());
    let bound = LocalSocket::bind(path.clone());
    if let (Err(error), false) = (&bound, has_token) {
        complain(format_args!(
            "cannot listen at {}, for `sockstamp agent snapshot`: {error}",
            path.display()
        ));
    }
    bound.ok()
}

/// Warn about an agent that can be reached over the network.
fn warn_of_the_network(config: &Config) {
    match (&config.tls, &config.token_file) {
        (Some(_), Some(_)) => {}
        (Some(_), None) => {
            complain("anyone who can reach the address can read the metrics: there is no token")
        }
        (None, Some(_)) => {
            complain("the token and the metrics cross the network without encryption")
        }
        (None, None) => complain(
            "anyone who can reach the address can read the metrics: there is neither encryption nor a token",
        ),
    }
}

pub(crate) fn start_hindsight(config: &Config, readings: &Readings) -> Result<Option<Hindsight>> {
    let table = config.hindsight.as_ref();
    table
        .map(|table| Hindsight::start(table, &readings.hindsight))
        .transpose()
}

/// Agents of a host are distinguished by their addresses.
pub(crate) fn start_sender(
    config: &Config,
    receiver: Option<Client>,
    readings: &Readings,
) -> Result<Option<Sender>> {
    let instance = config.listen.port().to_string();
    let wanted = config.otlp.as_ref().zip(receiver);
    wanted
        .map(|(table, receiver)| Sender::start(table, receiver, &instance, &readings.sent))
        .transpose()
}

pub(crate) fn read(options: &Options) -> Result<Config> {
    let config = Config::read(options.config.as_deref())?;
    Ok(Config {
        listen: options.listen.unwrap_or(config.listen),
        ..config
    })
}

pub(crate) fn probes(config: &Config, wanted: &SessionOptions) -> prober::Settings {
    prober::Settings {
        table: config.probe.clone(),
        max_series: config.max_series,
        target: wanted.target.clone(),
        expire: config.expire,
        // Half is the programs' in any case.
        share: config
            .max_cost
            .0
            .map(|millionths| f64::from(millionths.get()) / 2e6),
    }
}

/// The agent, while it measures.
pub(crate) struct Agent<'a> {
    pub(crate) options: &'a Options,
    pub(crate) config: Config,
    /// The settings that the session was started with.
    pub(crate) wanted: SessionOptions,
    pub(crate) target: TargetWatch,
    pub(crate) measuring: Unprivileged,
    pub(crate) readings: Readings,
    pub(crate) takers: Takers,
    pub(crate) names: Names,
    /// New groups, of whose containers nothing is known yet, by their slots.
    pub(crate) unnamed: Vec<(u32, GroupKey)>,
    pub(crate) ending: Ending,
    pub(crate) prober: Prober,
    pub(crate) server: Server,
    /// Removed at the end.
    pub(crate) _socket: Option<LocalSocket>,
    /// The certificate of the server, if it uses TLS.
    pub(crate) identity: Option<Arc<Identity>>,
    /// Secrets of the receiver.
    pub(crate) secrets: Secrets,
    pub(crate) read_at: Instant,
    /// The series of the last reading.
    pub(crate) series: Option<Arc<Exposition>>,
    /// The log has said that a client reads classic histograms.
    pub(crate) told_of_native: bool,
    /// No later reading will count what this one leaves.
    pub(crate) is_ending: bool,
    pub(crate) ceiling: CeilingLog,
    pub(crate) full: FullLog,
    pub(crate) notifier: Notifier,
}

impl<'a> Agent<'a> {
    fn start(
        options: &'a Options,
        config: Config,
        checked: Checked,
        listener: TcpListener,
    ) -> Result<Self> {
        let identity = checked.key.map(|key| Arc::new(Identity::new(key)));
        // First, with the capabilities that measuring drops.
        let prober = Prober::start(probes(&config, &checked.wanted))?;
        let names = Names::start(named(&config))?;
        let measuring = Unprivileged::start(probe::facts(), &checked.wanted)?;
        let (local, socket) = listen_locally(&listener, checked.token.is_some()).unzip();
        let readings = Readings::new(config.limits());
        let hindsight = start_hindsight(&config, &readings)?;
        if let Some(hindsight) = &hindsight {
            hindsight.begin(None);
        }
        let mut slow = Slow::default();
        slow.set(config.page.slow);
        let mut findings = Findings::default();
        findings.begin_session(config.page.slow, Summary::default());
        Ok(Self {
            takers: Takers {
                hindsight,
                sender: start_sender(&config, checked.receiver, &readings)?,
                slow,
                findings,
                owners: Owners::default(),
            },
            names,
            unnamed: Vec::new(),
            ending: Ending::default(),
            readings,
            server: Server::start(listener, local, checked.token, identity.as_ref())?,
            _socket: socket,
            identity,
            secrets: checked.secrets,
            prober,
            options,
            config,
            target: TargetWatch::of(&checked.wanted),
            wanted: checked.wanted,
            measuring,
            read_at: Instant::now(),
            series: None,
            told_of_native: false,
            is_ending: false,
            ceiling: CeilingLog::default(),
            full: FullLog::default(),
            notifier: Notifier::new(),
        })
    }

    fn work(mut self, mut signals: Signals) -> Result<()> {
        loop {
            let due = self.due();
            let others = [signals.get_read().as_fd(), self.server.wake().as_fd()];
            let takers = &mut self.takers;
            self.measuring
                .session
                .wait(Some(due), &others, &mut |message| takers.push(&message))?;
            self.meet_groups()?;
            if self.target.is_another() {
                self.follow_target()?;
            }
            if let Some(refusal) = self.measuring.session.take_refusal() {
                complain_of(refusal);
            }
            for origin in signals.pending() {
                match origin.signal {
                    SIGHUP => self.reload()?,
                    SIGUSR1 => self.snapshot(None),
                    _ => return self.end(),
                }
            }
            for question in self.server.questions() {
                self.answer(question)?;
            }
            if self.read_at.elapsed() >= UNASKED {
                self.read_counters()?;
            }
            if self.takers.sender.as_ref().is_some_and(Sender::is_due) {
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
                self.takers.owners.set(slot, Owner::unnamed(&key));
                self.unnamed.push((slot, key));
                continue;
            };
            let rule = namer.rule(&key);
            session.cap_group(slot, Rule::cap(rule))?;
            let traced = self.config.has_traces();
            let labels = traced.then(|| Arc::new(namer.labels(&key)));
            let owner = Owner::new(&key, rule, details, labels);
            self.takers.owners.set(slot, owner);
        }
        Ok(())
    }

    /// Hand over what waited long enough, and return the time until something else is due.
    fn due(&mut self) -> Duration {
        let written = self.takers.hindsight.as_mut().and_then(Hindsight::tick);
        self.takers.sender.as_mut().map(Sender::tick);
        let dues = [
            written,
            self.takers.sender.as_ref().map(Sender::wait),
            self.notifier.alive(),
        ];
        let left = UNASKED.saturating_sub(self.read_at.elapsed());
        let left = match self.config.rules.is_empty() && !self.config.needs_details() {
            true => left,
            // Rules hold for a new group soon, and runtimes forget containers that have ended.
            false => left.min(NEW_GROUPS),
        };
        let left = match self.unnamed.is_empty() {
            true => left,
            false => left.min(NAMES),
        };
        let left = self.target.due().map_or(left, |due| left.min(due));
        dues.into_iter().flatten().fold(left, Duration::min)
    }

    /// Send the last figures.
    fn end(&mut self) -> Result<()> {
        match self.takers.sender {
            Some(_) => {
                self.is_ending = true;
                self.read_counters()?;
                self.send_series()
            }
            None => Ok(()),
        }
    }

    fn send_series(&mut self) -> Result<()> {
        let series = self.series()?;
        let origin = Origin {
            resource: Vec::new(),
            began: self.readings.started(),
            now: SystemTime::now(),
        };
        if let Some(sender) = &mut self.takers.sender {
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
            Want::Slow => self
                .takers
                .slow
                .json()
                .context("cannot write the slow messages")?
                .into(),
            Want::Findings => self.findings()?.into(),
            Want::Metrics(format) => Answer::Series(self.metrics(format)?),
            Want::Snapshot => {
                self.snapshot(Some(question.answer));
                return Ok(());
            }
            Want::Explain => {
                self.explain(question.answer);
                return Ok(());
            }
        };
        // The client may have gone just now.
        let _ = question.answer.send(Ok(answer));
        Ok(())
    }

    /// Return where time was lost in the last minutes, as JSON.
    fn findings(&mut self) -> Result<String> {
        self.series()?;
        let findings = &mut self.takers.findings;
        findings
            .json(self.readings.summary())
            .context("cannot write the findings")
    }

    /// Keep the last minutes.
    fn snapshot(&mut self, client: Option<oneshot::Sender<Answered>>) {
        if let Some(hindsight) = &mut self.takers.hindsight {
            hindsight.snapshot(client);
            return;
        }
        complain(format_args!("no snapshot: {UNRECORDED}"));
        if let Some(client) = client {
            refuse_unrecorded(client);
        }
    }

    fn explain(&mut self, client: oneshot::Sender<Answered>) {
        match &mut self.takers.hindsight {
            Some(hindsight) => hindsight.explain(client),
            None => refuse_unrecorded(client),
        }
    }

    fn metrics(&mut self, format: Format) -> Result<Pieces> {
        if format == Format::OpenMetrics && !std::mem::replace(&mut self.told_of_native, true) {
            complain(
                "Prometheus reads classic histograms: native ones need scrape_native_histograms in its \
                 settings",
            );
        }
        Ok(format.pieces(self.series()?))
    }

    /// Return all series, as of 200 ms ago at most.
    fn series(&mut self) -> Result<Arc<Exposition>> {
        if self.series.is_none() || self.read_at.elapsed() >= FRESH {
            self.read_counters()?;
        }
        let (readings, server) = (&mut self.readings, &self.server);
        let (names, prober) = (&self.names, &self.prober);
        let Takers {
            owners, findings, ..
        } = &mut self.takers;
        let has_hooks = self.config.netstacklat;
        let max_memory = u64::from(self.config.max_memory) << 20;
        let series = self.series.get_or_insert_with(|| {
            let mut exposition = readings.exposition(server.dropped(), has_hooks);
            findings.tell(readings.summary()).expose(&mut exposition);
            exposition.add_exemplars(&owners.exemplars(unix_nanos(SystemTime::now())));
            exposition.add(&MAX_MEMORY, Labels::new(), Value::Count(max_memory));
            names.expose(&mut exposition);
            prober.expose(&mut exposition);
            Arc::new(exposition)
        });
        Ok(Arc::clone(series))
    }

    pub(crate) fn read_counters(&mut self) -> Result<()> {
        // Series without another reader grow in place.
        self.series = None;
        let namer = Namer {
            waits: !self.is_ending,
            ..namer(&self.config, &self.names)
        };
        let waits = self.readings.read(&mut self.measuring.session, &namer)?;
        self.read_at = Instant::now();
        let summary = self.readings.summary();
        self.takers.findings.read(waits.as_ref(), summary);
        let lines = [
            self.ceiling.line(self.read_at, summary),
            self.full.line(self.read_at, summary),
        ];
        lines.into_iter().flatten().for_each(complain);
        Ok(())
    }
}

const UNRECORDED: &str = "nothing is recorded, because the configuration has no [hindsight]";

fn refuse_unrecorded(client: oneshot::Sender<Answered>) {
    let why = format!("{UNRECORDED}\n");
    // The client may have gone.
    let _ = client.send(Err(Refusal::unavailable(why)));
}

/// Names are kept until series have ended, and for the look before that.
pub(crate) fn named(config: &Config) -> names::Settings {
    names::Settings {
        keep: config.expire + UNASKED * 2,
        sockets: config.runtime_sockets.as_slice().into(),
    }
}

pub(crate) fn namer<'a>(config: &'a Config, names: &'a Names) -> Namer<'a> {
    Namer {
        by: &config.by,
        rules: &config.rules,
        cgroups: cgroup::mount().unwrap_or_default(),
        names: Some(names).filter(|_| config.needs_details()),
        node: &names.node,
        waits: true,
    }
}
