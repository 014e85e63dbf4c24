//! How many packets were not delivered, and why.

use sockstamp_bpf::packets::Lost;
use sockstamp_run::escape::complain;

/// Say how many packets are missing, by the reason.
pub fn tell_lost(lost: Lost) {
    let reasons = [
        (lost.ring, "the buffer was full (--buffer)"),
        (lost.headers, "their headers are not in one piece of memory"),
        (
            lost.fragments,
            "they are fragments of which the first was not seen",
        ),
        (lost.flows, "there was no room for their flows"),
    ];
    for (count, reason) in reasons.into_iter().filter(|(count, _)| *count > 0) {
        complain(format_args!("{count} packets are missing: {reason}"));
    }
    if lost.forgotten > 0 {
        complain(format_args!(
            "{} flows were forgotten because there were too many: packets may be missing until they are known again",
            lost.forgotten
        ));
    }
}
