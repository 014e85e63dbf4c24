//! Errors in words: `No such file or directory`, whichever library printed them.

use std::io;

use nix::errno::Errno;

/// The standard library prints an error of the kernel with its number.
const NUMBER: &str = " (os error ";
/// The last error that Linux has on its most common architectures: EHWPOISON.
const LAST: i32 = 133;

/// Return the text with errors of the kernel by their words alone: the standard library adds their
/// number, and nix their name.
#[must_use]
pub fn in_words(text: &str) -> String {
    let mut worded = without_numbers(text);
    for errno in (1..=LAST).map(Errno::from_raw) {
        let named = errno.to_string();
        if errno != Errno::UnknownErrno && worded.contains(&named) {
            let words = without_numbers(&io::Error::from(errno).to_string());
            worded = worded.replace(&named, &words);
        }
    }
    worded
}

fn without_numbers(text: &str) -> String {
    let mut parts = text.split(NUMBER);
    let mut worded = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        match part.split_once(')') {
            Some((number, rest)) if number.parse::<i32>().is_ok() => worded.push_str(rest),
            _ => worded.extend([NUMBER, part]),
        }
    }
    worded
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_reads_the_same_whoever_prints_it() {
        for errno in [
            Errno::ENOENT,
            Errno::EOPNOTSUPP,
            Errno::EACCES,
            Errno::ENOTCONN,
        ] {
            let of_std = in_words(&format!("a: {}: b", io::Error::from(errno)));
            assert_eq!(of_std, in_words(&format!("a: {errno}: b")));
            assert!(!of_std.contains(['(', 'E']), "{of_std}");
        }
        let twice = format!("{}; {}", io::Error::from(Errno::EPERM), Errno::EPERM);
        let words = "Operation not permitted";
        assert_eq!(in_words(&twice), format!("{words}; {words}"));
    }

    #[test]
    fn other_text_stays() {
        for text in ["", "ENOENT is a name", "a (os error x) b", "a (os error "] {
            assert_eq!(in_words(text), text);
        }
    }
}
