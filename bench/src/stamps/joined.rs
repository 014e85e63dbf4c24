//! Measure sockets that join stamps to their sends, in a thread and in a task.

use std::hint::black_box;
use std::os::fd::BorrowedFd;
use std::time::Duration;

use anyhow::{Context, Result};
use sockstamp::stamped::{AsyncStampedSocket, StampedSocket};
use tokio::runtime::Builder;
use tokio::time::timeout;

use super::sends::{Done, SENDS, Sends};
use super::transport::Transport;

/// A round that takes longer waits for a stamp that does not come.
const PATIENCE: Duration = Duration::from_secs(10);

pub(super) fn blocking(
    socket: BorrowedFd<'_>,
    transport: Transport,
    interval: u64,
    message: &[u8],
) -> Result<Done> {
    let socket = StampedSocket::new(socket, transport.options())?;
    let (mut stamps, mut sends) = (0, Sends::begin(interval));
    while sends.go_on() {
        for _ in 0..SENDS {
            socket.send(message)?;
            if sends.count() {
                stamps += black_box(socket.stamps()?).len();
            }
        }
    }
    Ok(sends.end(Some(u64::try_from(stamps)?)))
}

pub(super) fn in_a_task(
    socket: BorrowedFd<'_>,
    transport: Transport,
    interval: u64,
    message: &[u8],
) -> Result<Done> {
    let runtime = Builder::new_current_thread().enable_all().build()?;
    let round = async { timeout(PATIENCE, task(socket, transport, interval, message)).await };
    runtime.block_on(round).context("a stamp is missing")?
}

async fn task(
    socket: BorrowedFd<'_>,
    transport: Transport,
    interval: u64,
    message: &[u8],
) -> Result<Done> {
    let socket = AsyncStampedSocket::new(socket, transport.options())?;
    let (mut stamps, mut sends) = (0, Sends::begin(interval));
    while sends.go_on() {
        for _ in 0..SENDS {
            socket.send(message).await?;
            if sends.count() {
                stamps += black_box(socket.stamps().await?).len();
            }
        }
    }
    Ok(sends.end(Some(u64::try_from(stamps)?)))
}
