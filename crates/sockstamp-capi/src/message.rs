//! Messages with stamps.

use std::io::IoSlice;
use std::os::fd::BorrowedFd;

use sockstamp::timestamping::{self, Destination, MessageOptions, Received};

use crate::boundary::{Errno, Result};
use crate::header::{
    SOCKSTAMP_RECEIVED_CUT, SOCKSTAMP_RECEIVED_STAMP_LOST, SOCKSTAMP_REQUEST_DONTWAIT,
    SOCKSTAMP_REQUEST_ID, SOCKSTAMP_REQUEST_STAMPS, SOCKSTAMP_TX_ACK, SOCKSTAMP_TX_COMPLETION,
    SOCKSTAMP_TX_HARDWARE, SOCKSTAMP_TX_SCHED, SOCKSTAMP_TX_SOFTWARE, sockstamp_received,
    sockstamp_request,
};
use crate::{address, clock};

const REQUESTS: u32 = SOCKSTAMP_REQUEST_STAMPS | SOCKSTAMP_REQUEST_ID | SOCKSTAMP_REQUEST_DONTWAIT;

pub(crate) fn send(
    socket: BorrowedFd<'_>,
    parts: &[IoSlice<'_>],
    to: Option<&[u8]>,
    request: Option<&sockstamp_request>,
) -> Result<usize> {
    let to: Option<Destination> = to.map(address::destination).transpose()?;
    let options = request.map_or(Ok(MessageOptions::new()), options)?;
    Ok(timestamping::send(socket, parts, to, options)?)
}

fn options(request: &sockstamp_request) -> Result<MessageOptions> {
    let asks = |flag| request.flags & flag != 0;
    if request.flags & !REQUESTS != 0 || request.reserved != 0 {
        return Err(Errno::INVALID);
    }
    let mut options = MessageOptions::new();
    if asks(SOCKSTAMP_REQUEST_STAMPS) {
        options = stamps(request.stamps)?;
    }
    if asks(SOCKSTAMP_REQUEST_ID) {
        options = options.id(request.id);
    }
    if asks(SOCKSTAMP_REQUEST_DONTWAIT) {
        options = options.dont_wait();
    }
    Ok(options)
}

type Ask = fn(MessageOptions) -> MessageOptions;

fn stamps(mut stamps: u32) -> Result<MessageOptions> {
    let kinds: [(u32, Ask); 5] = [
        (SOCKSTAMP_TX_SCHED, MessageOptions::tx_sched),
        (SOCKSTAMP_TX_SOFTWARE, MessageOptions::tx_software),
        (SOCKSTAMP_TX_HARDWARE, MessageOptions::tx_hardware),
        (SOCKSTAMP_TX_ACK, MessageOptions::tx_ack),
        (SOCKSTAMP_TX_COMPLETION, MessageOptions::tx_completion),
    ];
    let mut options = MessageOptions::new().unstamped();
    for (flag, with) in kinds {
        if stamps & flag != 0 {
            options = with(options);
            stamps &= !flag;
        }
    }
    if stamps == 0 {
        Ok(options)
    } else {
        Err(Errno::INVALID)
    }
}

/// Receive one message; return it and its length.
pub(crate) fn receive(
    socket: BorrowedFd<'_>,
    buffer: &mut [u8],
) -> Result<(usize, sockstamp_received)> {
    let received = timestamping::receive(socket, buffer)?;
    Ok((received.length, in_c(&received)))
}

/// Parse control messages only.
pub(crate) fn parse(control: &[u8]) -> sockstamp_received {
    in_c(&Received::parse(control))
}

pub(crate) fn in_c(received: &Received) -> sockstamp_received {
    let packet = received.stamp.packet;
    let cut = if received.truncated {
        SOCKSTAMP_RECEIVED_CUT
    } else {
        0
    };
    let lost = if received.stamp_lost {
        SOCKSTAMP_RECEIVED_STAMP_LOST
    } else {
        0
    };
    sockstamp_received {
        software: received
            .stamp
            .software
            .map_or(clock::NO_TIME, clock::realtime),
        hardware: received.stamp.hardware.map_or(clock::NO_TIME, clock::phc),
        interface: packet.map_or(0, |packet| packet.interface),
        packet_length: packet.map_or(0, |packet| packet.length),
        flags: cut | lost,
        hop_limit: received.hop_limit.map_or(-1, i32::from),
        from: received.from.map_or_else(address::none, address::of_socket),
    }
}
