//! The library, installed by `make install-library` below a folder that lives as long as the tests.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;
use std::{env, fs};

use tempfile::TempDir;

/// The linkage of a program with the library.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Linkage {
    Shared,
    Static,
}

pub(crate) struct Installed {
    folder: TempDir,
}

/// Installs it once.
pub(crate) fn installed() -> &'static Installed {
    static INSTALLED: OnceLock<Installed> = OnceLock::new();
    INSTALLED.get_or_init(Installed::new)
}

impl Installed {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        built();
        run(Command::new(root().join("scripts/c-library.sh"))
            .arg(profile().join("libsockstamp_capi.a"))
            .arg(profile().join("c-library")));
        run(Command::new("make")
            .args(["--silent", "install-library"])
            .arg(format!("PREFIX={}", folder.path().display()))
            .arg(format!("RELEASE={}", profile().display()))
            .env_remove("DESTDIR")
            .current_dir(root()));
        Self { folder }
    }

    pub(crate) fn path(&self, below: &str) -> PathBuf {
        self.folder.path().join(below)
    }

    /// Compile a program with the flags of the .pc file.
    pub(crate) fn compile(&self, source: &Path, linkage: Linkage, flags: &[&str], program: &Path) {
        let library = match linkage {
            Linkage::Shared => self.pkg_config(&["--libs"]),
            Linkage::Static => self
                .pkg_config(&["--static", "--libs"])
                .replace("-lsockstamp", "-l:libsockstamp.a"),
        };
        run(Command::new("cc")
            .args(["-std=gnu11", "-g", "-Wall", "-Wextra", "-Werror"])
            .args(flags)
            .arg(source)
            .args(self.pkg_config(&["--cflags"]).split_whitespace())
            .args(library.split_whitespace())
            .arg("-o")
            .arg(program));
    }

    fn pkg_config(&self, what: &[&str]) -> String {
        run(Command::new("pkg-config")
            .args(what)
            .arg("sockstamp")
            .env("PKG_CONFIG_PATH", self.path("lib/pkgconfig")))
    }
}

/// Return cargo's output folder of this test's profile.
pub(crate) fn profile() -> PathBuf {
    let test = env::current_exe().unwrap();
    test.ancestors().nth(2).unwrap().to_owned()
}

fn cargo(arguments: &[&str]) {
    let mut command = Command::new(env!("CARGO"));
    // The build script of `ring` runs again where these differ.
    for (name, _) in env::vars_os() {
        let text = name.to_string_lossy();
        if text.starts_with("CARGO_PKG_") || text.starts_with("CARGO_MANIFEST_") {
            command.env_remove(&name);
        }
    }
    run(command
        .args(arguments)
        .args(["--quiet", "--locked", "--target-dir"])
        .arg(profile().parent().unwrap())
        .current_dir(root()));
}

/// Build the archive of the library and the program `sockstamp`, which tests do not link. With the
/// whole workspace: for a package alone, dependencies have fewer features, and are built once more.
pub(crate) fn built() {
    cargo(&["build", "--workspace", "--all-targets"]);
}

/// The program `sockstamp`, as all tests of the workspace have it.
pub(crate) fn sockstamp() -> PathBuf {
    built();
    profile().join("sockstamp")
}

/// The output of a command that succeeds.
pub(crate) fn run(command: &mut Command) -> String {
    let output = command.output().unwrap();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(
        output.status.success(),
        "{command:?}: {}\n{errors}",
        output.status
    );
    String::from_utf8(output.stdout).unwrap()
}

pub(crate) fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .ancestors()
        .nth(2)
        .unwrap()
}

pub(crate) fn header() -> String {
    fs::read_to_string(root().join("crates/sockstamp-capi/include/sockstamp.h")).unwrap()
}

/// The functions that sockstamp.h declares, sorted.
pub(crate) fn declared() -> Vec<String> {
    let header = header();
    let starts = header
        .lines()
        .filter(|line| !line.starts_with([' ', '\t', '/', '#', '}']));
    let mut names: Vec<_> = starts
        .filter_map(|line| {
            line.split_once('(')?
                .0
                .rsplit([' ', '*'])
                .next()
                .map(str::to_owned)
        })
        .collect();
    names.sort();
    names
}
