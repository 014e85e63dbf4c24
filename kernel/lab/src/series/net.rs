//! The selftests of sockets, a file each: what they need of the kernel's makefiles is two folders
//! of headers.

use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result};

use super::patches::Series;
use super::programs::{copy_if_new, strip};
use super::succeed;
use crate::cache;

const SELFTESTS: &str = "tools/testing/selftests";
const HEADERS: &str = "include/uapi";

/// Builds them into a folder, under the last parts of their names.
pub(crate) fn build(tree: &Path, series: &Series, output: &Path, home: &Path) -> Result<()> {
    let selftests = tree.join(SELFTESTS);
    for path in series.net_selftests() {
        let name = path.rsplit('/').next().unwrap_or(path);
        let program = output.join(name);
        let mut compile = Command::new("cc");
        compile
            .args(["-O2", "-Wall", "-D_GNU_SOURCE="])
            .arg("-I")
            .arg(output.join(HEADERS))
            .arg("-I")
            .arg(&selftests)
            .arg(selftests.join(path).with_extension("c"))
            .args(["-lpthread", "-o"])
            .arg(&program);
        succeed(&mut compile).with_context(|| path.to_owned())?;
        strip(&program, &home.join(name))?;
    }
    Ok(())
}

/// Copies the headers that the series changes, to stand in front of this host's.
pub(crate) fn headers(tree: &Path, series: &Series, output: &Path) -> Result<()> {
    for path in series.touched().iter().filter(|path| path.starts_with(HEADERS)) {
        let copy = output.join(path);
        cache::make(copy.parent().context("a file is in a folder")?)?;
        copy_if_new(&tree.join(path), &copy)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn programs_are_built_with_the_headers_of_the_series() {
        let folder = tempfile::tempdir().unwrap();
        let write = |name: &str, text: &str| {
            let file = folder.path().join(name);
            fs::create_dir_all(file.parent().unwrap()).unwrap();
            fs::write(file, text).unwrap();
        };
        for name in ["base", "config", "count/count.c", "count/count.bpf.c"] {
            write(&format!("series/{name}"), "");
        }
        write("series/selftests", "of_bpf\nnet/one\n");
        write(
            "series/1.patch",
            "--- /dev/null\n+++ b/include/uapi/linux/errqueue.h\n@@ -0,0 +1 @@\n+#define ANSWER 42\n",
        );
        write("tree/include/uapi/linux/errqueue.h", "#define ANSWER 42\n");
        write(
            "tree/tools/testing/selftests/net/one.c",
            "#include <linux/errqueue.h>\nint main(void)\n{\n\treturn ANSWER;\n}\n",
        );
        write("home/none", "");
        let series = Series::read(&folder.path().join("series")).unwrap();
        let [tree, output, home] = ["tree", "output", "home"].map(|name| folder.path().join(name));
        headers(&tree, &series, &output).unwrap();
        build(&tree, &series, &output, &home).unwrap();
        let status = Command::new(home.join("one")).status().unwrap();
        assert_eq!(status.code(), Some(42));
    }
}
