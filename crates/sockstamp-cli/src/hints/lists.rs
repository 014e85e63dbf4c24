//! Lists that are several words, or end with a comma, where an option takes one word.

use super::taken::{end, is_taken, line as typed, replaced};

/// Options of lists.
const LISTS: [&str; 2] = ["--by", "--columns"];
/// Words of a list, at most.
const LONGEST: usize = 6;

/// Return what to type for the items of a list behind its option.
pub(super) fn line(words: &[String]) -> Option<String> {
    let begin = |word: &String| LISTS.contains(&word.split('=').next().unwrap_or_default());
    let option = words[..end(words)].iter().position(begin)?;
    let first = option + usize::from(!words[option].contains('='));
    let most = end(words).min(first + LONGEST);
    let lines = (first + 1..=most).rev().map(|end| {
        let list = words[first..end].join(",");
        let items = list.split([',', ' ']).filter(|item| !item.is_empty());
        let joined = items.collect::<Vec<_>>().join(",");
        replaced(words, first..end, &[joined])
    });
    let mut lines = lines.filter(|line| line != words);
    let line = lines.find(|line| is_taken(line))?;
    Some(format!("a list is one word: {}", typed(&line)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hints::taken::words;

    #[test]
    fn a_list_is_one_word() {
        for (wrong, written) in [
            ("stat --by comm port", "stat --by comm,port"),
            ("stat --by comm port tcp", "stat --by comm,port tcp"),
            ("report --columns p50 p99 a", "report --columns p50,p99 a"),
            ("stat --by=comm,port,", "stat --by=comm,port"),
            ("top --by comm, port -p 1", "top --by comm,port -p 1"),
        ] {
            let expected = format!("a list is one word: sockstamp {written}");
            assert_eq!(line(&words(wrong)), Some(expected));
        }
        let quoted = ["top", "--by", "comm port"].map(str::to_owned);
        assert!(line(&quoted).is_some_and(|told| told.ends_with("--by comm,port")));
        for other in ["stat --by nothing port", "stat", "stat -- x --by a b"] {
            assert_eq!(line(&words(other)), None, "{other}");
        }
    }
}
