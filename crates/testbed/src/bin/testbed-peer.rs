//! Socket programs whose behaviour is known, for tests and demos to measure.

use std::collections::BTreeMap;
use std::error::Error;
use std::hint;
use std::io::{self, ErrorKind, Read, Write};
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::num::NonZeroUsize;
use std::os::fd::{AsFd, BorrowedFd};
use std::process::ExitCode;
use std::str::FromStr;
use std::thread;
use std::time::{Duration, Instant};

use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use socket2::{Domain, SockRef, Socket, Type};
use testbed::TcpInfo;

const USAGE: &str = "\
Socket programs for tests. All times are of the monotonic clock.

testbed-peer serve --port P [--protocol tcp|udp] [--request BYTES] [--response BYTES] [--think MS]
                   [--compute MS]
    Answers each request (default 64 bytes) with a response (64), on IPv4 and IPv6; TCP: a thread per
    connection. With --think, which may be 0, it polls for each request and sleeps before its first read.
testbed-peer client --connect ADDR [--protocol tcp|udp] [--count N] [--request BYTES] [--response BYTES]
                    [--interval-ms M] [--pieces N] [--hold MS] [--nodelay true|false] [--hold-back none|cork|more]
                    [--pacing BYTES_PER_SECOND]
    Sends N requests (1), each after the response to the one before and a pause of M (0), on one socket.
    UDP: a response that takes longer than 5 s is an error. TCP: a request goes in so many pieces (1), one
    send each, with pauses of --hold (0); --nodelay is true; --hold-back asks the kernel to keep what does
    not fill a segment until the last piece, by TCP_CORK or by MSG_MORE; --pacing is SO_MAX_PACING_RATE.
    Prints JSON: count, rtt_min_ns, rtt_p50_ns, rtt_p99_ns, rtt_max_ns, bytes (both ways).
testbed-peer sink --port P [--rate-limit none|BYTES_PER_SECOND] [--rcvbuf BYTES] [--compute MS]
    TCP. Reads and discards, a thread per connection. With --compute it keeps a CPU busy after each read.
testbed-peer blast --connect ADDR [--sends N] [--size BYTES] [--sndbuf BYTES] [--interval-ms M]
                   [--nodelay true|false]
    TCP. N blocking sends (1) of BYTES (64), then waits until all is acknowledged. --nodelay is false.
    Prints JSON: sends, bytes, send_ns (spent inside send), send_max_ns, acked_ns (from the first send
    until all is acknowledged), and of TCP_INFO: total_retrans, bytes_acked, segs_out, data_segs_out,
    rtt_us, min_rtt_us, busy_us, rwnd_limited_us, sndbuf_limited_us.

Servers print `listening on PORT` when they are; port 0 lets the kernel choose. They run until killed.
";

type Result<T> = std::result::Result<T, Box<dyn Error>>;

fn main() -> ExitCode {
    let mut arguments = std::env::args().skip(1);
    let command = arguments.next().unwrap_or_default();
    if matches!(command.as_str(), "-h" | "--help" | "help") {
        print!("{USAGE}");
        return ExitCode::SUCCESS;
    }
    let program = match command.as_str() {
        "serve" => serve,
        "client" => client,
        "sink" => sink,
        "blast" => blast,
        _ => {
            eprint!("{USAGE}");
            return ExitCode::from(2);
        }
    };
    match Options::parse(arguments).and_then(program) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("testbed-peer {command}: {error}");
            ExitCode::FAILURE
        }
    }
}

/// `--name value` pairs.
struct Options(BTreeMap<String, String>);

impl Options {
    fn parse(mut arguments: impl Iterator<Item = String>) -> Result<Options> {
        let mut options = BTreeMap::new();
        while let Some(argument) = arguments.next() {
            let name = argument
                .strip_prefix("--")
                .ok_or_else(|| format!("unexpected {argument:?}"))?;
            let value = arguments
                .next()
                .ok_or_else(|| format!("--{name} needs a value"))?;
            options.insert(name.to_owned(), value);
        }
        Ok(Options(options))
    }

    fn optional<T: FromStr<Err: Error>>(&mut self, name: &str) -> Result<Option<T>> {
        let Some(value) = self.0.remove(name) else {
            return Ok(None);
        };
        Ok(Some(
            value
                .parse()
                .map_err(|error| format!("--{name} {value}: {error}"))?,
        ))
    }

    fn required<T: FromStr<Err: Error>>(&mut self, name: &str) -> Result<T> {
        Ok(self
            .optional(name)?
            .ok_or_else(|| format!("--{name} is missing"))?)
    }

    fn milliseconds(&mut self, name: &str) -> Result<Duration> {
        Ok(Duration::from_millis(self.optional(name)?.unwrap_or(0)))
    }

    /// Call this after the last option has been taken.
    fn finish(self) -> Result<()> {
        match self.0.keys().next() {
            Some(name) => Err(format!("unknown option --{name}").into()),
            None => Ok(()),
        }
    }
}

/// Bytes of a request, a response or a send where none are given.
const MESSAGE_LEN: usize = 64;

/// The transport of a request/response flow.
#[derive(Clone, Copy, PartialEq)]
enum Transport {
    Tcp,
    Udp,
}

impl FromStr for Transport {
    type Err = io::Error;

    fn from_str(text: &str) -> io::Result<Transport> {
        match text {
            "tcp" => Ok(Transport::Tcp),
            "udp" => Ok(Transport::Udp),
            _ => Err(io::Error::new(
                ErrorKind::InvalidInput,
                "neither tcp nor udp",
            )),
        }
    }
}

fn serve(mut options: Options) -> Result<()> {
    let port = options.required("port")?;
    let transport = options.optional("protocol")?.unwrap_or(Transport::Tcp);
    let mut request = vec![0; options.optional("request")?.unwrap_or(MESSAGE_LEN)];
    let response = vec![0; options.optional("response")?.unwrap_or(MESSAGE_LEN)];
    let think = options.optional("think")?.map(Duration::from_millis);
    let compute = options.milliseconds("compute")?;
    options.finish()?;
    let think = move |socket: BorrowedFd<'_>| -> io::Result<()> {
        if let Some(think) = think {
            poll(
                &mut [PollFd::new(socket, PollFlags::POLLIN)],
                PollTimeout::NONE,
            )?;
            if !think.is_zero() {
                thread::sleep(think);
            }
        }
        Ok(())
    };
    if transport == Transport::Udp {
        let socket = UdpSocket::from(dual_stack(Type::DGRAM, port)?);
        println!("listening on {}", socket.local_addr()?.port());
        loop {
            think(socket.as_fd())?;
            let (_, client) = socket.recv_from(&mut request)?;
            keep_busy(compute);
            socket.send_to(&response, client)?;
        }
    }
    accept(listen(port, None)?, move |mut connection| {
        let mut request = request.clone();
        connection.set_nodelay(true)?;
        loop {
            think(connection.as_fd())?;
            connection.read_exact(&mut request)?;
            keep_busy(compute);
            connection.write_all(&response)?;
        }
    })
}

/// Compute for this long. A sleep would give the CPU away.
fn keep_busy(time: Duration) {
    let start = Instant::now();
    while start.elapsed() < time {
        hint::spin_loop();
    }
}

fn client(mut options: Options) -> Result<()> {
    /// A UDP response that takes longer counts as lost.
    const UDP_TIMEOUT: Duration = Duration::from_secs(5);
    let address: SocketAddr = options.required("connect")?;
    let transport = options.optional("protocol")?.unwrap_or(Transport::Tcp);
    let count = options.optional("count")?.unwrap_or(1);
    let request = vec![0; options.optional("request")?.unwrap_or(MESSAGE_LEN)];
    let mut response = vec![0; options.optional("response")?.unwrap_or(MESSAGE_LEN)];
    let interval = options.milliseconds("interval-ms")?;
    let sending = Sending::parse(&mut options)?;
    options.finish()?;
    if count == 0 {
        return Err("--count 0 measures nothing".into());
    }
    let mut times = match transport {
        Transport::Tcp => {
            let mut connection = TcpStream::connect(address)?;
            connection.set_nodelay(sending.no_delay)?;
            if let Some(rate) = sending.pacing {
                testbed::set_max_pacing_rate(&connection, rate)?;
            }
            round_trips(count, interval, || {
                sending.send(&connection, &request)?;
                connection.read_exact(&mut response)
            })
        }
        Transport::Udp => {
            let socket = UdpSocket::bind(match address {
                SocketAddr::V4(_) => SocketAddr::from((Ipv4Addr::UNSPECIFIED, 0)),
                SocketAddr::V6(_) => SocketAddr::from((Ipv6Addr::UNSPECIFIED, 0)),
            })?;
            socket.connect(address)?;
            socket.set_read_timeout(Some(UDP_TIMEOUT))?;
            round_trips(count, interval, || {
                socket.send(&request)?;
                socket.recv(&mut response).map(drop)
            })
        }
    }?;
    times.sort_unstable();
    // The nearest-rank percentile.
    let percentile = |percent: usize| times[(times.len() * percent).div_ceil(100).max(1) - 1];
    let result = serde_json::json!({
        "count": count,
        "rtt_min_ns": times[0],
        "rtt_p50_ns": percentile(50),
        "rtt_p99_ns": percentile(99),
        "rtt_max_ns": percentile(100),
        "bytes": count * (request.len() + response.len()),
    });
    println!("{result}");
    Ok(())
}

/// The way in which requests are passed to the kernel.
struct Sending {
    pieces: NonZeroUsize,
    /// Between two pieces.
    hold: Duration,
    no_delay: bool,
    hold_back: HoldBack,
    pacing: Option<u64>,
}

/// The option that keeps partial segments in the kernel.
#[derive(Clone, Copy, PartialEq)]
enum HoldBack {
    None,
    /// `TCP_CORK`, tcp(7).
    Cork,
    /// `MSG_MORE`, send(2).
    More,
}

impl FromStr for HoldBack {
    type Err = io::Error;

    fn from_str(text: &str) -> io::Result<HoldBack> {
        match text {
            "none" => Ok(HoldBack::None),
            "cork" => Ok(HoldBack::Cork),
            "more" => Ok(HoldBack::More),
            _ => Err(io::Error::new(
                ErrorKind::InvalidInput,
                "neither none, cork nor more",
            )),
        }
    }
}

impl Sending {
    fn parse(options: &mut Options) -> Result<Sending> {
        Ok(Sending {
            pieces: options.optional("pieces")?.unwrap_or(NonZeroUsize::MIN),
            hold: options.milliseconds("hold")?,
            no_delay: options.optional("nodelay")?.unwrap_or(true),
            hold_back: options.optional("hold-back")?.unwrap_or(HoldBack::None),
            pacing: options.optional("pacing")?,
        })
    }

    fn send(&self, connection: &TcpStream, request: &[u8]) -> io::Result<()> {
        let socket = SockRef::from(connection);
        if self.hold_back == HoldBack::Cork {
            socket.set_tcp_cork(true)?;
        }
        let mut pieces = request
            .chunks(request.len().div_ceil(self.pieces.get()).max(1))
            .peekable();
        while let Some(piece) = pieces.next() {
            let is_last = pieces.peek().is_none();
            match self.hold_back {
                // Less than a segment, which a blocking send takes whole.
                HoldBack::More if !is_last => drop(socket.send_with_flags(piece, libc::MSG_MORE)?),
                _ => (&*connection).write_all(piece)?,
            }
            if !is_last && !self.hold.is_zero() {
                thread::sleep(self.hold);
            }
        }
        if self.hold_back == HoldBack::Cork {
            socket.set_tcp_cork(false)?;
        }
        Ok(())
    }
}

/// The times in ns of `count` calls of `exchange` with pauses in between.
fn round_trips(
    count: usize,
    interval: Duration,
    mut exchange: impl FnMut() -> io::Result<()>,
) -> io::Result<Vec<u64>> {
    let mut times = Vec::with_capacity(count);
    for n in 0..count {
        if n > 0 && !interval.is_zero() {
            thread::sleep(interval);
        }
        let start = Instant::now();
        exchange()?;
        times.push(nanoseconds(start.elapsed()));
    }
    Ok(times)
}

fn sink(mut options: Options) -> Result<()> {
    /// Bytes of one read.
    const CHUNK: usize = 64 << 10;
    let port = options.required("port")?;
    let limit: Option<String> = options.optional("rate-limit")?;
    let limit: Option<f64> = match limit.as_deref() {
        None | Some("none") => None,
        Some(limit) => Some(limit.parse()?),
    };
    let receive_buffer = options.optional("rcvbuf")?;
    let compute = options.milliseconds("compute")?;
    options.finish()?;
    accept(listen(port, receive_buffer)?, move |mut connection| {
        let mut chunk = vec![0; CHUNK];
        loop {
            let len = connection.read(&mut chunk)?;
            if len == 0 {
                return Ok(());
            }
            keep_busy(compute);
            if let Some(limit) = limit {
                let len = u32::try_from(len).expect("a chunk is 64 KB");
                thread::sleep(Duration::from_secs_f64(f64::from(len) / limit));
            }
        }
    })
}

fn blast(mut options: Options) -> Result<()> {
    let address: SocketAddr = options.required("connect")?;
    let sends: u64 = options.optional("sends")?.unwrap_or(1);
    let message = vec![0; options.optional("size")?.unwrap_or(MESSAGE_LEN)];
    let send_buffer: Option<usize> = options.optional("sndbuf")?;
    let interval = options.milliseconds("interval-ms")?;
    let no_delay = options.optional("nodelay")?.unwrap_or(false);
    options.finish()?;

    let mut connection = TcpStream::connect(address)?;
    connection.set_nodelay(no_delay)?;
    if let Some(size) = send_buffer {
        SockRef::from(&connection).set_send_buffer_size(size)?;
    }
    let (mut total, mut longest) = (Duration::ZERO, Duration::ZERO);
    let first = Instant::now();
    for n in 0..sends {
        if n > 0 && !interval.is_zero() {
            thread::sleep(interval);
        }
        let start = Instant::now();
        // A blocking send takes everything; only a signal could make it a partial one.
        connection.write_all(&message)?;
        let spent = start.elapsed();
        total += spent;
        longest = longest.max(spent);
    }
    let (info, acked) = wait_until_acked(&connection, first)?;
    let result = serde_json::json!({
        "sends": sends,
        "bytes": sends * message.len() as u64,
        "send_ns": nanoseconds(total),
        "send_max_ns": nanoseconds(longest),
        "acked_ns": nanoseconds(acked),
        "total_retrans": info.total_retrans,
        "bytes_acked": info.bytes_acked,
        "segs_out": info.segs_out,
        "data_segs_out": info.data_segs_out,
        "rtt_us": info.rtt,
        "min_rtt_us": info.min_rtt,
        "busy_us": info.busy_time,
        "rwnd_limited_us": info.rwnd_limited,
        "sndbuf_limited_us": info.sndbuf_limited,
    });
    println!("{result}");
    Ok(())
}

/// Wait until the peer has acknowledged everything, and return how long after `since` that was.
fn wait_until_acked(connection: &TcpStream, since: Instant) -> Result<(TcpInfo, Duration)> {
    const POLL_INTERVAL: Duration = Duration::from_micros(200);
    const TIMEOUT: Duration = Duration::from_secs(120);
    let start = Instant::now();
    loop {
        let info = TcpInfo::of(connection)?;
        if info.unacked == 0 && info.notsent_bytes == 0 {
            return Ok((info, since.elapsed()));
        }
        if let Some(error) = connection.take_error()? {
            return Err(error.into());
        }
        if start.elapsed() > TIMEOUT {
            return Err(format!("not acknowledged within {TIMEOUT:?}: {info:?}").into());
        }
        thread::sleep(POLL_INTERVAL);
    }
}

/// Listen on both families and report it.
fn listen(port: u16, receive_buffer: Option<usize>) -> Result<TcpListener> {
    let socket = dual_stack(Type::STREAM, port)?;
    if let Some(size) = receive_buffer {
        // Before listen: connections inherit it, and their window scale is chosen by it.
        socket.set_recv_buffer_size(size)?;
    }
    socket.listen(1024)?;
    let listener = TcpListener::from(socket);
    println!("listening on {}", listener.local_addr()?.port());
    Ok(listener)
}

/// A socket bound to a port of both families.
fn dual_stack(kind: Type, port: u16) -> Result<Socket> {
    let socket = Socket::new(Domain::IPV6, kind, None)?;
    socket.set_only_v6(false)?;
    socket.set_reuse_address(true)?;
    socket.bind(&SocketAddr::from((Ipv6Addr::UNSPECIFIED, port)).into())?;
    Ok(socket)
}

/// Run `handler` in a thread of its own for each connection. Connections end as the peer wants
/// them to.
fn accept(
    listener: TcpListener,
    handler: impl Fn(TcpStream) -> io::Result<()> + Clone + Send + 'static,
) -> Result<()> {
    loop {
        let (connection, peer) = listener.accept()?;
        let handler = handler.clone();
        thread::spawn(move || match handler(connection) {
            Ok(()) => {}
            Err(error)
                if matches!(
                    error.kind(),
                    ErrorKind::UnexpectedEof | ErrorKind::ConnectionReset | ErrorKind::BrokenPipe
                ) => {}
            Err(error) => eprintln!("testbed-peer: {peer}: {error}"),
        });
    }
}

fn nanoseconds(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}
