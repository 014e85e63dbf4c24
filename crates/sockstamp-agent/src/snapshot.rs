//! `sockstamp agent snapshot`: make the running agent keep the last minutes.

use std::io::{self, Read, Write};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpStream};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Error, Result, anyhow};
use tokio_rustls::rustls::{ClientConfig, ClientConnection, StreamOwned};

use crate::config::Config;
use crate::http::local;
use crate::http::response::SNAPSHOT_HEADER;
use crate::http::tls;

/// The agent's own limit is ten seconds.
const PATIENCE: Duration = Duration::from_secs(15);

/// Send the request, and return the directory.
pub(crate) fn ask(config: &Config) -> Result<String> {
    let Some(token) = config.token()? else {
        return ask_as_owner(config.listen.port());
    };
    let address = reachable(config.listen);
    let encrypted = config.tls.as_ref().map(tls::trusting_itself).transpose()?;
    let answer = exchange(address, &token, encrypted)
        .map_err(in_words)
        .with_context(|| format!("cannot ask the agent at {address}"))?;
    let directory = kept(&answer).map_err(|why| anyhow!("the agent at {address} {why}"))?;
    Ok(directory.to_owned())
}

/// Ask by the socket of the agent's owner, where there is no token.
fn ask_as_owner(port: u16) -> Result<String> {
    let path = local::path(port);
    let place = path.display();
    let answer = exchange_locally(&path).map_err(in_words).with_context(|| {
        format!("cannot ask the agent at {place}, and no token_file is named by --config")
    })?;
    let directory = kept(&answer).map_err(|why| anyhow!("the agent at {place} {why}"))?;
    Ok(directory.to_owned())
}

fn exchange_locally(path: &Path) -> Result<String> {
    let stream = UnixStream::connect(path)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    Ok(talk(stream, &request("localhost", ""))?)
}

/// Return the directory that an answer names, or else how the agent has refused.
fn kept(answer: &str) -> Result<&str, String> {
    let (head, body) = answer.split_once("\r\n\r\n").unwrap_or((answer, ""));
    let status = head.starts_with("HTTP/").then(|| head.split(' ').nth(1));
    let why = match status.flatten() {
        Some("200") => return Ok(body.trim_end()),
        Some("401") => {
            "refuses the token in token_file: is it the agent's own file? SIGHUP has it read again"
        }
        Some(_) => {
            let mut lines = body.lines().chain(head.lines());
            let why = lines.find(|line| !line.is_empty()).unwrap_or_default();
            return Err(format!("kept no snapshot: {why}"));
        }
        None if answer.is_empty() => "ended the connection without an answer: see its log",
        None => {
            "answers no HTTP: does it serve TLS? Name its file of settings with [tls] by --config"
        }
    };
    Err(why.to_owned())
}

/// Name the reason where the error of the system does not.
fn in_words(error: Error) -> Error {
    match error.downcast_ref::<io::Error>().map(io::Error::kind) {
        Some(io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut) => {
            anyhow!("no answer within {} s: see its log", PATIENCE.as_secs())
        }
        Some(io::ErrorKind::UnexpectedEof) => {
            anyhow!("it ended the connection without an answer: see its log")
        }
        _ => error,
    }
}

/// An agent that listens on every address is reached by the host itself.
fn reachable(listen: SocketAddr) -> SocketAddr {
    let ip = match listen.ip() {
        ip if !ip.is_unspecified() => ip,
        IpAddr::V4(_) => Ipv4Addr::LOCALHOST.into(),
        IpAddr::V6(_) => Ipv6Addr::LOCALHOST.into(),
    };
    SocketAddr::new(ip, listen.port())
}

fn exchange(
    address: SocketAddr,
    token: &str,
    encrypted: Option<Arc<ClientConfig>>,
) -> Result<String> {
    let token = format!("Authorization: Bearer {token}\r\n");
    let request = request(&address.to_string(), &token);
    let stream = TcpStream::connect_timeout(&address, PATIENCE)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    Ok(match encrypted {
        None => talk(stream, &request)?,
        Some(config) => {
            let connection = ClientConnection::new(config, address.ip().into())?;
            talk(StreamOwned::new(connection, stream), &request)?
        }
    })
}

fn request(host: &str, token: &str) -> String {
    format!("POST /snapshot HTTP/1.0\r\nHost: {host}\r\n{SNAPSHOT_HEADER}: 1\r\n{token}\r\n")
}

fn talk(mut stream: impl Read + Write, request: &str) -> io::Result<String> {
    stream.write_all(request.as_bytes())?;
    let mut answer = Vec::new();
    stream.take(64 << 10).read_to_end(&mut answer)?;
    // An alert of TLS is no text.
    Ok(String::from_utf8_lossy(&answer).into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_agent_on_every_address_is_asked_on_this_host() {
        for (listen, asked) in [
            ("0.0.0.0:1", "127.0.0.1:1"),
            ("[::]:2", "[::1]:2"),
            ("10.0.0.1:3", "10.0.0.1:3"),
        ] {
            assert_eq!(reachable(listen.parse().unwrap()).to_string(), asked);
        }
    }

    #[test]
    fn an_answer_names_the_directory_or_says_why_there_is_none() {
        let told = |answer: &str| kept(answer).map(str::to_owned);
        let good = "HTTP/1.0 200 OK\r\ncontent-length: 5\r\n\r\n/a/b\n";
        assert_eq!(told(good).as_deref(), Ok("/a/b"));
        let unauthorized = "HTTP/1.0 401 Unauthorized\r\n\r\na token is needed\n";
        let full = "HTTP/1.0 503 Service Unavailable\r\n\r\n/a has 16 snapshots: remove some\n";
        for (answer, why) in [
            (unauthorized, "refuses the token in token_file: "),
            (full, "kept no snapshot: /a has 16 snapshots: remove some"),
            (
                "HTTP/1.0 431 Too Large\r\n\r\n",
                "kept no snapshot: HTTP/1.0 431 Too Large",
            ),
            // An alert of TLS 1.2.
            ("\u{15}\u{3}\u{3}\0\u{2}\u{2}2", "answers no HTTP: "),
            ("", "ended the connection "),
        ] {
            let told = told(answer).unwrap_err();
            assert!(told.starts_with(why), "{told}");
        }
    }

    #[test]
    fn a_time_limit_is_said_in_words() {
        for (kind, told) in [
            (io::ErrorKind::WouldBlock, "no answer within 15 s: "),
            (io::ErrorKind::TimedOut, "no answer within 15 s: "),
            (io::ErrorKind::UnexpectedEof, "it ended the connection "),
            (io::ErrorKind::ConnectionRefused, "connection refused"),
        ] {
            let error = in_words(io::Error::from(kind).into()).to_string();
            assert!(error.starts_with(told), "{error}");
        }
    }
}
