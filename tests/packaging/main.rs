//! Packages of the agent: the Debian one is installed and removed, the others name what there is.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::{Value, json};
use sockstamp_metrics::catalogue::{ALL, Metric};
use tempfile::{NamedTempFile, TempDir};
use with::authority::Authority;
use with::prometheus::{promtool, series_of};
use with::{objects, packaging, python, run, skip, sockstamp};

/// Return standard output alone: Go tells on the other what it downloads.
fn printed(command: &mut Command) -> String {
    let output = command.output().unwrap();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{command:?}: {errors}");
    String::from_utf8(output.stdout).unwrap()
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

/// The newest version of glibc's symbols that a program uses.
fn newest_glibc(program: &str) -> String {
    let symbols = run(Command::new("objdump").args(["-T", program]));
    let versions = symbols.split("GLIBC_").skip(1);
    let versions = versions.filter_map(|rest| {
        let version = rest
            .split(|end: char| !end.is_ascii_digit() && end != '.')
            .next()?;
        let parts: Result<Vec<u32>, _> = version.split('.').map(str::parse).collect();
        Some((parts.ok()?, version))
    });
    versions.max().unwrap().1.to_owned()
}

/// Each line of the package's settings that is no comment in words is a valid setting, and one that
/// is not under an example has its default.
#[test]
fn the_settings_of_the_package_are_valid_and_defaults_where_they_say_so() {
    let text = fs::read_to_string(packaging("systemd/agent.toml")).unwrap();
    let is_setting = |line: &&str| line.starts_with('#') && !line.starts_with("# ");
    let file = NamedTempFile::new().unwrap();
    let uncommented: Vec<_> = text
        .lines()
        .filter(is_setting)
        .map(|line| &line[1..])
        .collect();
    assert!(uncommented.len() > 15);
    // Its files are looked at, and its directory is made.
    let (token, directory) = (NamedTempFile::new().unwrap(), TempDir::new().unwrap());
    fs::write(&token, "secret\n").unwrap();
    let settings = uncommented
        .join("\n")
        .replace("/etc/sockstamp/token", token.path().to_str().unwrap())
        .replace("/var/lib/sockstamp", directory.path().to_str().unwrap());
    fs::write(&file, settings).unwrap();
    run(Command::new(sockstamp())
        .args(["agent", "--check", "--config"])
        .arg(file.path()));
    let documented = fs::read_to_string(packaging("../docs/agent.md")).unwrap();
    let mut is_example = false;
    for line in text.lines() {
        is_example = match line {
            "" => false,
            words if words.starts_with("# Example") => true,
            _ => is_example,
        };
        let default = line
            .strip_prefix('#')
            .and_then(|line| line.split_once(" = "));
        let Some((key, value)) = default.filter(|_| is_setting(&line) && !is_example) else {
            continue;
        };
        let row = format!("| `{key}` | `{value}` |");
        assert!(documented.contains(&row), "docs/agent.md has no row {row}");
    }
}

/// A package of a program, in a directory.
fn debian_package(directory: &TempDir) -> PathBuf {
    // Any program will do, and a small one is packed in no time.
    run(Command::new(packaging("debian/build.sh"))
        .arg("/bin/true")
        .arg(directory.path()));
    fs::read_dir(directory)
        .unwrap()
        .next()
        .unwrap()
        .unwrap()
        .path()
}

#[test]
fn lintian_finds_nothing_wrong_with_the_debian_package() {
    if Command::new("lintian").arg("--version").output().is_err() {
        let name = "lintian_finds_nothing_wrong_with_the_debian_package";
        return skip(name, "there is no lintian");
    }
    let built = TempDir::new().unwrap();
    let said = run(Command::new("lintian")
        .args(["--allow-root", "--fail-on", "error,warning"])
        .arg(debian_package(&built)));
    assert!(!said.contains("mismatched-override"), "{said}");
}

#[test]
fn the_debian_package_installs_upgrades_and_goes() {
    let built = TempDir::new().unwrap();
    let package = debian_package(&built);
    let depends = run(Command::new("dpkg-deb")
        .arg("--field")
        .arg(&package)
        .arg("Depends"));
    let needed = newest_glibc("/bin/true");
    assert!(
        depends.contains(&format!("libc6 (>= {needed})")),
        "{depends}"
    );
    let root = empty_root();
    let package = package.to_str().unwrap();
    dpkg(root.path(), &["--install", package]);
    let settings = root.path().join("etc/sockstamp/agent.toml");
    let program = root.path().join("usr/bin/sockstamp");
    assert!(
        program.exists()
            && root
                .path()
                .join("usr/lib/systemd/system/sockstamp-agent.service")
                .exists()
    );

    for document in [
        "copyright",
        "changelog.gz",
        "changelog.Debian.gz",
        "sockstamp.rules.yml",
        "grafana.json",
    ] {
        let document = root.path().join("usr/share/doc/sockstamp").join(document);
        assert!(document.exists(), "{}", document.display());
    }
    fs::write(&settings, "sample = \"5/s\"\n").unwrap();
    dpkg(root.path(), &["--install", package]);
    assert_eq!(fs::read_to_string(&settings).unwrap(), "sample = \"5/s\"\n");

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
    // In tenths; a service without any protection has 96.
    run(Command::new("systemd-analyze")
        .args(["security", "--offline=true", "--threshold=50"])
        .arg(&copy));
    let open = text
        .replace("ProtectSystem=strict", "")
        .replace("NoNewPrivileges=yes", "")
        .replace("ProtectProc=", "#")
        .replace("PrivateDevices=", "#")
        .replace("RestrictNamespaces=", "#");
    let open = open.replace("CapabilityBoundingSet=", "#");
    fs::write(&copy, open).unwrap();
    let output = Command::new("systemd-analyze")
        .args(["security", "--offline=true", "--threshold=60"])
        .arg(&copy)
        .output()
        .unwrap();
    assert!(!output.status.success(), "nothing is compared");
}

/// Walks of every sockstamp of this host take turns by locks in one directory. Were it removed with
/// the agent, the next one would make other files, and find nobody's locks there.
#[test]
fn locks_of_others_outlive_the_unit() {
    let unit = fs::read_to_string(packaging("systemd/sockstamp-agent.service")).unwrap();
    let values = |key| {
        let line = unit.lines().filter_map(|line| line.split_once('='));
        let values = line.filter(|(name, _)| *name == key);
        values.map(|(_, value)| value).collect::<Vec<_>>()
    };
    assert_eq!(values("RuntimeDirectory"), ["sockstamp"]);
    assert_eq!(values("RuntimeDirectoryPreserve"), ["yes"]);
}

/// Every metric that the dashboard queries exists.
#[test]
fn the_dashboard_is_about_metrics_of_the_agent() {
    let text = fs::read_to_string(packaging("grafana/sockstamp.json")).unwrap();
    let dashboard: Value = serde_json::from_str(&text).unwrap();
    let series = |metric: &&Metric| [vec![metric.series()], series_of(metric)].concat();
    let known: BTreeSet<_> = ALL.iter().flat_map(series).collect();
    let panels = dashboard["panels"].as_array().unwrap();
    assert!(panels.len() > 5);
    for panel in panels {
        for target in panel["targets"].as_array().unwrap() {
            let query = target["expr"].as_str().unwrap();
            let words =
                query.split(|letter: char| !letter.is_ascii_alphanumeric() && letter != '_');
            let ours = ["sockstamp_", "process_", "container_net_"];
            let mut named = words.filter(|word| ours.iter().any(|begin| word.starts_with(*begin)));
            let first = named
                .next()
                .unwrap_or_else(|| panic!("{query} has no metric"));
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

/// The objects of a chart's release, with these values.
fn rendered(release: &str, values: &[&str]) -> String {
    printed(
        helm()
            .args([
                "template",
                release,
                "--namespace",
                "sockstamp",
                "--kube-version",
                "1.37.0",
            ])
            .args(values)
            .arg(packaging("helm/sockstamp")),
    )
}

fn helm() -> Command {
    go_tool("helm")
}

fn go_tool(name: &str) -> Command {
    let mut command = Command::new(packaging("../scripts/go-tool.sh"));
    command.arg(name);
    command
}

/// Return false where Go builds no tool, having said so.
fn go_builds(test: &str) -> bool {
    let builds = Command::new("go").arg("version").output().is_ok();
    if !builds {
        skip(test, "there is no Go to build Helm and kubeconform with");
    }
    builds
}

/// Write the published schemas of these objects into a folder. They refer to a file of definitions
/// by an address on the network; here each has the definitions itself.
const WRITE_SCHEMAS: &str = r##"
import json, pathlib, sys
import kubernetes_validate

versions = pathlib.Path(kubernetes_validate.__path__[0], "kubernetes-json-schema")
source = versions / "v1.37.0-local-strict"
definitions = json.loads((source / "_definitions.json").read_text())["$defs"]
for name in ["namespace-v1", "configmap-v1", "secret-v1", "daemonset-apps-v1"]:
    schema = json.loads((source / f"{name}.json").read_text())
    del schema["$id"]
    schema["$defs"] = definitions
    text = json.dumps(schema).replace("/api/_definitions.json#", "#")
    pathlib.Path(sys.argv[1], f"{name}.json").write_text(text)
"##;

/// Kubeconform's report. The schemas know neither PodMonitor nor PrometheusRule: these are types of
/// Prometheus' operator.
fn compare_with_schemas(yaml: &str) -> Value {
    let folder = TempDir::new().unwrap();
    run(python().args(["-c", WRITE_SCHEMAS]).arg(folder.path()));
    let file = folder.path().join("objects.yaml");
    fs::write(&file, yaml).unwrap();
    let schemas = "{{ .ResourceKind }}{{ .KindSuffix }}.json";
    let output = go_tool("kubeconform")
        .args(["-strict", "-summary", "-output=json"])
        .arg("-skip=PodMonitor,PrometheusRule")
        .arg("-schema-location")
        .arg(folder.path().join(schemas))
        .arg(&file)
        .output()
        .unwrap();
    serde_json::from_slice(&output.stdout).unwrap()
}

#[track_caller]
fn assert_fits(yaml: &str, objects: usize) {
    let report = compare_with_schemas(yaml);
    let of_operator = ["kind: PodMonitor", "kind: PrometheusRule"];
    let skipped: usize = of_operator
        .map(|kind| yaml.matches(kind).count())
        .iter()
        .sum();
    let expected = json!({"valid": objects, "invalid": 0, "errors": 0, "skipped": skipped});
    assert_eq!(report["summary"], expected, "{report}");
}

/// The settings in an object of these, as the agent checks them. The files of secrets are here, not
/// where pods have them.
fn are_good_settings(objects: &[Value], secrets: &[(&str, PathBuf)]) {
    let of_kind = |kind: &str| objects.iter().find(|object| object["kind"] == kind);
    let settings = of_kind("ConfigMap").unwrap()["data"]["agent.toml"]
        .as_str()
        .unwrap();
    let here = |settings: String, (path, file): &(&str, PathBuf)| {
        settings.replace(path, file.to_str().unwrap())
    };
    let settings = secrets.iter().fold(settings.to_owned(), here);
    let file = NamedTempFile::new().unwrap();
    fs::write(&file, settings).unwrap();
    run(Command::new(sockstamp())
        .args(["agent", "--check", "--config"])
        .arg(file.path()));
}

#[test]
fn the_daemonset_fits_the_schemas_of_kubernetes() {
    if !go_builds("the_daemonset_fits_the_schemas_of_kubernetes") {
        return;
    }
    let text = fs::read_to_string(packaging("kubernetes/daemonset.yaml")).unwrap();
    assert_fits(&text, 3);
    let token = token();
    are_good_settings(&objects(&text), &[(TOKEN, token.path().to_owned())]);
    // A word that no pod has.
    let wrong = compare_with_schemas(&text.replace("hostPID: true", "hostPids: true"));
    assert_eq!(wrong["summary"]["invalid"], 1, "{wrong}");
    assert!(wrong.to_string().contains("hostPids"), "{wrong}");
}

/// Where pods have the token.
const TOKEN: &str = "/etc/sockstamp-token/token";

fn token() -> NamedTempFile {
    let token = NamedTempFile::new().unwrap();
    fs::write(&token, "secret\n").unwrap();
    token
}

/// Without values, the chart is the plain file, the annotation that restarts pods when settings
/// change, and the token, which people make for the plain file.
#[test]
fn the_chart_is_the_daemonset_with_values() {
    if !go_builds("the_chart_is_the_daemonset_with_values") {
        return;
    }
    run(helm()
        .args(["lint", "--strict"])
        .arg(packaging("helm/sockstamp")));
    let plain = fs::read_to_string(packaging("kubernetes/daemonset.yaml")).unwrap();
    let plain: Vec<_> = objects(&plain);
    let text = rendered("sockstamp", &[]);
    assert_fits(&text, 3);
    let (secrets, mut released): (Vec<_>, Vec<_>) = objects(&text)
        .into_iter()
        .partition(|object| object["kind"] == "Secret");
    let data = secrets[0]["data"]["token"].as_str().unwrap();
    assert_eq!(data.len(), 64, "48 characters, in base64");
    assert_ne!(
        text,
        rendered("sockstamp", &[]),
        "another installation has another token"
    );
    for object in &mut released {
        let annotations = object.pointer_mut("/spec/template/metadata/annotations");
        if let Some(annotations) = annotations.and_then(Value::as_object_mut) {
            annotations.remove("sockstamp/settings").unwrap();
        }
    }
    // Helm makes the namespace itself (`--create-namespace`).
    assert_eq!(released, plain[1..]);
}

#[test]
fn without_a_token_the_chart_serves_the_node_alone() {
    if !go_builds("without_a_token_the_chart_serves_the_node_alone") {
        return;
    }
    let text = rendered("sockstamp", &["--set=token.enabled=false"]);
    assert_fits(&text, 2);
    let objects = objects(&text);
    are_good_settings(&objects, &[]);
    let settings = objects[0]["data"]["agent.toml"].as_str().unwrap();
    assert_eq!(settings, "listen = \"127.0.0.1:9776\"\n");
    let container = &objects[1]["spec"]["template"]["spec"]["containers"][0];
    for probe in ["readinessProbe", "livenessProbe"] {
        assert_eq!(container[probe]["httpGet"]["host"], "127.0.0.1");
    }
}

#[test]
fn the_chart_has_secrets_and_settings_where_the_agent_reads_them() {
    if !go_builds("the_chart_has_secrets_and_settings_where_the_agent_reads_them") {
        return;
    }
    let settings = "settings=by = [\"container\"\\, \"port\"]\n[target]\nfilter = \"not port 22\"";
    let values = [
        "--set=token.secret=token-of-agents,tlsSecret=identity,port=9000",
        "--set=image.tag=1.2.3,image.pullPolicy=Always,podMonitor.enabled=true",
        "--set=podMonitor.labels.release=monitoring,hindsight.enabled=true",
        "--set=hindsight.settings=keep = \"300s\"",
        "--set-string",
        settings,
    ];
    let text = rendered("latency", &values);
    assert_fits(&text, 2);
    let objects = objects(&text);
    let authority = Authority::new();
    let token = token();
    are_good_settings(
        &objects,
        &[
            (TOKEN, token.path().to_owned()),
            ("/etc/sockstamp-tls/tls.crt", authority.file("own.crt")),
            ("/etc/sockstamp-tls/tls.key", authority.file("own.key")),
        ],
    );
    let of_kind = |kind: &str| {
        objects
            .iter()
            .find(|object| object["kind"] == kind)
            .unwrap()
    };
    let pod = of_kind("DaemonSet")["spec"]["template"]["spec"].clone();
    let container = &pod["containers"][0];
    assert_eq!(container["image"], "sockstamp:1.2.3");
    assert_eq!(container["livenessProbe"]["httpGet"]["scheme"], "HTTPS");
    assert_eq!(container["livenessProbe"]["httpGet"]["path"], "/readyz");
    let annotations = &of_kind("DaemonSet")["spec"]["template"]["metadata"]["annotations"];
    assert_eq!(annotations["prometheus.io/port"], "9000");
    assert_eq!(annotations["prometheus.io/scheme"], "https");
    let settings = of_kind("ConfigMap")["data"]["agent.toml"].as_str().unwrap();
    assert!(settings.contains("keep = \"300s\""), "{settings}");
    for (name, file) in [
        ("token", "/token"),
        ("tls", "/tls.crt"),
        ("tls", "/tls.key"),
        ("hindsight", ""),
    ] {
        let mounts = container["volumeMounts"].as_array().unwrap();
        let mount = mounts.iter().find(|mount| mount["name"] == name).unwrap();
        let path = format!("\"{}{file}\"", mount["mountPath"].as_str().unwrap());
        assert!(settings.contains(&path), "{path} is not in {settings}");
        let volumes = pod["volumes"].as_array().unwrap();
        assert!(volumes.iter().any(|volume| volume["name"] == name));
    }
    let monitor = of_kind("PodMonitor");
    assert_eq!(monitor["metadata"]["labels"]["release"], "monitoring");
    assert_eq!(monitor["spec"]["scrapeNativeHistograms"], true);
    // The job's name is the value of this label.
    let label = monitor["spec"]["jobLabel"].as_str().unwrap();
    let labels = &of_kind("DaemonSet")["spec"]["template"]["metadata"]["labels"];
    assert_eq!(labels[label], "sockstamp");
    assert_eq!(&monitor["spec"]["selector"]["matchLabels"], labels);
    let endpoint = &monitor["spec"]["podMetricsEndpoints"][0];
    assert_eq!(
        endpoint["authorization"]["credentials"]["name"],
        "token-of-agents"
    );
    assert_eq!(endpoint["scheme"], "https");
}

#[test]
fn the_chart_has_the_alerts_and_the_dashboard_where_they_are_wanted() {
    if !go_builds("the_chart_has_the_alerts_and_the_dashboard_where_they_are_wanted") {
        return;
    }
    let values = [
        "--set=prometheusRule.enabled=true,prometheusRule.labels.release=monitoring",
        "--set=dashboard.enabled=true",
    ];
    let text = rendered("sockstamp", &values);
    assert_fits(&text, 4);
    let released = objects(&text);
    let of = |kind: &str, name: &str| {
        let is_it = |object: &&Value| object["kind"] == kind && object["metadata"]["name"] == name;
        released.iter().find(is_it).unwrap()
    };
    let rule = of("PrometheusRule", "sockstamp");
    assert_eq!(rule["metadata"]["labels"]["release"], "monitoring");
    let alerts = fs::read_to_string(packaging("prometheus/sockstamp.rules.yml")).unwrap();
    assert_eq!(rule["spec"], objects(&alerts)[0]);
    let dashboard = of("ConfigMap", "sockstamp-dashboard");
    assert_eq!(dashboard["metadata"]["labels"]["grafana_dashboard"], "1");
    let shown: Value =
        serde_json::from_str(dashboard["data"]["sockstamp.json"].as_str().unwrap()).unwrap();
    let file = fs::read_to_string(packaging("grafana/sockstamp.json")).unwrap();
    let expected: Value = serde_json::from_str(&file).unwrap();
    assert_eq!(shown, expected);
}

#[test]
fn the_chart_refuses_values_that_it_does_not_have() {
    if !go_builds("the_chart_refuses_values_that_it_does_not_have") {
        return;
    }
    let template = ["template", "sockstamp", "--kube-version", "1.37.0"];
    for wrong in ["podMonitors.enabled=true", "port=no", "token.enable=false"] {
        let output = helm()
            .args(template)
            .args(["--set", wrong])
            .arg(packaging("helm/sockstamp"))
            .output()
            .unwrap();
        let told = String::from_utf8_lossy(&output.stderr);
        let key = wrong.split(['=', '.']).next().unwrap();
        assert!(!output.status.success() && told.contains(key), "{told}");
    }
}

/// The rules are valid, and query existing metrics.
#[test]
fn alerts_are_about_metrics_of_the_agent() {
    let file = packaging("prometheus/sockstamp.rules.yml");
    let (good, said) = promtool(&["check", "rules", file.to_str().unwrap()], None);
    assert!(good && said.contains("SUCCESS"), "{said}");
    let names = |metric: &&Metric| [vec![metric.series()], series_of(metric)].concat();
    let known: BTreeSet<_> = ALL.iter().flat_map(names).collect();
    let text = fs::read_to_string(file).unwrap();
    let words =
        text.split(|character: char| !character.is_ascii_alphanumeric() && character != '_');
    let named: Vec<_> = words
        .filter(|word| word.starts_with("sockstamp_"))
        .collect();
    assert!(named.len() > 5);
    for name in named {
        assert!(known.contains(name), "no metric is named {name}");
    }
}
