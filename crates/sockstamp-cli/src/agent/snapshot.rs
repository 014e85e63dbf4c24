//! `sockstamp agent snapshot`: make the running agent keep the last minutes.

use std::io::{self, Read, Write};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpStream};
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use sockstamp_model::name::Escaped;
use tokio_rustls::rustls::{ClientConfig, ClientConnection, StreamOwned};

use super::config::Config;
use super::server::SNAPSHOT_HEADER;
use super::tls;

/// The agent's own limit is ten seconds.
const PATIENCE: Duration = Duration::from_secs(15);

/// Send the request, and print the directory.
pub(super) fn ask(config: &Config) -> Result<ExitCode> {
    let address = reachable(config.listen);
    let token = config.token()?;
    let encrypted = config.tls.as_ref().map(tls::trusting_itself).transpose()?;
    let answer = exchange(address, token.as_deref(), encrypted)
        .with_context(|| format!("cannot ask the agent at {address}"))?;
    let (head, body) = answer.split_once("\r\n\r\n").unwrap_or((&answer, ""));
    if head.split(' ').nth(1) != Some("200") {
        bail!("the agent at {address} kept no snapshot: see its log");
    }
    write!(io::stdout(), "{}", Escaped(body.trim_end().as_bytes())).context("cannot write")?;
    writeln!(io::stdout()).context("cannot write")?;
    Ok(ExitCode::SUCCESS)
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
    token: Option<&str>,
    encrypted: Option<Arc<ClientConfig>>,
) -> Result<String> {
    let token = token.map_or_else(String::new, |token| {
        format!("Authorization: Bearer {token}\r\n")
    });
    let request = format!(
        "POST /snapshot HTTP/1.0\r\nHost: {address}\r\n{SNAPSHOT_HEADER}: 1\r\n{token}\r\n"
    );
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

fn talk(mut stream: impl Read + Write, request: &str) -> io::Result<String> {
    stream.write_all(request.as_bytes())?;
    let mut answer = String::new();
    stream.take(64 << 10).read_to_string(&mut answer)?;
    Ok(answer)
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
}
