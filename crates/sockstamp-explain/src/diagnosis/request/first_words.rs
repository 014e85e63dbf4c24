//! First words of a service on connections that were there before the measurement. Who waits for a
//! greeting opens other connections, too, or it is late for one client alone: what comes to older
//! ones, and to no new one, may be news, or a sign of life.

use std::collections::{BTreeMap, BTreeSet};

use sockstamp_model::flow::SocketCookie;

use crate::diagnosis::slow::{Key, Slow};
use crate::diagnosis::tree::Node;

/// Mark as `open` what only connections of these `older` sockets waited for.
pub(in crate::diagnosis) fn mark(
    waits: &[Slow],
    open: &mut [bool],
    older: &BTreeSet<SocketCookie>,
) {
    let is_older = |wait: &Slow| wait.seen.age > wait.time() || older.contains(&wait.flow.cookie);
    let mut services = BTreeMap::<&Key, Vec<usize>>::new();
    for (of, wait) in waits.iter().enumerate() {
        if wait.key.root == Node::Greeting && !wait.is_failure() {
            services.entry(&wait.key).or_default().push(of);
        }
    }
    for found in services.into_values() {
        if found.iter().all(|&of| is_older(&waits[of])) {
            found.into_iter().for_each(|of| open[of] = true);
        }
    }
}

#[cfg(test)]
mod tests {
    use sockstamp_model::clock::Nanos;
    use sockstamp_model::wait::{End, Kind, Waits};

    use crate::diagnosis::tests::{MS, flow, summary, wait};
    use crate::diagnosis::{Case, Diagnosis, Scope};

    /// Connections to a service that says its first words a second later: some are older.
    fn told(older: u64) -> Diagnosis {
        let first = |of: u64| {
            let mut first = wait(Kind::Greeting, End::Data, 100 + of * 200, 1_080);
            first.flow = flow(&format!("10.0.0.1:{}", 40_000 + of), "10.0.0.2:8000");
            if of < older {
                first.lasted = Nanos(5_000 * MS);
            }
            first
        };
        let mut case = Case::new(Scope::default());
        case.waits(&Waits {
            list: (0..6).map(first).collect(),
            ..Waits::default()
        });
        case.diagnose(&summary())
    }

    /// As signs of life to people who have said nothing yet.
    #[test]
    fn first_words_on_older_connections_alone_are_no_greeting() {
        let quiet = told(6);
        assert_eq!(quiet.findings, []);
        assert!(quiet.notes[0].contains("first words"), "{quiet:?}");
        assert!(told(5).findings[0].sentence.contains("greets"));
    }
}
