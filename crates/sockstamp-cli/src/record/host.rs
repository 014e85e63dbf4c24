//! The host's name, as a part of a path.

/// Return the host's name, with `_` for all that could have a meaning in a path.
pub(super) fn name() -> String {
    let name = nix::sys::utsname::uname().map(|uname| uname.nodename().to_owned());
    part_of_path(&name.unwrap_or_default().to_string_lossy())
}

fn part_of_path(name: &str) -> String {
    let plain = |character: char| match character {
        'a'..='z' | 'A'..='Z' | '0'..='9' | '-' | '.' => character,
        _ => '_',
    };
    let name: String = name.chars().map(plain).collect();
    match name.trim_matches('.') {
        "" => "unknown".to_owned(),
        name => name.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_host_name_cannot_leave_the_directory() {
        assert_eq!(part_of_path("db-1.example.org"), "db-1.example.org");
        assert_eq!(part_of_path("../../etc/x"), "_.._etc_x");
        assert_eq!(part_of_path(".."), "unknown");
        assert_eq!(part_of_path("a\u{1b}[2J b"), "a__2J_b");
    }
}
