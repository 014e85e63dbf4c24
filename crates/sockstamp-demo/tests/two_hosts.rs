//! The demo of two hosts: each cause is where it was planted.

use std::process::Command;

use testbed::within_attempts;

const CAUSES: usize = 5;
const ENOUGH: f64 = 90.0;

#[test]
fn five_causes_have_nine_tenths_of_the_delay_on_either_side() {
    within_attempts(|| {
        let output = Command::new(env!("CARGO_BIN_EXE_sockstamp-demo-two-hosts"))
            .output()
            .unwrap();
        assert!(output.status.success(), "{output:?}");
        let printed = String::from_utf8(output.stdout).unwrap();
        let planted: Vec<_> = printed
            .lines()
            .filter(|line| line.contains("planted in"))
            .collect();
        println!("{}", planted.join("\n"));
        assert_eq!(planted.len(), CAUSES, "{printed}");
        let shares = planted.iter().flat_map(|line| shares(line));
        let least = shares.fold(100.0, f64::min);
        match least >= ENOUGH {
            true => Ok(()),
            false => Err(printed),
        }
    });
}

/// Return the numbers before `%`.
fn shares(line: &str) -> Vec<f64> {
    let words: Vec<_> = line.split(' ').collect();
    let shares: Vec<f64> = words
        .windows(2)
        .filter(|words| words[1] == "%")
        .map(|words| words[0].parse().unwrap())
        .collect();
    assert_eq!(shares.len(), 2, "{line}");
    shares
}
