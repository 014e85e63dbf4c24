//! Reads the settings again: first everything that may fail, then the change.

use anyhow::{Result, bail};
use sockstamp_bpf::{Options as SessionOptions, probe};
use sockstamp_run::escape::{complain, inform};
use sockstamp_run::session::Unprivileged;
use tokio_rustls::rustls::sign::CertifiedKey;

use crate::agent::{Agent, named, namer, probes, read, start_hindsight, start_sender};
use crate::checked::{Checked, Secrets};
use crate::config::Config;
use crate::hindsight::Hindsight;
use crate::otlp::Sender;
use crate::owners::Owners;
use crate::readings::Baseline;
use crate::rules::Namer;
use crate::target_watch::TargetWatch;

/// The place of what a table of the settings requests.
enum Place<T> {
    /// The table is the same.
    Stays,
    /// It is this from now on, or none.
    Gets(Option<T>),
}

/// New settings, and what they need, ready for use.
struct Prepared {
    config: Config,
    wanted: SessionOptions,
    token: Option<String>,
    key: Option<CertifiedKey>,
    secrets: Secrets,
    hindsight: Place<Hindsight>,
    sender: Place<Sender>,
    /// Another session, if it must be another one.
    measuring: Option<Unprivileged>,
}

impl Agent<'_> {
    /// Read the configuration again. If anything is wrong with it, nothing changes.
    ///
    /// # Errors
    ///
    /// If the kernel does not let the counters be read, as in any other reading of them.
    pub(crate) fn reload(&mut self) -> Result<()> {
        let prepared = read(self.options).and_then(|config| self.prepare(config));
        self.readings.reloaded(prepared.is_ok());
        match prepared {
            Ok(prepared) => {
                self.apply(prepared)?;
                inform("the configuration was read again");
            }
            Err(error) => complain(format_args!("the configuration is unchanged: {error:#}")),
        }
        Ok(())
    }

    /// Measure the target again, if it has started again: with the settings that are in force.
    pub(crate) fn follow_target(&mut self) -> Result<()> {
        if self.target.is_absent() {
            if self.target.tell() {
                complain(
                    "the cgroup of the target is gone: it is measured again once there is one",
                );
            }
            return Ok(());
        }
        match self.prepare(self.config.clone()) {
            Ok(prepared) => {
                self.apply(prepared)?;
                inform("the target has another cgroup now, which is measured");
            }
            Err(error) if self.target.tell() => {
                complain(format_args!("the target is not measured: {error:#}"));
            }
            Err(_) => {}
        }
        Ok(())
    }

    /// Do everything that may fail.
    fn prepare(&mut self, config: Config) -> Result<Prepared> {
        self.refuse_a_restart(&config)?;
        // While the target is gone, settings that need no target hold at once, and others with it.
        let waits = config.target == self.config.target && self.target.is_absent();
        let checked = match waits {
            true => Checked::with(&config, self.wanted.clone()),
            false => Checked::new(&config),
        }?;
        // Threads before the session: they have the capabilities that are in effect here, and a
        // session raises them.
        let hindsight = match config.hindsight == self.config.hindsight {
            true => Place::Stays,
            false => Place::Gets(start_hindsight(&config, &self.readings)?),
        };
        let is_same = config.otlp == self.config.otlp && checked.secrets == self.secrets;
        let sender = match is_same {
            true => Place::Stays,
            false => Place::Gets(start_sender(&config, checked.receiver, &self.readings)?),
        };
        let differs = checked.wanted != self.wanted || self.target.differs();
        let is_another = !waits && differs;
        let measuring = is_another
            .then(|| self.measure(&checked.wanted))
            .transpose()?;
        Ok(Prepared {
            config,
            wanted: checked.wanted,
            token: checked.token,
            key: checked.key,
            secrets: checked.secrets,
            hindsight,
            sender,
            measuring,
        })
    }

    /// Refuse settings that only a restart can apply.
    fn refuse_a_restart(&self, config: &Config) -> Result<()> {
        if config.listen != self.config.listen {
            bail!("a new address to listen on needs a restart");
        }
        if config.tls.is_some() != self.config.tls.is_some() {
            bail!("to begin or to end with TLS needs a restart");
        }
        if config.tls != self.config.tls {
            bail!("new file names in [tls] need a restart; new content of the same files does not");
        }
        Ok(())
    }

    /// Start another session beside the present one.
    fn measure(&mut self, wanted: &SessionOptions) -> Result<Unprivileged> {
        self.measuring.raise();
        Unprivileged::start(probe::facts(), wanted).or_else(|error| {
            self.measuring.lower()?;
            Err(error)
        })
    }

    /// Change to what is prepared.
    fn apply(&mut self, prepared: Prepared) -> Result<()> {
        let probed = probes(&self.config, &self.wanted);
        let (config, before) = (prepared.config, &self.config);
        let is_renamed = (&config.by, &config.rules) != (&before.by, &before.rules);
        if let Some(measuring) = prepared.measuring {
            self.target = TargetWatch::of(&prepared.wanted);
            self.replace(measuring)?;
        } else {
            // Settings decide about what is kept of a group.
            self.read_counters()?;
            self.measuring.session.renew_groups();
        }
        if is_renamed {
            self.readings.rename();
        }
        self.take(prepared.hindsight, prepared.sender);
        if let Some((identity, key)) = self.identity.as_ref().zip(prepared.key) {
            identity.replace(key);
        }
        self.server.set_token(prepared.token);
        self.secrets = prepared.secrets;
        self.takers.slow.set(config.page.slow);
        if config.page.slow != self.config.page.slow {
            let summary = self.readings.summary().clone();
            self.takers.findings.begin(config.page.slow, summary);
        }
        self.readings.set_limits(config.limits());
        self.names.set(named(&config));
        let probes = probes(&config, &prepared.wanted);
        if probes != probed {
            self.prober.set(probes);
        }
        self.wanted = prepared.wanted;
        self.config = config;
        self.series = None;
        Ok(())
    }

    /// Hand messages to others from now on. The old ones end in their own time.
    fn take(&mut self, hindsight: Place<Hindsight>, sender: Place<Sender>) {
        if let Place::Gets(new) = hindsight {
            let old = self.takers.hindsight.take().and_then(Hindsight::end);
            match &new {
                // Both may have the same directory.
                Some(new) => new.begin(old),
                None => self.ending.add(old),
            }
            self.takers.hindsight = new;
        }
        if let Place::Gets(new) = sender {
            let old = std::mem::replace(&mut self.takers.sender, new);
            self.ending.add(old.and_then(Sender::end));
        }
    }

    /// Change to a session that runs already. Until now the old one counted, from now on the new
    /// one does: only what passes while the old one's programs are detached is in both.
    fn replace(&mut self, new: Unprivileged) -> Result<()> {
        let old = std::mem::replace(&mut self.measuring, new);
        let baseline = Baseline::take(&mut self.measuring.session)?;
        // The old session cleans up, and the new one has dropped the capabilities.
        self.measuring.raise();
        let old = old.into_session();
        let takers = &mut self.takers;
        let last = Namer {
            waits: false,
            ..namer(&self.config, &self.names)
        };
        self.readings
            .finish(old, &last, &mut |message| takers.push(&message))?;
        self.measuring.lower()?;
        self.takers.owners = Owners::default();
        self.unnamed.clear();
        self.readings.begin(baseline);
        let summary = self.readings.summary().clone();
        self.takers
            .findings
            .begin_session(self.config.page.slow, summary);
        Ok(())
    }
}
