//! Examples of what a distribution counts: messages that have a trace.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use sockstamp_model::clock::Nanos;
use sockstamp_model::message::Message;
use sockstamp_model::stage::{Direction, Stage, StageMap};

use crate::catalogue::{MESSAGE, Metric, STAGE};
use crate::labels::Labels;
use crate::wire::Fields;

/// An older one says little of the present.
const AGE: Duration = Duration::from_secs(600);

/// The names of a span, as OpenTelemetry has them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TraceContext {
    /// The trace.
    pub trace: [u8; 16],
    /// The span of the message within it.
    pub span: [u8; 8],
}

/// The last messages of a group in one direction that have a trace: of all, and with each stage.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Traced {
    /// A connection has no whole time.
    whole: Option<Exemplar>,
    stages: StageMap<Option<Exemplar>>,
}

impl Traced {
    /// Keep what distributions count of a message.
    pub fn add(&mut self, message: &Message, context: TraceContext) {
        let exemplar = |time| Exemplar {
            context,
            end: message.time.as_nanos(),
            time,
        };
        if !message.is_connection() {
            self.whole = Some(exemplar(message.time()));
        }
        for (stage, time) in message.stages.present() {
            self.stages[stage] = Some(exemplar(*time));
        }
    }

    /// Keep the later of two, and nothing that ended before this time.
    fn merge(&mut self, other: &Self, since: u64) {
        let latest = |place: &mut Option<Exemplar>, other: Option<Exemplar>| {
            let both = [*place, other].into_iter().flatten();
            *place = both
                .filter(|exemplar| exemplar.end >= since)
                .max_by_key(|exemplar| exemplar.end);
        };
        latest(&mut self.whole, other.whole);
        for (stage, other) in other.stages.iter() {
            latest(&mut self.stages[stage], *other);
        }
    }
}

/// Exemplars of both directions; none where no message had a trace.
pub type OfGroup = [Option<Arc<Traced>>; Direction::ALL.len()];

/// The last traced messages of all groups, by their labels.
#[derive(Debug, Default)]
pub struct Exemplars(HashMap<Arc<Labels>, OfGroup>);

impl Exemplars {
    /// Gather those that are not old at this time, in nanoseconds since 1970. Of groups with the
    /// same labels, the last message counts.
    pub fn new<'a>(
        groups: impl IntoIterator<Item = (&'a Arc<Labels>, &'a OfGroup)>,
        now: u64,
    ) -> Self {
        let since = now.saturating_sub(u64::try_from(AGE.as_nanos()).unwrap_or(u64::MAX));
        let mut all = Self::default();
        for (labels, of_group) in groups {
            for (direction, traced) in of_group.iter().enumerate() {
                let Some(traced) = traced else { continue };
                let merged = &mut all.0.entry(Arc::clone(labels)).or_default()[direction];
                Arc::make_mut(merged.get_or_insert_default()).merge(traced, since);
            }
        }
        all
    }

    pub(crate) fn of(&self, labels: &Labels) -> OfGroup {
        self.0.get(labels).cloned().unwrap_or_default()
    }
}

/// An example for one distribution.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Exemplar {
    context: TraceContext,
    /// In nanoseconds since 1970.
    end: u64,
    /// The time that was counted.
    pub(crate) time: Nanos,
}

impl Exemplar {
    /// Return that of a metric of groups, whose own labels have these values.
    pub(crate) fn of(of_group: &OfGroup, metric: &Metric, values: &[&str]) -> Option<Self> {
        let direction = Direction::ALL
            .into_iter()
            .find(|direction| values.first() == Some(&direction.name()))?;
        let traced = of_group[direction as usize].as_ref()?;
        if std::ptr::eq(metric, &MESSAGE) {
            traced.whole
        } else if std::ptr::eq(metric, &STAGE) {
            let mut stages = traced.stages.iter();
            let of_name = |stage: Stage| values.get(1) == Some(&stage.name());
            *stages.find(|(stage, _)| of_name(*stage))?.1
        } else {
            None
        }
    }

    /// The names that OpenMetrics 1.0 gives them, section "Exemplars".
    pub(crate) fn labels(&self) -> [(&'static str, String); 2] {
        [
            ("trace_id", hexadecimal(&self.context.trace)),
            ("span_id", hexadecimal(&self.context.span)),
        ]
    }

    /// The time that was counted, in seconds.
    pub(crate) fn seconds(&self) -> f64 {
        self.time.0 as f64 / 1e9
    }

    /// Its end, in seconds since 1970 and nanoseconds.
    pub(crate) fn end(&self) -> (u64, u64) {
        (self.end / 1_000_000_000, self.end % 1_000_000_000)
    }

    /// `Exemplar` of OpenTelemetry.
    pub(crate) fn otlp(&self) -> Fields {
        Fields::new()
            .fixed(2, self.end)
            .real(3, self.seconds())
            .with_length(4, &self.context.span)
            .with_length(5, &self.context.trace)
    }
}

fn hexadecimal(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use sockstamp_model::clock::Timestamp;
    use sockstamp_model::fixture;
    use sockstamp_model::group::{GroupHistogram, GroupKey, GroupSummary};

    use super::*;
    use crate::exposition::{Exposition, Labelled};
    use crate::format::Format;

    /// 2026-09-21, 13:33:20 and a half.
    const NOW: u64 = 1_790_000_000_500_000_000;
    const MINUTE: u64 = 60_000_000_000;

    /// A read that ended as long ago, after 3 ms in `rx.app`.
    fn read(age: u64, number: u8) -> OfGroup {
        let mut message = fixture::message(Direction::Rx);
        message.time = Timestamp::from_nanos(NOW - age);
        message.stages[Stage::RxApp] = Some(Nanos(3_000_000));
        let context = TraceContext {
            trace: [number; 16],
            span: [number; 8],
        };
        let mut traced = Traced::default();
        traced.add(&message, context);
        [None, Some(Arc::new(traced))]
    }

    fn labels(port: &str) -> Arc<Labels> {
        Arc::new(vec![("port".into(), port.to_owned())])
    }

    fn number(exemplars: &Exemplars, port: &str) -> Option<u8> {
        let [tx, rx] = exemplars.of(&labels(port));
        assert_eq!(tx, None);
        rx?.whole.map(|exemplar| exemplar.context.trace[0])
    }

    #[test]
    fn a_group_has_its_last_message_until_that_is_old() {
        let all = [
            (labels("1"), read(0, 1)),
            (labels("2"), read(11 * MINUTE, 2)),
            (labels("3"), read(MINUTE, 3)),
            (labels("3"), read(0, 4)),
            (labels("3"), read(2 * MINUTE, 5)),
        ];
        let all = all.iter().map(|(labels, of_group)| (labels, of_group));
        let exemplars = Exemplars::new(all, NOW);
        let numbers = ["1", "2", "3", "4"].map(|port| number(&exemplars, port));
        assert_eq!(numbers, [Some(1), None, Some(4), None]);
    }

    /// A stage that the last message had not.
    #[test]
    fn each_stage_has_the_last_message_with_it() {
        let [[_, first], [_, later]] = [read(MINUTE, 1), read(0, 2)];
        let mut rx = Traced::clone(&first.unwrap());
        rx.stages[Stage::RxHol] = rx.whole;
        rx.merge(&later.unwrap(), 0);
        let numbers = [rx.whole, rx.stages[Stage::RxApp], rx.stages[Stage::RxHol]];
        let numbers = numbers.map(|exemplar| exemplar.unwrap().context.trace[0]);
        assert_eq!(numbers, [2, 2, 1]);
    }

    /// A connection is no message.
    #[test]
    fn a_connection_is_an_exemplar_of_its_stage_alone() {
        let mut message = fixture::message(Direction::Rx);
        message.stages = StageMap::default();
        message.stages[Stage::ConnAccept] = Some(Nanos(3_000_000));
        let context = TraceContext {
            trace: [1; 16],
            span: [1; 8],
        };
        let mut traced = Traced::default();
        traced.add(&message, context);
        assert_eq!(traced.whole, None);
        assert_eq!(traced.stages[Stage::ConnAccept].unwrap().context, context);
    }

    /// The series of one read in these formats.
    fn written(format: Format) -> Vec<u8> {
        let mut counts = GroupSummary::new(GroupKey::default());
        let mut times = GroupHistogram::default();
        times.record(Nanos(3_000_000), 1);
        counts.rx.stages[Stage::RxApp] = Some(times.clone());
        counts.rx.total = times;
        let mut exposition = Exposition::default();
        exposition.add_groups([Labelled {
            labels: labels("1"),
            counts: Arc::new(counts),
            since: Duration::ZERO,
            exemplars: OfGroup::default(),
        }]);
        let labels = labels("1");
        exposition.add_exemplars(&Exemplars::new([(&labels, &read(0, 0xa1))], NOW));
        format.pieces(Arc::new(exposition)).flatten().collect()
    }

    #[test]
    fn the_bucket_of_its_time_has_the_exemplar_in_openmetrics_alone() {
        let text = String::from_utf8(written(Format::OpenMetrics)).unwrap();
        let (trace, span) = ("a1".repeat(16), "a1".repeat(8));
        let ids = format!("{{trace_id=\"{trace}\",span_id=\"{span}\"}}");
        let with: Vec<_> = text.lines().filter(|line| line.contains(" # {")).collect();
        let [stage, message] = [
            "sockstamp_stage_seconds_bucket{port=\"1\",direction=\"rx\",stage=\"rx.app\"",
            "sockstamp_message_seconds_bucket{port=\"1\",direction=\"rx\"",
        ]
        .map(|series| format!("{series},le=\"0.00390625\"}} 1 # {ids} 0.003 1790000000.500000000"));
        assert_eq!(with, [stage, message]);
        let plain = String::from_utf8(written(Format::Plain)).unwrap();
        assert!(!plain.contains("trace_id"), "{plain}");
    }

    /// In the classic bucket and beside the native ones, of either metric.
    #[test]
    fn protocol_buffers_have_the_exemplar_twice() {
        let bytes = written(Format::Protobuf);
        let label = Fields::new().text(1, "trace_id").text(2, &"a1".repeat(16));
        let time = Fields::new()
            .number(1, 1_790_000_000)
            .number(2, 500_000_000);
        let exemplar = Fields::new()
            .message(1, &label)
            .message(
                1,
                &Fields::new().text(1, "span_id").text(2, &"a1".repeat(8)),
            )
            .real(2, 0.003)
            .message(3, &time);
        for field in [3, 16] {
            let wanted = Fields::new().message(field, &exemplar);
            let found = bytes.windows(wanted.bytes().len());
            assert_eq!(found.filter(|part| *part == wanted.bytes()).count(), 2);
        }
    }
}
