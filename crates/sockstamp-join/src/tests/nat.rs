//! Connections whose addresses differ between the hosts.

use sockstamp_model::message::Message;

use super::hosts::{Lives, STILL, Truth, exchange, joined, joined_through, rows};
use crate::{Host, Nat, Reason, Translations, Trust};

/// Let the second host see another address and port of the first one.
fn behind_nat(rows: &mut [Vec<Message>; 2], port: u16) {
    for row in &mut rows[1] {
        row.flow.remote = ([192, 0, 2, 7], port).into();
    }
}

fn learned(rows: &[Vec<Message>; 2]) -> Translations {
    let mut nat = Nat::default();
    for (host, rows) in Host::ALL.into_iter().zip(rows) {
        rows.iter().for_each(|row| nat.add(host, row));
    }
    nat.translations()
}

#[test]
fn connections_behind_nat_are_found_by_their_numbers() {
    let mut random = fastrand::Rng::with_seed(19);
    let truths = exchange(&mut random, 5, [60_000, 60_000]);
    let mut rows = rows(&truths, STILL);
    assert!(learned(&rows).is_empty());
    behind_nat(&mut rows, 61_000);
    let (lives, join) = joined(rows.clone(), Trust::Clocks);
    assert_eq!(lives.len(), 0);
    assert_eq!(join.unmatched()[Reason::OneSided], 2 * truths.len() as u64);
    let translations = learned(&rows);
    assert_eq!(translations.len(), 2);
    let (lives, _) = joined_through(rows, Trust::Clocks, translations);
    assert_eq!(lives.len(), truths.len());
    let lives = Lives::new(&lives);
    assert!(truths.iter().all(|truth| lives.of(*truth).is_some()));
}

#[test]
fn connections_behind_nat_that_look_alike_are_refused() {
    let mut random = fastrand::Rng::with_seed(21);
    let truths = exchange(&mut random, 2, [60_000, 60_000]);
    let mut rows = rows(&truths, STILL);
    behind_nat(&mut rows, 61_000);
    // Another connection, with the same bytes and numbers.
    let mut twin = rows.clone();
    behind_nat(&mut twin, 62_000);
    for row in &mut twin[0] {
        row.flow.local.set_port(50_000);
    }
    for (rows, twin) in rows.iter_mut().zip(twin) {
        rows.extend(twin);
    }
    let (lives, join) = joined_through(rows.clone(), Trust::Clocks, learned(&rows));
    assert_eq!(lives.len(), 0);
    assert_eq!(join.unmatched()[Reason::Ambiguous], 4 * truths.len() as u64);
}

#[test]
fn a_few_numbers_that_agree_are_no_evidence_of_nat() {
    let mut random = fastrand::Rng::with_seed(25);
    let truths = exchange(&mut random, 2, [60_000, 60_000]);
    let of_one = truths.iter().filter(|truth| truth.from == Host::First);
    let few: Vec<Truth> = of_one.take(3).copied().collect();
    let mut rows = rows(&few, STILL);
    behind_nat(&mut rows, 61_000);
    assert!(learned(&rows).is_empty());
}
