//! Names of cgroups, which anybody may choose: a container has an id, and it is a part of the path.

#![no_main]

use libfuzzer_sys::fuzz_target;
use sockstamp_model::container::{Runtime, container_of};

fuzz_target!(|path: &str| {
    let container = container_of(path);
    assert_eq!(container_of(&format!("{path}/leaf")), container);
    let Some(container) = container else {
        return;
    };
    assert!(path.contains(&container.id));
    assert!(container.id.starts_with(container.short_id()));
    if container.runtime != Runtime::Systemd {
        assert_eq!((container.id.len(), container.short_id().len()), (64, 12));
        assert!(container.id.bytes().all(|byte| byte.is_ascii_hexdigit()));
    }
});
