//! Send requests to a receiver: OTLP over HTTP/1.1 and over gRPC.
//!
//! A request has a connection of its own: there are few per minute, and none is held open that a
//! proxy might have forgotten.

use std::error::Error;
use std::sync::Arc;
use std::time::Duration;

use http_body_util::{BodyExt, Collected, Full, Limited};
use hyper::body::{Bytes, Incoming};
use hyper::client::conn::{http1, http2};
use hyper::header::{AUTHORIZATION, CONTENT_TYPE, HOST, HeaderMap, RETRY_AFTER, TE};
use hyper::{Request, Response, StatusCode};
use hyper_util::rt::{TokioExecutor, TokioIo};
use sockstamp_metrics::wire;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::time::timeout;
use tokio_rustls::TlsConnector;
use tokio_rustls::rustls::ClientConfig;
use tokio_rustls::rustls::pki_types::ServerName;

use crate::config::{Endpoint, Protocol};
use crate::grpc::{Ended, framed, unframed};

/// Time for one attempt.
const PATIENCE: Duration = Duration::from_secs(5);
/// Bytes of an answer: it has a sentence at most.
const ANSWER: usize = 64 << 10;

type Failure = Box<dyn Error + Send + Sync>;

/// Metrics, or spans.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Signal {
    Metrics,
    Spans,
}

impl Signal {
    pub(super) const ALL: [Self; 2] = [Self::Metrics, Self::Spans];

    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Metrics => "metrics",
            Self::Spans => "spans",
        }
    }

    const fn path(self, protocol: Protocol) -> &'static str {
        match (protocol, self) {
            (Protocol::Http, Self::Metrics) => "/v1/metrics",
            (Protocol::Http, Self::Spans) => "/v1/traces",
            (Protocol::Grpc, Self::Metrics) => {
                "/opentelemetry.proto.collector.metrics.v1.MetricsService/Export"
            }
            (Protocol::Grpc, Self::Spans) => {
                "/opentelemetry.proto.collector.trace.v1.TraceService/Export"
            }
        }
    }
}

/// The end of an attempt.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Reply {
    /// Accepted, except this many.
    Taken { rejected: u64 },
    /// Refused for good.
    Refused(String),
    /// Not taken now; perhaps later, and not before this time.
    Later(String, Option<Duration>),
}

/// The way to a receiver.
#[derive(Debug)]
pub(crate) struct Client {
    pub(super) endpoint: Endpoint,
    pub(super) protocol: Protocol,
    pub(super) token: Option<String>,
    /// The authorities that are trusted, if the endpoint is encrypted.
    pub(super) tls: Option<Arc<ClientConfig>>,
}

impl Client {
    /// Try once.
    pub(super) async fn send(&self, signal: Signal, body: Bytes) -> Reply {
        match timeout(PATIENCE, self.exchange(signal, body)).await {
            Ok(Ok(reply)) => reply,
            Ok(Err(error)) => Reply::Later(error.to_string(), None),
            Err(_) => Reply::Later("no answer in time".to_owned(), None),
        }
    }

    async fn exchange(&self, signal: Signal, body: Bytes) -> Result<Reply, Failure> {
        let port = self.endpoint.port.unwrap_or(match self.protocol {
            Protocol::Http => 4318,
            Protocol::Grpc => 4317,
        });
        // An IPv6 address has brackets only in a URI.
        let host = self.endpoint.host.trim_matches(['[', ']']);
        let stream = TcpStream::connect((host, port)).await?;
        let request = self.request(signal, port, body)?;
        match &self.tls {
            None => self.post(stream, request).await,
            Some(config) => {
                let connector = TlsConnector::from(Arc::clone(config));
                let name = ServerName::try_from(host.to_owned())?;
                self.post(connector.connect(name, stream).await?, request)
                    .await
            }
        }
    }

    async fn post(
        &self,
        stream: impl AsyncRead + AsyncWrite + Send + Unpin + 'static,
        request: Request<Full<Bytes>>,
    ) -> Result<Reply, Failure> {
        let stream = TokioIo::new(stream);
        match self.protocol {
            Protocol::Http => {
                let (mut sender, connection) = http1::handshake(stream).await?;
                tokio::spawn(connection);
                of_http(sender.send_request(request).await?).await
            }
            Protocol::Grpc => {
                let (mut sender, connection) =
                    http2::handshake(TokioExecutor::new(), stream).await?;
                tokio::spawn(connection);
                of_grpc(sender.send_request(request).await?).await
            }
        }
    }

    fn request(
        &self,
        signal: Signal,
        port: u16,
        body: Bytes,
    ) -> Result<Request<Full<Bytes>>, Failure> {
        let Endpoint { host, path, .. } = &self.endpoint;
        let scheme = self.endpoint.scheme();
        let path = format!("{path}{}", signal.path(self.protocol));
        let mut request = Request::post(match self.protocol {
            Protocol::Http => path,
            // HTTP/2 has scheme and host in fields of their own, made of the URI.
            Protocol::Grpc => format!("{scheme}://{host}:{port}{path}"),
        });
        if let Some(token) = &self.token {
            request = request.header(AUTHORIZATION, format!("Bearer {token}"));
        }
        let request = match self.protocol {
            Protocol::Http => request
                .header(HOST, format!("{host}:{port}"))
                .header(CONTENT_TYPE, "application/x-protobuf")
                .body(Full::new(body)),
            Protocol::Grpc => request
                .header(TE, "trailers")
                .header(CONTENT_TYPE, "application/grpc")
                .body(Full::new(framed(&body))),
        };
        Ok(request?)
    }
}

async fn collected(body: Incoming) -> Result<Collected<Bytes>, Failure> {
    Limited::new(body, ANSWER).collect().await
}

/// OTLP, "OTLP/HTTP Response": four codes are worth another attempt.
async fn of_http(response: Response<Incoming>) -> Result<Reply, Failure> {
    let status = response.status();
    if status == StatusCode::OK {
        let body = collected(response.into_body()).await?.to_bytes();
        let rejected = rejected(&body);
        return Ok(Reply::Taken { rejected });
    }
    let later = [
        StatusCode::TOO_MANY_REQUESTS,
        StatusCode::BAD_GATEWAY,
        StatusCode::SERVICE_UNAVAILABLE,
        StatusCode::GATEWAY_TIMEOUT,
    ];
    let wait = retry_after(response.headers());
    Ok(match later.contains(&status) {
        true => Reply::Later(status.to_string(), wait),
        false => Reply::Refused(status.to_string()),
    })
}

fn retry_after(headers: &HeaderMap) -> Option<Duration> {
    let seconds = headers.get(RETRY_AFTER)?.to_str().ok()?.parse().ok()?;
    Some(Duration::from_secs(seconds))
}

async fn of_grpc(response: Response<Incoming>) -> Result<Reply, Failure> {
    let status = response.status();
    if status != StatusCode::OK {
        return Ok(Reply::Later(status.to_string(), None));
    }
    let ended = Ended::read(response, ANSWER).await?;
    Ok(match ended.code {
        Some(0) => Reply::Taken {
            rejected: rejected(unframed(&ended.body).unwrap_or_default()),
        },
        // OTLP, "OTLP/gRPC Response": cancelled, deadline exceeded, resource exhausted, aborted,
        // out of range, unavailable, data loss.
        Some(1 | 4 | 8 | 10 | 11 | 14 | 15) | None => Reply::Later(ended.said(), None),
        Some(_) => Reply::Refused(ended.said()),
    })
}

/// Return the number of items that a receiver took the rest of: field 1 of `partial_success`, which
/// is field 1 of the answer.
fn rejected(answer: &[u8]) -> u64 {
    let partial = wire::fields(answer).find(|(field, _)| *field == 1);
    let Some((_, wire::Field::Bytes(partial))) = partial else {
        return 0;
    };
    match wire::fields(partial).find(|(field, _)| *field == 1) {
        Some((_, wire::Field::Number(count))) => count,
        _ => 0,
    }
}

#[cfg(test)]
mod tests {
    use sockstamp_metrics::wire::Fields;

    use super::*;

    #[test]
    fn items_that_the_receiver_rejects_are_read_from_its_answer() {
        let partial = Fields::new().number(1, 300).text(2, "too old");
        let answer = Fields::new().message(1, &partial);
        assert_eq!(rejected(answer.bytes()), 300);
        assert_eq!(rejected(Fields::new().text(2, "x").bytes()), 0);
        assert_eq!(rejected(b""), 0);
        for end in 0..answer.bytes().len() {
            // Cut off anywhere: no panic.
            let _ = rejected(&answer.bytes()[..end]);
        }
    }
}
