//! The configuration file.

use std::fs;
use std::net::SocketAddr;
use std::num::NonZeroU32;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result, anyhow, bail};
use serde::de::{Deserializer, Error as _};
use serde::ser::Serializer;
use serde::{Deserialize, Serialize};
use sockstamp_bpf::Grouped;
use sockstamp_metrics::ledger::{Limits, SERIES_PER_GROUP};
use sockstamp_model::filter::Filter;
use sockstamp_model::group::{Dimension, Grouping};
use sockstamp_run::max_cost::{MaxCost, max_cost};
use sockstamp_run::target::process_name;
use toml::de::DeTable;

use super::files::{TOKEN, content};
use super::hindsight::watch::KeepWhen;
use super::labels::Label;
use super::otlp::client::{Endpoint, Protocol};
use super::rules::Rule;
use super::tls::TlsTable;
use super::values::{duration, parsed, seconds, some_duration, up_to_an_hour};

/// All settings. Unknown keys are refused.
#[derive(Debug, Clone, PartialEq, Deserialize, Serialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct Config {
    /// The file that the settings are from.
    #[serde(skip)]
    pub(super) file: Option<PathBuf>,
    /// The address of the HTTP server.
    pub(super) listen: SocketAddr,
    /// Clients must have the token in this file.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) token_file: Option<PathBuf>,
    /// The labels of series.
    #[serde(deserialize_with = "labels")]
    pub(super) by: Vec<Label>,
    /// Messages measured per second, flow and direction.
    pub(super) rate_cap: NonZeroU32,
    /// The part of one core that measuring may cost.
    #[serde(deserialize_with = "cost", serialize_with = "percent")]
    pub(super) max_cost: MaxCost,
    /// Connections and UDP sockets measured at a time.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) max_flows: Option<NonZeroU32>,
    /// Megabytes of kernel memory for their state.
    #[serde(deserialize_with = "memory")]
    pub(super) max_memory: u32,
    /// Slots for groups in the kernel.
    #[serde(deserialize_with = "groups")]
    pub(super) max_groups: u32,
    /// Series of one metric.
    #[serde(deserialize_with = "series")]
    pub(super) max_series: usize,
    /// Time without a message after which the series of a vanished group end.
    #[serde(deserialize_with = "expiry", serialize_with = "seconds")]
    pub(super) expire: Duration,
    /// Measure UDP.
    pub(super) udp: bool,
    /// Serve series by netstacklat's names as well.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub(super) netstacklat: bool,
    /// Sockets of runtimes, which know the names of containers.
    #[serde(deserialize_with = "sockets")]
    pub(super) runtime_sockets: Vec<PathBuf>,
    /// The messages that are measured.
    pub(super) target: TargetTable,
    /// The identity with which the agent serves HTTPS.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) tls: Option<TlsTable>,
    /// The page that the server has.
    #[serde(skip_serializing_if = "PageTable::is_empty")]
    pub(super) page: PageTable,
    /// The last minutes on disk.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) hindsight: Option<HindsightTable>,
    /// The receiver of OpenTelemetry's protocol.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) otlp: Option<OtlpTable>,
    /// Probes of the peers of containers.
    pub(super) probe: ProbeTable,
    /// Labels of groups.
    #[serde(rename = "rule", skip_serializing_if = "Vec::is_empty")]
    pub(super) rules: Vec<Rule>,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            file: None,
            listen: SocketAddr::from(([127, 0, 0, 1], 9776)),
            token_file: None,
            by: [Dimension::Container, Dimension::Proto]
                .map(Label::Dimension)
                .to_vec(),
            rate_cap: NonZeroU32::new(100).unwrap_or(NonZeroU32::MIN),
            max_cost: MaxCost::ONE_PERCENT,
            max_flows: None,
            max_memory: 256,
            max_groups: 1000,
            max_series: 100_000,
            expire: Duration::from_secs(300),
            udp: true,
            netstacklat: false,
            runtime_sockets: RUNTIME_SOCKETS.map(PathBuf::from).to_vec(),
            target: TargetTable::default(),
            tls: None,
            page: PageTable::default(),
            hindsight: None,
            otlp: None,
            probe: ProbeTable::default(),
            rules: Vec::new(),
        }
    }
}

/// The sockets of containerd, of CRI-O, and of the containerd in k3s.
const RUNTIME_SOCKETS: [&str; 3] = [
    "/run/containerd/containerd.sock",
    "/run/crio/crio.sock",
    "/run/k3s/containerd/containerd.sock",
];

/// The target, as the options of `stat` name it.
#[derive(Debug, Clone, Default, PartialEq, Deserialize, Serialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct TargetTable {
    #[serde(skip_serializing_if = "Vec::is_empty", deserialize_with = "comms")]
    pub(super) comm: Vec<String>,
    #[serde(skip_serializing_if = "Option::is_none", deserialize_with = "name")]
    pub(super) cgroup: Option<PathBuf>,
    #[serde(skip_serializing_if = "Option::is_none", deserialize_with = "name")]
    pub(super) container: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none", deserialize_with = "name")]
    pub(super) netns: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none", deserialize_with = "name")]
    pub(super) interface: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none", deserialize_with = "filter")]
    pub(super) filter: Option<String>,
}

/// The page.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct PageTable {
    /// Show the last messages that took as long.
    #[serde(skip_serializing_if = "Option::is_none", with = "some_duration")]
    pub(super) slower_than: Option<Duration>,
}

impl PageTable {
    fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

/// The recording of the last minutes.
#[derive(Debug, Clone, PartialEq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub(super) struct HindsightTable {
    #[serde(deserialize_with = "directory")]
    pub(super) directory: PathBuf,
    #[serde(
        default = "ten_minutes",
        deserialize_with = "kept",
        serialize_with = "seconds"
    )]
    pub(super) keep: Duration,
    /// Megabytes of all files but those of snapshots.
    #[serde(default = "half_a_gigabyte", deserialize_with = "megabytes")]
    pub(super) max_size: u32,
    /// Megabytes that the file system keeps free.
    #[serde(default = "half_a_gigabyte", deserialize_with = "megabytes")]
    pub(super) min_free: u32,
    /// Only messages that took longer.
    #[serde(
        default,
        skip_serializing_if = "Option::is_none",
        with = "some_duration"
    )]
    pub(super) slower_than: Option<Duration>,
    /// Conditions at which a snapshot is taken.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(super) keep_when: Vec<KeepWhen>,
}

/// Probes of the peers of containers.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, Serialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct ProbeTable {
    pub(super) enabled: bool,
    /// Time between two probes of a peer.
    #[serde(deserialize_with = "up_to_an_hour", serialize_with = "seconds")]
    pub(super) interval: Duration,
    /// Peers that are probed, at most.
    #[serde(deserialize_with = "targets")]
    pub(super) max_targets: u32,
}

impl Default for ProbeTable {
    fn default() -> Self {
        Self {
            enabled: true,
            interval: Duration::from_secs(10),
            max_targets: 100,
        }
    }
}

/// The receiver of OpenTelemetry's protocol.
#[derive(Debug, Clone, PartialEq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub(super) struct OtlpTable {
    #[serde(deserialize_with = "parsed", serialize_with = "printed")]
    pub(super) endpoint: Endpoint,
    #[serde(default)]
    pub(super) protocol: Protocol,
    /// Time between series and series.
    #[serde(
        default = "one_minute",
        deserialize_with = "up_to_an_hour",
        serialize_with = "seconds"
    )]
    pub(super) interval: Duration,
    /// The receiver wants the token in this file.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) token_file: Option<PathBuf>,
    /// The receiver's certificate comes from an authority in this file.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) ca_file: Option<PathBuf>,
    /// Messages that took as long are sent as spans.
    #[serde(
        default,
        skip_serializing_if = "Option::is_none",
        with = "some_duration"
    )]
    pub(super) slower_than: Option<Duration>,
    /// Messages sent per second, at most.
    #[serde(default = "ten", deserialize_with = "spans")]
    pub(super) spans_per_second: u32,
}

const fn one_minute() -> Duration {
    Duration::from_secs(60)
}

const fn ten() -> u32 {
    10
}

const fn ten_minutes() -> Duration {
    Duration::from_secs(600)
}

const fn half_a_gigabyte() -> u32 {
    512
}

#[cfg(test)]
impl HindsightTable {
    /// All settings but this have their defaults.
    pub(super) fn in_directory(directory: &Path) -> Self {
        Self {
            directory: directory.to_owned(),
            keep: ten_minutes(),
            max_size: half_a_gigabyte(),
            min_free: half_a_gigabyte(),
            slower_than: None,
            keep_when: Vec::new(),
        }
    }
}

/// The path of a setting: the tables that it is in, and its key.
type Setting = &'static [&'static str];

impl Config {
    /// Read a file; without one, all settings have their defaults. An error names line and column.
    pub(super) fn read(path: Option<&Path>) -> Result<Self> {
        let Some(path) = path else {
            return Ok(Self::default());
        };
        let text =
            fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))?;
        let config = Self::parse(&text).map_err(|error| anyhow!("{}:{error}", path.display()))?;
        Ok(Self {
            file: Some(path.to_owned()),
            ..config
        })
    }

    /// Parse the text of a file; the error begins with line and column.
    fn parse(text: &str) -> Result<Self, String> {
        let config: Self = toml::from_str(text).map_err(|error| {
            let at = error.span().map_or(0, |span| span.start);
            located(text, at, error.message())
        })?;
        match config.contradiction() {
            Some((setting, message)) => Err(located(text, place_of(text, setting), message)),
            None => Ok(config),
        }
    }

    /// Return a setting that another one excludes, and why.
    fn contradiction(&self) -> Option<(Setting, &'static str)> {
        let is_partial =
            |table: &HindsightTable| !table.keep_when.is_empty() && table.slower_than.is_some();
        let is_plain =
            |table: &OtlpTable| table.ca_file.is_some() && !table.endpoint.is_encrypted();
        if self.netstacklat && !self.by.contains(&Label::Dimension(Dimension::Proto)) {
            return Some((
                &["netstacklat"],
                "netstacklat needs \"proto\" in by: names of hooks begin with the protocol",
            ));
        }
        if self.hindsight.as_ref().is_some_and(is_partial) {
            return Some((
                &["hindsight", "keep_when"],
                "keep_when needs all messages: remove slower_than of [hindsight]",
            ));
        }
        if self.otlp.as_ref().is_some_and(is_plain) {
            return Some((
                &["otlp", "ca_file"],
                "ca_file of [otlp] needs an endpoint that begins with https://",
            ));
        }
        None
    }

    /// Name a table and its file, for errors that are found after the file was read.
    pub(super) fn table(&self, name: &str) -> String {
        match &self.file {
            Some(file) => format!("{}: {name}", file.display()),
            None => name.to_owned(),
        }
    }

    /// The dimensions by which the kernel separates groups: also those that only rules use, and the
    /// cgroup, which shows whether a group still exists.
    pub(super) fn grouped(&self) -> Grouped {
        let looked_at = self.rules.iter().flat_map(|rule| rule.matches.dimensions());
        let labelled = self.by.iter().filter_map(|label| label.dimension());
        let wanted = labelled.chain(looked_at);
        Grouped {
            limit: self.max_groups,
            keep_ended: true,
            ..Grouped::by(Grouping::with(Dimension::Cgroup, wanted))
        }
    }

    /// Return true if something depends on the names of containers.
    pub(super) fn needs_details(&self) -> bool {
        let is_detail = |label: &Label| matches!(label, Label::Detail(_));
        self.by.iter().any(is_detail)
            || self.rules.iter().any(|rule| rule.matches.needs_details())
            || (self.has_traces() && self.grouped().by.contains(Dimension::Container))
    }

    /// Return true if slow messages are sent as spans.
    pub(super) fn has_traces(&self) -> bool {
        let table = self.otlp.as_ref();
        table.is_some_and(|table| table.slower_than.is_some())
    }

    /// The scheme of the addresses that the agent serves.
    pub(super) const fn scheme(&self) -> &'static str {
        match self.tls {
            Some(_) => "https",
            None => "http",
        }
    }

    /// Read the token that clients must have.
    pub(super) fn token(&self) -> Result<Option<String>> {
        token(self.token_file.as_deref())
    }

    /// Return the time that messages must have taken to be handed over one by one, if they are.
    pub(super) fn slower_than(&self) -> Option<Duration> {
        let recorded = self.hindsight.as_ref().map(|table| table.slower_than);
        let sent = self.otlp.as_ref().and_then(|table| table.slower_than);
        let wanted = self.takes_messages();
        let rules = self
            .rules
            .iter()
            .filter(|_| wanted)
            .map(|rule| rule.slower_than);
        let others = [sent, self.page.slower_than].into_iter().chain(rules);
        let others = others.flatten().min();
        match recorded {
            Some(recorded) => {
                recorded.map(|recorded| others.map_or(recorded, |least| least.min(recorded)))
            }
            None => others,
        }
    }

    /// Return true if messages are handed over one by one.
    pub(super) fn takes_messages(&self) -> bool {
        self.hindsight.is_some()
            || self.page.slower_than.is_some()
            || self
                .otlp
                .as_ref()
                .is_some_and(|table| table.slower_than.is_some())
    }

    pub(super) fn limits(&self) -> Limits {
        Limits {
            series: self.max_series,
            expire: self.expire,
        }
    }

    pub(super) fn filter(&self) -> Option<Filter> {
        self.target.filter.as_ref()?.parse().ok()
    }
}

/// Put line and column of a byte before a message. Columns count characters.
fn located(text: &str, at: usize, message: &str) -> String {
    let before = text.get(..at.min(text.len())).unwrap_or_default();
    let line = before.matches('\n').count() + 1;
    let last = before.rsplit('\n').next().unwrap_or_default();
    let column = last.chars().count() + 1;
    format!("{line}:{column}: {}", message.trim())
}

/// Return the byte at which the key of a setting begins.
fn place_of(text: &str, setting: Setting) -> usize {
    let document = DeTable::parse(text).ok();
    let place = document.and_then(|document| place_in(document.get_ref(), setting));
    place.unwrap_or_default()
}

fn place_in(table: &DeTable<'_>, setting: Setting) -> Option<usize> {
    let (&name, below) = setting.split_first()?;
    let (key, value) = table.get_key_value(name)?;
    match below.is_empty() {
        true => Some(key.span().start),
        false => place_in(value.get_ref().as_table()?, below),
    }
}

/// Read the token in a file.
pub(super) fn token(path: Option<&Path>) -> Result<Option<String>> {
    let Some(path) = path else {
        return Ok(None);
    };
    let content = content(path, TOKEN)?;
    let token = str::from_utf8(&content).unwrap_or_default().trim();
    if token.is_empty() || !token.bytes().all(|byte| byte.is_ascii_graphic()) {
        bail!(
            "{} has no token: write one line of visible characters",
            path.display()
        );
    }
    Ok(Some(token.to_owned()))
}

fn labels<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<Label>, D::Error> {
    let names = Vec::<String>::deserialize(deserializer)?;
    let mut labels = Vec::new();
    for name in names {
        match name.parse().map_err(D::Error::custom)? {
            refused @ Label::Dimension(Dimension::Pid | Dimension::Flow) => {
                return Err(D::Error::custom(format!(
                    "{refused} would make series without end: use comm, port or peer"
                )));
            }
            label if labels.contains(&label) => {
                return Err(D::Error::custom(format!("{label} is named twice")));
            }
            label => labels.push(label),
        }
    }
    Ok(labels)
}

fn within<'de, D: Deserializer<'de>>(
    deserializer: D,
    least: u32,
    most: u32,
) -> Result<u32, D::Error> {
    let value = u32::deserialize(deserializer)?;
    match (least..=most).contains(&value) {
        true => Ok(value),
        false => Err(D::Error::custom(format!(
            "it is a number from {least} to {most}"
        ))),
    }
}

fn expiry<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Duration, D::Error> {
    let expire = duration(deserializer)?;
    match expire >= Duration::from_secs(1) {
        true => Ok(expire),
        // Series would end before a scrape.
        false => Err(D::Error::custom("it is a time of 1s or longer")),
    }
}

fn cost<'de, D: Deserializer<'de>>(deserializer: D) -> Result<MaxCost, D::Error> {
    max_cost(&String::deserialize(deserializer)?).map_err(D::Error::custom)
}

#[expect(
    clippy::trivially_copy_pass_by_ref,
    reason = "the signature that serde wants"
)]
fn percent<S: Serializer>(cost: &MaxCost, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_str(cost)
}

fn memory<'de, D: Deserializer<'de>>(deserializer: D) -> Result<u32, D::Error> {
    within(deserializer, 1, 65_536)
}

fn groups<'de, D: Deserializer<'de>>(deserializer: D) -> Result<u32, D::Error> {
    within(deserializer, 1, Grouped::LIMIT)
}

fn series<'de, D: Deserializer<'de>>(deserializer: D) -> Result<usize, D::Error> {
    let series = usize::deserialize(deserializer)?;
    match series >= SERIES_PER_GROUP {
        true => Ok(series),
        false => Err(D::Error::custom(format!(
            "one group may need {SERIES_PER_GROUP} series"
        ))),
    }
}

fn kept<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Duration, D::Error> {
    let kept = duration(deserializer)?;
    match (1..=86_400).contains(&kept.as_secs()) {
        true => Ok(kept),
        false => Err(D::Error::custom("it is a time from 1s to 1440m")),
    }
}

fn spans<'de, D: Deserializer<'de>>(deserializer: D) -> Result<u32, D::Error> {
    within(deserializer, 1, 10_000)
}

fn targets<'de, D: Deserializer<'de>>(deserializer: D) -> Result<u32, D::Error> {
    within(deserializer, 1, 10_000)
}

fn printed<S: Serializer>(
    value: &impl std::fmt::Display,
    serializer: S,
) -> Result<S::Ok, S::Error> {
    serializer.collect_str(value)
}

fn megabytes<'de, D: Deserializer<'de>>(deserializer: D) -> Result<u32, D::Error> {
    within(deserializer, 1, 1 << 24)
}

fn sockets<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<PathBuf>, D::Error> {
    let paths = Vec::<PathBuf>::deserialize(deserializer)?;
    paths.into_iter().map(absolute).collect()
}

fn directory<'de, D: Deserializer<'de>>(deserializer: D) -> Result<PathBuf, D::Error> {
    absolute(PathBuf::deserialize(deserializer)?)
}

/// Refuse a path whose meaning depends on the directory that the agent is started in.
fn absolute<E: serde::de::Error>(path: PathBuf) -> Result<PathBuf, E> {
    match path.is_absolute() {
        true => Ok(path),
        false => Err(E::custom(format!("{path:?} does not begin with /"))),
    }
}

/// Read a name or path.
fn name<'de, D: Deserializer<'de>, T: From<String>>(
    deserializer: D,
) -> Result<Option<T>, D::Error> {
    let text = String::deserialize(deserializer)?;
    match text.is_empty() {
        true => Err(D::Error::custom(
            "it is empty: write a name, or remove the key",
        )),
        false => Ok(Some(text.into())),
    }
}

fn comms<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<String>, D::Error> {
    let names = Vec::<String>::deserialize(deserializer)?;
    let checked = names.iter().map(|name| process_name(name));
    checked.collect::<Result<_, _>>().map_err(D::Error::custom)
}

fn filter<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<String>, D::Error> {
    let text = String::deserialize(deserializer)?;
    match text.parse::<Filter>() {
        Ok(_) => Ok(Some(text)),
        // Leave out the lines that draw the place: a log has one line per error.
        Err(error) => Err(D::Error::custom(format!(
            "filter, column {}: {}",
            error.column(),
            error.problem()
        ))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn refusal(text: &str) -> String {
        Config::parse(text).unwrap_err()
    }

    /// Messages are sampled: the first datagram need not be among them.
    #[test]
    fn messages_that_are_handed_over_attach_no_program_at_the_start() {
        for text in [
            "",
            "[page]\nslower_than = \"5ms\"",
            "[hindsight]\ndirectory = \"/a\"",
            "[otlp]\nendpoint = \"http://a\"\nslower_than = \"5ms\"",
        ] {
            let config = Config::parse(text).unwrap();
            let options = super::super::session_options(&config).unwrap();
            assert_eq!(options.record, !text.is_empty(), "{text}");
            assert!(options.request().on_demand, "{text}");
        }
    }

    #[test]
    fn an_empty_file_has_the_defaults_and_the_printed_one_reads_back() {
        let config = Config::parse("").unwrap();
        assert_eq!(config, Config::default());
        assert_eq!(
            config.listen.to_string(),
            "127.0.0.1:9776",
            "as the help says"
        );
        let text = r#"
            listen = "[::1]:0"
            by = ["container", "comm", "port", "image", "node"]
            rate_cap = 10
            max_cost = "0.5%"
            expire = "1.5m"
            [target]
            filter = "tcp and not port 22"
            [hindsight]
            directory = "/var/lib/sockstamp"
            keep = "5m"
            [[hindsight.keep_when]]
            stage = "rx.app"
            above = "100ms"
            [probe]
            enabled = false
            interval = "2s"
            [[rule]]
            match = { container = "nginx*", port = "80-443", peer = "10.0.0.0/8" }
            labels = { team = "web" }
        "#;
        let config = Config::parse(text).unwrap();
        assert_eq!(config.expire, Duration::from_secs(90));
        assert_eq!(
            Config::parse(&toml::to_string(&config).unwrap()).unwrap(),
            config
        );
        let grouped = config.grouped();
        assert_eq!(grouped.by.to_string(), "comm,cgroup,container,port,peer");
        assert!(config.needs_details() && !Config::default().needs_details());
        let by_pod = Config::parse("by = [\"pod\"]").unwrap();
        assert_eq!(by_pod.grouped().by.to_string(), "cgroup,container");
        let matched = Config::parse("[[rule]]\nmatch = { image = \"nginx*\" }").unwrap();
        assert!(matched.needs_details());
    }

    #[test]
    fn mistakes_are_named_by_line_and_column() {
        assert_eq!(refusal("\nrate_cap = 0\n").split(": ").next(), Some("2:12"));
        assert!(refusal("a = 1").starts_with("1:1: unknown field `a`, expected "));
        assert!(refusal("[target]\ncolour = 1").starts_with("2:1: unknown field `colour`"));
        assert!(refusal("by = [\"pid\"]").contains("pid would make series without end"));
        assert!(refusal("by = [\"port\", \"port\"]").contains("named twice"));
        assert!(refusal("by = [\"ports\"]").contains("no dimension is named \"ports\""));
        let needs = refusal("by = [\"port\"]\nnetstacklat = true");
        assert!(
            needs.starts_with("2:1: netstacklat needs \"proto\""),
            "{needs}"
        );
        assert!(Config::parse("netstacklat = true").unwrap().netstacklat);
        let relative = refusal("runtime_sockets = [\"/a\", \"b\"]");
        assert!(
            relative.starts_with("1:19: \"b\" does not begin with /"),
            "{relative}"
        );
        assert!(refusal("max_series = 3").contains("one group may need"));
        assert!(refusal("max_groups = 5000").contains("1 to 4095"));
        assert!(refusal("expire = \"5\"").contains("needs a unit"));
        assert!(refusal("expire = \"-5s\"").contains("a number with ms, s or m"));
        assert!(refusal("[hindsight]").contains("missing field `directory`"));
        assert!(refusal("[hindsight]\ndirectory = \"/a\"\nkeep = \"0s\"").starts_with("3:8: "));
        let relative = refusal("[hindsight]\ndirectory = \"a\"");
        assert!(
            relative.starts_with("2:13: \"a\" does not begin with /"),
            "{relative}"
        );
        let filter = refusal("[target]\nfilter = \"port x\"");
        assert!(
            filter.starts_with("2:10: filter, column 6: expected ") && !filter.contains('\n'),
            "{filter}"
        );
        assert!(refusal("[target]\ncomm = [\"sixteen-letters-\"]").contains("15 bytes"));
        assert!(
            refusal("[otlp]\nendpoint = \"ftp://a\"")
                .starts_with("2:12: \"ftp://a\" does not begin")
        );
        assert!(
            refusal("[otlp]\nendpoint = \"http://127.0.0.1:99999/x\"")
                .starts_with("2:12: \":99999\" is no port")
        );
        assert!(refusal("[tls]\nkey_file = \"/a\"").contains("missing field `certificate_file`"));
        assert!(
            refusal("[otlp]\nendpoint = \"http://a\"\ninterval = \"0s\"").starts_with("3:12: ")
        );
        assert!(
            refusal("[otlp]\nendpoint = \"http://a\"\nprotocol = \"x\"")
                .contains("`http` or `grpc`")
        );
        assert!(refusal("[probe]\ninterval = \"0.5s\"").starts_with("2:12: "));
        assert!(refusal("[probe]\nmax_targets = 0").contains("1 to 10000"));
        assert!(refusal("max_cost = \"much\"").contains("from 0.01% to 100%"));
        assert!(refusal("listen =").starts_with("1:9: "));
    }

    #[test]
    fn settings_that_exclude_each_other_are_named_by_line_and_column() {
        let recorded = "directory = \"/a\"\nslower_than = \"1s\"";
        let condition = "stage = \"rx.app\", above = \"1s\"";
        let rows = condition.replace(", ", "\n");
        for (text, place) in [
            (
                format!("[hindsight]\n{recorded}\n[[hindsight.keep_when]]\n{rows}"),
                "4:13: keep_when needs all messages",
            ),
            (
                format!("[[ hindsight.\"keep_when\" ]]\n{rows}\n[hindsight]\n{recorded}"),
                "1:14: keep_when needs all messages",
            ),
            (
                format!("[hindsight]\n{recorded}\nkeep_when = [{{ {condition} }}]"),
                "4:1: keep_when needs all messages",
            ),
            (
                format!(
                    "hindsight = {{ {}, keep_when = [{{ {condition} }}] }}",
                    recorded.replace('\n', ", ")
                ),
                "1:53: keep_when needs all messages",
            ),
            (
                "by = [\"port\"]\n  \"netstacklat\" = true".to_owned(),
                "2:3: netstacklat needs",
            ),
            (
                "[otlp]\nendpoint = \"http://a\"\nca_file = \"/a\"".to_owned(),
                "3:1: ca_file of [otlp] needs an endpoint",
            ),
        ] {
            let refusal = refusal(&text);
            assert!(refusal.starts_with(place), "{text}: {refusal}");
        }
    }

    #[test]
    fn series_live_for_a_second_or_longer() {
        for short in ["0s", "0ms", "0.9s", "999ms"] {
            let refusal = refusal(&format!("\nexpire = \"{short}\""));
            assert_eq!(refusal, "2:10: it is a time of 1s or longer", "{short}");
        }
        assert!(Config::parse("expire = \"1s\"").is_ok());
    }

    #[test]
    fn names_of_a_target_are_not_empty() {
        for key in ["cgroup", "container", "netns", "interface"] {
            let refusal = refusal(&format!("[target]\n{key} = \"\""));
            assert!(refusal.starts_with("2:"), "{refusal}");
            assert!(refusal.contains("it is empty: write a name"), "{refusal}");
        }
        assert!(refusal("[target]\ncomm = [\"\"]").contains("a process has a name"));
        assert!(refusal("[target]\nfilter = \"\"").contains("found the end"));
    }
}
