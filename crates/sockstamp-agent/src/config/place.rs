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

/// Return the key whose value a byte is in, where both are on one line.
pub(super) fn key_at(text: &str, at: usize) -> Option<&str> {
    let before = text.get(..at)?;
    let line = before.rsplit('\n').next()?;
    let (key, _) = line.rsplit_once('=')?;
    let is_of_key =
        |character: char| character.is_ascii_alphanumeric() || "_-.".contains(character);
    let key = key
        .trim_end()
        .rsplit(|character| !is_of_key(character))
        .next()?;
    (!key.is_empty()).then_some(key)
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_key_of_a_value_is_found_on_its_line() {
        let text = "a = 1\n[[rule]]\nmatch = { port = \"x\" }\nby = [\n\"x\"]";
        let key = |of: &str| key_at(text, text.find(of).unwrap());
        assert_eq!(key("1"), Some("a"));
        assert_eq!(key("\"x\" }"), Some("port"));
        assert_eq!(key("{ port"), Some("match"));
        // A value that begins on an earlier line, a table, and a place without a value.
        assert_eq!(key("\"x\"]"), None);
        assert_eq!(key("[[rule"), None);
        assert_eq!(key_at(text, 1000), None);
        // Bytes before a key that are no whole character.
        let odd = "by = [\"äb=c\", x]";
        assert_eq!(key_at(odd, odd.find("x]").unwrap()), Some("b"));
    }
}
