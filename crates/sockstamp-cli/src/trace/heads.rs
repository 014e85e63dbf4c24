//! The text of messages that is the same for all of a task on a socket: names and addresses are
//! formatted once, and copied from then on.

use sockstamp_model::flow::Flow;
use sockstamp_model::message::Message;
use sockstamp_model::name::Name;
use sockstamp_print::line::Line;

/// Sockets whose text is kept: 15 kB. Cookies are counted, so the busiest seldom share a place.
const PLACES: u64 = 64;

/// The last such text of each place.
pub(super) struct Heads {
    heads: Vec<Head>,
    write: fn(&mut Line, &Message),
}

#[derive(Default)]
struct Head {
    /// The fields from which the text is made.
    of: Option<(u32, Name, Flow)>,
    text: Line,
}

impl Heads {
    /// Keep what `write` makes of a message's process, task and flow.
    pub(super) fn new(write: fn(&mut Line, &Message)) -> Self {
        Self {
            heads: (0..PLACES).map(|_| Head::default()).collect(),
            write,
        }
    }

    /// Return the text of a message.
    pub(super) fn of(&mut self, message: &Message) -> &[u8] {
        let place = usize::try_from(message.flow.cookie.0 % PLACES).unwrap_or(0);
        let head = &mut self.heads[place];
        if !head.is_of(message) {
            head.of = Some((message.pid, message.comm.clone(), message.flow));
            head.text.clear();
            (self.write)(&mut head.text, message);
        }
        head.text.as_bytes()
    }
}

impl Head {
    fn is_of(&self, message: &Message) -> bool {
        let of = self.of.as_ref();
        of.is_some_and(|(pid, comm, flow)| {
            *pid == message.pid && *flow == message.flow && *comm == message.comm
        })
    }
}

#[cfg(test)]
mod tests {
    use sockstamp_model::fixture;
    use sockstamp_model::flow::SocketCookie;
    use sockstamp_model::stage::Direction;

    use super::*;

    fn written(line: &mut Line, message: &Message) {
        line.number(message.pid.into());
        line.text("/");
        line.name(&message.comm);
        line.text(" ");
        line.address(message.flow.remote);
    }

    #[test]
    fn a_text_is_that_of_its_message_though_another_had_its_place() {
        let mut heads = Heads::new(written);
        let first = fixture::message(Direction::Tx);
        let mut others = [(); 4].map(|()| first.clone());
        others[0].pid = 7;
        others[1].comm = "redis".into();
        others[2].flow.remote.set_port(53);
        others[3].flow.cookie = SocketCookie(first.flow.cookie.0 + PLACES);
        for message in others.iter().flat_map(|other| [&first, other, other]) {
            let mut expected = Line::default();
            written(&mut expected, message);
            assert_eq!(heads.of(message), expected.as_bytes());
        }
    }
}
