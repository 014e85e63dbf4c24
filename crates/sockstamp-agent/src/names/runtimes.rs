//! Ask the runtimes of containers for their names, over the sockets of their interfaces.
//!
//! They are other programs: one may hang, or answer with anything. All requests to one of them
//! together have a time, and each answer a size.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::error::Error;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use http_body_util::Full;
use hyper::Request;
use hyper::body::Bytes;
use hyper::client::conn::http2::{self, SendRequest};
use hyper::header::{CONTENT_TYPE, TE};
use hyper_util::rt::{TokioExecutor, TokioIo};
use nix::unistd::geteuid;
use sockstamp_host::container::Details;
use sockstamp_metrics::catalogue::RUNTIME_REQUESTS;
use sockstamp_metrics::wire::Fields;
use sockstamp_metrics::{Exposition, Value};
use sockstamp_model::container::ID_LENGTH;
use sockstamp_run::escape::complain;
use tokio::net::UnixStream;
use tokio::time::timeout;

use super::interfaces::{
    CONTAINER, NAMESPACES, STATUS, namespaces, of_containerd, of_status, request,
};
use crate::grpc::{Ended, framed, unframed};

/// Time for all requests to a runtime about some new containers. On a host with nine tasks per
/// processor, some answers took longer than a second.
const PATIENCE: Duration = Duration::from_secs(3);
/// Bytes of an answer: containerd's have all settings of a container.
const ANSWER: usize = 1 << 20;

type Failure = Box<dyn Error + Send + Sync>;

/// Counts of the times that a runtime was asked about new containers.
#[derive(Debug, Default)]
pub(super) struct Counts {
    answered: AtomicU64,
    failed: AtomicU64,
}

impl Counts {
    pub(super) fn expose(&self, exposition: &mut Exposition) {
        for (result, counter) in [("answered", &self.answered), ("failed", &self.failed)] {
            let labels = vec![("result".into(), result.to_owned())];
            let count = Value::Count(counter.load(Ordering::Relaxed));
            exposition.add(&RUNTIME_REQUESTS, labels, count);
        }
    }
}

/// The runtimes of this host.
#[derive(Debug)]
pub(super) struct Runtimes {
    /// Sockets that failed the last time, which the log has said.
    failing: HashSet<PathBuf>,
    counts: Arc<Counts>,
}

impl Runtimes {
    pub(super) fn new(counts: Arc<Counts>) -> Self {
        Self {
            failing: HashSet::new(),
            counts,
        }
    }

    /// Find what the runtimes at these sockets say of containers. A container in a user's cgroup is
    /// that user's claim, and none of the runtimes of the host.
    pub(super) fn details(
        &mut self,
        sockets: &[PathBuf],
        wanted: &BTreeSet<String>,
    ) -> BTreeMap<String, Details> {
        let mut found = BTreeMap::new();
        for socket in sockets {
            let is_open = |id: &&String| id.len() == ID_LENGTH && !found.contains_key(*id);
            let open: Vec<_> = wanted.iter().filter(is_open).cloned().collect();
            // Most hosts have no runtime at most of these paths.
            if open.is_empty() || !socket.exists() {
                continue;
            }
            let asked = ask(socket, &open, &mut found);
            self.count(socket, asked);
        }
        found
    }

    fn count(&mut self, socket: &Path, asked: Result<(), Failure>) {
        match asked {
            Ok(()) => {
                self.counts.answered.fetch_add(1, Ordering::Relaxed);
                self.failing.remove(socket);
            }
            Err(error) => {
                self.counts.failed.fetch_add(1, Ordering::Relaxed);
                // Once, until it works again.
                if self.failing.insert(socket.to_owned()) {
                    let socket = socket.display();
                    complain(format_args!(
                        "names come from files alone: {socket}: {error}"
                    ));
                }
            }
        }
    }
}

/// Ask one runtime, and keep what it said in time.
fn ask(
    socket: &Path,
    wanted: &[String],
    found: &mut BTreeMap<String, Details>,
) -> Result<(), Failure> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_io()
        .enable_time()
        .build()?;
    runtime.block_on(async {
        let asked = async { Connection::open(socket).await?.ask(wanted, found).await };
        let late = |_| Err("no answer in time".into());
        timeout(PATIENCE, asked).await.unwrap_or_else(late)
    })
}

/// A connection to a runtime.
struct Connection {
    sender: SendRequest<Full<Bytes>>,
    /// The namespaces of containerd, once they are known; another runtime has none.
    namespaces: Option<Vec<String>>,
}

impl Connection {
    async fn open(socket: &Path) -> Result<Self, Failure> {
        let stream = UnixStream::connect(socket).await?;
        if stream.peer_cred()?.uid() != geteuid().as_raw() {
            return Err("it belongs to another user".into());
        }
        let (sender, connection) =
            http2::handshake(TokioExecutor::new(), TokioIo::new(stream)).await?;
        // The task ends with the runtime of this request.
        tokio::spawn(connection);
        Ok(Self {
            sender,
            namespaces: None,
        })
    }

    /// A wrong answer about one container says nothing of the others.
    async fn ask(
        &mut self,
        wanted: &[String],
        found: &mut BTreeMap<String, Details>,
    ) -> Result<(), Failure> {
        let mut outcome = Ok(());
        for id in wanted {
            match self.details(id).await {
                Ok(Some(details)) => _ = found.insert(id.clone(), details),
                Ok(None) => {}
                Err(error) => outcome = Err(error),
            }
            if self.sender.is_closed() {
                break;
            }
        }
        outcome
    }

    /// Return what the runtime says of a container, if it says anything.
    async fn details(&mut self, id: &str) -> Result<Option<Details>, Failure> {
        let details = match self.call(STATUS, None, &request(id)).await? {
            Some(answer) => Some(of_status(id, &answer)?),
            None => self.of_containerd(id).await?,
        };
        Ok(details.filter(|details| *details != Details::default()))
    }

    /// Look in containerd's namespaces for a container that Kubernetes has not started.
    async fn of_containerd(&mut self, id: &str) -> Result<Option<Details>, Failure> {
        for namespace in self.namespaces().await? {
            if let Some(answer) = self.call(CONTAINER, Some(&namespace), &request(id)).await? {
                return Ok(Some(of_containerd(id, &answer)?));
            }
        }
        Ok(None)
    }

    async fn namespaces(&mut self) -> Result<Vec<String>, Failure> {
        if self.namespaces.is_none() {
            let answer = self.call(NAMESPACES, None, &Fields::new()).await?;
            self.namespaces = Some(answer.map(|answer| namespaces(&answer)).unwrap_or_default());
        }
        Ok(self.namespaces.clone().unwrap_or_default())
    }

    /// Call a method; `None` if the runtime does not know the container, or the method.
    async fn call(
        &mut self,
        method: &str,
        namespace: Option<&str>,
        message: &Fields,
    ) -> Result<Option<Vec<u8>>, Failure> {
        // The host's name means nothing: HTTP/2 wants one.
        let request = Request::post(format!("http://localhost{method}"))
            .header(TE, "trailers")
            .header(CONTENT_TYPE, "application/grpc");
        let request = match namespace {
            Some(namespace) => request.header("containerd-namespace", namespace),
            None => request,
        };
        let request = request.body(Full::new(framed(message.bytes())))?;
        let response = self.sender.send_request(request).await?;
        let ended = Ended::read(response, ANSWER).await?;
        match ended.code {
            Some(OK) => match unframed(&ended.body) {
                Some(message) => Ok(Some(message.to_vec())),
                None => Err("an answer without a message".into()),
            },
            Some(NOT_FOUND | UNIMPLEMENTED) => Ok(None),
            _ => Err(ended.said().into()),
        }
    }
}

/// Codes of gRPC (grpc/grpc, `doc/statuscodes.md`).
const OK: u32 = 0;
const NOT_FOUND: u32 = 5;
const UNIMPLEMENTED: u32 = 12;

#[cfg(test)]
mod tests {
    use std::convert::Infallible;
    use std::thread;
    use std::time::Instant;

    use http_body_util::BodyExt;
    use hyper::Response;
    use hyper::body::{Body, Incoming};
    use hyper::header::{HeaderMap, HeaderValue};
    use hyper::server::conn::http2 as server;
    use hyper::service::service_fn;
    use tempfile::TempDir;
    use tokio::net::UnixListener;

    use super::super::interfaces::tests::{ID, status};
    use super::*;

    const OTHER: &str = "fedcba9876543210fedcba9876543210fedcba9876543210fedcba9876543210";

    /// Answers of a fake runtime to a method about a container, in a namespace.
    type Answers = fn(method: &str, namespace: &str, request: &[u8]) -> Reply;

    enum Reply {
        Message(Fields),
        Code(u32),
        /// Bytes that are no frame.
        Raw(Vec<u8>),
        Never,
    }

    /// Serve a runtime's interface at a socket, on a thread that ends with the process.
    fn runtime(answers: Answers) -> (TempDir, Vec<PathBuf>) {
        let directory = TempDir::new().unwrap();
        let socket = directory.path().join("runtime.sock");
        let listener = std::os::unix::net::UnixListener::bind(&socket).unwrap();
        listener.set_nonblocking(true).unwrap();
        thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread()
                .enable_all()
                .build()
                .unwrap();
            runtime.block_on(async {
                let listener = UnixListener::from_std(listener).unwrap();
                loop {
                    let (stream, _) = listener.accept().await.unwrap();
                    let service = service_fn(move |request| reply(answers, request));
                    let connection = server::Builder::new(TokioExecutor::new());
                    tokio::spawn(connection.serve_connection(TokioIo::new(stream), service));
                }
            });
        });
        (directory, vec![socket])
    }

    async fn reply(
        answers: Answers,
        request: Request<Incoming>,
    ) -> Result<Response<impl Body<Data = Bytes, Error = Infallible>>, Infallible> {
        let namespace = request.headers().get("containerd-namespace").cloned();
        let method = request.uri().path().to_owned();
        let asked = request.into_body().collect().await.unwrap().to_bytes();
        let namespace = namespace.as_ref().map_or("", |name| name.to_str().unwrap());
        let (body, code) = match answers(&method, namespace, unframed(&asked).unwrap()) {
            Reply::Message(message) => (framed(message.bytes()), OK),
            Reply::Code(code) => (Bytes::new(), code),
            Reply::Raw(bytes) => (bytes.into(), OK),
            Reply::Never => std::future::pending().await,
        };
        let mut trailers = HeaderMap::new();
        trailers.insert("grpc-status", HeaderValue::from(code));
        let body = Full::new(body).with_trailers(async { Some(Ok(trailers)) });
        Ok(Response::new(body))
    }

    fn wanted() -> BTreeSet<String> {
        [ID, OTHER].map(str::to_owned).into()
    }

    /// Return the details that were found, and the numbers of answers and failures.
    fn asked(answers: Answers) -> (BTreeMap<String, Details>, [u64; 2]) {
        let (_directory, sockets) = runtime(answers);
        let counts = Arc::new(Counts::default());
        let found = Runtimes::new(Arc::clone(&counts)).details(&sockets, &wanted());
        let counts = [&counts.answered, &counts.failed].map(|count| count.load(Ordering::Relaxed));
        (found, counts)
    }

    #[test]
    fn kubernetes_interface_is_asked_first_and_then_containerds_own() {
        let (found, counts) = asked(|method, namespace, request| {
            let of_other = request.ends_with(OTHER.as_bytes());
            match (method, namespace) {
                (STATUS, "") if !of_other => Reply::Message(status(ID, "nginx")),
                (NAMESPACES, "") => Reply::Message(
                    ["moby", "default"]
                        .into_iter()
                        .fold(Fields::new(), |list, name| {
                            list.message(1, &Fields::new().text(1, name))
                        }),
                ),
                (CONTAINER, "default") => Reply::Message(
                    Fields::new().message(1, &Fields::new().text(1, OTHER).text(3, "busybox:1.36")),
                ),
                _ => Reply::Code(NOT_FOUND),
            }
        });
        assert_eq!(counts, [1, 0]);
        assert_eq!(found[ID].pod, Some("web-7d4b".into()));
        assert_eq!(found[OTHER].image, Some("busybox:1.36".into()));
    }

    #[test]
    fn a_runtime_without_containerds_interface_knows_some_containers() {
        let (found, counts) = asked(|method, _, request| match method {
            STATUS if request.ends_with(ID.as_bytes()) => Reply::Message(status(ID, "nginx")),
            STATUS => Reply::Code(NOT_FOUND),
            _ => Reply::Code(UNIMPLEMENTED),
        });
        assert_eq!((found.len(), counts), (1, [1, 0]));
    }

    #[test]
    fn a_runtime_that_hangs_ends_the_attempt_and_what_it_said_is_kept() {
        let begun = Instant::now();
        let (found, counts) = asked(|_, _, request| match request.ends_with(ID.as_bytes()) {
            true => Reply::Message(status(ID, "nginx")),
            false => Reply::Never,
        });
        assert!(begun.elapsed() < PATIENCE * 5);
        assert_eq!(counts, [0, 1]);
        assert_eq!(found.keys().collect::<Vec<_>>(), [ID]);
    }

    #[test]
    fn answers_that_are_none_are_failures_and_name_nothing() {
        let answers: [Answers; 6] = [
            |_, _, _| Reply::Message(status("another", "x")),
            |_, _, _| Reply::Message(status(ID, &"x".repeat(100_000))),
            |_, _, _| Reply::Raw(vec![0; ANSWER + 1]),
            |_, _, _| Reply::Raw(b"\0\0\0\0\x09short".to_vec()),
            |_, _, _| Reply::Raw(Vec::new()),
            |_, _, _| Reply::Code(14),
        ];
        for (number, answers) in answers.into_iter().enumerate() {
            let (found, counts) = asked(answers);
            assert_eq!((found.len(), counts), (0, [0, 1]), "{number}");
        }
    }

    #[test]
    fn a_wrong_answer_about_one_container_costs_the_others_nothing() {
        let (found, counts) = asked(|_, _, request| match request.ends_with(ID.as_bytes()) {
            true => Reply::Raw(vec![0; ANSWER + 1]),
            false => Reply::Message(status(OTHER, "nginx")),
        });
        assert_eq!(counts, [0, 1]);
        assert_eq!(found.keys().collect::<Vec<_>>(), [OTHER]);
    }

    #[test]
    fn a_socket_of_no_runtime_fails_and_one_that_is_absent_is_not_asked() {
        let directory = TempDir::new().unwrap();
        let socket = directory.path().join("runtime.sock");
        let counts = Arc::new(Counts::default());
        let mut runtimes = Runtimes::new(Arc::clone(&counts));
        let mut failures = |sockets: &[PathBuf]| {
            assert!(runtimes.details(sockets, &wanted()).is_empty());
            counts.failed.load(Ordering::Relaxed)
        };
        let sockets = [socket.clone()];
        assert_eq!(failures(&sockets), 0);
        // Bound, and nobody listens any more.
        drop(std::os::unix::net::UnixListener::bind(&socket).unwrap());
        assert_eq!(failures(&sockets), 1);
        // Nobody accepts: the kernel does, and no answer comes.
        std::fs::remove_file(&socket).unwrap();
        let _listener = std::os::unix::net::UnixListener::bind(&socket).unwrap();
        assert_eq!(failures(&sockets), 2);
        assert_eq!(runtimes.failing.len(), 1);
    }

    #[test]
    fn claims_of_users_are_not_asked_for() {
        let (_directory, sockets) = runtime(|_, _, _| Reply::Message(status(ID, "nginx")));
        let counts = Arc::new(Counts::default());
        let of_user = BTreeSet::from([format!("user-1000/{ID}")]);
        let found = Runtimes::new(Arc::clone(&counts)).details(&sockets, &of_user);
        assert!(found.is_empty() && counts.answered.load(Ordering::Relaxed) == 0);
    }
}
