//! A server computes for 30 ms: before it answers it is `app.service`, before it reads again it is
//! `rx.app`.

use testbed::{Family, within_attempts};
use with::expected::{ms, sum, within};
use with::pair::Pair;
use with::{Stat, in_short, number, over_both_families, stage};

mod before_it_answers {
    super::over_both_families!(super::check_service);
}

fn check_service(family: Family) {
    const REQUESTS: u64 = 30;
    let pair = Pair::veth(family);
    let measure = |compute: &str| {
        let _serve = pair.serve(&["serve", "--compute", compute]);
        let stat = Stat::start(&["--netns", pair.server.netns_name()]);
        let client = pair.run_peer(&format!("client --count {REQUESTS}"));
        (stat.finish(), number(&client["rtt_p50_ns"]))
    };
    within_attempts(|| {
        let (undisturbed, short) = measure("0");
        let (built, long) = measure("30");
        println!("{}; {long} ns per request", in_short(&built));
        // Each send comes after a read.
        assert_eq!(stage(&built, "app.service", "count"), REQUESTS, "{built}");
        let median = |report| stage(report, "app.service", "p50_ns");
        let more = median(&built).saturating_sub(median(&undisturbed));
        let excess = long.saturating_sub(short);
        assert!(excess >= ms(29), "the server did not compute: {built}");
        within("app.service", more, excess / 10 * 9..=excess / 10 * 11)?;
        ["rx.stack", "rx.app", "tx.copy", "tx.queue", "tx.qdisc"]
            .into_iter()
            .try_for_each(|name| within(name, stage(&built, name, "p50_ns"), 0..=ms(1)))
    });
}

/// Two requests come at once: the second waits until the first is answered, which takes 20 times
/// 30 ms. A machine that others use adds waits for a CPU to the whole, so that the whole tells
/// nothing.
#[test]
fn computing_before_the_next_read_is_in_rx_app() {
    const COMPUTED: u64 = 20 * ms(30);
    const REQUESTS: &str = "client --count 20 --request 128 --pieces 2 --response 128";
    let pair = Pair::veth(Family::V4);
    let measure = |compute: &str| {
        let _serve = pair.serve(&["serve", "--compute", compute]);
        pair.stat_peer_at(&pair.server, &[], REQUESTS)
    };
    within_attempts(|| {
        let (built, undisturbed) = (measure("30"), measure("0"));
        let more = |name| sum(&built, name).saturating_sub(sum(&undisturbed, name));
        within(
            "rx.app",
            more("rx.app"),
            COMPUTED / 10 * 9..=COMPUTED / 10 * 11,
        )?;
        within("rx.stack", more("rx.stack"), 0..=COMPUTED / 10)
    });
}
