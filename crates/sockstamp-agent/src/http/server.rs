//! The HTTP server: a thread of its own, which sends requests to the measuring thread.
//!
//! No client may block it: a connection has one request and [`PATIENCE`], and where all seats are
//! taken, one that waits for its client makes room ([`Seats`]). The measuring thread answers one
//! request at a time, and many from the same reading of the counters.

use std::cell::Cell;
use std::convert::Infallible;
use std::future::poll_fn;
use std::io;
use std::net::{IpAddr, Ipv4Addr, TcpListener};
use std::os::unix::net::{UnixListener, UnixStream};
use std::rc::Rc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, PoisonError, RwLock, mpsc};
use std::task::Poll;
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use sockstamp_run::capabilities;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::Notify;
use tokio::time::{sleep, timeout};
use tokio_rustls::TlsAcceptor;

use super::asker::{Asker, Token, Trust};
use super::question::Question;
use super::response::respond;
use super::seats::{Seats, Turn, Watched};
use super::tls::Identity;

/// Time for a client to send its request and to take the answer.
const PATIENCE: Duration = Duration::from_secs(10);
/// Bytes of a request, and its headers.
const REQUEST_BYTES: usize = 16 << 10;
const HEADERS: usize = 64;
/// Rest after a connection that the kernel did not give, mostly for want of descriptors.
const REST: Duration = Duration::from_millis(100);

/// The server, seen from the thread that measures.
#[derive(Debug)]
pub(crate) struct Server {
    questions: mpsc::Receiver<Question>,
    wake: UnixStream,
    dropped: Arc<AtomicU64>,
    token: Token,
}

impl Server {
    /// Serve on a thread of its own, without capabilities. Clients must have the token, if there is
    /// one, and use TLS, if there is an identity; those of the local socket need neither.
    pub(crate) fn start(
        listener: TcpListener,
        local: Option<UnixListener>,
        token: Option<String>,
        identity: Option<&Arc<Identity>>,
    ) -> Result<Self> {
        listener.set_nonblocking(true).context("cannot listen")?;
        let ip = listener.local_addr().context("cannot listen")?.ip();
        let (ask, questions) = mpsc::channel();
        let (wake, waker) = UnixStream::pair().context("cannot create a pipe")?;
        for end in [&wake, &waker] {
            end.set_nonblocking(true).context("cannot create a pipe")?;
        }
        let dropped = Arc::default();
        let token = Arc::new(RwLock::new(token));
        let asker = Asker {
            ask,
            waker,
            token: Arc::clone(&token),
            is_local: ip.to_canonical().is_loopback() && identity.is_none(),
        };
        let acceptor = identity.map(Identity::acceptor).transpose()?;
        let counter = Arc::clone(&dropped);
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_io()
            .enable_time()
            .build()
            .context("cannot serve")?;
        thread::Builder::new()
            .name("http".to_owned())
            .spawn(move || {
                capabilities::keep(&[]);
                let served = tokio::task::LocalSet::new();
                let places = Places {
                    listener,
                    local,
                    acceptor,
                };
                served.block_on(&runtime, serve(places, Rc::new(asker), &counter))
            })
            .context("cannot start a thread")?;
        Ok(Self {
            questions,
            wake,
            dropped,
            token,
        })
    }

    /// Have clients give this token from now on, or none.
    pub(crate) fn set_token(&self, token: Option<String>) {
        *self.token.write().unwrap_or_else(PoisonError::into_inner) = token;
    }

    /// Can be read when there are questions.
    pub(crate) fn wake(&self) -> &UnixStream {
        &self.wake
    }

    /// Return the questions that there are.
    pub(crate) fn questions(&self) -> Vec<Question> {
        while io::copy(&mut &self.wake, &mut io::sink()).is_ok_and(|bytes| bytes > 0) {}
        self.questions.try_iter().collect()
    }

    /// Connections that made room for others.
    pub(crate) fn dropped(&self) -> u64 {
        self.dropped.load(Ordering::Relaxed)
    }
}

/// The places where clients come in.
struct Places {
    listener: TcpListener,
    local: Option<UnixListener>,
    acceptor: Option<TlsAcceptor>,
}

/// A client, by the place where it came in.
enum Client {
    Network(tokio::net::TcpStream),
    Local(tokio::net::UnixStream),
}

async fn serve(places: Places, asker: Rc<Asker>, dropped: &AtomicU64) -> io::Result<Infallible> {
    let listener = tokio::net::TcpListener::from_std(places.listener)?;
    let local = places.local.map(tokio::net::UnixListener::from_std);
    let local = local.transpose()?;
    let mut seats = Seats::default();
    let ended = Rc::new(Notify::new());
    loop {
        // Further clients wait in the kernel's queue meanwhile.
        while !seats.make_room(dropped) {
            let _ = timeout(REST, ended.notified()).await;
        }
        let Ok((client, peer)) = accept(&listener, local.as_ref()).await else {
            sleep(REST).await;
            continue;
        };
        let turn = Rc::new(Cell::new(Turn::Ours));
        let acceptor = places.acceptor.clone();
        let attended = attend(client, Rc::clone(&turn), acceptor, Rc::clone(&asker));
        let ended = Rc::clone(&ended);
        let task = tokio::task::spawn_local(async move {
            let _ = timeout(PATIENCE, attended).await;
            ended.notify_one();
        });
        seats.take(peer, turn, task);
        // Each connection gets on before the next one comes.
        tokio::task::yield_now().await;
    }
}

async fn accept(
    listener: &tokio::net::TcpListener,
    local: Option<&tokio::net::UnixListener>,
) -> io::Result<(Client, IpAddr)> {
    poll_fn(|context| {
        // The owner comes first.
        let local = local.map(|local| local.poll_accept(context));
        if let Some(Poll::Ready(accepted)) = local {
            let owner = |(stream, _)| (Client::Local(stream), Ipv4Addr::UNSPECIFIED.into());
            return Poll::Ready(accepted.map(owner));
        }
        let network = listener.poll_accept(context);
        network.map_ok(|(stream, peer)| (Client::Network(stream), peer.ip()))
    })
    .await
}

async fn attend(
    client: Client,
    turn: Rc<Cell<Turn>>,
    acceptor: Option<TlsAcceptor>,
    asker: Rc<Asker>,
) {
    let asked = Rc::default();
    let seen = Rc::clone(&asked);
    match (client, acceptor) {
        (Client::Local(stream), _) => {
            let stream = Watched::new(stream, turn, seen);
            answer(stream, &asked, &asker, Trust::Owner).await;
        }
        (Client::Network(stream), None) => {
            let stream = Watched::new(stream, turn, seen);
            answer(stream, &asked, &asker, Trust::Token).await;
        }
        // A client that wants no encryption, or not ours, learns it by the protocol's own alert.
        (Client::Network(stream), Some(acceptor)) => {
            let stream = Watched::new(stream, turn, seen);
            if let Ok(stream) = acceptor.accept(stream).await {
                answer(stream, &asked, &asker, Trust::Token).await;
            }
        }
    }
}

/// Answer one request. `asked` tells that it has come.
async fn answer(
    stream: impl AsyncRead + AsyncWrite + Unpin + 'static,
    asked: &Cell<bool>,
    asker: &Asker,
    trust: Trust,
) {
    let service = service_fn(|request| async move {
        asked.set(true);
        Ok::<_, Infallible>(respond(&request, asker, trust).await)
    });
    let mut protocol = http1::Builder::new();
    protocol
        .keep_alive(false)
        // Some clients close their side after the request, and wait.
        .half_close(true)
        .max_buf_size(REQUEST_BYTES)
        .max_headers(HEADERS);
    // The client caused the error and sees it; no other client is affected.
    let _ = protocol
        .serve_connection(TokioIo::new(stream), service)
        .await;
}

#[cfg(test)]
mod tests {
    use std::collections::VecDeque;
    use std::fs;
    use std::io::{Read, Write};
    use std::net::{Shutdown, SocketAddr, TcpStream};
    use std::time::Instant;

    use tempfile::TempDir;

    use super::super::local::LocalSocket;
    use super::super::question::{Answered, Refusal, Want};
    use super::*;

    /// A server whose questions are answered with their number.
    fn answering() -> SocketAddr {
        asking_for(None)
    }

    fn asking_for(token: Option<&str>) -> SocketAddr {
        serving("127.0.0.1:0", token, |want, dropped| {
            Ok(format!("{want:?} {dropped}\n").into())
        })
    }

    /// A server whose questions are answered so, by the number of clients that made room.
    fn serving(
        listen: &str,
        token: Option<&str>,
        answer: impl Fn(Want, u64) -> Answered + Send + 'static,
    ) -> SocketAddr {
        let listener = TcpListener::bind(listen).unwrap();
        let port = listener.local_addr().unwrap().port();
        let server = Server::start(listener, None, token.map(str::to_owned), None).unwrap();
        answer_all(server, answer);
        SocketAddr::from(([127, 0, 0, 1], port))
    }

    fn answer_all(server: Server, answer: impl Fn(Want, u64) -> Answered + Send + 'static) {
        thread::spawn(move || {
            for question in &server.questions {
                let answer = answer(question.want, server.dropped());
                let _ = question.answer.send(answer);
            }
        });
    }

    fn exchange(address: SocketAddr, request: &[u8]) -> String {
        let mut client = TcpStream::connect(address).unwrap();
        client.set_read_timeout(Some(PATIENCE * 2)).unwrap();
        // The server may have refused before it has read all.
        let _ = client.write_all(request);
        rest(client)
    }

    fn rest(mut client: impl Read) -> String {
        let mut text = Vec::new();
        let _ = client.read_to_end(&mut text);
        String::from_utf8(text).unwrap()
    }

    fn request(address: SocketAddr, method: &str, path: &str, header: &str) -> String {
        let request = format!("{method} {path} HTTP/1.1\r\nHost: localhost\r\n{header}\r\n");
        exchange(address, request.as_bytes())
    }

    fn get(address: SocketAddr, path: &str, header: &str) -> String {
        request(address, "GET", path, header)
    }

    #[test]
    fn paths_and_methods_have_their_answers() {
        let address = answering();
        assert!(get(address, "/healthz", "").ends_with("\r\n\r\nok\n"));
        assert!(get(address, "/readyz", "").contains("Ready"));
        assert!(get(address, "/config", "").contains("Config"));
        let post = |header: &str| request(address, "POST", "/snapshot", header);
        assert!(post("").starts_with("HTTP/1.1 403 "));
        let plain = get(address, "/metrics", "");
        assert!(
            plain.contains("version=0.0.4") && plain.contains("Metrics(Plain)"),
            "{plain}"
        );
        let open = get(
            address,
            "/metrics",
            "Accept: text/html, application/openmetrics-text;version=1.0.0\r\n",
        );
        assert!(open.contains("Metrics(OpenMetrics)"), "{open}");
    }

    /// The address alone keeps no user of this host out.
    #[test]
    fn deeds_are_done_with_a_token_and_for_the_owner_alone() {
        const HEADERS: &str = "Sockstamp-Snapshot: 1\r\n";
        let post = |address, more: &str| {
            request(address, "POST", "/snapshot", &format!("{HEADERS}{more}"))
        };
        let refused = post(answering(), "");
        assert!(
            refused.starts_with("HTTP/1.1 403 ") && refused.contains("set token_file"),
            "{refused}"
        );
        let done = post(
            asking_for(Some("secret")),
            "Authorization: Bearer secret\r\n",
        );
        assert!(done.contains("Snapshot"), "{done}");

        let folder = TempDir::new().unwrap();
        let (local, _socket) = LocalSocket::bind(folder.path().join("socket")).unwrap();
        let path = local.local_addr().unwrap();
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let server = Server::start(listener, Some(local), Some("secret".to_owned()), None);
        answer_all(server.unwrap(), |want, _| Ok(format!("{want:?}").into()));
        let mut client = UnixStream::connect_addr(&path).unwrap();
        write!(client, "POST /snapshot HTTP/1.0\r\n{HEADERS}\r\n").unwrap();
        let done = rest(client);
        assert!(done.ends_with("\r\n\r\nSnapshot"), "{done}");
    }

    #[test]
    fn other_methods_learn_which_there_are_and_other_paths_as_well() {
        let address = answering();
        for (method, path, allowed) in [
            ("POST", "/metrics", "GET, HEAD"),
            ("DELETE", "/", "GET, HEAD"),
            ("GET", "/snapshot", "POST"),
            ("HEAD", "/explain", "POST"),
        ] {
            let refused = request(address, method, path, "");
            assert!(
                refused.starts_with("HTTP/1.1 405 ")
                    && refused.contains(&format!("\r\nallow: {allowed}\r\n")),
                "{method} {path}: {refused}"
            );
        }
        assert!(request(address, "HEAD", "/healthz", "").starts_with("HTTP/1.1 200 "));
        for method in ["GET", "POST"] {
            let refused = request(address, method, "/nothing", "");
            assert!(refused.starts_with("HTTP/1.1 404 "), "{refused}");
            for path in [
                "/,",
                "/metrics",
                "/slow",
                "/config",
                "/healthz",
                "/readyz",
                "/snapshot",
                "/explain",
            ] {
                assert!(refused.contains(path), "{path}: {refused}");
            }
        }
    }

    #[test]
    fn a_refusal_has_its_status_and_its_reason() {
        const TOKEN: &str = "Authorization: Bearer secret\r\n";
        let address = serving("127.0.0.1:0", Some("secret"), |want, _| {
            Err(match want {
                Want::Snapshot => Refusal::unavailable("remove some\n"),
                Want::Explain => Refusal::busy("ask again\n"),
                _ => Refusal::failed("it is damaged\n"),
            })
        });
        let [snapshot, explain] = ["snapshot", "explain"].map(|name| {
            let header = format!("Sockstamp-{name}: 1\r\n{TOKEN}");
            request(address, "POST", &format!("/{name}"), &header)
        });
        let slow = get(address, "/slow", TOKEN);
        for (refused, status, why) in [
            (snapshot, 503, "remove some\n"),
            (explain, 409, "ask again\n"),
            (slow, 500, "it is damaged\n"),
        ] {
            assert!(
                refused.starts_with(&format!("HTTP/1.1 {status} "))
                    && refused.contains("content-type: text/plain")
                    && refused.ends_with(why),
                "{refused}"
            );
        }
    }

    #[test]
    fn a_client_that_closes_its_side_after_the_request_is_answered() {
        let mut client = TcpStream::connect(answering()).unwrap();
        client.set_read_timeout(Some(PATIENCE * 2)).unwrap();
        client.write_all(b"GET /metrics HTTP/1.0\r\n\r\n").unwrap();
        client.shutdown(Shutdown::Write).unwrap();
        let answer = rest(client);
        assert!(answer.contains("Metrics(Plain)"), "{answer}");
    }

    /// Pages of other sites have such names resolve to this host.
    #[test]
    fn requests_to_names_of_others_are_refused_where_the_address_alone_protects() {
        let asked = |address, target: &str, host: &str, header: &str| {
            let request = format!("GET {target} HTTP/1.1\r\nHost: {host}\r\n{header}\r\n");
            let answer = exchange(address, request.as_bytes());
            answer.split(' ').nth(1).unwrap_or_default().to_owned()
        };
        let own = fs::read_to_string("/proc/sys/kernel/hostname").unwrap();
        let (local, target) = (answering(), "/config");
        for host in [
            "127.0.0.1:9776",
            "10.0.0.1",
            "[::1]:9776",
            "[::1]",
            "localhost",
            "LocalHost:80",
            own.trim_end(),
        ] {
            assert_eq!(asked(local, target, host, ""), "200", "{host}");
        }
        for host in [
            "example.org",
            "example.org:9776",
            "127.0.0.1.example.org:9776",
            "localhost.example.org",
            "127.0.0.1:9776\r\nHost: example.org",
        ] {
            assert_eq!(asked(local, target, host, ""), "421", "{host}");
        }
        let target = "http://example.org/config";
        assert_eq!(asked(local, target, "localhost", ""), "421");
        let old = exchange(local, b"GET /config HTTP/1.0\r\n\r\n");
        assert!(old.starts_with("HTTP/1.0 200 "), "{old}");

        let header = "Authorization: Bearer secret\r\n";
        let with_a_token = asking_for(Some("secret"));
        assert_eq!(asked(with_a_token, "/", "example.org", header), "200");
        let of_the_network = serving("0.0.0.0:0", None, |_, _| Ok("".into()));
        assert_eq!(asked(of_the_network, "/", "example.org", ""), "200");
    }

    #[test]
    fn clients_without_the_token_get_signs_of_life_alone() {
        let address = asking_for(Some("secret"));
        for path in ["/metrics", "/config", "/", "/nothing"] {
            for header in [
                "",
                "Authorization: Bearer secre\r\n",
                "Authorization: Bearer secret1\r\n",
                "Authorization: Bearer Secret\r\n",
                "Authorization: Basic secret\r\n",
                // a:secre, secret: and :
                "Authorization: Basic YTpzZWNyZQ==\r\n",
                "Authorization: Basic c2VjcmV0Og==\r\n",
                "Authorization: Basic Og==\r\n",
            ] {
                assert!(
                    get(address, path, header).starts_with("HTTP/1.1 401 "),
                    "{path} {header}"
                );
            }
        }
        let post = request(address, "POST", "/snapshot", "Sockstamp-Snapshot: 1\r\n");
        assert!(post.starts_with("HTTP/1.1 401 "), "{post}");
        // Case makes no difference in the name of a scheme.
        for scheme in ["Bearer", "bearer", "BEARER "] {
            let header = format!("Authorization: {scheme} secret\r\n");
            let answer = get(address, "/metrics", &header);
            assert!(answer.starts_with("HTTP/1.1 200 "), "{scheme}: {answer}");
        }
        // A browser asks for a name and a password where it is offered that.
        let refused = get(address, "/", "");
        assert!(
            refused.contains("www-authenticate: Basic realm=") && refused.contains("Bearer"),
            "{refused}"
        );
        // a:secret and :secret
        for pair in ["Basic YTpzZWNyZXQ=", "basic OnNlY3JldA=="] {
            let header = format!("Authorization: {pair}\r\n");
            assert!(
                get(address, "/", &header).starts_with("HTTP/1.1 200 "),
                "{pair}"
            );
        }
        assert!(
            get(address, "/healthz", "").ends_with("ok\n")
                && get(address, "/readyz", "").contains("Ready")
        );
    }

    #[test]
    fn requests_that_are_too_large_are_refused() {
        let address = answering();
        let header = format!("X: {}\r\n", "a".repeat(2 * REQUEST_BYTES));
        assert!(get(address, "/metrics", &header).starts_with("HTTP/1.1 431 "));
        let headers = "A: b\r\n".repeat(HEADERS + 1);
        assert!(get(address, "/metrics", &headers).starts_with("HTTP/1.1 431 "));
        assert!(get(address, "/metrics", "").starts_with("HTTP/1.1 200 "));
    }

    /// Clients that never end their request, and some that take no answer.
    #[test]
    fn clients_that_wait_block_no_other_client() {
        let address = answering();
        let mut slow = Vec::new();
        for number in 0..1000 {
            let mut client = TcpStream::connect(address).unwrap();
            let request: &[u8] = if number % 2 == 0 {
                b"GET /metrics HTT"
            } else {
                b"GET /metrics HTTP/1.1\r\n\r\n"
            };
            let _ = client.write_all(request);
            slow.push(client);
            if number % 250 == 249 {
                let begun = Instant::now();
                assert!(get(address, "/metrics", "").starts_with("HTTP/1.1 200 "));
                assert!(begun.elapsed() < PATIENCE / 2, "{:?}", begun.elapsed());
            }
        }
        let answer = get(address, "/metrics", "");
        let dropped: u64 = answer.trim().rsplit(' ').next().unwrap().parse().unwrap();
        assert!(dropped >= 350, "{dropped} of 500 slow clients made room");
    }

    #[test]
    fn a_flood_of_connections_fails_no_request() {
        const LONG: Duration = Duration::from_secs(1);
        let address = answering();
        let (end, ended) = mpsc::channel::<Infallible>();
        let flood = thread::spawn(move || {
            let mut held = VecDeque::new();
            while ended.try_recv() == Err(mpsc::TryRecvError::Empty) {
                held.extend(TcpStream::connect(address));
                if held.len() > 500 {
                    held.pop_front();
                }
            }
        });
        let begun = Instant::now();
        while begun.elapsed() < LONG {
            let answer = get(address, "/metrics", "");
            assert!(answer.starts_with("HTTP/1.1 200 "), "{answer:?}");
        }
        drop(end);
        flood.join().unwrap();
    }
}
