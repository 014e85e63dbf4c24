//! The configuration file.

pub(crate) mod fields;
mod hindsight;
mod otlp;
mod place;
mod wording;

use std::net::SocketAddr;
use std::num::NonZeroU32;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Result, anyhow};
use serde::{Deserialize, Serialize};
use sockstamp_bpf::Grouped;
use sockstamp_explain::diagnosis::Scope;
use sockstamp_metrics::ledger::Limits;
use sockstamp_model::clock::Nanos;
use sockstamp_model::filter::Filter;
use sockstamp_model::group::{Dimension, Grouping};
use sockstamp_run::escape::complain;
use sockstamp_run::max_cost::MaxCost;
use sockstamp_run::sample::Sample;

use crate::files;
use crate::rules::Rule;
use crate::rules::labels::Label;
use crate::values::listen::listen;
use crate::values::{as_text, sample, seconds, some_duration, up_to_an_hour};

use fields::{comms, cost, expiry, filter, groups, labels, memory, name, series, sockets, targets};
use place::{Setting, key_at, located, place_of};

pub(crate) use hindsight::{HindsightTable, KeepWhen};
pub(crate) use otlp::{Endpoint, OtlpTable, Protocol};

/// Characters of a token from which on it cannot be guessed.
const TOKEN_LENGTH: usize = 16;

/// All settings. Unknown keys are refused.
#[derive(Debug, Clone, PartialEq, Deserialize, Serialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct Config {
    /// The file that the settings are from.
    #[serde(skip)]
    pub(crate) file: Option<PathBuf>,
    /// The address of the HTTP server.
    #[serde(deserialize_with = "listen")]
    pub(crate) listen: SocketAddr,
    /// Clients must have the token in this file.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) token_file: Option<PathBuf>,
    /// The labels of series.
    #[serde(deserialize_with = "labels")]
    pub(crate) by: Vec<Label>,
    /// The messages that are measured.
    #[serde(deserialize_with = "sample", serialize_with = "as_text")]
    pub(crate) sample: Sample,
    /// The part of one core that measuring may cost.
    #[serde(deserialize_with = "cost", serialize_with = "as_text")]
    pub(crate) max_cost: MaxCost,
    /// Connections and UDP sockets measured at a time.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) max_flows: Option<NonZeroU32>,
    /// Megabytes of kernel memory for their state.
    #[serde(deserialize_with = "memory")]
    pub(crate) max_memory: u32,
    /// Slots for groups in the kernel.
    #[serde(deserialize_with = "groups")]
    pub(crate) max_groups: u32,
    /// Series of one metric.
    #[serde(deserialize_with = "series")]
    pub(crate) max_series: usize,
    /// Time without a message after which the series of a vanished group end.
    #[serde(deserialize_with = "expiry", serialize_with = "seconds")]
    pub(crate) expire: Duration,
    /// Measure UDP.
    pub(crate) udp: bool,
    /// Serve series by netstacklat's names as well.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub(crate) netstacklat: bool,
    /// Sockets of runtimes, which know the names of containers.
    #[serde(deserialize_with = "sockets")]
    pub(crate) runtime_sockets: Vec<PathBuf>,
    /// The messages that are measured.
    pub(crate) target: TargetTable,
    /// The identity with which the agent serves HTTPS.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) tls: Option<TlsTable>,
    /// The page that the server has.
    #[serde(skip_serializing_if = "PageTable::is_empty")]
    pub(crate) page: PageTable,
    /// The last minutes on disk.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) hindsight: Option<HindsightTable>,
    /// The receiver of OpenTelemetry's protocol.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) otlp: Option<OtlpTable>,
    /// Probes of the peers of containers.
    pub(crate) probe: ProbeTable,
    /// Labels of groups.
    #[serde(rename = "rule", skip_serializing_if = "Vec::is_empty")]
    pub(crate) rules: Vec<Rule>,
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
            sample: Sample::default(),
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
pub(crate) struct TargetTable {
    #[serde(skip_serializing_if = "Vec::is_empty", deserialize_with = "comms")]
    pub(crate) comm: Vec<String>,
    #[serde(skip_serializing_if = "Option::is_none", deserialize_with = "name")]
    pub(crate) cgroup: Option<PathBuf>,
    #[serde(skip_serializing_if = "Option::is_none", deserialize_with = "name")]
    pub(crate) container: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none", deserialize_with = "name")]
    pub(crate) netns: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none", deserialize_with = "name")]
    pub(crate) interface: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none", deserialize_with = "filter")]
    pub(crate) filter: Option<String>,
}

/// The files that the agent's identity is in, as PEM.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct TlsTable {
    /// The certificate, then those that lead from it to an authority.
    pub(crate) certificate_file: PathBuf,
    pub(crate) key_file: PathBuf,
}

/// The page.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct PageTable {
    /// Show the last messages that were slower.
    #[serde(skip_serializing_if = "Option::is_none", with = "some_duration")]
    pub(crate) slow: Option<Duration>,
}

impl PageTable {
    fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

/// Probes of the peers of containers.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, Serialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct ProbeTable {
    pub(crate) enabled: bool,
    /// Time between two probes of a peer.
    #[serde(deserialize_with = "up_to_an_hour", serialize_with = "seconds")]
    pub(crate) interval: Duration,
    /// Peers that are probed, at most.
    #[serde(deserialize_with = "targets")]
    pub(crate) max_targets: u32,
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

/// Settings that have another name now.
const RENAMED: [(&str, &str); 2] = [
    ("slower_than", "slow now"),
    ("rate_cap", "sample now: write sample = \"100/s\""),
];

/// Return the name that an unknown setting has now, if it had another one before.
fn renamed(message: &str) -> Option<String> {
    let unknown = message.strip_prefix("unknown field `")?;
    let is_it = |(before, _): &&(&str, &str)| unknown.starts_with(&format!("{before}`"));
    let (before, now) = RENAMED.iter().find(is_it)?;
    Some(format!("{before} is called {now}"))
}

impl Config {
    /// Read a file; without one, all settings have their defaults. An error names line and column.
    pub(crate) fn read(path: Option<&Path>) -> Result<Self> {
        let Some(path) = path else {
            return Ok(Self::default());
        };
        let text = files::settings(path)?;
        let config = Self::parse(&text).map_err(|error| anyhow!("{}:{error}", path.display()))?;
        Ok(Self {
            file: Some(path.to_owned()),
            ..config
        })
    }

    /// Parse the text of a file; the error begins with line and column.
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        let config: Self = toml::from_str(text).map_err(|error| {
            let at = error.span().map_or(0, |span| span.start);
            let message = renamed(error.message())
                .or_else(|| wording::of_yaml(text, at))
                .unwrap_or_else(|| wording::of_settings(error.message()));
            match key_at(text, at) {
                Some(key) if !message.starts_with(key) => {
                    located(text, at, &format!("{key}: {message}"))
                }
                _ => located(text, at, &message),
            }
        })?;
        match config.contradiction() {
            Some((setting, message)) => Err(located(text, place_of(text, setting), message)),
            None => Ok(config),
        }
    }

    /// Return a setting that another one excludes, and why.
    fn contradiction(&self) -> Option<(Setting, &'static str)> {
        let is_partial =
            |table: &HindsightTable| !table.keep_when.is_empty() && table.slow.is_some();
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
                "keep_when needs all messages: remove slow of [hindsight]",
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
    pub(crate) fn table(&self, name: &str) -> String {
        match &self.file {
            Some(file) => format!("{}: {name}", file.display()),
            None => name.to_owned(),
        }
    }

    /// The dimensions by which the kernel separates groups: also those that only rules use, and the
    /// cgroup, which shows whether a group still exists.
    pub(crate) fn grouped(&self) -> Grouped {
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
    pub(crate) fn needs_details(&self) -> bool {
        let is_detail = |label: &Label| matches!(label, Label::Detail(_));
        self.by.iter().any(is_detail)
            || self.rules.iter().any(|rule| rule.matches.needs_details())
            || (self.has_traces() && self.grouped().by.contains(Dimension::Container))
    }

    /// Return true if slow messages are sent as spans.
    pub(crate) fn has_traces(&self) -> bool {
        let table = self.otlp.as_ref();
        table.is_some_and(|table| table.slow.is_some())
    }

    /// The scheme of the addresses that the agent serves.
    pub(crate) const fn scheme(&self) -> &'static str {
        match self.tls {
            Some(_) => "https",
            None => "http",
        }
    }

    /// Read the token that clients must have; warn about one that can be guessed.
    pub(crate) fn token(&self) -> Result<Option<String>> {
        let token = files::token(self.token_file.as_deref())?;
        let length = token.as_ref().map(String::len);
        if let (Some(file), Some(length @ ..TOKEN_LENGTH)) = (&self.token_file, length) {
            complain(format_args!(
                "{}: its token can be guessed: write {TOKEN_LENGTH} characters or more, not {length}",
                file.display()
            ));
        }
        Ok(token)
    }

    /// Return the time above which messages are slow, if slow ones alone are handed over.
    pub(crate) fn slow(&self) -> Option<Duration> {
        let recorded = self.hindsight.as_ref().map(|table| table.slow);
        let sent = self.otlp.as_ref().and_then(|table| table.slow);
        let rules = self.rules.iter().map(|rule| rule.slow);
        let found = Some(self.slow_of_findings().into());
        let others = [sent, found].into_iter().chain(rules);
        let others = others.flatten().min();
        match recorded {
            Some(recorded) => {
                recorded.map(|recorded| others.map_or(recorded, |least| least.min(recorded)))
            }
            None => others,
        }
    }

    /// Return the time above which something is slow for findings.
    pub(crate) fn slow_of_findings(&self) -> Nanos {
        self.page.slow.map_or(Scope::default().slow, Nanos::from)
    }

    /// Return true if messages are shown, kept or sent one by one.
    pub(crate) fn takes_messages(&self) -> bool {
        self.hindsight.is_some()
            || self.page.slow.is_some()
            || self.otlp.as_ref().is_some_and(|table| table.slow.is_some())
    }

    pub(crate) fn limits(&self) -> Limits {
        Limits {
            series: self.max_series,
            expire: self.expire,
        }
    }

    pub(crate) fn filter(&self) -> Option<Filter> {
        self.target.filter.as_ref()?.parse().ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn refusal(text: &str) -> String {
        Config::parse(text).unwrap_err()
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
            sample = "1/8"
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
        assert_eq!(refusal("\nsample = 0\n").split(": ").next(), Some("2:10"));
        assert!(refusal("a = 1").starts_with("1:1: unknown field `a`, expected "));
        assert!(refusal("[target]\ncolour = 1").starts_with("2:1: unknown field `colour`"));
        assert!(refusal("by = [\"pid\"]").contains("pid would make series without end"));
        assert!(refusal("by = [\"port\", \"port\"]").contains("named twice"));
        let wrong = refusal("by = [\"ports\"]");
        assert!(
            wrong.starts_with("1:6: by: no dimension is named \"ports\": there is comm, "),
            "{wrong}"
        );
        let list = wrong
            .split_once("there is ")
            .map(|(_, list)| list.split(", "));
        for name in list.into_iter().flatten() {
            assert!(
                Config::parse(&format!("by = [\"{name}\"]")).is_ok(),
                "{name}"
            );
        }
        let needs = refusal("by = [\"port\"]\nnetstacklat = true");
        assert!(
            needs.starts_with("2:1: netstacklat needs \"proto\""),
            "{needs}"
        );
        assert!(Config::parse("netstacklat = true").unwrap().netstacklat);
        let relative = refusal("runtime_sockets = [\"/a\", \"b\"]");
        assert!(
            relative.starts_with("1:19: runtime_sockets: \"b\" does not begin with /"),
            "{relative}"
        );
        assert!(refusal("max_series = 3").contains("one group may need"));
        assert!(refusal("max_groups = 5000").contains("1 to 4095"));
        assert!(Config::parse("expire = \"300\"").is_ok());
        assert!(refusal("expire = \"-5s\"").contains("a number with us, ms, s, m or h"));
        assert!(refusal("[hindsight]").contains("missing field `directory`"));
        assert!(refusal("[hindsight]\ndirectory = \"/a\"\nkeep = \"0s\"").starts_with("3:8: "));
        let relative = refusal("[hindsight]\ndirectory = \"a\"");
        assert!(
            relative.starts_with("2:13: directory: \"a\" does not begin with /"),
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
                .starts_with("2:12: endpoint: \"ftp://a\" does not begin")
        );
        assert!(
            refusal("[otlp]\nendpoint = \"http://127.0.0.1:99999/x\"")
                .starts_with("2:12: endpoint: \":99999\" is no port")
        );
        assert!(refusal("[tls]\nkey_file = \"/a\"").contains("missing field `certificate_file`"));
        assert!(
            refusal("[otlp]\nendpoint = \"http://a\"\ninterval = \"0s\"").starts_with("3:12: ")
        );
        assert!(
            refusal("[otlp]\nendpoint = \"http://a\"\nprotocol = \"x\"")
                .contains("`http` or `grpc`")
        );
        assert_eq!(
            refusal("[otlp]\nendpoint = \"http://a\"\nslower_than = \"1s\""),
            "3:1: slower_than is called slow now"
        );
        for (text, place) in [
            ("rate_cap = 5", "1:1"),
            ("[[rule]]\nmatch = { port = 80 }\nrate_cap = 5", "3:1"),
        ] {
            assert_eq!(
                refusal(text),
                format!("{place}: rate_cap is called sample now: write sample = \"100/s\"")
            );
        }
        for sample in ["all", "100/s", "1/8", "2^16"] {
            let config = Config::parse(&format!("sample = \"{sample}\"")).unwrap();
            assert_eq!(config.sample.to_string(), sample);
        }
        let bare = refusal("sample = 100");
        assert!(bare.ends_with("sample: write 100/s or 1/100"), "{bare}");
        let of_rule = refusal("[[rule]]\nmatch = { port = 80 }\nsample = \"all\"");
        assert!(
            of_rule.ends_with("a rule is N/s, such as \"100/s\""),
            "{of_rule}"
        );
        assert!(refusal("[probe]\ninterval = \"0.5s\"").starts_with("2:12: "));
        assert!(refusal("[probe]\nmax_targets = 0").contains("1 to 10000"));
        assert!(refusal("max_cost = \"much\"").contains("from 0.01% to 100%"));
        assert!(refusal("listen =").starts_with("1:9: "));
    }

    #[test]
    fn settings_that_exclude_each_other_are_named_by_line_and_column() {
        let recorded = "directory = \"/a\"\nslow = \"1s\"";
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
                "1:46: keep_when needs all messages",
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
            assert_eq!(
                refusal, "2:10: expire: it is a time of 1s or longer",
                "{short}"
            );
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
