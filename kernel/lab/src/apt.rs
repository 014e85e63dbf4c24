//! Get Debian's packages by apt, with lists and settings of our own: the system's are read, never
//! changed.

use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use anyhow::{Context, Result, bail};

use crate::arch::Arch;
use crate::cache;
use crate::release::{Archive, DebianKernel};

/// Signs Debian's archives; of the package debian-archive-keyring.
const KEYRING: &str = "/usr/share/keyrings/debian-archive-keyring.gpg";

/// The lists of packages of one suite, in a folder of their own.
#[derive(Debug)]
pub(crate) struct Apt {
    folder: PathBuf,
    suite: &'static str,
    arch: Arch,
}

impl Apt {
    /// Read the suite's lists from the mirror that this host uses.
    pub(crate) fn update(
        folder: &Path,
        archive: Archive,
        suite: &'static str,
        arch: Arch,
    ) -> Result<Apt> {
        let apt = Apt {
            folder: folder.to_owned(),
            suite,
            arch,
        };
        for part in ["lists/partial", "cache/archives/partial"] {
            cache::make(&folder.join(part))?;
        }
        let site = site(archive)?;
        let source = format!("deb [signed-by={KEYRING}] {site} {suite} main\n");
        fs::write(apt.sources(), source).context("cannot write apt's sources")?;
        apt.call("apt-get", ["update"])
            .with_context(|| format!("cannot get the package lists of {suite}"))?;
        Ok(apt)
    }

    /// The name and version of the newest package `PREFIX RELEASE… FLAVOUR-ARCH`.
    pub(crate) fn newest(&self, prefix: &str, release: DebianKernel) -> Result<String> {
        let names = self.call("apt-cache", ["pkgnames", prefix])?;
        let newest = newest(names.lines(), prefix, release, self.arch);
        newest.map(str::to_owned).with_context(|| {
            format!(
                "{} has no package {prefix}{}.*{}-{}",
                self.suite,
                release.numbers(),
                release.flavour(),
                self.arch.name()
            )
        })
    }

    /// Return true if the suite has a package of this name.
    pub(crate) fn has(&self, package: &str) -> Result<bool> {
        let names = self.call("apt-cache", ["pkgnames", package])?;
        Ok(names.lines().any(|name| name == package))
    }

    /// Return the names of packages that begin so.
    pub(crate) fn names(&self, prefix: &str) -> Result<Vec<String>> {
        let names = self.call("apt-cache", ["pkgnames", prefix])?;
        Ok(names.lines().map(str::to_owned).collect())
    }

    /// Return the newest version of a package.
    pub(crate) fn version(&self, package: &str) -> Result<String> {
        let shown = self.call("apt-cache", ["show", "--no-all-versions", package])?;
        let mut versions = shown
            .lines()
            .filter_map(|line| line.strip_prefix("Version: "));
        let version = versions.next().map(str::to_owned);
        version.with_context(|| format!("{} has no {package}", self.suite))
    }

    /// Downloads packages into a folder.
    pub(crate) fn download(&self, packages: &[String], to: &Path) -> Result<()> {
        let arguments = ["download".to_owned()]
            .into_iter()
            .chain(packages.iter().cloned());
        let mut command = self.command("apt-get", arguments);
        succeed(command.current_dir(to))
            .with_context(|| format!("cannot download {}", packages.join(", ")))?;
        Ok(())
    }

    fn call<const N: usize>(&self, program: &str, arguments: [&str; N]) -> Result<String> {
        let output = succeed(&mut self.command(program, arguments))?;
        Ok(String::from_utf8_lossy(&output.stdout).into_owned())
    }

    fn command(
        &self,
        program: &str,
        arguments: impl IntoIterator<Item = impl AsRef<OsStr>>,
    ) -> Command {
        let folder = self.folder.display();
        let options = [
            format!("Dir::Etc::SourceList={}", self.sources().display()),
            "Dir::Etc::SourceParts=-".into(),
            format!("Dir::State::Lists={folder}/lists"),
            format!("Dir::Cache={folder}/cache"),
            // Packages that are installed here are none of the suite's.
            "Dir::State::status=/dev/null".into(),
            "Acquire::Languages=none".into(),
            "Acquire::Retries=3".into(),
            // Turn unavailable lists into errors: by default they are warnings.
            "APT::Update::Error-Mode=any".into(),
            // The user _apt cannot write into this user's cache.
            "APT::Sandbox::User=root".into(),
            format!("APT::Architecture={}", self.arch.name()),
            format!("APT::Architectures::={}", self.arch.name()),
        ];
        let mut command = Command::new(program);
        command.env("LC_ALL", "C").arg("-q");
        for option in options {
            command.args(["-o", &option]);
        }
        command.args(arguments);
        command
    }

    fn sources(&self) -> PathBuf {
        self.folder.join("sources.list")
    }
}

/// The mirror of an archive that this host's apt uses.
pub(crate) fn site(archive: Archive) -> Result<String> {
    let mut apt = Command::new("apt-get");
    apt.args([
        "indextargets",
        "--format",
        "$(ORIGIN)|$(LABEL)|$(REPO_URI)",
        "Created-By: Packages",
    ]);
    let output = succeed(&mut apt).context("cannot ask apt for its mirrors")?;
    let targets = String::from_utf8_lossy(&output.stdout);
    let (label, what) = match archive {
        Archive::Main => ("Debian", "archive"),
        Archive::Security => ("Debian-Security", "security archive"),
    };
    let site = find_site(&targets, label);
    site.with_context(|| {
        format!(
            "apt knows no mirror of Debian's {what} (is this Debian, and did `apt-get update` run?)"
        )
    })
}

/// Find the address in lines of origin, label and address.
fn find_site(targets: &str, label: &str) -> Option<String> {
    targets.lines().find_map(|line| {
        let mut fields = line.splitn(3, '|');
        let found = fields.next()? == "Debian" && fields.next()? == label;
        found.then(|| fields.next().map(str::to_owned))?
    })
}

/// Debian counts on in the names of its kernels: 6.1.0-56, 6.12.117+deb12. Old ones stay for a
/// while. A name that ends otherwise is that of another flavour.
fn newest<'a>(
    names: impl Iterator<Item = &'a str>,
    prefix: &str,
    release: DebianKernel,
    arch: Arch,
) -> Option<&'a str> {
    let suffix = format!("{}-{}", release.flavour(), arch.name());
    let version = |name: &'a str| {
        let version = name.strip_prefix(prefix)?.strip_suffix(suffix.as_str())?;
        let rest = version.strip_prefix(release.numbers())?.strip_prefix('.')?;
        rest.ends_with(|last: char| last.is_ascii_digit())
            .then_some(rest)
    };
    names
        .filter_map(|name| Some((numbers(version(name)?), name)))
        .max()
        .map(|(_, name)| name)
}

fn numbers(version: &str) -> Vec<u64> {
    version
        .split(|c: char| !c.is_ascii_digit())
        .filter_map(|number| number.parse().ok())
        .collect()
}

/// Runs it; apt's own words are the error.
fn succeed(command: &mut Command) -> Result<Output> {
    let program = command.get_program().to_string_lossy().into_owned();
    let output = command
        .output()
        .with_context(|| format!("cannot run {program}"))?;
    if !output.status.success() {
        bail!(
            "{program}: {}",
            complaint(&String::from_utf8_lossy(&output.stderr))
        );
    }
    Ok(output)
}

/// The errors that apt wrote, else all.
fn complaint(stderr: &str) -> String {
    let errors: Vec<&str> = stderr
        .lines()
        .filter(|line| line.starts_with("E:"))
        .collect();
    let lines = if errors.is_empty() {
        stderr.lines().collect()
    } else {
        errors
    };
    lines.join("; ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_newest_is_by_number_and_of_the_release() {
        let names = [
            "linux-image-6.1.0-9-cloud-amd64",
            "linux-image-6.1.0-56-cloud-amd64",
            "linux-image-6.1.0-56-cloud-amd64-unsigned",
            "linux-image-6.1.0-57-cloud-amd64-dbg",
            "linux-image-6.1.0-58-amd64",
            "linux-image-6.12.117+deb12-cloud-amd64",
            "linux-image-6.12.99+deb12-cloud-amd64",
            "linux-image-6.12-cloud-amd64",
            "linux-image-cloud-amd64",
            "linux-image-7.3.4+deb13-amd64",
            "linux-image-7.3.9+deb13-cloud-amd64",
            "linux-image-7.3.9+deb13-rt-amd64",
        ];
        let newest = |release| newest(names.into_iter(), "linux-image-", release, Arch::Amd64);
        assert_eq!(newest(DebianKernel::Linux6_1), Some(names[1]));
        assert_eq!(newest(DebianKernel::Linux6_12), Some(names[5]));
        assert_eq!(newest(DebianKernel::Linux7_2), None);
        assert_eq!(newest(DebianKernel::Igb), Some(names[9]));
    }

    #[test]
    fn the_security_archive_is_another_one() {
        let targets =
            "Ubuntu|Ubuntu|http://c/\nDebian|Debian|http://a/\nDebian|Debian-Security|http://b/\n";
        assert_eq!(find_site(targets, "Debian").as_deref(), Some("http://a/"));
        assert_eq!(
            find_site(targets, "Debian-Security").as_deref(),
            Some("http://b/")
        );
        assert_eq!(find_site("Ubuntu|Ubuntu|http://c/\n", "Debian"), None);
    }

    #[test]
    fn only_errors_of_apt_are_reported() {
        let said = "W: old key\nE: Failed to fetch http://a/x  404\nE: Some files failed\n";
        assert_eq!(
            complaint(said),
            "E: Failed to fetch http://a/x  404; E: Some files failed"
        );
        assert_eq!(complaint("killed\n"), "killed");
    }
}
