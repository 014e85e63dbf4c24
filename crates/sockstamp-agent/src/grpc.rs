//! Frames and ends of gRPC calls (gRPC over HTTP2).

use std::error::Error;

use http_body_util::{BodyExt, Limited};
use hyper::Response;
use hyper::body::{Bytes, Incoming};
use sockstamp_model::name::Escaped;

/// Frame a message: not compressed, its length, itself ("Requests").
pub(crate) fn framed(message: &[u8]) -> Bytes {
    let length = u32::try_from(message.len())
        .unwrap_or(u32::MAX)
        .to_be_bytes();
    [&[0], &length[..], message].concat().into()
}

/// Return the message in an answer that has exactly one, not compressed.
pub(crate) fn unframed(answer: &[u8]) -> Option<&[u8]> {
    let (&head, message) = answer.split_first_chunk::<5>()?;
    let [compressed, length @ ..] = head;
    let length = usize::try_from(u32::from_be_bytes(length)).ok()?;
    (compressed == 0 && length == message.len()).then_some(message)
}

/// The end of a call.
#[derive(Debug)]
pub(crate) struct Ended {
    /// The code of the status, if there is one.
    pub(crate) code: Option<u32>,
    /// The server's words for it.
    message: String,
    /// The frames of the answer.
    pub(crate) body: Bytes,
}

impl Ended {
    /// Read an answer of up to this many bytes. Without a body it has its status in the headers,
    /// else in the trailers.
    pub(crate) async fn read(
        response: Response<Incoming>,
        most: usize,
    ) -> Result<Self, Box<dyn Error + Send + Sync>> {
        let headers = response.headers().clone();
        let answer = Limited::new(response.into_body(), most).collect().await?;
        let trailers = answer.trailers().cloned().unwrap_or(headers);
        let field = |name: &str| trailers.get(name).map(|value| value.as_bytes());
        let code = field("grpc-status").and_then(|code| str::from_utf8(code).ok()?.parse().ok());
        Ok(Self {
            code,
            message: Escaped(field("grpc-message").unwrap_or_default()).to_string(),
            body: answer.to_bytes(),
        })
    }

    /// Return the status in words.
    pub(crate) fn said(&self) -> String {
        let Self { code, message, .. } = self;
        match code {
            Some(code) => format!("gRPC status {code} {message}")
                .trim_end()
                .to_owned(),
            None => "an answer without a status".to_owned(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_is_taken_out_of_its_frame_if_it_is_whole() {
        let frame = framed(b"abc");
        assert_eq!(&frame[..], b"\0\0\0\0\x03abc");
        assert_eq!(unframed(&frame), Some(&b"abc"[..]));
        assert_eq!(unframed(&framed(b"")), Some(&b""[..]));
        for end in 0..frame.len() {
            assert_eq!(unframed(&frame[..end]), None, "cut off at {end}");
        }
        assert_eq!(unframed(b"\x01\0\0\0\x03abc"), None, "compressed");
        assert_eq!(unframed(b"\0\xff\xff\xff\xffabc"), None);
        assert_eq!(
            unframed(&[&frame[..], &frame[..]].concat()),
            None,
            "two of them"
        );
    }
}
