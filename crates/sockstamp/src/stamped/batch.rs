//! Many sends in one system call.

use std::io;
use std::os::fd::AsFd;

use super::ids::Ids;
use super::socket::{StampedSocket, lock};
use super::token::{Sent, Token};
use crate::timestamping::{MessageOptions, Outgoing, restart_ids, send_batch};

impl<S: AsFd> StampedSocket<S> {
    /// Send `messages` in order, up to 32 in one system call, with stamps of their own, and return
    /// those that were sent. An [id](MessageOptions::id) in their options is ignored.
    ///
    /// It ends with the first message that fails, or of which a stream took a part. Fewer than all
    /// are no error: to send the rest again gives the error, unless that has passed.
    ///
    /// ```
    /// use std::io::IoSlice;
    /// use std::net::UdpSocket;
    /// use sockstamp::stamped::StampedSocket;
    /// use sockstamp::timestamping::{Options, Outgoing};
    ///
    /// let peer = UdpSocket::bind("127.0.0.1:0")?;
    /// let socket = UdpSocket::bind("127.0.0.1:0")?;
    /// let socket = StampedSocket::new(socket, Options::new().tx_software())?;
    /// let payloads = [IoSlice::new(b"one"), IoSlice::new(b"two")];
    /// let to = peer.local_addr()?;
    /// let messages: Vec<_> = payloads.chunks(1).map(|part| Outgoing::new(part).to(to)).collect();
    /// let mut rest = &messages[..];
    /// while !rest.is_empty() {
    ///     let sent = socket.send_batch(rest)?;
    ///     println!("{} to {}", sent[0].token, sent[sent.len() - 1].token);
    ///     rest = &rest[sent.len()..];
    /// }
    /// # std::io::Result::Ok(())
    /// ```
    ///
    /// # Errors
    ///
    /// Those of [`send`](crate::timestamping::send), of the first message.
    pub fn send_batch(&self, messages: &[Outgoing<'_>]) -> io::Result<Vec<Sent>> {
        self.send_batch_by(messages, |options| options)
    }

    /// Do the same, with changed options of each message.
    pub(super) fn send_batch_by(
        &self,
        messages: &[Outgoing<'_>],
        change: impl Fn(MessageOptions) -> MessageOptions,
    ) -> io::Result<Vec<Sent>> {
        match self.ids {
            Ids::Own => self.send_batch_numbered(messages, change),
            Ids::Datagrams | Ids::Bytes => self.send_batch_counted(messages, change),
        }
    }

    fn send_batch_numbered(
        &self,
        messages: &[Outgoing<'_>],
        change: impl Fn(MessageOptions) -> MessageOptions,
    ) -> io::Result<Vec<Sent>> {
        let first = {
            let mut state = self.state();
            let first = state.name_batch(messages.len());
            for (token, message) in tokens(first).zip(messages) {
                if message.options().requests_stamps(self.options.bits()) {
                    state.matcher.sending(token.id(), token);
                }
            }
            first
        };
        let numbered: Vec<_> = tokens(first)
            .zip(messages)
            .map(|(token, message)| message.with(change(message.options()).id(token.id())))
            .collect();
        let (sent, result) = self.try_batch(first, &numbered);
        let mut state = self.state();
        for token in tokens(first).take(messages.len()).skip(sent.len()) {
            state.matcher.unsent(token.id());
        }
        let failed = sent.len() < messages.len();
        state.tried(sent.len() + usize::from(failed), failed);
        result.map(|()| sent)
    }

    fn send_batch_counted(
        &self,
        messages: &[Outgoing<'_>],
        change: impl Fn(MessageOptions) -> MessageOptions,
    ) -> io::Result<Vec<Sent>> {
        let counted: Vec<_> = messages
            .iter()
            .map(|message| message.with(change(message.options()).without_id()))
            .collect();
        let stamped =
            |message: &Outgoing<'_>| message.options().requests_stamps(self.options.bits());
        let _turn = lock(&self.turn);
        let first = {
            let mut state = self.state();
            state.begin_counted();
            state.name_batch(messages.len())
        };
        let (sent, result) = self.try_batch(first, &counted);
        let rest = counted.get(sent.len());
        // Of a stream, fewer may mean that the last was taken in part.
        let failed = result.is_err() || self.ids == Ids::Datagrams && rest.is_some();
        let in_doubt = self.ids == Ids::Datagrams && rest.is_some_and(stamped);
        // Stamps that the kernel took before it refused are there by now.
        let restarted = if in_doubt {
            self.drain(0).and_then(|()| restart_ids(&self.socket))
        } else {
            Ok(())
        };
        let mut state = self.state();
        for (sent, message) in sent.iter().zip(&counted) {
            if stamped(message) {
                state.matcher.sent(sent.bytes, sent.token);
            } else {
                state.matcher.sent_unstamped(sent.bytes);
            }
        }
        state.tried(sent.len() + usize::from(failed), failed);
        let news = state.end_counted();
        if in_doubt {
            state.matcher.restarted();
        }
        drop(state);
        if news {
            self.tell(0);
        }
        restarted?;
        result.map(|()| sent)
    }

    /// Send, and return what was sent, even where that is nothing.
    fn try_batch(&self, first: Token, messages: &[Outgoing<'_>]) -> (Vec<Sent>, io::Result<()>) {
        let mut sent = Vec::with_capacity(messages.len());
        let result = send_batch(&self.socket, messages, |bytes| {
            sent.push(Sent {
                token: first.later(sent.len()),
                bytes,
            });
        });
        (sent, result.map(drop))
    }
}

/// The names of a batch.
fn tokens(first: Token) -> impl Iterator<Item = Token> {
    (0..).map(move |index| first.later(index))
}
