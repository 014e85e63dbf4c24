//! Find what a task does, by the place in the kernel where it sleeps.

use sockstamp_model::name::Name;

use super::sleep::Sleep;

/// Names of kernel functions in which tasks sleep, by what they begin with (`/proc/PID/wchan`;
/// v5.4 to v6.18).
const PLACES: [(&str, Sleep); 42] = [
    ("do_signal_stop", Sleep::Stopped),
    ("ptrace_stop", Sleep::Traced),
    ("do_freezer_trap", Sleep::Frozen),
    ("__refrigerator", Sleep::Frozen),
    ("rpc_wait", Sleep::NetworkFiles),
    ("nfs", Sleep::NetworkFiles),
    ("cifs", Sleep::NetworkFiles),
    ("wait_for_response", Sleep::NetworkFiles),
    ("request_wait_answer", Sleep::NetworkFiles),
    ("mem_cgroup_handle_over_high", Sleep::Memory),
    ("__mem_cgroup_handle_over_high", Sleep::Memory),
    ("mem_cgroup_oom_synchronize", Sleep::Memory),
    ("flock_lock", Sleep::FileLock),
    ("locks_lock", Sleep::FileLock),
    ("fcntl_setlk", Sleep::FileLock),
    ("do_lock_file_wait", Sleep::FileLock),
    ("posix_lock", Sleep::FileLock),
    ("futex", Sleep::Lock),
    ("do_futex", Sleep::Lock),
    ("__futex", Sleep::Lock),
    ("do_semtimedop", Sleep::Semaphore),
    ("__do_semtimedop", Sleep::Semaphore),
    // mq_timedsend(), mq_timedreceive(): ipc/mqueue.c.
    ("wq_sleep", Sleep::MessageQueue),
    ("do_msgsnd", Sleep::MessageQueue),
    ("do_msgrcv", Sleep::MessageQueue),
    // sb_start_write() of a write to a file, include/linux/fs.h.
    ("percpu_rwsem_wait", Sleep::FrozenFiles),
    ("__percpu_down_read", Sleep::FrozenFiles),
    ("fdget_pos", Sleep::SharedFile),
    ("do_wait", Sleep::Child),
    ("__do_wait", Sleep::Child),
    ("kernel_wait4", Sleep::Child),
    ("wait_for_partner", Sleep::Fifo),
    ("pipe_", Sleep::Pipe),
    ("anon_pipe_", Sleep::Pipe),
    ("fifo_pipe_", Sleep::Pipe),
    ("unix_stream_", Sleep::Unix),
    ("unix_wait", Sleep::Unix),
    ("hrtimer_nanosleep", Sleep::Timer),
    ("do_nanosleep", Sleep::Timer),
    ("common_nsleep", Sleep::Timer),
    ("schedule_hrtimeout", Sleep::Timer),
    ("inet_csk_accept", Sleep::Accept),
];

/// Names of kernel functions in which tasks wait for a block device, or for a page or a block of a
/// file system, by what they begin with (v5.4 to v6.18).
const STORAGE: [&str; 22] = [
    "folio_wait",
    "__folio_lock",
    "wait_on_page",
    "__lock_page",
    "filemap_",
    "__filemap_",
    "wait_on_buffer",
    "__wait_on_buffer",
    "__bread",
    "submit_bio_wait",
    "blk_",
    "__blk",
    "rq_qos_wait",
    "wbt_wait",
    "jbd2_",
    "ext4_",
    "xfs_",
    "btrfs_",
    "f2fs_",
    "iomap_",
    "do_blockdev_direct_IO",
    "io_schedule",
];

/// A parent that waits in vfork(2) until its child has begun another program, or ended
/// (`wait_for_vfork_done()`, kernel/fork.c, v6.18).
const VFORK: [&str; 3] = ["kernel_clone", "_do_fork", "__do_sys_vfork"];

impl Sleep {
    /// Return what a task does by its state in `/proc/PID/stat`, the kernel's function in which it
    /// sleeps, and the title of its process; `None` if it does not sleep.
    #[must_use]
    pub fn of(state: char, place: &str, title: &str) -> Option<Self> {
        let known = PLACES.iter().find(|(name, _)| place.starts_with(name));
        let known = known.map(|(_, sleep)| sleep.clone());
        match (state, known) {
            ('R', _) => None,
            ('T', _) => Some(Self::Stopped),
            ('t', _) => Some(Self::Traced),
            (
                'D',
                Some(
                    sleep @ (Self::NetworkFiles
                    | Self::Frozen
                    | Self::Memory
                    | Self::FrozenFiles
                    | Self::SharedFile),
                ),
            ) => Some(sleep),
            // Signals end such a sleep, unless its task is frozen where it sleeps (TASK_FREEZABLE,
            // v6.1).
            (
                'D',
                Some(
                    Self::Lock
                    | Self::Semaphore
                    | Self::MessageQueue
                    | Self::Timer
                    | Self::Unix
                    | Self::Accept,
                ),
            ) => Some(Self::Frozen),
            ('D', _) => Some(uninterruptible(place)),
            (_, Some(sleep)) => Some(sleep),
            (_, None) if is_locked_out(title) => Some(Self::SessionLock),
            (_, None) if waits_for_standby(title) => Some(Self::Standby),
            (_, None) => Some(Self::Idle),
        }
    }
}

/// Return what a task waits for that no signal wakes, by the kernel's function; `0` and nothing are
/// no function.
fn uninterruptible(place: &str) -> Sleep {
    let begins_with = |name: &&str| place.starts_with(*name);
    if STORAGE.iter().any(begins_with) {
        return Sleep::Disk;
    }
    if VFORK.iter().any(begins_with) {
        return Sleep::Child;
    }
    let place = place.trim();
    Sleep::Uninterruptible(Name::from(if place == "0" { "" } else { place }))
}

/// PostgreSQL's processes add the word while they wait for a lock of their database
/// (`update_process_title`).
fn is_locked_out(title: &str) -> bool {
    title.starts_with("postgres: ") && title.trim_end().ends_with(" waiting")
}

/// PostgreSQL's processes add the place in its log that they wait for a standby to reach
/// (`SyncRepWaitForLSN()`).
fn waits_for_standby(title: &str) -> bool {
    let place = title.rsplit_once(" waiting for ").map(|(_, place)| place);
    title.starts_with("postgres: ") && place.is_some_and(|place| place.contains('/'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_are_known_by_their_beginning() {
        let of = |place| Sleep::of('S', place, "");
        assert_eq!(of("inet_csk_accept"), Some(Sleep::Accept));
        assert_eq!(of("futex_do_wait"), Some(Sleep::Lock));
        assert_eq!(of("futex_wait_queue_me"), Some(Sleep::Lock));
        assert_eq!(of("__do_semtimedop"), Some(Sleep::Semaphore));
        assert_eq!(of("wq_sleep"), Some(Sleep::MessageQueue));
        assert_eq!(of("do_msgsnd"), Some(Sleep::MessageQueue));
        assert_eq!(of("anon_pipe_read"), Some(Sleep::Pipe));
        assert_eq!(of("hrtimer_nanosleep"), Some(Sleep::Timer));
        assert_eq!(of("wait_for_partner"), Some(Sleep::Fifo));
        assert_eq!(of("do_epoll_wait"), Some(Sleep::Idle));
        assert_eq!(of("poll_schedule_timeout.constprop.0"), Some(Sleep::Idle));
        assert_eq!(of("0"), Some(Sleep::Idle));
        assert_eq!(Sleep::of('R', "0", ""), None);
        assert_eq!(
            Sleep::of('D', "folio_wait_bit_common", ""),
            Some(Sleep::Disk)
        );
        assert_eq!(Sleep::of('D', "kernel_clone", ""), Some(Sleep::Child));
        for (place, words) in [
            ("msleep", "(state D, in msleep)"),
            (
                "percpu_rwsem_wait",
                "(fsfreeze, a snapshot), in a write to it",
            ),
            (
                "fdget_pos",
                "reads or writes meanwhile (its position, fdget_pos)",
            ),
            (
                "0",
                "a disk, a file system, memory, or a lock of the kernel",
            ),
        ] {
            let sleep = Sleep::of('D', place, "").unwrap();
            assert!(
                sleep.is_held_up() && sleep.words().ends_with(words),
                "{sleep:?}"
            );
        }
        assert_eq!(
            Sleep::of('D', "rpc_wait_bit_killable", ""),
            Some(Sleep::NetworkFiles)
        );
        assert_eq!(
            Sleep::of('D', "__mem_cgroup_handle_over_high", ""),
            Some(Sleep::Memory)
        );
        assert_eq!(Sleep::of('T', "do_signal_stop", ""), Some(Sleep::Stopped));
        assert_eq!(Sleep::of('t', "ptrace_stop", ""), Some(Sleep::Traced));
        assert_eq!(Sleep::of('D', "__refrigerator", ""), Some(Sleep::Frozen));
        assert_eq!(Sleep::of('D', "futex_do_wait", ""), Some(Sleep::Frozen));
    }

    #[test]
    fn a_title_tells_of_a_lock_of_a_database() {
        let of = |title| Sleep::of('S', "do_epoll_wait", title);
        let waits = "postgres: shop shop 10.0.0.7(51234) UPDATE waiting";
        assert_eq!(of(waits), Some(Sleep::SessionLock));
        assert_eq!(
            of("postgres: shop shop 10.0.0.7(51234) idle"),
            Some(Sleep::Idle)
        );
        assert_eq!(of("nginx: worker waiting"), Some(Sleep::Idle));
        let standby = "postgres: shop shop 10.0.0.7(51234) COMMIT waiting for 0/3019AB0";
        assert_eq!(of(standby), Some(Sleep::Standby));
    }
}
