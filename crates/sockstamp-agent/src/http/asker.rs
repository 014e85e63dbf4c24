//! The way from the server to the thread that measures, and who may take it.

use std::io::Write;
use std::os::unix::net::UnixStream;
use std::sync::{Arc, PoisonError, RwLock, mpsc};

use hyper::header::{AUTHORIZATION, HeaderMap};
use tokio::sync::oneshot;

use super::credentials;
use super::question::{Answered, Question, Want};

/// The token that clients must have, if there is one.
pub(crate) type Token = Arc<RwLock<Option<String>>>;

/// The reason to trust a client.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Trust {
    /// The socket that it came by is its owner's.
    Owner,
    /// The token that it gives, if the agent has one.
    Token,
}

/// The way to the thread that measures.
pub(crate) struct Asker {
    pub(crate) ask: mpsc::Sender<Question>,
    pub(crate) waker: UnixStream,
    pub(crate) token: Token,
    /// Only this host reaches it, without encryption.
    pub(crate) is_local: bool,
}

impl Asker {
    /// Return true if nothing but the address keeps others out. A page in a browser of this host
    /// gets around that, if it makes its own name resolve to the address (DNS rebinding): then its
    /// requests have its name.
    pub(crate) fn relies_on_the_address(&self) -> bool {
        self.is_local && !self.has_token()
    }

    /// Return true if clients of the network must give a token.
    pub(crate) fn has_token(&self) -> bool {
        let token = self.token.read().unwrap_or_else(PoisonError::into_inner);
        token.is_some()
    }

    /// Return true if the client may see and do everything. The comparison takes as long whatever
    /// is wrong.
    pub(crate) fn admits(&self, headers: &HeaderMap) -> bool {
        let token = self.token.read().unwrap_or_else(PoisonError::into_inner);
        let Some(token) = &*token else {
            return true;
        };
        let value = headers.get(AUTHORIZATION).map(|value| value.as_bytes());
        let given = value.and_then(credentials::token).unwrap_or_default();
        let differing = token
            .bytes()
            .zip(&*given)
            .map(|(mine, theirs)| mine ^ theirs);
        given.len() == token.len() && differing.fold(0, |all, bits| all | bits) == 0
    }

    pub(crate) async fn ask(&self, want: Want) -> Option<Answered> {
        let (answer, answered) = oneshot::channel();
        self.ask.send(Question { want, answer }).ok()?;
        // A full pipe has woken it already.
        let _ = (&self.waker).write(&[0]);
        answered.await.ok()
    }
}
