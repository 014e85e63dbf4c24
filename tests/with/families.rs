//! Both versions of IP.

use testbed::Family;

/// Both IP versions.
pub const FAMILIES: [Family; 2] = [Family::V4, Family::V6];

/// Makes a test of each IP version out of a function of the version.
#[macro_export]
macro_rules! over_both_families {
    ($check:path) => {
        #[test]
        fn over_ipv4() {
            $check(testbed::Family::V4);
        }

        #[test]
        fn over_ipv6() {
            $check(testbed::Family::V6);
        }
    };
}
