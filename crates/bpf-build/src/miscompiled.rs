//! Find what clang's BPF backend now and then leaves in an object, for the verifier to refuse.
//!
//! `BPFMISimplifyPatchable` replaces the load of a field's offset, which is relocated, by the
//! offset. It skips loads whose address is in `SkipInsts`, a set that it never empties: neither
//! when an instruction is freed, nor at the next function. Where the allocator gives such an
//! address to another load, that one stays in the program, and reads from the offset as if it were
//! an address:
//!
//! ```text
//! r1 = 0                    r1 = 0
//! r7 += r1                  r1 = *(u64 *)(r1 + 0)
//!                           r7 += r1
//! ```
//!
//! Heaps differ from run to run, and so do objects. Of 21 compilations of sockstamp.bpf.c by clang
//! 19.1.7, five had such a load, at four places; nothing else differed. LLVM's main branch has the
//! same code, and clang 22.1.8 made two objects of six. Of a later state of the programs, clang
//! 16.0.6, 19.1.7 and 22.1.8 made twelve sound objects each. The layout of the heap decides, so no
//! version is taken to be sound; `examples/miscompilations.rs` counts again.
//!
//! LLVM's tracker has no report of it (November 2026); llvm/llvm-project#183446 mends another fault
//! of the pass. Emptying the set at the start of `runOnMachineFunction` would mend this one.

use anyhow::{Context, Result};
use object::{Object, ObjectSection, SectionKind};

/// Size of a slot in bytes.
const SIZE: usize = 8;

/// Classes, the lower three bits of an opcode: RFC 9669, section 3.1.
const CLASS: u8 = 0x07;
const LDX: u8 = 0x01;
const ALU: u8 = 0x04;
const JMP: u8 = 0x05;
const JMP32: u8 = 0x06;
const ALU64: u8 = 0x07;

/// `mov` of a constant to a register of 64 bits.
const MOV64_CONSTANT: u8 = 0xb7;
/// `ld_imm64`, the only instruction of two slots.
const LD_IMM64: u8 = 0x18;

/// Return true if a program of the object reads memory at a constant, which no verifier admits.
pub(crate) fn has_load_through_constant(object: &[u8]) -> Result<bool> {
    let file = object::File::parse(object).context("cannot read the object")?;
    for section in file.sections() {
        if section.kind() == SectionKind::Text && reads_at_constant(section.data()?) {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Follow constants from one instruction to the next. A jump ends that: another path may meet
/// there.
fn reads_at_constant(instructions: &[u8]) -> bool {
    let mut constant = [false; 16];
    let mut rest = instructions.chunks_exact(SIZE);
    while let Some(&[opcode, registers, ..]) = rest.next() {
        let (to, from) = (usize::from(registers & 0xf), usize::from(registers >> 4));
        if opcode == LD_IMM64 {
            constant[to] = false;
            rest.next();
            continue;
        }
        match opcode & CLASS {
            LDX if constant[from] => return true,
            LDX => constant[to] = false,
            ALU | ALU64 => constant[to] = opcode == MOV64_CONSTANT,
            JMP | JMP32 => constant = [false; 16],
            // An atomic operation may put what it found into its source.
            _ => constant[from] = false,
        }
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    /// r1 = 0
    const CONSTANT: [u8; SIZE] = [MOV64_CONSTANT, 0x01, 0, 0, 0, 0, 0, 0];
    /// r1 = *(u64 *)(r1 + 0)
    const LOAD: [u8; SIZE] = [0x79, 0x11, 0, 0, 0, 0, 0, 0];
    /// r7 += r1
    const ADD: [u8; SIZE] = [0x0f, 0x17, 0, 0, 0, 0, 0, 0];
    /// r1 = r2
    const COPY: [u8; SIZE] = [0xbf, 0x21, 0, 0, 0, 0, 0, 0];
    /// goto +0
    const JUMP: [u8; SIZE] = [0x05, 0, 0, 0, 0, 0, 0, 0];
    /// r1 = 0 ll, whose second half looks like the constant.
    const WIDE: [[u8; SIZE]; 2] = [[0x18, 0x01, 0, 0, 0, 0, 0, 0], CONSTANT];

    #[test]
    fn a_load_through_an_offset_that_clang_left_is_found() {
        assert!(reads_at_constant(&[CONSTANT, LOAD, ADD].concat()));
        assert!(reads_at_constant(&[CONSTANT, ADD, LOAD].concat()));
    }

    #[test]
    fn a_load_through_a_pointer_is_none_that_clang_left() {
        assert!(!reads_at_constant(&[CONSTANT, ADD].concat()));
        assert!(!reads_at_constant(&[CONSTANT, COPY, LOAD].concat()));
        assert!(!reads_at_constant(&[CONSTANT, JUMP, LOAD].concat()));
        assert!(!reads_at_constant(&[WIDE[0], WIDE[1], LOAD].concat()));
        assert!(!reads_at_constant(&[LOAD, LOAD].concat()));
    }
}
