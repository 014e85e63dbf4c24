//! Each function of sockstamp.h against the one that is exported: the same parameters and results,
//! or this does not compile.

use std::ffi::{c_char, c_int, c_uint, c_void};
use std::io::IoSlice;

use crate::batch::Batch;
use crate::boundary::{In, Out, Socket, Status, Text};
use crate::completions::{Completions, Registration};
use crate::header::{
    sockstamp_how, sockstamp_interface, sockstamp_match, sockstamp_matcher_counters,
    sockstamp_message, sockstamp_offset, sockstamp_queue_counters, sockstamp_received,
    sockstamp_registration_state, sockstamp_report, sockstamp_request, sockstamp_sender_counters,
    sockstamp_sender_options, sockstamp_stamp, sockstamp_statistics, sockstamp_time,
    sockstamp_view,
};
use crate::matcher::Matcher;
use crate::queue::Queue;
use crate::receiver::Receiver;
use crate::sender::Sender;
use crate::stamping::Stamping;

/// The functions as bindgen has them.
mod header {
    use super::{
        Batch as sockstamp_batch, Completions as sockstamp_completions,
        Matcher as sockstamp_matcher, Queue as sockstamp_queue, Receiver as sockstamp_receiver,
        Registration as sockstamp_registration, Sender as sockstamp_sender,
        Stamping as sockstamp_stamping,
    };
    use crate::header::*;
    use libc::{iovec, sockaddr, socklen_t};

    include!(concat!(env!("OUT_DIR"), "/functions.rs"));
}

/// The C counterpart of a type.
trait OfC {
    type Type;
}

macro_rules! same_in_c {
    ($($type:ty),* $(,)?) => {
        $(impl OfC for $type {
            type Type = Self;
        })*
    };
}

same_in_c!(
    (),
    c_char,
    c_int,
    c_uint,
    c_void,
    u64,
    i64,
    usize,
    libc::sockaddr,
    sockstamp_how,
    sockstamp_interface,
    sockstamp_match,
    sockstamp_matcher_counters,
    sockstamp_message,
    sockstamp_offset,
    sockstamp_queue_counters,
    sockstamp_received,
    sockstamp_registration_state,
    sockstamp_report,
    sockstamp_request,
    sockstamp_sender_counters,
    sockstamp_sender_options,
    sockstamp_stamp,
    sockstamp_statistics,
    sockstamp_time,
    sockstamp_view,
    Batch,
    Completions,
    Matcher,
    Queue,
    Receiver,
    Registration,
    Sender,
    Stamping,
);

impl OfC for Status {
    type Type = c_int;
}

impl OfC for Socket<'_> {
    type Type = c_int;
}

impl OfC for Text<'_> {
    type Type = *const c_char;
}

/// The documentation of `IoSlice` promises it.
impl OfC for IoSlice<'_> {
    type Type = libc::iovec;
}

impl<T: OfC> OfC for In<'_, T> {
    type Type = *const T::Type;
}

impl<T: OfC> OfC for Out<'_, T> {
    type Type = *mut T::Type;
}

impl<T: OfC> OfC for Option<&T> {
    type Type = *const T::Type;
}

impl<T: OfC> OfC for Option<&mut T> {
    type Type = *mut T::Type;
}

impl<T: OfC> OfC for Option<Box<T>> {
    type Type = *mut T::Type;
}

impl<T: OfC> OfC for *const T {
    type Type = *const T::Type;
}

impl<T: OfC> OfC for *mut T {
    type Type = *mut T::Type;
}

macro_rules! functions {
    ($($($parameter:ident)*;)*) => {
        $(impl<$($parameter: OfC,)* R: OfC> OfC for extern "C" fn($($parameter),*) -> R {
            type Type = unsafe extern "C" fn($($parameter::Type),*) -> R::Type;
        })*
    };
}

functions! {
    ;
    A;
    A B;
    A B C;
    A B C D;
    A B C D E;
    A B C D E F;
}

fn same<F: OfC>(_in_the_header: F::Type, _exported: F) {}

macro_rules! same_signature {
    ($name:ident, $($parameter:tt,)*) => {
        same(
            header::$name as unsafe extern "C" fn($($parameter),*) -> _,
            crate::exports::$name as extern "C" fn($($parameter),*) -> _,
        );
    };
}

#[test]
fn every_function_of_the_header_is_exported_as_it_is_declared() {
    include!(concat!(env!("OUT_DIR"), "/signatures.rs"));
}
