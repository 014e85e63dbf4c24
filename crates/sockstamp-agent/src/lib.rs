//! The daemon: always on, its figures for monitoring systems.
//!
//! | module | has |
//! |---|---|
//! | `agent` | the thread that measures; `reload` changes its settings while it runs |
//! | `config` | the file of settings; `checked`, `session`: what they name outside of it |
//! | `http` | the server, on a thread of its own: `server`, `tls`, the `page` |
//! | `otlp` | figures and slow messages to a receiver of OpenTelemetry's protocol |
//! | `hindsight` | the last minutes on disk; `snapshot` asks a running agent to keep them |
//! | `names` | names of containers, from their runtimes |
//! | `rules` | labels, rates and thresholds of groups |
//! | `prober` | round trips to the peers of containers |
//! | `readings` | the counters of all sessions; `own`, `threads`: the agent's own cost |
//! | `findings` | where time was lost in the last minutes |
//! | `takers` | those that get messages one by one; `owners`: whose they are |

#![forbid(unsafe_code)]
// Names that others chose must not reach a terminal as they are: `sockstamp_run::escape` has the
// ways out, which `clippy.toml` demands for bodies of HTTP.
#![deny(clippy::disallowed_methods, clippy::print_stderr, clippy::print_stdout)]

mod agent;
mod ceiling;
mod checked;
mod config;
mod ending;
mod files;
mod findings;
mod full;
mod grpc;
mod hindsight;
mod http;
mod jitter;
mod names;
mod notify;
mod otlp;
mod own;
mod owners;
mod prober;
mod readings;
mod reload;
mod rules;
mod session;
mod slow;
mod snapshot;
mod takers;
mod target_watch;
mod threads;
mod values;
mod waiting;

pub use agent::{Options, check, run, settings, snapshot};
pub use values::listen::listen_address;
