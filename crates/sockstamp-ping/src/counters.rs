macro_rules! counters {
    ($($(#[$doc:meta])* $name:ident,)*) => {
        /// Counters of an engine, for all targets. They never decrease.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
        #[non_exhaustive]
        pub struct Counters {
            $($(#[$doc])* pub $name: u64,)*
        }

        impl Counters {
            /// All of them, with their names.
            pub fn iter(&self) -> impl Iterator<Item = (&'static str, u64)> + use<> {
                [$((stringify!($name), self.$name)),*].into_iter()
            }

            pub(crate) fn add(&mut self, other: &Self) {
                $(self.$name += other.$name;)*
            }
        }
    };
}

counters! {
    /// Probes that were sent.
    sent,
    /// Probes that the kernel did not send.
    not_sent,
    /// Probes that were answered in time.
    answered,
    /// Probes without an answer in time.
    lost,
    /// Probes that an ICMP error refused.
    refused,
    /// Probes whose target ended before anything came.
    abandoned,
    /// Answers after the timeout.
    late,
    /// ICMP errors after the timeout; their probes are among the lost.
    late_refused,
    /// Answers to probes that had one already.
    duplicate,
    /// Answers that came after the answer of a later probe.
    reordered,
    /// Answers with fewer bytes than were sent.
    truncated,
    /// Probes that were not sent since their time had passed by a whole interval.
    skipped,
    /// Probes that were pushed out of memory while they waited; they are among the lost.
    evicted,
    /// Answers from hosts that were not probed.
    stray_source,
    /// Answers without the cookie of their probe.
    stray_cookie,
    /// Answers of no probe that is remembered.
    stray_unknown,
    /// Answers too short to identify their probe.
    stray_truncated,
    /// ICMP errors about packets that are not ours.
    stray_error,
    /// Answers that waited for a stamp of their probe in vain.
    no_tx_stamp,
    /// Answers without a stamp.
    no_rx_stamp,
    /// Round trips that fell into a step of CLOCK_REALTIME.
    clock_step,
    /// Round trips whose stamps contradict the time that passed.
    implausible,
    /// Probes that requested no stamps after a failed send.
    no_id,
    /// Stamps of probes that are no longer remembered, or that never were.
    unmatched_stamps,
    /// Stamps that came again, by a second device.
    repeated_stamps,
    /// Entries of error queues that could not be understood.
    malformed_reports,
    /// Packets that the kernel dropped because a socket's receive buffer was full.
    receive_drops,
    /// Events that were not taken in time.
    dropped_events,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_counter_is_added_under_its_name() {
        let mut sum = Counters {
            sent: 1,
            ..Counters::default()
        };
        sum.add(&Counters {
            sent: 2,
            dropped_events: 5,
            ..Counters::default()
        });
        let filled: Vec<_> = sum.iter().filter(|(_, count)| *count > 0).collect();
        assert_eq!(filled, [("sent", 3), ("dropped_events", 5)]);
    }
}
