//! The report of `explain` while it measures.

use crate::{end, start};

/// Return the report of `explain` about a target while `work` runs.
pub fn explained(target: &[&str], work: impl FnOnce()) -> String {
    let explain = start(&[&["explain", "--every", "--max-cost=none"], target].concat());
    work();
    let text = end(explain).stdout();
    println!("{text}");
    text
}

/// Check that of messages of this kind a component is named first, with these words.
pub fn names(text: &str, kind: &str, component: &str, words: &str) -> Result<(), String> {
    let section = text.split(&format!(" {kind}:")).nth(1).unwrap_or_default();
    let section = section.split("\n\n").next().unwrap_or_default();
    let first = section
        .lines()
        .find(|line| line.contains(" of the excess is "));
    let said: Vec<_> = section.split_whitespace().collect();
    let is_named =
        first.is_some_and(|line| line.contains(&format!("of the excess is {component}")));
    match is_named && said.join(" ").contains(words) {
        true => Ok(()),
        false => Err(format!("{kind} {component}: {text}")),
    }
}
