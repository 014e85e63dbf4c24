/// What a [`StampedSocket`](super::StampedSocket) can be made with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[must_use]
pub struct Settings {
    pub(super) capacity: usize,
    pub(super) counted: bool,
}

impl Settings {
    /// For 1024 sends, with own ids where the kernel has them.
    pub const fn new() -> Self {
        Self {
            capacity: 1024,
            counted: false,
        }
    }

    /// Remember this many sends whose stamps have not come, and as many stamps that nobody took.
    ///
    /// # Panics
    ///
    /// If it is 0.
    pub const fn capacity(self, sends: usize) -> Self {
        assert!(sends > 0, "a socket without memory knows no send");
        Self {
            capacity: sends,
            ..self
        }
    }

    /// Leave the ids of datagrams to the kernel's count, as on kernels before v6.13: each send
    /// waits for the one before it, and a failed send costs four more system calls.
    pub const fn counted(self) -> Self {
        Self {
            counted: true,
            ..self
        }
    }
}

impl Default for Settings {
    fn default() -> Self {
        Self::new()
    }
}
