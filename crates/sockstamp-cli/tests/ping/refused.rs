//! Test refusals before anything is sent: one line, status 2.

use testbed::Host;
use with::skip;
use with::unprivileged::Unprivileged;

use crate::run::{ping, text};

/// The error of a run that must not begin.
fn refused(host: &Host, arguments: &[&str]) -> String {
    let text = text(ping(host, arguments));
    assert_eq!(
        (text.status, text.stdout.as_str()),
        (2, ""),
        "{arguments:?}: {}",
        text.stderr
    );
    text.stderr
}

fn refused_in_one_line(host: &Host, arguments: &[&str], why: &str) {
    let error = refused(host, arguments);
    assert!(
        error.starts_with("sockstamp: ") && error.contains(why) && error.lines().count() == 1,
        "{error}"
    );
}

#[test]
fn impossible_options_are_refused() {
    let host = Host::new("refused").unwrap();
    for arguments in [
        &[] as &[&str],
        &["-c", "0", "127.0.0.1"],
        &["-i", "soon", "127.0.0.1"],
        &["-w", "0", "127.0.0.1"],
        &["-s", "65508", "127.0.0.1"],
        &["-t", "0", "127.0.0.1"],
        &["-t", "256", "127.0.0.1"],
        &["-Q", "0x100", "127.0.0.1"],
        &["-4", "-6", "127.0.0.1"],
        &["-f", "-i", "1s", "127.0.0.1"],
        &["--udp", "0", "127.0.0.1"],
        &["--udp", "7", "--tcp", "7", "127.0.0.1"],
        &["--tcp", "7", "-s", "9", "127.0.0.1"],
    ] {
        refused_in_one_line(&host, arguments, "");
    }
}

#[test]
fn impossible_targets_are_refused() {
    let host = Host::new("refused").unwrap();
    let refused = |arguments: &[&str], why: &str| refused_in_one_line(&host, arguments, why);
    refused(&["-6", "127.0.0.1"], "127.0.0.1 has no IPv6 address");
    refused(
        &["-i", "10", "ms", "127.0.0.1"],
        "the unit of a time belongs to its number, as in -i 10ms",
    );
    refused(&["0.0.0.0"], "0.0.0.0 is not the address of one host");
    refused(
        &["127.0.0.1", "224.0.0.1", "ff02::1"],
        "224.0.0.1 is not the address of one host (and 1 others)",
    );
    refused(&["fe80::1"], "fe80::1 is link-local: name its interface");
    refused(&["fe80::1%no-such-if"], "no interface no-such-if");
    refused(
        &["-I", "no-such-if", "127.0.0.1"],
        "no interface no-such-if",
    );
    refused(&["-I", "::1", "127.0.0.1"], "127.0.0.1 has no IPv6 address");
    refused(&["-I", "10.9.8.7", "127.0.0.1"], "10.9.8.7");
    refused(
        &["--netns", "no-such-netns", "127.0.0.1"],
        "no network namespace no-such-netns",
    );
    refused(
        &["--container", "no-such-container", "127.0.0.1"],
        "no container no-such-container",
    );
    refused(&["--targets", "/no/such/file"], "cannot read /no/such/file");
    refused(&["--targets", "/dev/null"], "no host in /dev/null");
}

/// No name server answers in a namespace of its own.
#[test]
fn unresolvable_names_are_refused_and_keep_no_other_from_being_probed() {
    let host = Host::new("refused").unwrap();
    let why = "cannot resolve no-such-host.invalid: ";
    refused_in_one_line(&host, &["no-such-host.invalid"], why);
    let text = text(ping(
        &host,
        &["-c", "1", "127.0.0.1", "no-such-host.invalid"],
    ));
    assert_eq!(text.status, 2, "{}", text.stdout);
    assert!(text.stderr.contains(why), "{}", text.stderr);
    assert!(
        text.stdout.contains("1 packets transmitted, 1 received"),
        "{}",
        text.stdout
    );
}

#[test]
fn names_lead_to_their_first_address_of_the_version() {
    let host = Host::new("names").unwrap();
    let text = text(ping(&host, &["-4", "-c", "1", "localhost"]));
    assert!(
        text.stdout
            .starts_with("PING localhost (127.0.0.1) 56(84) bytes of data, by "),
        "{}",
        text.stdout
    );
}

/// Run as `nobody`, with and without the group in `net.ipv4.ping_group_range`.
#[test]
fn a_probe_without_privilege_names_the_missing_capability() {
    let host = Host::new("unprivileged").unwrap();
    let copy = Unprivileged::new();
    let run = |arguments: &[&str]| {
        let nobody = copy.command();
        let mut command = host.command(nobody.get_program());
        command.args(nobody.get_args()).arg("ping").args(arguments);
        text(command)
    };
    host.set_sysctl("net.ipv4.ping_group_range", "1 0").unwrap();
    let outside = run(&["-c", "1", "127.0.0.1"]);
    assert_eq!(
        (outside.status, outside.stdout.as_str()),
        (2, ""),
        "{}",
        outside.stderr
    );
    assert!(
        outside.stderr.contains("net.ipv4.ping_group_range"),
        "{}",
        outside.stderr
    );
    assert_eq!(outside.stderr.lines().count(), 1, "{}", outside.stderr);

    let connected = run(&["-c", "1", "--tcp", "9", "127.0.0.1"]);
    assert_eq!(connected.status, 0, "{}", connected.stderr);
    assert!(
        connected.stdout.contains("by user space (no-privilege)"),
        "{}",
        connected.stdout
    );

    for (arguments, why) in [
        (&["-f", "127.0.0.1"] as &[&str], "only root may flood"),
        (
            &["-i", "1ms", "127.0.0.1"],
            "only root may probe more often",
        ),
        (&["--netns", "1", "127.0.0.1"], "network namespace"),
    ] {
        let refused = run(arguments);
        assert_eq!(refused.status, 2, "{}", refused.stdout);
        assert!(refused.stderr.contains(why), "{}", refused.stderr);
    }

    if host
        .set_sysctl("net.ipv4.ping_group_range", "65534 65534")
        .is_err()
    {
        skip(
            "a_probe_without_privilege_names_the_missing_capability",
            "the group of nobody is not in this user namespace",
        );
        return;
    }
    for address in ["127.0.0.1", "::1"] {
        let within = run(&["-c", "2", "-i", "10ms", address]);
        assert_eq!(
            (within.status, within.stderr.as_str()),
            (0, ""),
            "{}",
            within.stdout
        );
        assert!(
            within.stdout.contains("by ping sockets"),
            "{}",
            within.stdout
        );
        assert!(!within.stdout.contains("user space"), "{}", within.stdout);
    }
}
