//! The functions of sockstamp.h, in its order, which documents them.

use std::ffi::{c_char, c_void};
use std::io::IoSlice;

use crate::boundary::{In, Out, Required, Socket, Status, Text, free, guard, guard_only};
use crate::header::{
    sockstamp_clock, sockstamp_interface, sockstamp_offset, sockstamp_queue_counters, sockstamp_received,
    sockstamp_report, sockstamp_request, sockstamp_statistics, sockstamp_time,
};
use crate::queue::{self, Queue};
use crate::{clock, interface, message, options, report};

#[unsafe(no_mangle)]
pub extern "C" fn sockstamp_version() -> *const c_char {
    const VERSION: &str = concat!(env!("CARGO_PKG_VERSION"), "\0");
    VERSION.as_ptr().cast()
}

#[unsafe(no_mangle)]
pub extern "C" fn sockstamp_offset_measure(
    from: sockstamp_clock,
    to: sockstamp_clock,
    offset: Out<'_, sockstamp_offset>,
) -> Status {
    guard_only(|| offset.write(clock::measure(from, to)?))
}

#[unsafe(no_mangle)]
pub extern "C" fn sockstamp_time_convert(
    time: Option<&mut sockstamp_time>,
    offset: Option<&sockstamp_offset>,
) -> Status {
    guard_only(|| clock::convert(time.required()?, offset.required()?))
}

#[unsafe(no_mangle)]
pub extern "C" fn sockstamp_time_since(
    later: Option<&sockstamp_time>,
    earlier: Option<&sockstamp_time>,
    ns: Out<'_, i64>,
) -> Status {
    guard_only(|| ns.write(clock::since(later.required()?, earlier.required()?)?))
}

#[unsafe(no_mangle)]
pub extern "C" fn sockstamp_interface_query(
    name: Text<'_>,
    interface: Out<'_, sockstamp_interface>,
) -> Status {
    guard_only(|| interface.write(interface::query(name.get()?)?))
}

#[unsafe(no_mangle)]
pub extern "C" fn sockstamp_options_probe(flags: Out<'_, u32>) -> Status {
    guard_only(|| flags.write(options::probe()?))
}

#[unsafe(no_mangle)]
pub extern "C" fn sockstamp_options_set(fd: Socket<'_>, flags: u32, phc_index: u32) -> Status {
    guard_only(|| options::set(fd.borrow()?, flags, phc_index))
}

#[unsafe(no_mangle)]
pub extern "C" fn sockstamp_options_get(
    fd: Socket<'_>,
    flags: Out<'_, u32>,
    phc_index: Out<'_, u32>,
) -> Status {
    guard_only(|| {
        let (set, phc) = options::get(fd.borrow()?)?;
        flags.write(set)?;
        if phc_index.is_null() {
            Ok(())
        } else {
            phc_index.write(phc)
        }
    })
}

#[unsafe(no_mangle)]
pub extern "C" fn sockstamp_send(
    fd: Socket<'_>,
    parts: In<'_, IoSlice<'_>>,
    count: usize,
    to: In<'_, libc::sockaddr>,
    to_length: libc::socklen_t,
    request: Option<&sockstamp_request>,
) -> Status {
    guard(|| {
        let to = if to.is_null() {
            None
        } else {
            Some(to.bytes(to_length as usize)?)
        };
        message::send(fd.borrow()?, parts.slice(count)?, to, request)
    })
}

#[unsafe(no_mangle)]
pub extern "C" fn sockstamp_receive(
    fd: Socket<'_>,
    buffer: Out<'_, c_void>,
    size: usize,
    received: Out<'_, sockstamp_received>,
) -> Status {
    guard(|| {
        let place = received.slice(1)?;
        let (length, what) = message::receive(fd.borrow()?, buffer.buffer(size)?)?;
        place[0].write(what);
        Ok(length)
    })
}

#[unsafe(no_mangle)]
pub extern "C" fn sockstamp_queue_create(queue: Out<'_, Option<Box<Queue>>>) -> Status {
    queue.create(|| Ok(Queue::new()))
}

#[unsafe(no_mangle)]
pub extern "C" fn sockstamp_queue_drain(
    queue: Option<&mut Queue>,
    fd: Socket<'_>,
    reports: Out<'_, sockstamp_report>,
    statistics: Out<'_, sockstamp_statistics>,
    capacity: usize,
) -> Status {
    guard(|| {
        let wanted = if statistics.is_null() { 0 } else { capacity };
        let (reports, statistics) = (reports.slice(capacity)?, statistics.slice(wanted)?);
        queue.required()?.drain(fd.borrow()?, reports, statistics)
    })
}

#[unsafe(no_mangle)]
pub extern "C" fn sockstamp_queue_counters(
    queue: Option<&Queue>,
    counters: Out<'_, sockstamp_queue_counters>,
) -> Status {
    guard_only(|| counters.write(queue.required()?.counters()))
}

#[unsafe(no_mangle)]
pub extern "C" fn sockstamp_queue_free(queue: Option<Box<Queue>>) {
    free(queue);
}

#[unsafe(no_mangle)]
pub extern "C" fn sockstamp_report_parse(
    control: In<'_, c_void>,
    length: usize,
    report: Out<'_, sockstamp_report>,
    statistics: Out<'_, sockstamp_statistics>,
) -> Status {
    guard_only(|| {
        let entry = queue::parse(control.bytes(length)?)?;
        report.write(report::in_c(&entry))?;
        if statistics.is_null() {
            Ok(())
        } else {
            statistics.write(report::statistics(&entry))
        }
    })
}
