//! The functions of sockstamp.h, in its order, which documents them.

use std::ffi::{c_char, c_int, c_uint, c_void};
use std::io::IoSlice;
use std::time::Duration;

use crate::batch::Batch;
use crate::boundary::{In, Out, Required, Socket, Status, Text, free, guard, guard_only};
use crate::completions::{Completions, Registration};
use crate::header::{
    sockstamp_clock, sockstamp_how, sockstamp_interface, sockstamp_match,
    sockstamp_matcher_counters, sockstamp_message, sockstamp_offset, sockstamp_queue_counters,
    sockstamp_received, sockstamp_registration_state, sockstamp_report, sockstamp_request,
    sockstamp_sender_counters, sockstamp_sender_options, sockstamp_stamp, sockstamp_statistics,
    sockstamp_time, sockstamp_transport, sockstamp_view,
};
use crate::matcher::Matcher;
use crate::queue::{self, Queue};
use crate::receiver::Receiver;
use crate::sender::{self, Sender};
use crate::stamping::Stamping;
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
pub extern "C" fn sockstamp_received_parse(
    control: In<'_, c_void>,
    length: usize,
    received: Out<'_, sockstamp_received>,
) -> Status {
    guard_only(|| received.write(message::parse(control.bytes(length)?)))
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

#[unsafe(no_mangle)]
pub extern "C" fn sockstamp_batch_create(
    batch: Out<'_, Option<Box<Batch>>>,
    size: usize,
) -> Status {
    batch.create(|| Batch::new(size))
}

#[unsafe(no_mangle)]
pub extern "C" fn sockstamp_batch_receive(
    batch: Option<&mut Batch>,
    fd: Socket<'_>,
    messages: Out<'_, *const sockstamp_message>,
) -> Status {
    guard(|| {
        let place = messages.slice(1)?;
        let received = batch.required()?.receive(fd.borrow()?)?;
        place[0].write(received.as_ptr());
        Ok(received.len())
    })
}

#[unsafe(no_mangle)]
pub extern "C" fn sockstamp_batch_free(batch: Option<Box<Batch>>) {
    free(batch);
}

#[unsafe(no_mangle)]
pub extern "C" fn sockstamp_stamping_create(
    stamping: Out<'_, Option<Box<Stamping>>>,
    timeout_ms: c_uint,
) -> Status {
    let mut on = false;
    let made = stamping.create(|| {
        let (held, stamped) = Stamping::new(Duration::from_millis(timeout_ms.into()))?;
        on = stamped;
        Ok(held)
    });
    made.with(on.into())
}

#[unsafe(no_mangle)]
pub extern "C" fn sockstamp_stamping_free(stamping: Option<Box<Stamping>>) {
    free(stamping);
}

#[unsafe(no_mangle)]
pub extern "C" fn sockstamp_matcher_create(
    matcher: Out<'_, Option<Box<Matcher>>>,
    transport: sockstamp_transport,
    outstanding: u32,
    capacity: usize,
    expected: u32,
) -> Status {
    matcher.create(|| Matcher::new(transport, outstanding, capacity, expected))
}

#[unsafe(no_mangle)]
pub extern "C" fn sockstamp_matcher_sent(
    matcher: Option<&mut Matcher>,
    bytes: usize,
    message: u64,
    forgotten: Out<'_, u64>,
) -> Status {
    guard(|| match matcher.required()?.sent(bytes, message) {
        None => Ok(0),
        Some(_) if forgotten.is_null() => Ok(1),
        Some(message) => forgotten.write(message).map(|()| 1),
    })
}

#[unsafe(no_mangle)]
pub extern "C" fn sockstamp_matcher_sent_unstamped(
    matcher: Option<&mut Matcher>,
    bytes: usize,
) -> Status {
    guard_only(|| {
        matcher.required()?.sent_unstamped(bytes);
        Ok(())
    })
}

#[unsafe(no_mangle)]
pub extern "C" fn sockstamp_matcher_stamp(
    matcher: Option<&mut Matcher>,
    stamp: Option<&sockstamp_stamp>,
    matches: Out<'_, *const sockstamp_match>,
) -> Status {
    guard(|| {
        let place = matches.slice(1)?;
        let found = matcher.required()?.stamp(stamp.required()?)?;
        place[0].write(found.as_ptr());
        Ok(found.len())
    })
}

#[unsafe(no_mangle)]
pub extern "C" fn sockstamp_matcher_unfinished(
    matcher: Option<&Matcher>,
    messages: Out<'_, u64>,
    capacity: usize,
) -> Status {
    guard(|| Ok(matcher.required()?.unfinished(messages.slice(capacity)?)))
}

#[unsafe(no_mangle)]
pub extern "C" fn sockstamp_matcher_counters(
    matcher: Option<&Matcher>,
    counters: Out<'_, sockstamp_matcher_counters>,
) -> Status {
    guard_only(|| counters.write(matcher.required()?.counters()))
}

#[unsafe(no_mangle)]
pub extern "C" fn sockstamp_matcher_free(matcher: Option<Box<Matcher>>) {
    free(matcher);
}

#[unsafe(no_mangle)]
pub extern "C" fn sockstamp_completions_create(
    completions: Out<'_, Option<Box<Completions>>>,
    path: Text<'_>,
) -> Status {
    completions.create(|| Completions::new(path.optional()))
}

#[unsafe(no_mangle)]
pub extern "C" fn sockstamp_completions_register(
    completions: Option<&Completions>,
    fd: Socket<'_>,
    stamps: c_int,
    registration: Out<'_, Option<Box<Registration>>>,
) -> Status {
    registration.create(|| completions.required()?.register(fd.borrow()?, stamps != 0))
}

#[unsafe(no_mangle)]
pub extern "C" fn sockstamp_completions_free(completions: Option<Box<Completions>>) {
    free(completions);
}

#[unsafe(no_mangle)]
pub extern "C" fn sockstamp_registration_read(
    registration: Option<&mut Registration>,
    reports: Out<'_, *const sockstamp_report>,
) -> Status {
    guard(|| {
        let place = reports.slice(1)?;
        let found = registration.required()?.read();
        place[0].write(found.as_ptr());
        Ok(found.len())
    })
}

#[unsafe(no_mangle)]
pub extern "C" fn sockstamp_registration_state(
    registration: Option<&Registration>,
    state: Out<'_, sockstamp_registration_state>,
) -> Status {
    guard_only(|| state.write(registration.required()?.state()))
}

#[unsafe(no_mangle)]
pub extern "C" fn sockstamp_registration_queue_is_read(
    registration: Option<&mut Registration>,
) -> Status {
    guard_only(|| {
        registration.required()?.queue_is_read();
        Ok(())
    })
}

#[unsafe(no_mangle)]
pub extern "C" fn sockstamp_registration_is_served(registration: Option<&Registration>) -> Status {
    guard(|| Ok(registration.required()?.is_served().into()))
}

#[unsafe(no_mangle)]
pub extern "C" fn sockstamp_registration_free(registration: Option<Box<Registration>>) {
    free(registration);
}

#[unsafe(no_mangle)]
pub extern "C" fn sockstamp_sender_create(
    sender: Out<'_, Option<Box<Sender>>>,
    fd: Socket<'_>,
    options: Option<&sockstamp_sender_options>,
) -> Status {
    sender.create(|| Sender::new(fd.borrow()?, options.required()?))
}

#[unsafe(no_mangle)]
pub extern "C" fn sockstamp_sender_support(sender: Option<&Sender>) -> Status {
    guard(|| Ok(sender.required()?.support() as usize))
}

#[unsafe(no_mangle)]
pub extern "C" fn sockstamp_sender_use_memory(
    sender: Option<&mut Sender>,
    completions: Option<&Completions>,
    stamps: c_int,
) -> Status {
    guard_only(|| {
        sender
            .required()?
            .use_memory(completions.required()?, stamps != 0)
    })
}

#[unsafe(no_mangle)]
pub extern "C" fn sockstamp_sender_acquire(
    sender: Option<&mut Sender>,
    timeout_ms: c_int,
    buffer: Out<'_, *mut c_void>,
) -> Status {
    guard_only(|| {
        let place = buffer.slice(1)?;
        let start = sender.required()?.acquire(sender::timeout(timeout_ms))?;
        place[0].write(start.cast());
        Ok(())
    })
}

#[unsafe(no_mangle)]
pub extern "C" fn sockstamp_sender_submit(
    sender: Option<&mut Sender>,
    buffer: Out<'_, c_void>,
    length: usize,
    how: Option<&sockstamp_how>,
) -> Status {
    guard(|| sender.required()?.submit(buffer.address(), length, how))
}

#[unsafe(no_mangle)]
pub extern "C" fn sockstamp_sender_release(
    sender: Option<&mut Sender>,
    buffer: Out<'_, c_void>,
) -> Status {
    guard_only(|| sender.required()?.release(buffer.address()))
}

#[unsafe(no_mangle)]
pub extern "C" fn sockstamp_sender_flush(sender: Option<&mut Sender>) -> Status {
    guard(|| sender.required()?.flush())
}

#[unsafe(no_mangle)]
pub extern "C" fn sockstamp_sender_reports(
    sender: Option<&mut Sender>,
    reports: Out<'_, sockstamp_report>,
    capacity: usize,
) -> Status {
    guard(|| sender.required()?.reports(reports.slice(capacity)?))
}

#[unsafe(no_mangle)]
pub extern "C" fn sockstamp_sender_wait_idle(
    sender: Option<&mut Sender>,
    timeout_ms: c_int,
) -> Status {
    guard(|| sender.required()?.wait_idle(sender::timeout(timeout_ms)))
}

#[unsafe(no_mangle)]
pub extern "C" fn sockstamp_sender_ask_again(sender: Option<&mut Sender>) -> Status {
    guard_only(|| {
        sender.required()?.ask_again();
        Ok(())
    })
}

#[unsafe(no_mangle)]
pub extern "C" fn sockstamp_sender_counters(
    sender: Option<&Sender>,
    counters: Out<'_, sockstamp_sender_counters>,
) -> Status {
    guard_only(|| counters.write(sender.required()?.counters()))
}

#[unsafe(no_mangle)]
pub extern "C" fn sockstamp_sender_free(sender: Option<Box<Sender>>) {
    free(sender);
}

#[unsafe(no_mangle)]
pub extern "C" fn sockstamp_receiver_create(
    receiver: Out<'_, Option<Box<Receiver>>>,
    fd: Socket<'_>,
    window: usize,
    copy: usize,
) -> Status {
    receiver.create(|| Receiver::new(fd.borrow()?, window, copy))
}

#[unsafe(no_mangle)]
pub extern "C" fn sockstamp_receiver_receive(
    receiver: Option<&mut Receiver>,
    view: Out<'_, sockstamp_view>,
) -> Status {
    guard(|| {
        let place = view.slice(1)?;
        let (length, what) = receiver.required()?.receive()?;
        place[0].write(what);
        Ok(length)
    })
}

#[unsafe(no_mangle)]
pub extern "C" fn sockstamp_receiver_release(receiver: Option<&mut Receiver>) -> Status {
    guard_only(|| {
        receiver.required()?.release();
        Ok(())
    })
}

#[unsafe(no_mangle)]
pub extern "C" fn sockstamp_receiver_free(receiver: Option<Box<Receiver>>) {
    free(receiver);
}
