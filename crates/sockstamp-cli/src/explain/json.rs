//! Explanations as one JSON object, all times in nanoseconds.

use std::io::{self, Write};

use serde::Serialize;
use sockstamp_explain::{Addition, Carried, Claim, advice};
use sockstamp_model::listener::ListenerSummary;
use sockstamp_model::message::Message;
use sockstamp_print::findings;
use sockstamp_run::escape;

use super::causes::Explained;
use super::failed::Failed;
use super::told::Told;

/// Raised when a key changes its meaning or is removed.
const VERSION: u32 = 2;

pub(super) fn all(output: &mut dyn Write, told: &Told) -> io::Result<()> {
    let explanations = told.explained.iter().map(Explanation::from).collect();
    let all = All {
        version: VERSION,
        recorded_slower_than_ns: told.slow_only.map(|slow_only| slow_only.limit.0),
        diagnosis: findings::Json::new(&told.diagnosis, told.slow),
        explanations,
        failed: &told.failed,
        listeners: &told.listeners,
    };
    escape::json(&mut *output, &all)?;
    writeln!(output)?;
    output.flush()
}

#[derive(Serialize)]
struct All<'a> {
    version: u32,
    #[serde(skip_serializing_if = "Option::is_none")]
    recorded_slower_than_ns: Option<u64>,
    diagnosis: findings::Json<'a>,
    explanations: Vec<Explanation<'a>>,
    failed: &'a Failed,
    listeners: &'a [ListenerSummary],
}

#[derive(Serialize)]
struct Explanation<'a> {
    kind: &'static str,
    without_former: bool,
    messages: u64,
    p25_ns: u64,
    p50_ns: u64,
    p75_ns: u64,
    p99_ns: u64,
    percentiles_rounded: bool,
    slower_than_ns: u64,
    slow: u64,
    flows: usize,
    seconds: usize,
    excess_ns: f64,
    claim: &'static str,
    again: Option<f64>,
    needed: Option<f64>,
    components: Vec<Component>,
    slices: Vec<Slice>,
    episode: Option<Episode>,
    #[serde(skip_serializing_if = "Option::is_none")]
    advice: Option<Advice>,
    lives: &'a [Message],
}

#[derive(Serialize)]
struct Component {
    stage: &'static str,
    part: Option<&'static str>,
    norm_ns: f64,
    excess_ns: f64,
    share: f64,
    margin: Option<f64>,
    of_normal: f64,
    of_slow: f64,
    of_slow_margin: Option<f64>,
    mostly: Option<Mostly>,
}

#[derive(Serialize)]
struct Mostly {
    part: &'static str,
    share: f64,
}

#[derive(Serialize)]
struct Slice {
    dimension: &'static str,
    value: String,
    share: f64,
    margin: Option<f64>,
    beyond_chance: bool,
    of_all: f64,
    of_normal: f64,
    of_slow: f64,
    chronic: bool,
    seconds: usize,
    long_seconds: usize,
}

#[derive(Serialize)]
struct Episode {
    time_ns: u64,
    seconds: u64,
    of_seconds: u64,
    share: f64,
}

#[derive(Serialize)]
struct Advice {
    meaning: &'static str,
    check: &'static str,
    usual_cure: &'static str,
}

impl<'a> From<&'a Explained> for Explanation<'a> {
    fn from(explained: &'a Explained) -> Self {
        let explanation = &explained.explanation;
        let limits = &explanation.limits;
        let first = explanation.carried.first();
        let is_told = |claim| matches!(claim, Claim::First | Claim::Usual | Claim::Suspect);
        let first = first.filter(|_| is_told(explanation.claim));
        let advice = first.map(|first| {
            let advice = advice::of(first.named());
            Advice {
                meaning: advice.meaning,
                check: advice.check,
                usual_cure: advice.cure,
            }
        });
        Self {
            kind: explanation.kind.name(),
            without_former: explained.rest,
            messages: limits.messages,
            p25_ns: limits.p25.0,
            p50_ns: limits.p50.0,
            p75_ns: limits.p75.0,
            p99_ns: limits.p99.0,
            percentiles_rounded: limits.are_rounded,
            slower_than_ns: limits.slow.0,
            slow: explanation.slow,
            flows: explanation.flows,
            seconds: explanation.seconds,
            excess_ns: explanation.excess,
            claim: match explanation.claim {
                Claim::First => "first",
                Claim::Usual => "usual",
                Claim::Suspect => "suspect",
                Claim::Small => "small",
                Claim::NoneSlow => "none-slow",
                Claim::NoneNormal => "none-normal",
            },
            again: explanation.again,
            needed: explanation.needed,
            components: explanation.carried.iter().map(Component::from).collect(),
            slices: explained.leaders.iter().map(Slice::from).collect(),
            episode: explanation.episode.map(Episode::from),
            advice,
            lives: &explained.lives,
        }
    }
}

impl From<&Carried> for Component {
    fn from(carried: &Carried) -> Self {
        Self {
            stage: carried.component.stage.name(),
            part: carried.component.part.map(sockstamp_model::Part::name),
            norm_ns: carried.norm,
            excess_ns: carried.excess,
            share: carried.share,
            margin: carried.margin,
            of_normal: carried.of_normal,
            of_slow: carried.of_slow,
            of_slow_margin: carried.of_slow_margin,
            mostly: carried.mostly.map(|(part, share)| Mostly {
                part: part.name(),
                share,
            }),
        }
    }
}

impl From<sockstamp_explain::Episode> for Episode {
    fn from(episode: sockstamp_explain::Episode) -> Self {
        Self {
            time_ns: episode.begin.saturating_mul(1_000_000_000),
            seconds: episode.seconds,
            of_seconds: episode.of,
            share: episode.share,
        }
    }
}

impl From<&Addition> for Slice {
    fn from(addition: &Addition) -> Self {
        let (dimension, value) = addition.slice.named();
        Self {
            dimension,
            value,
            share: addition.share,
            margin: addition.margin,
            beyond_chance: addition.is_beyond_chance(),
            of_all: addition.common,
            of_normal: addition.of_normal,
            of_slow: addition.of_slow,
            chronic: addition.is_chronic(),
            seconds: addition.seconds,
            long_seconds: addition.long_seconds,
        }
    }
}
