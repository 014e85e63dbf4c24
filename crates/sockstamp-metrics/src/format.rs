//! The formats that Prometheus reads, and the choice between them.

/// A format.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Format {
    /// Protocol Buffers: the only one with native histograms.
    Protobuf,
    /// OpenMetrics text 1.0.
    OpenMetrics,
    /// Prometheus text 0.0.4.
    Plain,
}

impl Format {
    /// Return the format that an HTTP header `Accept` prefers. RFC 9110, section 12.5.1: kinds are
    /// separated by commas, and have a weight of 1 unless `q` says otherwise.
    #[must_use]
    pub fn accepted(header: &str) -> Self {
        let mut best = (Self::Plain, 0.0);
        for (format, weight) in header.split(',').filter_map(offer) {
            if weight > best.1 {
                best = (format, weight);
            }
        }
        best.0
    }

    /// Return the value of the HTTP header `Content-Type`.
    #[must_use]
    pub const fn content_type(self) -> &'static str {
        match self {
            Self::Protobuf => {
                "application/vnd.google.protobuf; proto=io.prometheus.client.MetricFamily; encoding=delimited"
            }
            Self::OpenMetrics => "application/openmetrics-text; version=1.0.0; charset=utf-8",
            Self::Plain => "text/plain; version=0.0.4; charset=utf-8",
        }
    }
}

/// Parse one kind of a header, if it is one of ours.
fn offer(kind: &str) -> Option<(Format, f64)> {
    let mut words = kind.split(';').map(str::trim);
    let name = words.next()?;
    let (mut weight, mut delimited) = (1.0, false);
    for word in words {
        match word.split_once('=')? {
            ("q", value) => weight = value.parse().ok()?,
            ("encoding", value) => delimited = value == "delimited",
            _ => {}
        }
    }
    let format = match name {
        "application/vnd.google.protobuf" if delimited => Format::Protobuf,
        "application/openmetrics-text" => Format::OpenMetrics,
        "text/plain" => Format::Plain,
        _ => return None,
    };
    Some((format, weight))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The headers of Prometheus 2.42 (scrape/scrape.go), with native histograms and without.
    #[test]
    fn the_format_with_the_largest_weight_is_chosen() {
        let native = "application/vnd.google.protobuf;proto=io.prometheus.client.MetricFamily;encoding=delimited,\
            application/openmetrics-text;version=1.0.0;q=0.8,text/plain;version=0.0.4;q=0.5,*/*;q=0.1";
        assert_eq!(Format::accepted(native), Format::Protobuf);
        let text = "application/openmetrics-text;version=1.0.0,application/openmetrics-text;version=0.0.1;q=0.75,\
            text/plain;version=0.0.4;q=0.5,*/*;q=0.1";
        assert_eq!(Format::accepted(text), Format::OpenMetrics);
        let plain = "application/openmetrics-text;q=0.2, text/plain;version=0.0.4;q=0.5";
        assert_eq!(Format::accepted(plain), Format::Plain);
        for other in [
            "",
            "*/*",
            "text/html",
            "application/vnd.google.protobuf;encoding=text",
            "text/plain;q=x;;,",
        ] {
            assert_eq!(Format::accepted(other), Format::Plain, "{other}");
        }
    }
}
