//! The response to a request: what each path is, and who may have it.

use hyper::body::Incoming;
use hyper::header::{
    ACCEPT, ALLOW, CACHE_CONTROL, CONTENT_SECURITY_POLICY, CONTENT_TYPE, HeaderMap, HeaderValue,
    WWW_AUTHENTICATE, X_CONTENT_TYPE_OPTIONS,
};
use hyper::{Request, Response, StatusCode};
use sockstamp_metrics::Format;

use super::asker::{Asker, Trust};
use super::own_host;
use super::page;
use super::question::{Answer, Refusal, Want};

/// The header of a request that changes something.
pub(crate) const SNAPSHOT_HEADER: &str = "sockstamp-snapshot";
/// The header of a request that takes a core for seconds.
const EXPLAIN_HEADER: &str = "sockstamp-explain";

const TEXT: &str = "text/plain; charset=utf-8";
const PATHS: &str = "there is /, /metrics, /findings, /slow, /config, /healthz and /readyz, and by POST \
    /snapshot and /explain\n";
const UNAUTHORIZED: &str = "a token is needed: a program gives it as `Authorization: Bearer TOKEN`, a \
    browser as the password of any user\n";
const DEEDS: &str = "without a token the agent does this for its owner alone, as by `sockstamp agent \
    snapshot`: set token_file\n";
const MISDIRECTED: &str = "without a token the agent answers requests to an IP address, to \
    localhost and to the host's own name alone: use one of them, or set token_file\n";

/// Answer a request.
pub(crate) async fn respond(
    request: &Request<Incoming>,
    asker: &Asker,
    trust: Trust,
) -> Response<Answer> {
    let headers = request.headers();
    let path = request.uri().path();
    // Probes of a cluster have no token.
    let is_probe = ["/healthz", "/readyz"].contains(&path);
    let is_owner = trust == Trust::Owner;
    if !is_probe && !is_owner && !asker.admits(headers) {
        return unauthorized();
    }
    if !is_owner && asker.relies_on_the_address() && !own_host::is_asked_by(request) {
        return reply(StatusCode::MISDIRECTED_REQUEST, TEXT, MISDIRECTED);
    }
    let Some(resource) = Resource::at(path, headers) else {
        return reply(StatusCode::NOT_FOUND, TEXT, PATHS);
    };
    let methods = resource.methods();
    let method = request.method().as_str();
    if methods.split(", ").all(|other| method != other) {
        return not_allowed(methods);
    }
    match resource {
        Resource::Alive => reply(StatusCode::OK, TEXT, "ok\n"),
        Resource::Page(file) => shown(file),
        Resource::State(want, kind) => ask(asker, want, kind).await,
        // Pages of other sites cannot send this header unasked, but could send the rest.
        Resource::Deed(_, header) if !headers.contains_key(header) => reply(
            StatusCode::FORBIDDEN,
            TEXT,
            format!("it needs the header {header}\n"),
        ),
        // Anybody of this host reaches the address.
        Resource::Deed(..) if !is_owner && !asker.has_token() => {
            reply(StatusCode::FORBIDDEN, TEXT, DEEDS)
        }
        Resource::Deed(want, _) => ask(asker, want, TEXT).await,
    }
}

/// The thing that a path names.
enum Resource {
    /// A sign of life of this thread.
    Alive,
    /// A file of the page.
    Page(page::File),
    /// An answer of the measuring thread, of this kind.
    State(Want, &'static str),
    /// Something that is done for clients that send this header.
    Deed(Want, &'static str),
}

impl Resource {
    fn at(path: &str, headers: &HeaderMap) -> Option<Self> {
        Some(match path {
            "/healthz" => Self::Alive,
            "/readyz" => Self::State(Want::Ready, TEXT),
            "/config" => Self::State(Want::Config, TEXT),
            "/findings" => Self::State(Want::Findings, "application/json"),
            "/slow" => Self::State(Want::Slow, "application/json"),
            "/metrics" => {
                let format = accepted(headers);
                Self::State(Want::Metrics(format), format.content_type())
            }
            "/snapshot" => Self::Deed(Want::Snapshot, SNAPSHOT_HEADER),
            "/explain" => Self::Deed(Want::Explain, EXPLAIN_HEADER),
            _ => Self::Page(page::File::at(path)?),
        })
    }

    /// The methods that it has, as `Allow` names them.
    const fn methods(&self) -> &'static str {
        match self {
            Self::Deed(..) => "POST",
            Self::Alive | Self::Page(..) | Self::State(..) => "GET, HEAD",
        }
    }
}

fn unauthorized() -> Response<Answer> {
    let mut response = reply(StatusCode::UNAUTHORIZED, TEXT, UNAUTHORIZED);
    for scheme in [
        "Bearer",
        "Basic realm=\"sockstamp agent: the token is the password\"",
    ] {
        let scheme = HeaderValue::from_static(scheme);
        response.headers_mut().append(WWW_AUTHENTICATE, scheme);
    }
    response
}

/// Name the methods that there are (RFC 9110, section 15.5.6).
fn not_allowed(methods: &'static str) -> Response<Answer> {
    let text = format!("methods of this path: {methods}\n");
    let mut response = reply(StatusCode::METHOD_NOT_ALLOWED, TEXT, text);
    let methods = HeaderValue::from_static(methods);
    response.headers_mut().insert(ALLOW, methods);
    response
}

async fn ask(asker: &Asker, want: Want, kind: &'static str) -> Response<Answer> {
    match asker.ask(want).await {
        Some(Ok(body)) => reply(StatusCode::OK, kind, body),
        Some(Err(Refusal { status, why })) => reply(status, TEXT, why),
        None => reply(
            StatusCode::SERVICE_UNAVAILABLE,
            TEXT,
            "there is no answer: see the agent's log\n",
        ),
    }
}

fn shown(file: page::File) -> Response<Answer> {
    let mut response = reply(StatusCode::OK, file.kind, file.text);
    let headers = response.headers_mut();
    headers.insert(
        CONTENT_SECURITY_POLICY,
        HeaderValue::from_static(page::POLICY),
    );
    headers.insert(X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    response
}

fn reply(status: StatusCode, kind: &'static str, body: impl Into<Answer>) -> Response<Answer> {
    let mut response = Response::new(body.into());
    *response.status_mut() = status;
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static(kind));
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    response
}

fn accepted(headers: &HeaderMap) -> Format {
    let kinds = headers
        .get_all(ACCEPT)
        .iter()
        .filter_map(|value| value.to_str().ok());
    Format::accepted(&kinds.collect::<Vec<_>>().join(","))
}
