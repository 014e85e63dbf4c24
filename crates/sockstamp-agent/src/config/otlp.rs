//! The receiver of OpenTelemetry's protocol.

use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

use hyper::Uri;
use serde::de::Deserializer;
use serde::ser::Serializer;
use serde::{Deserialize, Serialize};

use super::fields::within;
use crate::values::{parsed, seconds, some_duration, up_to_an_hour};

/// The receiver of OpenTelemetry's protocol.
#[derive(Debug, Clone, PartialEq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct OtlpTable {
    #[serde(deserialize_with = "parsed", serialize_with = "printed")]
    pub(crate) endpoint: Endpoint,
    #[serde(default)]
    pub(crate) protocol: Protocol,
    /// Time between series and series.
    #[serde(
        default = "one_minute",
        deserialize_with = "up_to_an_hour",
        serialize_with = "seconds"
    )]
    pub(crate) interval: Duration,
    /// The receiver wants the token in this file.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) token_file: Option<PathBuf>,
    /// The receiver's certificate comes from an authority in this file.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) ca_file: Option<PathBuf>,
    /// Messages that were slower are sent as spans.
    #[serde(
        default,
        skip_serializing_if = "Option::is_none",
        with = "some_duration"
    )]
    pub(crate) slow: Option<Duration>,
    /// Messages sent per second, at most.
    #[serde(default = "ten", deserialize_with = "spans")]
    pub(crate) spans_per_second: u32,
}

const fn one_minute() -> Duration {
    Duration::from_secs(60)
}

const fn ten() -> u32 {
    10
}

fn spans<'de, D: Deserializer<'de>>(deserializer: D) -> Result<u32, D::Error> {
    within(deserializer, 1, 10_000)
}

fn printed<S: Serializer>(value: &impl fmt::Display, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_str(value)
}

/// The way of sending.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize, Serialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Protocol {
    #[default]
    Http,
    Grpc,
}

impl Protocol {
    /// The name by which TLS agrees on it (RFC 7301).
    pub(crate) const fn agreed(self) -> &'static str {
        match self {
            Self::Http => "http/1.1",
            Self::Grpc => "h2",
        }
    }
}

/// A receiver's address: `http[s]://HOST[:PORT][/PATH]`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Endpoint {
    encrypted: bool,
    pub(crate) host: String,
    pub(crate) port: Option<u16>,
    /// The part before `/v1/metrics`, without a slash at its end.
    pub(crate) path: String,
}

impl FromStr for Endpoint {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let uri: Uri = text
            .parse()
            .map_err(|error| format!("{text:?} is no address: {error}"))?;
        let encrypted = match uri.scheme_str() {
            Some("http") => false,
            Some("https") => true,
            _ => return Err(format!("{text:?} does not begin with http:// or https://")),
        };
        let authority = uri.authority().ok_or("there is no host")?;
        if uri.query().is_some() || authority.as_str().contains('@') {
            return Err("it is http://HOST:PORT, and a path at most".to_owned());
        }
        let host = authority.host();
        if matches!(host, "" | "[]") {
            return Err(format!("{text:?} has no host: it is http://HOST:PORT"));
        }
        Ok(Self {
            encrypted,
            host: host.to_owned(),
            port: port(&authority.as_str()[host.len()..])?,
            path: uri.path().trim_end_matches('/').to_owned(),
        })
    }
}

/// Read the text between host and path. `Uri` takes a number that is no port, and returns none.
fn port(text: &str) -> Result<Option<u16>, String> {
    if text.is_empty() {
        return Ok(None);
    }
    let number = text.strip_prefix(':').map(str::parse::<u16>);
    match number {
        Some(Ok(port)) if port > 0 => Ok(Some(port)),
        _ => Err(format!(
            "{text:?} is no port: write a colon and a number from 1 to 65535"
        )),
    }
}

impl Endpoint {
    pub(crate) const fn is_encrypted(&self) -> bool {
        self.encrypted
    }

    pub(crate) const fn scheme(&self) -> &'static str {
        match self.encrypted {
            true => "https",
            false => "http",
        }
    }
}

impl fmt::Display for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}://{}", self.scheme(), self.host)?;
        if let Some(port) = self.port {
            write!(f, ":{port}")?;
        }
        f.write_str(&self.path)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_checked_and_printed_as_they_were() {
        for good in [
            "http://127.0.0.1:4318",
            "http://collector",
            "https://collector:4318",
            "http://[::1]:4317",
            "http://a.b:1/otlp/x",
        ] {
            assert_eq!(good.parse::<Endpoint>().unwrap().to_string(), good);
        }
        let refused = |text: &str| text.parse::<Endpoint>().unwrap_err();
        assert!(refused("127.0.0.1:4318").contains("does not begin with http://"));
        assert!(refused("ftp://a").contains("does not begin with http://"));
        assert!(refused("http://user:secret@a").contains("HOST:PORT"));
        assert!(refused("http://a/?b=c").contains("HOST:PORT"));
        assert!(refused("").contains("is no address"));
        for wrong in ["http://:80", "http://[]:80", "https://:/v1"] {
            assert!(refused(wrong).contains("has no host"), "{wrong}");
        }
        for (wrong, part) in [
            ("http://127.0.0.1:99999/x", "\":99999\" is no port"),
            ("http://a:0", "\":0\" is no port"),
            ("http://a:otlp", "\":otlp\" is no port"),
            ("http://a:", "\":\" is no port"),
            ("http://[::1]4317", "\"4317\" is no port"),
        ] {
            assert!(refused(wrong).starts_with(part), "{wrong}");
        }
    }
}
