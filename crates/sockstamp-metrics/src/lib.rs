//! Metrics for monitoring systems, from counters that are read now and then. Pure: no I/O.
//!
//! - [`catalogue`]: every metric, with its help.
//! - [`ledger`]: the messages of groups, as series that only grow, in a bounded number.
//! - [`counters`]: the same for single counters.
//! - [`buckets`]: the bounds of classic histograms, which are bounds of the kernel's buckets.
//! - [`otlp`]: the same for OpenTelemetry.
//! - [`wire`]: messages of Protocol Buffers.
//! - [`Format`]: OpenMetrics, the older text format, and Protocol Buffers with native histograms.

#![forbid(unsafe_code)]

pub mod buckets;
pub mod catalogue;
pub mod counters;
mod exemplar;
mod exposition;
mod format;
mod grouped;
mod host;
mod labels;
pub mod ledger;
pub mod otlp;
mod pieces;
mod point;
mod protobuf;
mod text;
pub mod wire;

pub use exemplar::{Exemplar, Exemplars, OfGroup, TraceContext, Traced};
pub use exposition::{Exposition, Labelled};
pub use format::Format;
pub use host::host_counters;
pub use labels::Labels;
pub use pieces::Pieces;
pub use point::{Point, Value};
