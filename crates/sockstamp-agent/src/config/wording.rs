//! Errors of settings, in the words of their file.

/// Types of values, as the parser of the file calls them, and as a user does.
const TYPES: [(&str, &str); 7] = [
    ("a boolean", "true or false, without quotes"),
    ("a sequence", "a list, as in [\"a\", \"b\"]"),
    (
        "a string",
        "text in quotes; a time has its unit there, as in \"300s\"",
    ),
    ("a map", "a table, as in { port = \"80\" }"),
    ("struct Match", "a table, as in { port = \"80\" }"),
    ("struct ", "a table, which begins with [NAME]"),
    ("path string", "a path in quotes"),
];

/// Return the message without the names of types that the program has.
pub(super) fn of_settings(message: &str) -> String {
    if let Some(unknown) = message.strip_prefix("unknown field `port`, expected ") {
        return format!("unknown field `port`: write filter = \"port 80\"; there is {unknown}");
    }
    let Some((_, expected)) = message
        .strip_prefix("invalid type: ")
        .or_else(|| message.strip_prefix("invalid value: "))
        .and_then(|message| message.rsplit_once(", expected "))
    else {
        return message.to_owned();
    };
    let known = TYPES.iter().find(|(name, _)| expected.starts_with(name));
    match known {
        Some((_, written)) => format!("it is {written}"),
        None if is_number(expected) && message.starts_with("invalid value: integer") => {
            "it is too small or too large".to_owned()
        }
        None if is_number(expected) => "it is a number, without quotes and unit".to_owned(),
        None => message.to_owned(),
    }
}

fn is_number(expected: &str) -> bool {
    let name = expected.rsplit(' ').next().unwrap_or_default();
    let bits = name.strip_prefix(['u', 'i', 'f']).unwrap_or_default();
    ["8", "16", "32", "64", "size"].contains(&bits)
}

/// Return what a file in the language of other programs is to be, if its line at a byte is in it.
pub(super) fn of_yaml(text: &str, at: usize) -> Option<String> {
    let before = text.get(..at).unwrap_or(text);
    let begin = before.rfind('\n').map_or(0, |end| end + 1);
    let line = text.get(begin..)?.lines().next()?.trim();
    let (key, _) = line.split_once(':')?;
    let is_key = |c: char| c.is_ascii_alphanumeric() || "_-. ".contains(c);
    let is_yaml = !key.is_empty() && key.chars().all(is_key);
    is_yaml.then(|| {
        let key = key.trim_start_matches("- ");
        format!("this is YAML, and settings are TOML: {key} = VALUE, or [{key}] for a table")
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Config;

    #[test]
    fn settings_are_refused_in_their_own_words() {
        for (text, told) in [
            ("max_memory = \"256M\"", "a number, without quotes and unit"),
            ("expire = 300", "as in \"300s\""),
            ("udp = \"no\"", "true or false, without quotes"),
            ("by = \"comm\"", "a list, as in [\"a\", \"b\"]"),
            (
                "[target]\nport = 80",
                "write filter = \"port 80\"; there is ",
            ),
            (
                "[[rule]]\nmatch = \"port 80\"",
                "a table, as in { port = \"80\" }",
            ),
            ("target = \"port 80\"", "a table, which begins with [NAME]"),
            ("listen: 127.0.0.1:80", "settings are TOML: listen = VALUE"),
            (
                "target:\n  filter: tcp",
                "settings are TOML: target = VALUE",
            ),
        ] {
            let error = Config::parse(text).unwrap_err();
            assert!(error.contains(told), "{text}: {error}");
            for name in ["u32", "struct", "nonzero", "sequence"] {
                assert!(!error.contains(name), "{text}: {error}");
            }
        }
        assert_eq!(of_settings("no such thing"), "no such thing");
    }
}
