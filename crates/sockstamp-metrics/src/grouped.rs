//! The series that each group has.

use sockstamp_model::flow::Protocol;
use sockstamp_model::group::GroupSummary;
use sockstamp_model::stage::{Direction, Stage};

use crate::catalogue::{
    BYTES, HOOKS, MEASURED, MESSAGE, MESSAGES, Metric, PART, REFUSED, RETRANSMITS, STAGE,
};
use crate::point::Value;
use crate::text::seconds;

/// Takes the values of the metric's own labels, and the value of the series.
type Each<'a> = &'a mut dyn FnMut(&[&'static str], Value<'_>);

/// Passes the series of one metric in a group.
type Series = fn(&GroupSummary, Each<'_>);

/// The metrics of groups, and their series in one.
pub(crate) static GROUPED: [(&Metric, Series); 9] = [
    (&STAGE, stages),
    (&MESSAGE, times),
    (&HOOKS, hooks),
    (&PART, parts),
    (&MESSAGES, |group, each| {
        counts(each, |direction| group.direction(direction).messages);
    }),
    (&BYTES, |group, each| {
        counts(each, |direction| group.direction(direction).bytes);
    }),
    (&MEASURED, |group, each| {
        counts(each, |direction| group.direction(direction).measured);
    }),
    (&REFUSED, |group, each| {
        counts(each, |direction| group.direction(direction).refused);
    }),
    (&RETRANSMITS, |group, each| {
        each(&[], Value::Count(group.tx.retransmits));
    }),
];

fn stages(group: &GroupSummary, each: Each<'_>) {
    for direction in Direction::ALL {
        for (stage, histogram) in group.direction(direction).stages.present() {
            if !histogram.is_empty() {
                each(
                    &[direction.name(), stage.name()],
                    Value::Histogram(histogram),
                );
            }
        }
    }
}

fn times(group: &GroupSummary, each: Each<'_>) {
    for direction in Direction::ALL {
        let time = group.direction(direction).time(direction);
        if !time.is_empty() {
            each(&[direction.name()], Value::Histogram(time));
        }
    }
}

/// The points of netstacklat that reads show, from the same distributions as `stat --cumulative`:
/// the first stage begins at the stamp, and so does the total. The overflow has both protocols,
/// which no name of netstacklat's has.
fn hooks(group: &GroupSummary, each: Each<'_>) {
    let [enqueued, read] = match group.key.proto {
        Some(Protocol::Tcp) => ["tcp-socket-enqueued", "tcp-socket-read"],
        Some(Protocol::Udp) => ["udp-socket-enqueued", "udp-socket-read"],
        None => ["socket-enqueued", "socket-read"],
    };
    let stack = group.rx.stages[Stage::RxStack].as_ref();
    for (hook, histogram) in [(enqueued, stack), (read, Some(&group.rx.total))] {
        if let Some(histogram) = histogram.filter(|histogram| !histogram.is_empty()) {
            each(&[hook], Value::Histogram(histogram));
        }
    }
}

fn parts(group: &GroupSummary, each: Each<'_>) {
    for direction in Direction::ALL {
        for (part, sum) in group.direction(direction).parts.iter() {
            if let Some(sum) = sum.filter(|sum| sum.sum_ns > 0) {
                let names = [direction.name(), part.stage().name(), part.name()];
                each(&names, Value::Real(seconds(sum.sum_ns)));
            }
        }
    }
}

fn counts(each: Each<'_>, count: impl Fn(Direction) -> u64) {
    for direction in Direction::ALL {
        each(&[direction.name()], Value::Count(count(direction)));
    }
}
