//! The sampler alone, on messages of known number, times and values.

use anyhow::{Context, Result, ensure};
use libbpf_rs::skel::OpenSkel;
use libbpf_rs::{ProgramInput, ProgramMut};
use sockstamp_bpf::opening;

use crate::skeleton::sample::{OpenSampleSkel, SampleSkelBuilder};

/// Messages in three thirds, of which the middle one is a burst: eight times as many per second.
#[derive(Debug, Clone, Copy)]
pub struct Population {
    /// Their number.
    pub messages: u64,
    /// The time between two of them outside the burst.
    pub interval_ns: u64,
    /// The value of message `i` is `i % period`.
    pub period: u64,
}

/// The measured messages, and figures of all as estimated from them.
#[derive(Debug, Clone, Copy)]
pub struct Estimate {
    /// The number that was measured.
    pub measured: u64,
    /// Messages by weight, as all below.
    pub messages: u64,
    /// The sum of their values.
    pub values: u64,
    /// Messages with a value in the lower half.
    pub low: u64,
    /// The weight of one message.
    pub largest: u64,
}

/// Measure a population with a cap of messages per second and one of so many; 0: none.
///
/// # Errors
///
/// If the kernel refuses.
pub fn estimate(rate_cap: u32, one_of: u32, population: Population) -> Result<Estimate> {
    let mut open = open()?;
    let settings = open.maps.rodata_data.as_mut().context("no settings")?;
    settings.setting_rate_cap = rate_cap;
    settings.setting_sample = one_of;
    let bss = open.maps.bss_data.as_mut().context("no data")?;
    bss.population.messages = population.messages;
    bss.population.interval_ns = population.interval_ns;
    bss.population.period = population.period;
    let skeleton = open.load().context("cannot load the sampler")?;
    run(&skeleton.progs.sample_population)?;
    let found = &skeleton.maps.bss_data.as_ref().context("no data")?.estimate;
    Ok(Estimate {
        measured: found.measured,
        messages: found.messages,
        values: found.values,
        low: found.low,
        largest: found.largest,
    })
}

/// Return the weights of consecutive messages of a stream from the byte `first` on, of which those
/// are chosen that have a multiple of 2^bits: 0 for the others.
///
/// # Errors
///
/// If the kernel refuses, or there are too many messages.
pub fn choose(bits: u32, first: u32, lengths: &[u32]) -> Result<Vec<u32>> {
    let mut open = open()?;
    open.maps
        .rodata_data
        .as_mut()
        .context("no settings")?
        .setting_in_step = 1 << bits;
    let stream = &mut open.maps.bss_data.as_mut().context("no data")?.stream;
    ensure!(lengths.len() <= stream.starts.len(), "too many messages");
    stream.count = u32::try_from(lengths.len())?;
    let mut start = first;
    for (slot, length) in lengths.iter().enumerate() {
        stream.starts[slot] = start;
        start = start.wrapping_add(*length);
        stream.ends[slot] = start;
    }
    let skeleton = open.load().context("cannot load the sampler")?;
    run(&skeleton.progs.sample_stream)?;
    let weights = &skeleton
        .maps
        .bss_data
        .as_ref()
        .context("no data")?
        .stream
        .weights;
    Ok(weights[..lengths.len()].to_vec())
}

fn open() -> Result<OpenSampleSkel<'static>> {
    Ok(opening::open(SampleSkelBuilder::default())?)
}

fn run(program: &ProgramMut<'_>) -> Result<()> {
    let run = program.test_run(ProgramInput::default())?;
    ensure!(
        run.return_value == 0,
        "the sampler returned {}",
        run.return_value
    );
    Ok(())
}
