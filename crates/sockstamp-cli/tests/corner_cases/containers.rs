//! `--container`: cgroups as container runtimes name them, with real processes in them.

use std::process::Command;
use std::time::{SystemTime, UNIX_EPOCH};

use testbed::{Cgroup, Host};

use crate::answerer::{Answerer, assert_only};
use crate::common::{Trace, sockstamp};
use crate::scene::Messages;

/// Ids that nothing else on this host has, alike but for their last digits.
fn ids<const N: usize>() -> [String; N] {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
    std::array::from_fn(|n| format!("{:08x}{:040x}{n:016x}", std::process::id(), now.as_nanos()))
}

/// What `stat` says about its `--container`.
fn complaint(mut command: Command, wanted: &str) -> String {
    command.args(["--container", wanted]);
    let output = command.output().unwrap();
    let stderr = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(1), "{stderr}");
    assert_eq!(stderr.lines().count(), 1, "{stderr}");
    stderr
}

fn stat() -> Command {
    let mut command = Command::new(sockstamp());
    command.args(["stat", "--duration", "1s"]);
    command
}

#[test]
fn each_runtime_is_known_by_its_cgroups() {
    let host = Host::new("corner").unwrap();
    let top = Cgroup::new("containers").unwrap();
    let [docker, dockerfs, containerd, kubernetes, crio, podman, podmanfs] = ids();
    let service = format!("web-{}.service", std::process::id());
    let containers = [
        (&docker, format!("system.slice/docker-{docker}.scope")),
        (&dockerfs, format!("docker/{dockerfs}")),
        (
            &containerd,
            format!("kubepods.slice/pod.slice/cri-containerd-{containerd}.scope"),
        ),
        (&kubernetes, format!("kubepods/burstable/pod1/{kubernetes}")),
        (&crio, format!("kubepods.slice/crio-{crio}.scope")),
        (&podman, format!("machine.slice/libpod-{podman}.scope/container")),
        (&podmanfs, format!("libpod_parent/libpod-{podmanfs}")),
        (&service, format!("system.slice/{service}")),
    ];
    let cgroups = containers.each_ref().map(|(_, path)| top.below(path).unwrap());
    let mut answerers = cgroups
        .each_ref()
        .map(|cgroup| Answerer::start(&host, Some(cgroup)));
    for (index, (id, _)) in containers.iter().enumerate() {
        let trace = Trace::start(&["--container", id]);
        answerers.iter_mut().for_each(Answerer::ask);
        let messages = Messages::new(trace.finish());
        let others: Vec<_> = answerers.iter().collect();
        let others = [&others[..index], &others[index + 1..]].concat();
        assert_only(&messages, &answerers[index], &others);
    }
}

#[test]
fn a_prefix_is_enough_if_it_is_of_one() {
    let top = Cgroup::new("containers").unwrap();
    let [one, other] = ids();
    let _cgroups = [&one, &other].map(|id| top.below(&format!("docker-{id}.scope")).unwrap());
    // All but the last digit.
    let text = complaint(stat(), &one[..63]);
    let list = format!("is ambiguous: docker/{0}, docker/{0}", &one[..12]);
    assert!(text.contains(&list), "{text}");
    let text = complaint(stat(), "no-such-container");
    assert!(text.contains("no container no-such-container: "), "{text}");
    assert!(text.contains("/var/lib/docker/containers"), "{text}");
}

/// The state of docker and podman, in a mount namespace of its own.
#[test]
fn names_are_those_that_docker_and_podman_keep() {
    let top = Cgroup::new("containers").unwrap();
    let [docker, podman] = ids();
    let _cgroups = [
        top.below(&format!("docker-{docker}.scope")).unwrap(),
        top.below(&format!("libpod-{podman}.scope")).unwrap(),
    ];
    let named = format!("{}", std::process::id());
    let script = format!(
        r#"set -e; mount -t tmpfs none /var/lib
        mkdir -p /var/lib/docker/containers/{docker} /var/lib/containers/storage/overlay-containers
        echo '{{"ID":"{docker}","Name":"/web-{named}"}}' > /var/lib/docker/containers/{docker}/config.v2.json
        echo '[{{"id":"{podman}","names":["web-{named}-db"]}}]' \
            > /var/lib/containers/storage/overlay-containers/containers.json
        exec "$@""#
    );
    let with_state = |arguments: &[&str]| {
        let mut command = Command::new("unshare");
        command.args(["--mount", "sh", "-c", &script, "sh", sockstamp()]);
        command.args(arguments);
        command
    };
    for (wanted, cgroup) in [("web", "docker"), ("web-db", "libpod")] {
        let name = wanted.replacen("web", &format!("web-{named}"), 1);
        let output = with_state(&["stat", "--duration", "50ms", "--container", &name])
            .output()
            .unwrap();
        let stderr = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(0), "{cgroup}: {stderr}");
    }
    let text = complaint(
        with_state(&["stat", "--duration", "1s"]),
        &format!("web-{}", &named[..1]),
    );
    for name in [format!("(web-{named})"), format!("(web-{named}-db)")] {
        assert!(text.contains(&name), "{text}");
    }
}

#[test]
fn a_cgroup_and_a_container_must_share_sockets() {
    let [id] = ids();
    let (top, elsewhere) = (
        Cgroup::new("containers").unwrap(),
        Cgroup::new("elsewhere").unwrap(),
    );
    let container = top.below(&format!("docker-{id}.scope")).unwrap();
    let inside = container.below("workers").unwrap();
    let host = Host::new("corner").unwrap();
    let mut answerers = [&inside, &container].map(|cgroup| Answerer::start(&host, Some(cgroup)));
    let path = |cgroup: &Cgroup| cgroup.path().to_str().unwrap().to_owned();

    let trace = Trace::start(&["--container", &id, "--cgroup", &path(&inside)]);
    answerers.iter_mut().for_each(Answerer::ask);
    assert_only(&Messages::new(trace.finish()), &answerers[0], &[&answerers[1]]);
    let trace = Trace::start(&[
        "--cgroup",
        &path(&top),
        "--container",
        &id,
        "-p",
        &answerers[1].process.id().to_string(),
    ]);
    answerers.iter_mut().for_each(Answerer::ask);
    assert_only(&Messages::new(trace.finish()), &answerers[1], &[&answerers[0]]);

    let mut command = stat();
    command.args(["--cgroup", &path(&elsewhere)]);
    let text = complaint(command, &id);
    assert!(text.contains("neither cgroup is below the other"), "{text}");
}
