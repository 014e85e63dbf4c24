//! Serves one file by HTTP, without copying it into the kernel, from tasks of tokio.
//!
//!     cargo run --release -p sockstamp --example zerocopy_file_server_tokio -- FILE [ADDRESS:PORT]
//!
//! Eight buffers go round for each connection. A task waits for a buffer that the kernel is done
//! with, or for room, and sleeps meanwhile.

use std::env;
use std::error::Error;
use std::fs::File;
use std::io::Read;
use std::num::NonZeroU32;
use std::path::{Path, PathBuf};
use std::time::Duration;

use sockstamp::zerocopy::{AsyncZeroCopySender, Counters, Options, Sent};
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::spawn_blocking;
use tokio::time::timeout;

type Result<T> = std::result::Result<T, Box<dyn Error + Send + Sync>>;

const BUFFERS: usize = 8;
const BUFFER: usize = 256 * 1024;

/// Limit the wait for a peer's acknowledgement.
const PATIENCE: Duration = Duration::from_secs(60);

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<()> {
    let mut arguments = env::args().skip(1);
    let path = PathBuf::from(arguments.next().ok_or("which file?")?);
    let address = arguments.next().unwrap_or("127.0.0.1:0".into());
    let listener = TcpListener::bind(address).await?;
    println!("http://{}/", listener.local_addr()?);
    loop {
        let (stream, peer) = listener.accept().await?;
        let path = path.clone();
        tokio::spawn(async move {
            match serve(stream, &path).await {
                Ok(counters) => println!("{peer}: {counters:?}"),
                Err(error) => println!("{peer}: {error}"),
            }
        });
    }
}

/// Answer one request; return what the sender counted.
pub async fn serve(mut stream: TcpStream, path: &Path) -> Result<Counters> {
    read_request(&mut stream).await?;
    let mut file = File::open(path)?;
    let length = file.metadata()?.len();

    // Stop asking where the kernel copies anyway, as it does for a peer on this host.
    let options = Options::default().stop_when_copied(NonZeroU32::new(8).ok_or("not zero")?);
    // From here on the sender waits for the socket, not the runtime.
    let mut sender = AsyncZeroCopySender::new(stream.into_std()?, options)?;
    let mut free = vec![vec![0; BUFFER]; BUFFERS];

    let head = format!("HTTP/1.1 200 OK\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n");
    let mut next = head.into_bytes();
    while !next.is_empty() {
        match timeout(PATIENCE, sender.send(next)).await?? {
            Sent::Copied(buffer) => free.push(buffer),
            Sent::InFlight => {}
            Sent::Partly { .. } => return Err("a send waits until all is taken".into()),
        }
        let mut buffer = match free.pop() {
            Some(buffer) => buffer,
            None => {
                let returned = timeout(PATIENCE, sender.returned()).await??;
                returned.ok_or("eight buffers are somewhere")?.buffer
            }
        };
        (file, next) = spawn_blocking(move || {
            buffer.resize(BUFFER, 0);
            let read = file.read(&mut buffer)?;
            buffer.truncate(read);
            std::io::Result::Ok((file, buffer))
        })
        .await??;
    }
    // Wait, because a buffer that is dropped in flight is leaked.
    while timeout(PATIENCE, sender.returned()).await??.is_some() {}
    Ok(sender.get_mut().counters())
}

/// Read up to the empty line after the request's headers. Every request gets the same file.
async fn read_request(stream: &mut TcpStream) -> Result<()> {
    let mut lines = BufReader::new(stream).lines();
    while !lines.next_line().await?.ok_or("no request")?.is_empty() {}
    Ok(())
}
