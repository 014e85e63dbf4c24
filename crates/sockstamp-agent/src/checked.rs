//! Find and open what the settings name outside of their file: whatever is wrong with it is
//! said before anything starts, or changes.

use anyhow::{Context, Result};
use sockstamp_bpf::Options as SessionOptions;
use sockstamp_run::escape::complain;
use tokio_rustls::rustls::sign::CertifiedKey;

use crate::config::Config;
use crate::files::{PEM, TOKEN, content};
use crate::http::tls;
use crate::otlp::client::Client;
use crate::rules::Rule;
use crate::session::session_options;
use crate::{hindsight, otlp};

/// Everything that an agent with these settings needs from files, and its target.
pub(crate) struct Checked {
    pub(crate) wanted: SessionOptions,
    /// The token that clients must have.
    pub(crate) token: Option<String>,
    /// The certificate and the key of the server.
    pub(crate) key: Option<CertifiedKey>,
    /// The way to a receiver, with its token and the authorities that are trusted.
    pub(crate) receiver: Option<Client>,
    /// The files that the receiver is from.
    pub(crate) secrets: Secrets,
}

/// The content of the files of a receiver: with another one it is another receiver.
#[derive(PartialEq, Eq)]
pub(crate) struct Secrets([Option<Vec<u8>>; 2]);

impl Secrets {
    fn of(config: &Config) -> Self {
        let table = config.otlp.as_ref();
        let files = table.map(|table| {
            [
                (table.token_file.as_deref(), TOKEN),
                (table.ca_file.as_deref(), PEM),
            ]
        });
        let files = files.unwrap_or_default();
        // The files have been read: what fails now differs.
        Self(files.map(|(file, most)| content(file?, most).ok()))
    }
}

/// Warn about a rule that may have been meant for fewer groups.
fn warn_of_rules(config: &Config) {
    let off = config.rules.iter().position(Rule::turns_all_off);
    if let Some(number) = off.map(|before| before + 1) {
        let file = config.table(&format!("[[rule]] {number}"));
        complain(format_args!(
            "{file}: it matches every group and has off = true: nothing is measured but what an earlier rule matches"
        ));
    }
}

impl Checked {
    pub(crate) fn new(config: &Config) -> Result<Self> {
        let wanted = session_options(config).with_context(|| config.table("[target]"))?;
        Self::with(config, wanted)
    }

    /// Do the same for a target that has been found before.
    pub(crate) fn with(config: &Config, wanted: SessionOptions) -> Result<Self> {
        warn_of_rules(config);
        config
            .hindsight
            .as_ref()
            .map(hindsight::check)
            .transpose()?;
        Ok(Self {
            wanted,
            token: config.token()?,
            key: config.tls.as_ref().map(tls::certified).transpose()?,
            receiver: config.otlp.as_ref().map(otlp::receiver).transpose()?,
            secrets: Secrets::of(config),
        })
    }
}
