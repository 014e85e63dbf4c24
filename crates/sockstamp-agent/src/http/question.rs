//! Questions of clients to the thread that measures, and its answers.

use std::convert::Infallible;
use std::pin::Pin;
use std::task::{Context, Poll};

use hyper::StatusCode;
use hyper::body::{Body, Bytes, Frame, SizeHint};
use sockstamp_metrics::{Format, Pieces};
use tokio::sync::oneshot;

/// The request of a client to the thread that measures.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Want {
    Metrics(Format),
    Config,
    /// The last slow messages.
    Slow,
    /// Where time was lost in the last minutes.
    Findings,
    /// A sign of life.
    Ready,
    /// Keep the last minutes.
    Snapshot,
    /// Explain the last minutes.
    Explain,
}

/// A question of a client.
#[derive(Debug)]
pub(crate) struct Question {
    pub(crate) want: Want,
    pub(crate) answer: oneshot::Sender<Answered>,
}

/// The answer to a question.
pub(crate) type Answered = Result<Answer, Refusal>;

/// The reason why there is no answer, as a line of text.
#[derive(Debug)]
pub(crate) struct Refusal {
    pub(crate) status: StatusCode,
    pub(crate) why: Bytes,
}

impl Refusal {
    /// Another client has asked for the same.
    pub(crate) fn busy(why: impl Into<Bytes>) -> Self {
        Self::of(StatusCode::CONFLICT, why)
    }

    /// There is none now, and there may be one later.
    pub(crate) fn unavailable(why: impl Into<Bytes>) -> Self {
        Self::of(StatusCode::SERVICE_UNAVAILABLE, why)
    }

    pub(crate) fn failed(why: impl Into<Bytes>) -> Self {
        Self::of(StatusCode::INTERNAL_SERVER_ERROR, why)
    }

    fn of(status: StatusCode, why: impl Into<Bytes>) -> Self {
        Self {
            status,
            why: why.into(),
        }
    }
}

/// The body of an answer.
#[derive(Debug)]
pub(crate) enum Answer {
    /// All of it, until it is sent.
    Whole(Bytes),
    /// Series that are written as the client takes them.
    Series(Pieces),
}

impl<T: Into<Bytes>> From<T> for Answer {
    fn from(bytes: T) -> Self {
        Self::Whole(bytes.into())
    }
}

impl Body for Answer {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        let bytes = match &mut *self {
            Self::Whole(bytes) => Some(std::mem::take(bytes)).filter(|bytes| !bytes.is_empty()),
            Self::Series(pieces) => pieces.next().map(Bytes::from),
        };
        Poll::Ready(bytes.map(|bytes| Ok(Frame::data(bytes))))
    }

    fn size_hint(&self) -> SizeHint {
        match self {
            Self::Whole(bytes) => SizeHint::with_exact(bytes.len() as u64),
            Self::Series(_) => SizeHint::default(),
        }
    }

    fn is_end_stream(&self) -> bool {
        matches!(self, Self::Whole(bytes) if bytes.is_empty())
    }
}
