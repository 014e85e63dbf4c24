//! Open objects of programs of any kind.

use std::mem::MaybeUninit;
use std::ptr;

use libbpf_rs::libbpf_sys::bpf_object_open_opts;
use libbpf_rs::skel::SkelBuilder;
use libbpf_rs::{OpenObject, PrintLevel};

use crate::error::{Error, Tried};
use crate::kernel;

/// Open programs that outlive this call. The skeleton borrows its object, so they need a place
/// that does, too: a few bytes each time that are never given back; the object in them is.
///
/// # Errors
///
/// [`Error::Bpf`] if they cannot be read.
pub fn open<B: SkelBuilder<'static>>(builder: B) -> Result<B::Output, Error> {
    let place = Box::leak(Box::new(MaybeUninit::uninit()));
    open_at(place, builder).tried("read our own programs")
}

/// Open programs in a place of the caller's. What libbpf looks up of the kernel's types is in an
/// excerpt of those.
pub(crate) fn open_at<'place, B: SkelBuilder<'place>>(
    place: &'place mut MaybeUninit<OpenObject>,
    builder: B,
) -> libbpf_rs::Result<B::Output> {
    quiet_libbpf();
    let types = kernel::excerpt::excerpt_path();
    let options = bpf_object_open_opts {
        sz: size_of::<bpf_object_open_opts>() as _,
        btf_custom_path: types.as_ref().map_or(ptr::null(), |path| path.as_ptr()),
        ..bpf_object_open_opts::default()
    };
    builder.open_opts(options, place)
}

/// Silence libbpf, except for debugging.
fn quiet_libbpf() {
    let debug = std::env::var_os("SOCKSTAMP_DEBUG").is_some();
    libbpf_rs::set_print(debug.then_some((PrintLevel::Warn, |_, text| eprint!("{text}"))));
}
