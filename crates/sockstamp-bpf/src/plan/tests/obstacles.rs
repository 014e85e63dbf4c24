//! Name each obstacle to a measurement.

use std::collections::BTreeMap;

use super::{plan_of, required, without};
use crate::facts::{Confinement, Hook};
use crate::plan::*;

fn only_obstacle(facts: &Facts) -> String {
    let obstacles = obstacles(facts, &Request::default());
    assert_eq!(obstacles.len(), 1, "{obstacles:?}");
    let required = required(facts).unwrap_err();
    assert_eq!(required, obstacles[0]);
    required.to_string()
}

#[test]
fn without_btf_nothing_is_planned() {
    let facts = without(|facts| facts.btf = Some(false));
    assert!(only_obstacle(&facts).contains("no BTF"));
    assert_eq!(
        plan_of(&facts).stages[Stage::TxQueue],
        Method::Absent(Reason::NoBtf)
    );
}

#[test]
fn what_confines_the_process_is_the_reason_and_not_the_kernel() {
    for (confinement, remedy) in [
        (Confinement::UserNamespace, "--userns=host"),
        (Confinement::Seccomp, "seccomp=unconfined"),
        (Confinement::SecurityModule, "ausearch"),
        (Confinement::Lockdown, "lockdown=integrity"),
        (Confinement::Descriptors(16), "ulimit -n 1024"),
    ] {
        let facts = without(|facts| _ = facts.confinement.insert(confinement));
        let obstacle = only_obstacle(&facts);
        assert!(obstacle.contains(remedy), "{obstacle}");
        assert_eq!(cannot_load(&facts), Some(Obstacle::Confined(confinement)));
    }
    let masked = without(|facts| {
        facts.confinement.insert(Confinement::MaskedSys);
        facts.btf = Some(false);
    });
    assert!(only_obstacle(&masked).contains("mount sysfs at /sys"));
    assert_eq!(cannot_load(&Facts::complete()), None);
}

#[test]
fn without_cgroup2_nothing_can_be_attached() {
    assert!(only_obstacle(&without(|facts| facts.cgroup2 = None)).contains("mount -t cgroup2"));
}

#[test]
fn every_missing_capability_is_named() {
    for capability in [Capability::Bpf, Capability::Perfmon, Capability::NetAdmin] {
        let facts = without(|facts| {
            facts.capabilities.insert(capability, Some(false));
        });
        let obstacle = only_obstacle(&facts);
        assert!(
            obstacle.starts_with(&format!("missing {capability}:")),
            "{obstacle}"
        );
    }
}

#[test]
fn sys_admin_covers_bpf_and_perfmon_alone() {
    let capabilities = |net_admin| {
        without(|facts| {
            facts.capabilities = BTreeMap::from([
                (Capability::SysAdmin, Some(true)),
                (Capability::NetAdmin, Some(net_admin)),
                (Capability::Bpf, Some(false)),
                (Capability::Perfmon, Some(false)),
            ]);
        })
    };
    assert!(missing_capabilities(&capabilities(true)).is_empty());
    assert_eq!(
        missing_capabilities(&capabilities(false)),
        [Capability::NetAdmin]
    );
}

#[test]
fn a_kernel_that_gives_nothing_is_an_obstacle() {
    let facts = Facts::complete()
        .of_an_older_kernel()
        .with_functions_traced(false);
    assert!(only_obstacle(&facts).contains("needs Linux 6.15 or fentry"));
}

#[test]
fn an_unknown_feature_is_not_called_missing() {
    let facts = without(|facts| facts.btf = None);
    assert_eq!(required(&facts), Err(Obstacle::UnreadableBtf));
    let facts = without(|facts| facts.nic_clock = None);
    assert_eq!(
        plan_of(&facts).stages[Stage::TxNic],
        Method::Absent(Reason::UnseenNicClock)
    );
    let facts = without(|facts| {
        facts
            .capabilities
            .values_mut()
            .for_each(|held| *held = None)
    });
    assert_eq!(missing_capabilities(&facts), []);
    assert!(required(&facts).is_ok_and(|plan| !plan.namespaces));
}

#[test]
fn a_refused_program_is_no_matter_of_the_version() {
    let plan = plan_of(&without(|facts| {
        facts.refused.insert(Tracepoint::TcpProbe);
    }));
    assert_eq!(
        plan.stages[Stage::RxHol],
        Method::Absent(Reason::TracepointRefused)
    );
    let facts = without(|facts| facts.sockops_refused = true);
    assert!(only_obstacle(&facts).contains("sockops program refused"));
}

/// A request that cannot be met is an obstacle, which doctor prints as well.
#[test]
fn windows_and_tags_are_obstacles_where_selected_sockets_do_not_call_back() {
    let older = Facts::complete().of_an_older_kernel();
    for (windows, tag, obstacle) in [
        (true, false, Obstacle::NoWindows),
        (false, true, Obstacle::NoTags),
    ] {
        let request = Request {
            windows,
            tag,
            ..Request::default()
        };
        assert_eq!(obstacles(&Facts::complete(), &request), []);
        assert_eq!(obstacles(&older, &request), std::slice::from_ref(&obstacle));
        assert_eq!(Plan::new(&older, &request), Err(obstacle));
    }
}

#[test]
fn a_refused_walk_is_an_obstacle() {
    let facts = without(|facts| facts.refuse(Hook::Walk("task_file")));
    assert_eq!(required(&facts), Err(Obstacle::NoWalk("task_file")));
}
