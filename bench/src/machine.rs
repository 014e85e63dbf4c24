//! Describe the machine of the figures.

use std::fmt;
use std::fs;

use anyhow::{Context, Result};
use serde::Serialize;

use crate::processor::Processors;

/// Mitigations determine the cost of a call into a program, and out of it into a helper.
#[derive(Debug, Serialize)]
pub(crate) struct Machine {
    processors: Processors,
    model: String,
    kernel: String,
    spectre_v2: String,
}

impl Machine {
    pub(crate) fn describe(processors: Processors) -> Result<Self> {
        Ok(Self {
            processors,
            model: processor_model().unwrap_or_else(|| "unknown processor".to_owned()),
            kernel: line("/proc/sys/kernel/osrelease")?,
            spectre_v2: line("/sys/devices/system/cpu/vulnerabilities/spectre_v2")?,
        })
    }
}

impl fmt::Display for Machine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            processors:
                Processors {
                    count,
                    load,
                    sockstamp,
                },
            model,
            kernel,
            spectre_v2,
        } = self;
        write!(
            f,
            "{count} × {model}, Linux {kernel}, spectre_v2: {spectre_v2}; "
        )?;
        write!(
            f,
            "client and server on processor {load}, sockstamp on {sockstamp}"
        )
    }
}

fn line(path: &str) -> Result<String> {
    let text = fs::read_to_string(path).with_context(|| format!("cannot read {path}"))?;
    Ok(text.trim().to_owned())
}

/// The key is x86's; other architectures name the processor otherwise, or not at all.
fn processor_model() -> Option<String> {
    let text = fs::read_to_string("/proc/cpuinfo").ok()?;
    let value = text
        .lines()
        .find_map(|line| line.strip_prefix("model name"))?;
    Some(value.trim_start_matches([' ', '\t', ':']).to_owned())
}
