//! Define the part of a measurement's options that hooks depend on.

/// The hook that shows the entry of send calls.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum EntryHook {
    /// The best that the host has.
    #[default]
    Auto,
    /// As [`Entry::Tracepoint`](super::Entry::Tracepoint).
    Tracepoint,
    /// As [`Entry::Begin`](super::Entry::Begin).
    Begin,
    /// As [`Entry::Callback`](super::Entry::Callback).
    Callback,
    /// As [`Entry::Function`](super::Entry::Function).
    Function,
    /// None: there is no `tx.copy`.
    Off,
}

/// The hooks that stamps come from.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Hooks {
    /// The best that the kernel has.
    #[default]
    Best,
    /// The hooks for kernels without BPF timestamping and without the tracepoints added after v6.1,
    /// for comparison.
    Older,
}

/// The part of a request that a plan follows from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Request {
    /// The hooks that stamps come from.
    pub hooks: Hooks,
    /// The hook that shows the entry of send calls.
    pub entry: EntryHook,
    /// Follow packets through the host after the last interface that calls back.
    pub host_path: bool,
    /// Separate the wait for a CPU from the rest of `rx.app`.
    pub sched: bool,
    /// Examine arriving segments for causes of waiting and for missing segments.
    pub causes: bool,
    /// Measure UDP sockets too.
    pub udp: bool,
    /// Measure connections that exist at the start.
    pub existing: bool,
    /// Measure messages of some processes only.
    pub by_process: bool,
    /// Leave out sockets that processes of sockstamp have made.
    pub spare_own: bool,
    /// Attach programs that few messages need when the first such message comes.
    pub on_demand: bool,
    /// Measure for a part of the time, in windows.
    pub windows: bool,
    /// Send the peer's sockstamp the sequence numbers of bytes, by a TCP option.
    pub tag: bool,
    /// Ask NICs that stamp sends for some stamps.
    pub nic_stamps: bool,
    /// Follow reads back to NICs that stamp received packets.
    pub nic_reads: bool,
}

impl Default for Request {
    fn default() -> Self {
        Self {
            hooks: Hooks::Best,
            entry: EntryHook::Auto,
            host_path: false,
            sched: true,
            causes: true,
            udp: true,
            existing: true,
            by_process: false,
            spare_own: true,
            on_demand: true,
            windows: false,
            tag: false,
            nic_stamps: false,
            nic_reads: false,
        }
    }
}

impl Request {
    /// Return the request with every opt-in feature that costs hooks.
    #[must_use]
    pub fn with_every_program(self) -> Self {
        Self {
            host_path: true,
            existing: true,
            by_process: true,
            ..self
        }
    }
}
