//! Fuzz answers to probes: nothing is read out of bounds, a truncated packet says the same or
//! nothing, and a sent probe is found in its quotation.

#![no_main]

use libfuzzer_sys::fuzz_target;
use sockstamp_fuzz::lies_within;
use sockstamp_ping::fuzzing::{
    answer_to_syn, echo, echo_request, has_cookie, quoted_syn, syn, without_ipv4_header,
};

fuzz_target!(|packet: &[u8]| {
    if let Some(rest) = without_ipv4_header(packet) {
        let header = packet.len() - rest.len();
        assert!(packet.ends_with(rest) && (20..=60).contains(&header));
        check(rest);
    }
    check(packet);
});

fn check(packet: &[u8]) {
    let whole = (echo(packet), answer_to_syn(packet), quoted_syn(packet));
    for end in 0..packet.len() {
        let cut = &packet[..end];
        assert!(
            answer_to_syn(cut).is_none_or(|cut| Some(cut) == whole.1),
            "cut at {end}"
        );
        assert!(
            quoted_syn(cut).is_none_or(|cut| Some(cut) == whole.2),
            "cut at {end}"
        );
        if let Some((kind, identifier, sequence, payload)) = echo(cut) {
            let (of_whole, all) = whole
                .0
                .map(|(kind, identifier, sequence, all)| ((kind, identifier, sequence), all))
                .expect("a cut packet has less");
            assert_eq!((kind, identifier, sequence), of_whole, "cut at {end}");
            assert!(payload.is_empty() || lies_within(payload, all));
        }
    }
    if let Some((_, identifier, sequence, payload)) = whole.0 {
        check_cookie(payload);
        let cookie = payload
            .first_chunk()
            .map_or(0, |bytes| u64::from_be_bytes(*bytes));
        let sent = echo_request(identifier, sequence, cookie, payload.len());
        let read = echo(&sent).expect("what is sent is read");
        assert_eq!(
            (read.1, read.2, read.3.len()),
            (identifier, sequence, payload.len())
        );
        assert_eq!(has_cookie(read.3, cookie, payload.len()), Some(true));
    }
    if let Some((from, to, sequence)) = whole.2 {
        let sent = syn(from, to, sequence, None);
        assert_eq!(quoted_syn(&sent), whole.2);
        assert_eq!(answer_to_syn(&sent), None);
    }
}

/// A cookie is present, another one, or truncated; later bytes do not change which.
fn check_cookie(payload: &[u8]) {
    const COOKIE: usize = 8;
    let Some(bytes) = payload.first_chunk::<COOKIE>() else {
        assert_eq!(has_cookie(payload, 0, COOKIE), None);
        return;
    };
    let cookie = u64::from_be_bytes(*bytes);
    for sent in 0..=2 * COOKIE {
        assert_eq!(has_cookie(payload, cookie, sent), Some(true));
        assert_eq!(has_cookie(payload, !cookie, sent), Some(sent == 0));
        assert_eq!(
            has_cookie(&payload[..COOKIE - 1], cookie, sent).is_none(),
            sent >= COOKIE
        );
    }
}
