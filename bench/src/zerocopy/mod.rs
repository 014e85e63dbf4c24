//! Measure sends without a copy, with buffers awaited after every send and after every 32: the cost
//! of learning of completions.

mod methods;
mod published;
mod setting;
mod threshold;
mod transport;

use anyhow::Result;

use crate::effort::Effort;
use crate::network::{Network, Peer};
use crate::paired::Spread;
use crate::processor::Processors;
use crate::report::{Budget, Report};

use methods::Method;
use setting::Setting;

pub(crate) use threshold::run as threshold;

pub(crate) fn run(processors: Processors, effort: Effort, report: &mut Report) -> Result<()> {
    let mut table = published::Table::default();
    for peer in [Peer::Sink, Peer::Socket] {
        let network = Network::new(peer, processors.load)?;
        for setting in Setting::all().filter(|setting| setting.peer == peer) {
            let name = setting.name();
            if !report.wants(&name) {
                continue;
            }
            let rates = setting.measure(&network, effort.rounds(8))?;
            let rates_of = |method: Method| &rates[method as usize];
            for method in Method::ALL.into_iter().skip(1) {
                let spread = Spread::of_ratios(rates_of(method), rates_of(Method::Classic));
                if method == Method::Memory {
                    table.note(setting, spread.median);
                }
                let name = format!("{name}.{}/classic", method.name());
                report.add(
                    name,
                    "×",
                    spread,
                    method.is_ours().then_some(Budget::AtLeast(1.0)),
                );
            }
            let spread = Spread::of_ratios(rates_of(Method::Memory), rates_of(Method::Never));
            let budget = (peer == Peer::Sink).then_some(Budget::AtLeast(0.95));
            report.add(format!("{name}.memory/never"), "×", spread, budget);
            let gigabits: Vec<f64> = rates[0].iter().map(|bytes| bytes * 8.0 / 1e9).collect();
            report.add(
                format!("{name}.classic"),
                "Gb/s",
                Spread::of(&gigabits),
                None,
            );
        }
    }
    report.note(&table);
    Ok(())
}
