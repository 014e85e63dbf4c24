//! The states of sockstamp, and of less than it, that traffic is compared under.

use std::process;
use std::time::Duration;

use anyhow::Result;
use sockstamp::ReceiveStamping;
use sockstamp_bpf::{EntryHook, Options, Sampling, Session, Target};
use testbed_bpf::floor::Floor;
use testbed_bpf::naive::Naive;

use crate::load::{Load, Outcome, Traffic};
use crate::program_statistics::{self, Runs};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Condition {
    /// No load.
    Off,
    /// The kernel stamps received packets, as it does while ntpd, ping or tcpdump requests it.
    Stamping,
    /// Empty programs on every hook, nothing selected.
    Empty,
    /// The same with the flow selected: the base of [`Condition::Selected`], hook by hook.
    EmptySelected,
    /// Everything is attached, for another process's flows.
    Unselected,
    /// The same without the entry of sends, which is two of the tracepoints.
    UnselectedNoEntry,
    /// The same, with the entry of sends by the callback of selected sockets.
    UnselectedCallback,
    /// Like [`Condition::Unselected`] with `--expert causes=off`: segments run one program fewer.
    UnselectedNoCauses,
    /// Both: the fewest programs that measure both directions.
    UnselectedFewest,
    /// Like `sockstamp stat`: up to 100 messages per second are measured.
    Default,
    /// The same, with the entry of sends by callback.
    DefaultCallback,
    /// Like `sockstamp stat --every`: the base of the conditions below.
    Selected,
    /// The same, with the entry of sends by callback.
    SelectedCallback,
    /// Like `sockstamp record --sample 2^K`, with one in 64 messages measured.
    InStep,
    /// The same with `--tag`.
    Tagged,
    /// No sockstamp, but a program that writes an option into every segment.
    NaiveTags,
    /// Like `sockstamp trace`: every record is read and decoded.
    Recorded,
}

impl Condition {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Off => "off",
            Self::Stamping => "stamping",
            Self::Empty => "empty",
            Self::EmptySelected => "empty-selected",
            Self::Unselected => "unselected",
            Self::UnselectedNoEntry => "unselected-no-entry",
            Self::UnselectedCallback => "unselected-callback",
            Self::UnselectedNoCauses => "unselected-no-causes",
            Self::UnselectedFewest => "unselected-fewest",
            Self::Default => "default",
            Self::DefaultCallback => "default-callback",
            Self::Selected => "selected",
            Self::SelectedCallback => "selected-callback",
            Self::InStep => "in-step",
            Self::Tagged => "tagged",
            Self::NaiveTags => "naive-tags",
            Self::Recorded => "recorded",
        }
    }

    /// Establish the condition for the load's sockets, until the result is dropped.
    pub(crate) fn enter(self, load: &Load) -> Result<State> {
        Ok(match self {
            Self::Off => State::Off,
            Self::Stamping => State::Stamping {
                _held: ReceiveStamping::enable()?,
            },
            Self::Empty => State::Floor(Box::new(Floor::attach(load.elsewhere())?)),
            Self::EmptySelected => State::Floor(Box::new(Floor::attach(load.cgroup())?)),
            Self::NaiveTags => State::Naive(Box::new(Naive::attach(load.cgroup(), None)?)),
            _ => State::Session(Box::new(self.session(load)?)),
        })
    }

    /// Run a round on a connection of its own, under this condition.
    pub(crate) fn round(
        self,
        load: &mut Load,
        traffic: Traffic,
        duration: Duration,
    ) -> Result<Outcome> {
        let mut state = self.enter(load)?;
        load.open(traffic)?;
        let outcome = load.run(duration, state.session())?;
        load.close()?;
        Ok(outcome)
    }

    fn is_selected(self) -> bool {
        !matches!(
            self,
            Self::Unselected
                | Self::UnselectedNoEntry
                | Self::UnselectedCallback
                | Self::UnselectedNoCauses
                | Self::UnselectedFewest
        )
    }

    fn session(self, load: &Load) -> Result<Session> {
        let options = Options {
            target: Target {
                cgroup: Some(load.cgroup().to_owned()),
                // We have no sockets.
                pids: if self.is_selected() {
                    Vec::new()
                } else {
                    vec![process::id()]
                },
                ..Target::default()
            },
            record: self == Self::Recorded,
            causes: !matches!(self, Self::UnselectedNoCauses | Self::UnselectedFewest),
            entry: match self {
                Self::UnselectedNoEntry => EntryHook::Off,
                Self::SelectedCallback
                | Self::UnselectedCallback
                | Self::UnselectedFewest
                | Self::DefaultCallback => EntryHook::Callback,
                _ => EntryHook::Tracepoint,
            },
            sampling: match self {
                Self::Default | Self::DefaultCallback => Sampling::RateCap(100),
                // A request has 64 bytes: one in 64.
                Self::InStep | Self::Tagged => Sampling::InStep { bits: 12, cap: 100 },
                _ => Sampling::Every,
            },
            tag: self == Self::Tagged,
            ..Options::default()
        };
        Ok(Session::start(&options)?)
    }
}

/// A condition that holds; dropping it ends it.
pub(crate) enum State {
    Off,
    Stamping { _held: ReceiveStamping },
    Floor(Box<Floor>),
    Naive(Box<Naive>),
    Session(Box<Session>),
}

impl State {
    /// Return the session, if it must be polled.
    pub(crate) fn session(&mut self) -> Option<&mut Session> {
        match self {
            Self::Session(session) => Some(session),
            _ => None,
        }
    }

    /// Return what each program has done so far.
    pub(crate) fn account(&self) -> Result<Vec<Runs>> {
        match self {
            Self::Off | Self::Stamping { .. } => Ok(Vec::new()),
            Self::Floor(floor) => program_statistics::read(&floor.programs(), "floor_"),
            Self::Naive(naive) => program_statistics::read(&naive.programs(), "naive_"),
            Self::Session(session) => program_statistics::read(&session.programs(), "on_"),
        }
    }
}
