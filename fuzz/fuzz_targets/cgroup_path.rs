//! Names of cgroups, which anybody may choose: a container has an id, and it is a part of the path.

#![no_main]

use libfuzzer_sys::fuzz_target;
use sockstamp_model::container::{Runtime, container_of};
use sockstamp_model::name::shows;

fuzz_target!(|path: &[u8]| {
    let container = container_of(path);
    assert_eq!(container_of([path, b"/leaf"].concat()), container);
    let Some(container) = container else {
        return;
    };
    assert!(String::from_utf8_lossy(path).contains(&container.id));
    assert!(container.id.chars().all(shows));
    assert!(container.id.starts_with(container.short_id()));
    if container.runtime != Runtime::Systemd {
        assert_eq!((container.id.len(), container.short_id().len()), (64, 12));
        assert!(container.id.bytes().all(|byte| byte.is_ascii_hexdigit()));
    }
});
