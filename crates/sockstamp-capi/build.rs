//! Generates the Rust types of sockstamp.h, and what compares its functions with ours.

use std::path::PathBuf;
use std::{env, fs};

use anyhow::{Context, Result};
use bindgen::CodegenConfig;
use bindgen::callbacks::{DeriveTrait, ImplementsTrait, ParseCallbacks};

const HEADER: &str = "include/sockstamp.h";

/// Leave these out: types of libc, and handles, which are types of this crate.
const NOT_GENERATED: &str = "sockaddr.*|iovec|socklen_t|\
    sockstamp_(batch|completions|matcher|queue|receiver|registration|sender|stamping)";

fn main() -> Result<()> {
    println!("cargo:rerun-if-changed={HEADER}");
    let out = PathBuf::from(env::var("OUT_DIR")?);
    let functions = generate(CodegenConfig::FUNCTIONS)?;
    let write = |name: &str, contents: &str| {
        fs::write(out.join(name), contents).with_context(|| format!("cannot write {name}"))
    };
    write(
        "types.rs",
        &generate(CodegenConfig::TYPES | CodegenConfig::VARS)?,
    )?;
    write("functions.rs", &functions)?;
    write("signatures.rs", &signatures(&functions))
}

fn generate(what: CodegenConfig) -> Result<String> {
    let generated = bindgen::Builder::default()
        .header(HEADER)
        .allowlist_file(HEADER)
        .allowlist_recursively(false)
        .blocklist_type(NOT_GENERATED)
        .parse_callbacks(Box::new(Copied))
        .default_enum_style(bindgen::EnumVariation::Consts)
        .prepend_enum_name(false)
        .derive_copy(true)
        .derive_debug(false)
        .layout_tests(false)
        .generate_comments(false)
        .formatter(bindgen::Formatter::None)
        .with_codegen_config(what)
        .generate()?;
    Ok(generated.to_string())
}

/// Let types of libc be copied, so that they can be in a union.
#[derive(Debug)]
struct Copied;

impl ParseCallbacks for Copied {
    fn blocklisted_type_implements_trait(
        &self,
        _name: &str,
        derive: DeriveTrait,
    ) -> Option<ImplementsTrait> {
        (derive == DeriveTrait::Copy).then_some(ImplementsTrait::Yes)
    }
}

/// A line for each function of the header: its name, and a `_` for each parameter.
fn signatures(functions: &str) -> String {
    let declarations = functions.split("pub fn ").skip(1);
    let lines = declarations.filter_map(|declaration| {
        let (name, rest) = declaration.split_once('(')?;
        let (parameters, _) = rest.split_once(')')?;
        let blanks = "_, ".repeat(parameters.matches(" : ").count());
        Some(format!("same_signature!({}, {blanks});\n", name.trim()))
    });
    format!("{{\n{}}}\n", lines.collect::<String>())
}
