//! The places of settings in a file, for what is wrong with them.

use toml::de::DeTable;

/// The path of a setting: the tables that it is in, and its key.
pub(super) type Setting = &'static [&'static str];

/// Put line and column of a byte before a message. Columns count characters.
pub(super) fn located(text: &str, at: usize, message: &str) -> String {
    let before = text.get(..at.min(text.len())).unwrap_or_default();
    let line = before.matches('\n').count() + 1;
    let last = before.rsplit('\n').next().unwrap_or_default();
    let column = last.chars().count() + 1;
    format!("{line}:{column}: {}", message.trim())
}

/// Return the byte at which the key of a setting begins.
pub(super) fn place_of(text: &str, setting: Setting) -> usize {
    let document = DeTable::parse(text).ok();
    let place = document.and_then(|document| place_in(document.get_ref(), setting));
    place.unwrap_or_default()
}

fn place_in(table: &DeTable<'_>, setting: Setting) -> Option<usize> {
    let (&name, below) = setting.split_first()?;
    let (key, value) = table.get_key_value(name)?;
    match below.is_empty() {
        true => Some(key.span().start),
        false => place_in(value.get_ref().as_table()?, below),
    }
}
