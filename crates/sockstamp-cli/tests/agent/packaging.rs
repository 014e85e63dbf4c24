//! Packages of the agent: the Debian one is installed and removed, the others name what there is.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;
use sockstamp_export::catalogue::ALL;
use tempfile::TempDir;

fn packaging(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../../packaging")
        .join(path)
}

fn run(command: &mut Command) -> String {
    let output = command.output().unwrap();
    let text = String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned();
    assert!(output.status.success(), "{command:?}: {text}");
    text
}

/// A root directory in which nothing is installed.
fn empty_root() -> TempDir {
    let root = TempDir::new().unwrap();
    let state = root.path().join("var/lib/dpkg");
    for directory in ["info", "updates", "triggers"] {
        fs::create_dir_all(state.join(directory)).unwrap();
    }
    for file in ["status", "available"] {
        fs::write(state.join(file), "").unwrap();
    }
    root
}

fn dpkg(root: &Path, arguments: &[&str]) -> String {
    run(Command::new("dpkg")
        .arg(format!("--root={}", root.display()))
        // Its dependencies are not in the root, and its scripts spare the host.
        .args([
            "--force-script-chrootless",
            "--force-depends",
            "--force-confdef",
            "--log=/dev/null",
        ])
        .args(arguments))
}

#[test]
fn the_debian_package_installs_upgrades_and_goes() {
    let built = TempDir::new().unwrap();
    // Any program will do, and a small one is packed in no time.
    run(Command::new(packaging("debian/build.sh"))
        .arg("/bin/true")
        .arg(built.path()));
    let package = fs::read_dir(&built).unwrap().next().unwrap().unwrap().path();
    let root = empty_root();
    let package = package.to_str().unwrap();
    dpkg(root.path(), &["--install", package]);
    let settings = root.path().join("etc/sockstamp/agent.toml");
    let program = root.path().join("usr/bin/sockstamp");
    assert!(
        program.exists()
            && root
                .path()
                .join("lib/systemd/system/sockstamp-agent.service")
                .exists()
    );

    fs::write(&settings, "rate_cap = 5\n").unwrap();
    dpkg(root.path(), &["--install", package]);
    assert_eq!(fs::read_to_string(&settings).unwrap(), "rate_cap = 5\n");

    let kept = root.path().join("var/lib/sockstamp/recent");
    fs::create_dir_all(&kept).unwrap();
    dpkg(root.path(), &["--remove", "sockstamp"]);
    assert!(!program.exists() && settings.exists() && kept.exists());
    dpkg(root.path(), &["--purge", "sockstamp"]);
    assert!(!settings.exists() && !kept.exists());
}

#[test]
fn the_unit_is_valid_and_has_few_privileges() {
    let unit = packaging("systemd/sockstamp-agent.service");
    let text = fs::read_to_string(&unit).unwrap();
    // The program need not be installed here.
    let directory = TempDir::new().unwrap();
    let copy = directory.path().join("sockstamp-agent.service");
    fs::write(&copy, text.replace("/usr/bin/sockstamp", "/bin/true")).unwrap();
    let said = run(Command::new("systemd-analyze")
        .args(["verify", "--man=no"])
        .arg(&copy));
    assert!(!said.contains("sockstamp-agent.service:"), "{said}");
}

/// Every metric that the dashboard asks for exists.
#[test]
fn the_dashboard_is_about_metrics_of_the_agent() {
    let text = fs::read_to_string(packaging("grafana/sockstamp.json")).unwrap();
    let dashboard: Value = serde_json::from_str(&text).unwrap();
    let known: BTreeSet<_> = ALL.iter().map(|metric| metric.series()).collect();
    let panels = dashboard["panels"].as_array().unwrap();
    assert!(panels.len() > 5);
    for panel in panels {
        for target in panel["targets"].as_array().unwrap() {
            let query = target["expr"].as_str().unwrap();
            let words = query.split(|letter: char| !letter.is_ascii_alphanumeric() && letter != '_');
            let mut named =
                words.filter(|word| word.starts_with("sockstamp_") || word.starts_with("process_"));
            let first = named.next().unwrap_or_else(|| panic!("{query} has no metric"));
            for name in named.chain([first]) {
                assert!(known.contains(name), "no metric is named {name}");
            }
        }
    }
}

/// The pod has no more capabilities than the unit.
#[test]
fn a_pod_has_the_capabilities_of_the_unit() {
    let unit = fs::read_to_string(packaging("systemd/sockstamp-agent.service")).unwrap();
    let bounding = unit
        .lines()
        .find_map(|line| line.strip_prefix("CapabilityBoundingSet="))
        .unwrap();
    let of_unit: BTreeSet<_> = bounding
        .split(' ')
        .filter_map(|name| name.strip_prefix("CAP_"))
        .collect();
    let pods = fs::read_to_string(packaging("kubernetes/daemonset.yaml")).unwrap();
    let added = pods
        .lines()
        .find_map(|line| line.trim().strip_prefix("add: ["))
        .unwrap();
    let of_pod: BTreeSet<_> = added.trim_end_matches(']').split(", ").collect();
    assert_eq!(of_pod, of_unit);
    assert!(pods.contains("privileged: false") && pods.contains("drop: [ALL]"));
}
