//! Threads that wait in a system call.

use std::fs;
use std::sync::mpsc;
use std::thread::{self, JoinHandle};

use nix::unistd::{Pid, gettid};

use crate::wait_until;

/// Run `work` in a thread; return when it waits for data or for room.
pub fn spawn_blocked<T: Send + 'static>(
    work: impl FnOnce() -> T + Send + 'static,
) -> JoinHandle<T> {
    let (started, has_started) = mpsc::channel();
    let worker = thread::spawn(move || {
        started.send(gettid()).unwrap();
        work()
    });
    wait_blocked(has_started.recv().unwrap());
    worker
}

/// Wait until a thread of this process is blocked in a call that waits for data or for room: its
/// `syscall` then begins with the number of the call (proc_pid_syscall(5)).
pub fn wait_blocked(thread: Pid) {
    let calls = [
        libc::SYS_recvfrom,
        libc::SYS_sendto,
        libc::SYS_poll,
        libc::SYS_select,
        libc::SYS_pselect6,
        libc::SYS_epoll_wait,
        libc::SYS_epoll_pwait,
        libc::SYS_io_uring_enter,
    ];
    wait_until("the thread waits in a call", || {
        let call = fs::read_to_string(format!("/proc/self/task/{thread}/syscall")).unwrap();
        let number = call.split(' ').next().unwrap();
        calls.iter().any(|call| call.to_string() == number)
    });
}
