//! What an application and `sockstamp completions` say to each other: one fixed-size message each way, on a Unix
//! socket of type SOCK_SEQPACKET. All words are of this host's byte order.
//!
//! A [`Request::Register`] carries the socket as SCM_RIGHTS, and [`Reply::Joined`] the memory. Everything that the
//! application registered is forgotten when the connection ends.

/// The first word of every message: rises when anything of the protocol or of the memory's layout changes.
pub const VERSION: u32 = 0x5353_0003;

/// The length of a request.
pub const REQUEST_BYTES: usize = 24;
/// The length of a reply.
pub const REPLY_BYTES: usize = 48;

/// What an application asks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Request {
    /// Memory of its own, once on a connection.
    Join,
    /// A socket, which comes with the request.
    Register {
        /// The stamps of what is sent on it as well, where no error-queue entry is made for them.
        stamps: bool,
    },
    /// No more of a socket; is not replied to.
    Release {
        /// Where it was.
        slot: u32,
        /// Which it was.
        registration: u64,
    },
    /// How much is in use.
    Status,
}

/// What it is answered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reply {
    /// The memory comes with the reply.
    Joined {
        /// How many sockets it has room for.
        sockets: u32,
    },
    /// From now on the socket's completions are in the memory.
    Registered(Registered),
    /// How much is in use.
    Status(Status),
    /// It cannot be done.
    Refused(Refusal),
}

/// Where a socket's completions are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Registered {
    /// The place in the memory.
    pub slot: u32,
    /// Stamps of TCP can come without error-queue entries: the application is to ask for them at once, by setting IP_TTL to
    /// 256, which the kernel refuses.
    pub stamps: bool,
    /// A number that is never given twice.
    pub registration: u64,
    /// What its rings counted before this socket.
    pub ranges_written: u64,
    /// As above.
    pub stamps_written: u64,
}

/// How much is in use.
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
    /// Areas of memory that exist: those of applications, and those that somebody keeps of former ones.
    pub areas: u64,
}

/// Why something was refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, thiserror::Error)]
#[non_exhaustive]
pub enum Refusal {
    /// Another version, another length, an unknown request, or one out of order.
    #[error("it does not understand this version of the library")]
    Malformed,
    /// As many applications as it serves, in all or of this user.
    #[error("it serves as many applications as it may")]
    TooManyApplications,
    /// As many sockets as it serves of one application.
    #[error("it serves as many sockets of this application as it may")]
    TooManySockets,
    /// What came is not a socket, or nothing came.
    #[error("what was passed is not a socket")]
    NotASocket,
    /// Neither TCP nor UDP, of IPv4 or IPv6.
    #[error("it is neither a TCP nor a UDP socket")]
    WrongSocket,
    /// This application or another has done so.
    #[error("the socket is registered already")]
    AlreadyRegistered,
    /// Memory or privileges are missing; its log says which.
    #[error("it failed, and its log says why")]
    Failed,
    /// As much as it may give, in all or to this user, is kept by applications that have left as well.
    #[error("as much of its memory is in use as may be, also by applications that have left")]
    MemoryInUse,
}

impl Refusal {
    const ALL: [Self; 8] = [
        Self::Malformed,
        Self::TooManyApplications,
        Self::TooManySockets,
        Self::NotASocket,
        Self::WrongSocket,
        Self::AlreadyRegistered,
        Self::Failed,
        Self::MemoryInUse,
    ];
}

impl Request {
    /// As it is sent.
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

    /// `None` where it is not one of this version, which has zeros where a message says nothing.
    #[must_use]
    pub fn from_bytes(bytes: &[u8]) -> Option<Self> {
        let ([version, operation, argument], [number]) = take::<3, 1>(bytes, REQUEST_BYTES)?;
        let request = match (version, operation, argument) {
            (VERSION, 1, _) => Self::Join,
            (VERSION, 2, stamps) => Self::Register { stamps: stamps == 1 },
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
    /// As it is sent.
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

    /// `None` where it is not one of this version, which has zeros where a message says nothing.
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
        for request in [Request::Join, register[0], register[1], release, Request::Status] {
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
    fn what_is_no_message_of_this_version_is_none() {
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
    fn what_says_more_than_this_version_does_is_none() {
        let with_rest = |good: &[u8]| {
            let last = good.len() - 1;
            [&good[..last], &[1]].concat()
        };
        for request in [Request::Join, Request::Register { stamps: true }, Request::Status] {
            assert_eq!(Request::from_bytes(&with_rest(&request.to_bytes())), None);
        }
        for reply in [Reply::Joined { sockets: 8 }, Reply::Refused(Refusal::Failed)] {
            assert_eq!(Reply::from_bytes(&with_rest(&reply.to_bytes())), None);
        }
        let mut neither = Request::Register { stamps: false }.to_bytes();
        neither[8..12].copy_from_slice(&2_u32.to_ne_bytes());
        assert_eq!(Request::from_bytes(&neither), None);
    }
}
