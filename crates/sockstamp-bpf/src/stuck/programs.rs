//! List the program of `stuck.bpf.c`.

use crate::facts::Hook::Walk;
use crate::programs::{Program, program};

/// The one program: nothing of it depends on what is asked for.
pub const PROGRAMS: [Program<()>; 1] = [program(
    "find_stuck_sockets",
    Walk("task_file"),
    |()| true,
    "none: once per open file, at each look",
)];
