//! `--container`: cgroups as container runtimes name them, with real processes in them.

use std::collections::BTreeSet;
use std::os::unix::fs::chown;
use std::process::Command;
use std::time::{SystemTime, UNIX_EPOCH};

use tempfile::{NamedTempFile, TempDir};
use testbed::{Cgroup, Host, PATIENCE, Process};
use with::answerer::{Answerer, assert_only};
use with::traced_hosts::Messages;
use with::{Stat, Trace, end, sockstamp, wait_attached};

/// Ids that nothing else on this host has, equal except for their last digits.
fn ids<const N: usize>() -> [String; N] {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
    std::array::from_fn(|n| format!("{:08x}{:040x}{n:016x}", std::process::id(), now.as_nanos()))
}

/// Return the error of `stat` for its `--container`.
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
    let [
        docker,
        dockerfs,
        containerd,
        kubernetes,
        crio,
        podman,
        podmanfs,
    ] = ids();
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
        (
            &podman,
            format!("machine.slice/libpod-{podman}.scope/container"),
        ),
        (&podmanfs, format!("libpod_parent/libpod-{podmanfs}")),
        (&service, format!("system.slice/{service}")),
    ];
    let cgroups = containers
        .each_ref()
        .map(|(_, path)| top.below(path).unwrap());
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
    assert_only(
        &Messages::new(trace.finish()),
        &answerers[0],
        &[&answerers[1]],
    );
    let trace = Trace::start(&[
        "--cgroup",
        &path(&top),
        "--container",
        &id,
        "-p",
        &answerers[1].process.id().to_string(),
    ]);
    answerers.iter_mut().for_each(Answerer::ask);
    assert_only(
        &Messages::new(trace.finish()),
        &answerers[1],
        &[&answerers[0]],
    );

    let mut command = stat();
    command.args(["--cgroup", &path(&elsewhere)]);
    let text = complaint(command, &id);
    assert!(text.contains("neither cgroup is below the other"), "{text}");
}

/// A user id that is unused on this host.
const USER: u32 = 54_321;

/// A container of root's, one of a user's, and the user's home, which that user filled.
struct Claims {
    top: Cgroup,
    root: (String, Cgroup),
    user: (String, Cgroup),
    home: TempDir,
    number: u32,
}

impl Claims {
    fn new() -> Claims {
        let top = Cgroup::new("containers").unwrap();
        let [root, user] = ids();
        let in_slice =
            format!("user.slice/user-{USER}.slice/user@{USER}.service/libpod-{user}.scope");
        let home = tempfile::tempdir().unwrap();
        chown(home.path(), Some(USER), None).unwrap();
        Claims {
            root: (
                root.clone(),
                top.below(&format!("docker-{root}.scope")).unwrap(),
            ),
            user: (user, top.below(&in_slice).unwrap()),
            top,
            home,
            number: std::process::id(),
        }
    }

    /// Run sockstamp with root's container named `web-NUMBER`, and with the user's list as `make`
    /// creates it at `$list`.
    fn command(&self, make: &str, arguments: &[&str]) -> Command {
        let Claims {
            number, home, root, ..
        } = self;
        let home = home.path().display();
        let script = format!(
            r#"set -e; mount -t tmpfs -o dev none /var/lib; mount -t tmpfs -o dev,mode=711 none {home}
            chown {USER} {home}
            mkdir -p /var/lib/docker/containers/{0} {home}/.local/share/containers/storage/overlay-containers
            echo '{{"ID":"{0}","Name":"/web-{number}"}}' > /var/lib/docker/containers/{0}/config.v2.json
            {{ cat /etc/passwd; echo claims:x:{USER}:{USER}::{home}:/bin/false; }} > /var/lib/passwd
            mount --bind /var/lib/passwd /etc/passwd
            list={home}/.local/share/containers/storage/overlay-containers/containers.json
            {make}
            chown -hR {USER} {home}/.local
            exec "$@""#,
            root.0
        );
        let mut command = Command::new("unshare");
        command.args(["--mount", "sh", "-c", &script, "sh", sockstamp()]);
        command.args(arguments);
        command
    }

    /// Return its exit status and error for a name.
    fn says(&self, make: &str, wanted: &str) -> (Option<i32>, String) {
        let command = self.command(make, &["stat", "--duration", "50ms", "--container", wanted]);
        let mut process = Process::spawn(command).unwrap();
        let status = process.wait_status(PATIENCE).unwrap();
        (status.code(), process.stderr())
    }
}

#[test]
fn hostile_files_of_a_user_neither_block_nor_fill_nor_lead_elsewhere() {
    let claims = Claims::new();
    let web = format!("web-{}", claims.number);
    for (make, why) in [
        ("mkfifo $list", "it is not a regular file"),
        ("mknod $list c 1 5", "it is not a regular file"),
        ("mkdir $list", "it is not a regular file"),
        ("truncate -s 1T $list", "it has more than"),
        ("ln -s /dev/zero $list", "Too many levels of symbolic links"),
        (
            "rmdir ${list%/*}; ln -s /etc ${list%/*}",
            "Too many levels of symbolic links",
        ),
        (
            "mount -t tmpfs none ${list%/*}; echo [] > $list",
            "Invalid cross-device link",
        ),
        ("echo '[{' > $list", "EOF while parsing"),
    ] {
        let (status, said) = claims.says(make, &web);
        assert_eq!(status, Some(0), "{make}: {said}");
        let (status, said) = claims.says(make, "no-such-container");
        assert_eq!(status, Some(1), "{make}: {said}");
        let note = format!("; not read: the containers.json of user {USER}: ");
        let (_, found) = said
            .split_once(&note)
            .unwrap_or_else(|| panic!("{make}: {said}"));
        assert!(found.starts_with(why), "{make}: {said}");
    }
    // A link to another user's file is that file, with its owner.
    let (_, said) = claims.says(
        "echo [] > $list; chown 0 $list; chown() { :; }",
        "no-such-container",
    );
    assert!(said.contains("it belongs to another user"), "{said}");
}

/// The user gives a container of its own the name of root's, and root's another one.
#[test]
fn a_user_names_no_container_but_its_own() {
    let claims = Claims::new();
    let host = Host::new("corner").unwrap();
    let mut answerers =
        [&claims.root.1, &claims.user.1].map(|cgroup| Answerer::start(&host, Some(cgroup)));
    let number = claims.number;
    let make = format!(
        r#"echo '[{{"id":"{}","names":["evil-{number}"]}},
            {{"id":"{}","names":["web-{number}","hers-{number}"]}}]' > $list"#,
        claims.root.0, claims.user.0
    );
    let (status, said) = claims.says(&make, &format!("evil-{number}"));
    assert_eq!(status, Some(1), "{said}");
    assert!(said.contains("no container evil-"), "{said}");

    for (name, index) in [("web", 0), ("hers", 1)] {
        let output = NamedTempFile::new().unwrap();
        let name = format!("{name}-{number}");
        let mut arguments = vec![
            "trace",
            "--every",
            "--max-cost=none",
            "--format",
            "json",
            "--container",
            &name,
        ];
        arguments.extend(["-o", output.path().to_str().unwrap()]);
        let hooks = with::hooks();
        arguments.extend(hooks.iter().map(String::as_str));
        let mut process = Process::spawn(claims.command(&make, &arguments)).unwrap();
        wait_attached(&mut process);
        answerers.iter_mut().for_each(Answerer::ask);
        let process = end(process);
        let messages = Messages::new(with::messages(output.path()));
        assert_only(&messages, &answerers[index], &[&answerers[1 - index]]);
        let claimed = process
            .stderr()
            .contains(&format!("is user-{USER}/podman/"));
        assert_eq!(claimed, index == 1, "{}", process.stderr());
    }

    // A group of its own, also for an id of root's.
    let forged = format!(
        "user.slice/user-{USER}.slice/docker-{}.scope",
        claims.root.0
    );
    let forged = claims.top.below(&forged).unwrap();
    let mut forger = Answerer::start(&host, Some(&forged));
    let stat = Stat::start(&[
        "--cgroup",
        claims.top.path().to_str().unwrap(),
        "--by",
        "container",
    ]);
    answerers[0].ask();
    forger.ask();
    let report = stat.finish();
    let keys: BTreeSet<_> = report["groups"]
        .as_array()
        .unwrap()
        .iter()
        .map(|group| group["key"]["container"].as_str().unwrap())
        .collect();
    let forged = format!("user-{USER}/{}", claims.root.0);
    assert_eq!(keys, [claims.root.0.as_str(), &forged].into());
}
