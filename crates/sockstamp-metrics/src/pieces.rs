//! The bytes of a format, piece by piece: all at once may be tens of megabytes.

use std::sync::Arc;

use crate::catalogue::Metric;
use crate::exposition::Exposition;
use crate::format::Format;
use crate::{protobuf, text};

/// A piece ends with the group that takes it to this length.
const LENGTH: usize = 64 << 10;

/// An exposition in a format.
#[derive(Debug)]
pub struct Pieces {
    exposition: Arc<Exposition>,
    format: Format,
    metrics: Vec<&'static Metric>,
    /// The places of the next metric and its next group.
    metric: usize,
    group: usize,
    /// The metric has its head.
    begun: bool,
    ended: bool,
}

impl Format {
    /// Return all series in this format, piece by piece.
    #[must_use]
    pub fn pieces(self, exposition: Arc<Exposition>) -> Pieces {
        Pieces::new(exposition, self)
    }
}

impl Pieces {
    pub(crate) fn new(exposition: Arc<Exposition>, format: Format) -> Self {
        Self {
            metrics: exposition.metrics().collect(),
            exposition,
            format,
            metric: 0,
            group: 0,
            begun: false,
            ended: false,
        }
    }

    /// Write the series of the next group; return false after the last series of the metric.
    fn write_group(&mut self, metric: &'static Metric, piece: &mut Vec<u8>) -> bool {
        if self.format == Format::Protobuf && !self.begun {
            self.begun = true;
            self.write_length(metric, piece);
        }
        let (format, begun) = (self.format, &mut self.begun);
        let more = self
            .exposition
            .points(self.metric, self.group, &mut |point| match format {
                Format::Protobuf => protobuf::point(piece, metric.kind, point),
                Format::OpenMetrics | Format::Plain => {
                    if !std::mem::replace(begun, true) {
                        text::head(piece, metric, format);
                    }
                    text::point(piece, metric, point, format);
                }
            });
        self.group += 1;
        more
    }

    /// A message begins with its length: write all of it to know that.
    fn write_length(&self, metric: &'static Metric, piece: &mut Vec<u8>) {
        let (mut length, mut group, mut bytes) = (0, 0, Vec::new());
        while self.exposition.points(self.metric, group, &mut |point| {
            protobuf::point(&mut bytes, metric.kind, point);
        }) {
            length += bytes.len();
            bytes.clear();
            group += 1;
        }
        if length > 0 {
            protobuf::head(piece, metric, length);
        }
    }
}

impl Iterator for Pieces {
    type Item = Vec<u8>;

    fn next(&mut self) -> Option<Vec<u8>> {
        let mut piece = Vec::with_capacity(LENGTH + LENGTH / 2);
        while let Some(&metric) = self.metrics.get(self.metric)
            && piece.len() < LENGTH
        {
            if !self.write_group(metric, &mut piece) {
                self.metric += 1;
                (self.group, self.begun) = (0, false);
            }
        }
        if self.metric == self.metrics.len()
            && self.format == Format::OpenMetrics
            && !std::mem::replace(&mut self.ended, true)
        {
            piece.extend(b"# EOF\n");
        }
        (!piece.is_empty()).then_some(piece)
    }
}
