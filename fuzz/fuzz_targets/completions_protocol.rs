//! Fuzz the protocol between an application and `sockstamp notifications`: each message has exactly
//! one encoding.

#![no_main]

use libfuzzer_sys::fuzz_target;
use sockstamp::completions::protocol::{Reply, Request};

fuzz_target!(|bytes: &[u8]| {
    if let Some(request) = Request::from_bytes(bytes) {
        assert_eq!(request.to_bytes(), *bytes);
    }
    if let Some(reply) = Reply::from_bytes(bytes) {
        assert_eq!(reply.to_bytes(), *bytes);
    }
});
