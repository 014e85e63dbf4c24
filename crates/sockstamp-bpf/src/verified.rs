//! Read the verifier's cost of accepting a program.

use std::fs;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};

use libbpf_rs::{Object, Program};

use crate::error::{Error, Tried};

/// Return the number of instructions that it processed per loaded program, by its name.
pub(crate) fn of(object: &Object) -> Result<Vec<(String, u32)>, Error> {
    let of_one = |program: Program<'_>| {
        let name = program.name().to_string_lossy().into_owned();
        let instructions = instructions(program.as_fd()).tried(format!("look at {name}"))?;
        Ok((name, instructions))
    };
    let loaded = object.progs().filter(|program| program.autoload());
    loaded.map(of_one).collect()
}

/// Return the instructions, counted once per path on which the verifier processed them. 1,000,000
/// is the limit (BPF_COMPLEXITY_LIMIT_INSNS, include/linux/bpf.h, v6.18).
fn instructions(program: BorrowedFd<'_>) -> io::Result<u32> {
    // bpf_prog_show_fdinfo(), kernel/bpf/syscall.c, since v5.16.
    let text = fs::read_to_string(format!("/proc/self/fdinfo/{}", program.as_raw_fd()))?;
    parse(&text).ok_or_else(|| io::Error::other("no verified_insns in its fdinfo"))
}

fn parse(fdinfo: &str) -> Option<u32> {
    let value = fdinfo
        .lines()
        .find_map(|line| line.strip_prefix("verified_insns:"))?;
    value.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_count_is_read_from_fdinfo() {
        assert_eq!(
            parse("prog_id:\t7\nrun_cnt:\t8\nverified_insns:\t912\n"),
            Some(912)
        );
        assert_eq!(parse("prog_id:\t7\n"), None);
    }
}
