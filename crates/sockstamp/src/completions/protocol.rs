//! The protocol between an application and `sockstamp notifications`: one fixed-size message each
//! way, on a Unix socket of type SOCK_SEQPACKET. All words have this host's byte order.
//!
//! A [`Request::Register`] carries the socket as SCM_RIGHTS, and [`Reply::Joined`] the memory.
//! Everything that the application registered is forgotten when the connection ends.

pub use crate::refusal::Refusal;

/// The first word of every message: rises when anything of the protocol or of the memory's layout
/// changes.
pub const VERSION: u32 = 0x5353_0003;

/// The length of a request.
pub const REQUEST_BYTES: usize = 24;
/// The length of a reply.
pub const REPLY_BYTES: usize = 48;

/// A request of an application.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Request {
    /// Memory of its own, once on a connection.
    Join,
    /// A socket, which comes with the request.
    Register {
        /// Request stamps of sends as well, where they need no error-queue entry.
        stamps: bool,
    },
    /// Forget a socket; has no reply.
    Release {
        /// The socket's slot.
        slot: u32,
        /// Its registration.
        registration: u64,
    },
    /// The usage of the service.
    Status,
}

/// A reply to an application.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reply {
    /// The memory comes with the reply.
    Joined {
        /// The number of slots for sockets.
        sockets: u32,
    },
    /// The socket's completions are in memory from now on.
    Registered(Registered),
    /// The usage of the service.
    Status(Status),
    /// The request is refused.
    Refused(Refusal),
}

/// The place of a socket's completions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Registered {
    /// The place in the memory.
    pub slot: u32,
    /// Stamps of TCP can come without error-queue entries: the application must request them at
    /// once, by setting IP_TTL to 256, which the kernel refuses.
    pub stamps: bool,
    /// A number that is never given twice.
    pub registration: u64,
    /// The count of its ring of ranges before this socket.
    pub ranges_written: u64,
    /// The count of its ring of stamps before this socket.
    pub stamps_written: u64,
}

/// The usage of the service.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Status {
    /// Applications that have joined.
    pub applications: u32,
    /// Sockets of them all.
    pub sockets: u32,
    /// Requests and connections that were refused since the start.
    pub refused: u64,
    /// Entries that left an error queue while they were read, since the start
    /// ([`Registration::torn`](super::Registration::torn)).
    pub torn: u64,
    /// Areas of memory that exist: those of applications, and those still kept of former ones.
    pub areas: u64,
}

impl Request {
    /// Encode it for sending.
    #[must_use]
    pub fn to_bytes(self) -> [u8; REQUEST_BYTES] {
        let (operation, argument, number) = match self {
            Self::Join => (1, 0, 0),
            Self::Register { stamps } => (2, u32::from(stamps), 0),
            Self::Release { slot, registration } => (3, slot, registration),
            Self::Status => (4, 0, 0),
        };
        let mut bytes = [0; REQUEST_BYTES];
        put(&mut bytes, &[VERSION, operation, argument], &[number]);
        bytes
    }

    /// `None` if it is not a message of this version, whose unused bytes are zero.
    #[must_use]
    pub fn from_bytes(bytes: &[u8]) -> Option<Self> {
        let ([version, operation, argument], [number]) = take::<3, 1>(bytes, REQUEST_BYTES)?;
        let request = match (version, operation, argument) {
            (VERSION, 1, _) => Self::Join,
            (VERSION, 2, stamps) => Self::Register {
                stamps: stamps == 1,
            },
            (VERSION, 3, slot) => Self::Release {
                slot,
                registration: number,
            },
            (VERSION, 4, _) => Self::Status,
            _ => return None,
        };
        (request.to_bytes() == *bytes).then_some(request)
    }
}

impl Reply {
    /// Encode it for sending.
    #[must_use]
    pub fn to_bytes(self) -> [u8; REPLY_BYTES] {
        let (operation, arguments, numbers) = match self {
            Self::Joined { sockets } => (1, [sockets, 0], [0; 3]),
            Self::Registered(at) => (
                2,
                [at.slot, u32::from(at.stamps)],
                [at.registration, at.ranges_written, at.stamps_written],
            ),
            Self::Status(status) => (
                3,
                [status.applications, status.sockets],
                [status.refused, status.torn, status.areas],
            ),
            Self::Refused(refusal) => (4, [refusal as u32, 0], [0; 3]),
        };
        let mut bytes = [0; REPLY_BYTES];
        put(
            &mut bytes,
            &[VERSION, operation, arguments[0], arguments[1]],
            &numbers,
        );
        bytes
    }

    /// `None` if it is not a message of this version, whose unused bytes are zero.
    #[must_use]
    pub fn from_bytes(bytes: &[u8]) -> Option<Self> {
        let ([version, operation, first, second], numbers) = take::<4, 3>(bytes, REPLY_BYTES)?;
        let reply = match (version, operation) {
            (VERSION, 1) => Self::Joined { sockets: first },
            (VERSION, 2) => Self::Registered(Registered {
                slot: first,
                stamps: second == 1,
                registration: numbers[0],
                ranges_written: numbers[1],
                stamps_written: numbers[2],
            }),
            (VERSION, 3) => Self::Status(Status {
                applications: first,
                sockets: second,
                refused: numbers[0],
                torn: numbers[1],
                areas: numbers[2],
            }),
            (VERSION, 4) => Self::Refused(
                Refusal::ALL
                    .into_iter()
                    .find(|refusal| *refusal as u32 == first)?,
            ),
            _ => return None,
        };
        (reply.to_bytes() == *bytes).then_some(reply)
    }
}

/// Words of 32 bits at the start, words of 64 bits at the end.
fn put(bytes: &mut [u8], words: &[u32], numbers: &[u64]) {
    for (place, word) in bytes.chunks_exact_mut(4).zip(words) {
        place.copy_from_slice(&word.to_ne_bytes());
    }
    let numbers_start = bytes.len() - 8 * numbers.len();
    for (place, number) in bytes[numbers_start..].chunks_exact_mut(8).zip(numbers) {
        place.copy_from_slice(&number.to_ne_bytes());
    }
}

fn take<const WORDS: usize, const NUMBERS: usize>(
    bytes: &[u8],
    length: usize,
) -> Option<([u32; WORDS], [u64; NUMBERS])> {
    if bytes.len() != length {
        return None;
    }
    let (words, _) = bytes.as_chunks::<4>();
    let (numbers, _) = bytes[length - 8 * NUMBERS..].as_chunks::<8>();
    Some((
        std::array::from_fn(|word| u32::from_ne_bytes(words[word])),
        std::array::from_fn(|number| u64::from_ne_bytes(numbers[number])),
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_come_as_they_were_sent() {
        let release = Request::Release {
            slot: 7,
            registration: u64::MAX - 1,
        };
        let register = [true, false].map(|stamps| Request::Register { stamps });
        for request in [
            Request::Join,
            register[0],
            register[1],
            release,
            Request::Status,
        ] {
            assert_eq!(Request::from_bytes(&request.to_bytes()), Some(request));
        }
    }

    #[test]
    fn replies_come_as_they_were_sent() {
        let registered = Reply::Registered(Registered {
            slot: 1,
            stamps: true,
            registration: 2,
            ranges_written: 3,
            stamps_written: 4,
        });
        let status = Reply::Status(Status {
            applications: 5,
            sockets: 6,
            refused: 7,
            torn: 8,
            areas: 9,
        });
        let refused = Refusal::ALL.map(Reply::Refused);
        for reply in [Reply::Joined { sockets: 8 }, registered, status]
            .into_iter()
            .chain(refused)
        {
            assert_eq!(Reply::from_bytes(&reply.to_bytes()), Some(reply));
        }
    }

    #[test]
    fn bytes_of_another_version_are_no_message() {
        let good = Request::Status.to_bytes();
        assert_eq!(Request::from_bytes(&good[..23]), None);
        assert_eq!(Request::from_bytes(&[]), None);
        for byte in 0..12 {
            let mut bad = good;
            bad[byte] ^= 0x40;
            assert_eq!(Request::from_bytes(&bad), None, "byte {byte}");
        }
        assert_eq!(Reply::from_bytes(&[0xff; REPLY_BYTES]), None);
    }

    #[test]
    fn bytes_beyond_this_version_are_no_message() {
        let with_rest = |good: &[u8]| {
            let last = good.len() - 1;
            [&good[..last], &[1]].concat()
        };
        for request in [
            Request::Join,
            Request::Register { stamps: true },
            Request::Status,
        ] {
            assert_eq!(Request::from_bytes(&with_rest(&request.to_bytes())), None);
        }
        for reply in [
            Reply::Joined { sockets: 8 },
            Reply::Refused(Refusal::Failed),
        ] {
            assert_eq!(Reply::from_bytes(&with_rest(&reply.to_bytes())), None);
        }
        let mut neither = Request::Register { stamps: false }.to_bytes();
        neither[8..12].copy_from_slice(&2_u32.to_ne_bytes());
        assert_eq!(Request::from_bytes(&neither), None);
    }
}
