//! Options of sockets.

use std::os::fd::BorrowedFd;

use sockstamp::timestamping::{Flag, Options, Support};

use crate::boundary::{Errno, Result};
use crate::header::{SOCKSTAMP_BIND_PHC, SOCKSTAMP_OWN_ID, SOCKSTAMP_WIDE};

/// Without effect since Linux 3.17, so C has no name for it.
const UNNAMED: u32 = Flag::SysHardware.bit();

pub(crate) fn probe() -> Result<u32> {
    let support = Support::probe()?;
    let flags = bits(|flag| support.has(flag));
    let own_id = if support.own_id { SOCKSTAMP_OWN_ID } else { 0 };
    let wide = if support.wide { SOCKSTAMP_WIDE } else { 0 };
    Ok(flags | own_id | wide)
}

pub(crate) fn set(socket: BorrowedFd<'_>, flags: u32, phc_index: u32) -> Result<()> {
    let binds = flags & SOCKSTAMP_BIND_PHC != 0;
    let known = bits(|_| true) | SOCKSTAMP_WIDE;
    if flags & !known != 0 || (phc_index != 0 && !binds) {
        return Err(Errno::INVALID);
    }
    let mut options = Flag::ALL
        .into_iter()
        .filter(|flag| flags & flag.bit() != 0)
        .fold(Options::new(), with);
    if binds {
        options = options.bind_phc(phc_index);
    }
    if flags & SOCKSTAMP_WIDE != 0 {
        options = options.wide();
    }
    Ok(options.apply(socket)?)
}

/// Return the flag together with those that it needs.
fn with(options: Options, flag: Flag) -> Options {
    match flag {
        Flag::TxHardware => options.tx_hardware(),
        Flag::TxSoftware => options.tx_software(),
        Flag::RxHardware => options.rx_hardware(),
        Flag::RxSoftware => options.rx_software(),
        Flag::TxSched => options.tx_sched(),
        Flag::TxAck => options.tx_ack(),
        Flag::TxCompletion => options.tx_completion(),
        Flag::OptIdTcp => options.tcp_id(),
        Flag::OptStats => options.statistics(),
        _ => options.with(flag),
    }
}

/// Return a socket's options, and the clock it is bound to.
pub(crate) fn get(socket: BorrowedFd<'_>) -> Result<(u32, u32)> {
    let options = Options::of(socket)?;
    let wide = if options.is_wide() { SOCKSTAMP_WIDE } else { 0 };
    Ok((
        bits(|flag| options.has(flag)) | wide,
        options.phc_index().unwrap_or(0),
    ))
}

fn bits(has: impl Fn(Flag) -> bool) -> u32 {
    let flags = Flag::ALL.into_iter().filter(|flag| has(*flag));
    flags.fold(0, |bits, flag| bits | flag.bit()) & !UNNAMED
}
