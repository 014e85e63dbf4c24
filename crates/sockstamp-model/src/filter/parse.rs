//! Parse words into an expression.

use std::net::{IpAddr, Ipv4Addr};

use super::error::{FilterError, Found, Problem};
use super::expression::{Expression, Pattern, Primitive, Version, Which};
use super::net::Net;
use super::table::{MAX_TESTS, tests_of};
use crate::flow::Protocol;

/// Parentheses and `not` within each other: more than anybody writes, and little enough for the
/// stack.
const MAX_DEPTH: usize = 32;

const ADDRESS: &str = "an IP address (names are not looked up)";
const HOST_OR_NET: &str =
    "an IP address or a network (names are not looked up, and a port takes the word `port`)";
const SINGLE_ADDRESS: &str =
    "an IP address without a prefix length (a network takes the word `net`)";
const NETWORK: &str = "a network, such as 10.0.0.0/8, 192.168 or 2001:db8::/32";
const PORT: &str = "a port number, 0 to 65535 (names of services are not looked up)";
const SINGLE_PORT: &str = "a single port number (a range takes the word `portrange`)";
const RANGE: &str = "a range of port numbers, such as 1-1023";
const PRIMITIVE: &str =
    "a condition: tcp, udp, ip, ip6, src, dst, host, net, port, portrange or an IP address";
const AFTER_PROTOCOL: &str = "src, dst, host, net, port, portrange, and, or, or the end";
const AFTER_SOURCE_AND: &str = "dst";
const CONNECTION: &str = "and, or, or the end";
const CLOSING: &str = "and, or, or `)`";
const DOUBLED: &str = "`&&` or `||`";

pub(super) fn expression(text: &str) -> Result<Expression, FilterError> {
    let mut parser = Parser::new(text)?;
    let expression = parser.expression(0)?;
    match parser.peek().kind {
        Kind::End => Ok(expression),
        _ => Err(parser.unexpected(parser.position, CONNECTION)),
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind<'a> {
    Word(&'a str),
    And,
    Or,
    Not,
    Open,
    Close,
    End,
}

/// Places count characters.
#[derive(Debug, Clone, Copy)]
struct Token<'a> {
    kind: Kind<'a>,
    text: &'a str,
    start: usize,
}

impl Token<'_> {
    /// The end is pointed at, too.
    fn length(&self) -> usize {
        self.text.chars().count().max(1)
    }
}

fn tokens(text: &str) -> Result<Vec<Token<'_>>, FilterError> {
    let mut tokens = Vec::new();
    let mut rest = text;
    let mut start = 0;
    loop {
        let trimmed = rest.trim_start();
        start += rest[..rest.len() - trimmed.len()].chars().count();
        let length = length_of_first(trimmed);
        let (word, after) = trimmed.split_at(length);
        let kind = match word {
            "" => Kind::End,
            "and" | "&&" => Kind::And,
            "or" | "||" => Kind::Or,
            "not" | "!" => Kind::Not,
            "(" => Kind::Open,
            ")" => Kind::Close,
            "&" | "|" => {
                let found = Found::Word(word.into());
                let problem = Problem::Unexpected {
                    expected: DOUBLED,
                    found,
                };
                return Err(FilterError::new(text, start, 1, problem));
            }
            word => Kind::Word(word),
        };
        tokens.push(Token {
            kind,
            text: word,
            start,
        });
        if kind == Kind::End {
            return Ok(tokens);
        }
        start += word.chars().count();
        rest = after;
    }
}

/// Return the length of the first word in bytes; the text does not start with a space.
fn length_of_first(text: &str) -> usize {
    if text.starts_with("&&") || text.starts_with("||") {
        return 2;
    }
    let is_sign = |c: char| "()!&|".contains(c);
    if text.starts_with(is_sign) {
        return 1;
    }
    text.find(|c: char| c.is_whitespace() || is_sign(c))
        .unwrap_or(text.len())
}

/// The interpretation of a value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Type {
    /// A host or, with a prefix length, a network.
    Unsaid,
    Host,
    Net,
    Port,
    Range,
}

/// The words before a value, which also hold for the values after it that have none.
#[derive(Debug, Clone, Copy)]
struct Qualifiers {
    base: Option<Base>,
    which: Which,
    what: Type,
}

/// A word that is a condition by itself, or part of one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Base {
    word: &'static str,
    primitive: Primitive,
}

const BASES: [Base; 4] = [
    Base {
        word: "tcp",
        primitive: Primitive::Protocol(Protocol::Tcp),
    },
    Base {
        word: "udp",
        primitive: Primitive::Protocol(Protocol::Udp),
    },
    Base {
        word: "ip",
        primitive: Primitive::Version(Version::V4),
    },
    Base {
        word: "ip6",
        primitive: Primitive::Version(Version::V6),
    },
];

struct Parser<'a> {
    text: &'a str,
    tokens: Vec<Token<'a>>,
    position: usize,
    /// The qualifiers of the value before.
    qualifiers: Option<Qualifiers>,
    tests: usize,
}

impl<'a> Parser<'a> {
    fn new(text: &'a str) -> Result<Self, FilterError> {
        Ok(Self {
            text,
            tokens: tokens(text)?,
            position: 0,
            qualifiers: None,
            tests: 0,
        })
    }

    fn peek(&self) -> Token<'a> {
        self.tokens[self.position]
    }

    /// The last one, which is the end, stays.
    fn advance(&mut self) {
        self.position = (self.position + 1).min(self.tokens.len() - 1);
    }

    fn skip_if(&mut self, kind: Kind<'_>) -> bool {
        let is_it = self.peek().kind == kind;
        if is_it {
            self.advance();
        }
        is_it
    }

    fn fail(&self, position: usize, problem: Problem) -> FilterError {
        let token = self.tokens[position];
        FilterError::new(self.text, token.start, token.length(), problem)
    }

    fn unexpected(&self, position: usize, expected: &'static str) -> FilterError {
        let token = self.tokens[position];
        let found = match token.kind {
            Kind::End => Found::End,
            _ => Found::Word(token.text.to_owned()),
        };
        self.fail(position, Problem::Unexpected { expected, found })
    }

    /// `and` and `or` bind equally and associate to the left: pcap-filter(7).
    fn expression(&mut self, depth: usize) -> Result<Expression, FilterError> {
        let mut left = self.factor(depth)?;
        loop {
            let join = match self.peek().kind {
                Kind::And => Expression::And,
                Kind::Or => Expression::Or,
                _ => return Ok(left),
            };
            self.advance();
            left = join(Box::new(left), Box::new(self.factor(depth)?));
        }
    }

    fn factor(&mut self, depth: usize) -> Result<Expression, FilterError> {
        if depth > MAX_DEPTH {
            return Err(self.fail(self.position, Problem::TooDeep));
        }
        match self.peek().kind {
            Kind::Not => {
                self.advance();
                Ok(Expression::Not(Box::new(self.factor(depth + 1)?)))
            }
            Kind::Open => {
                self.advance();
                let inner = self.expression(depth + 1)?;
                if !self.skip_if(Kind::Close) {
                    return Err(self.unexpected(self.position, CLOSING));
                }
                Ok(inner)
            }
            _ => self.primitive(),
        }
    }

    fn primitive(&mut self) -> Result<Expression, FilterError> {
        let first = self.position;
        let base = self.base();
        let which = self.which()?;
        let what = self.what();
        let qualifiers = match (base, which, what) {
            (None, None, None) => self.bare()?,
            (Some(base), None, None) => return self.base_alone(first, base),
            _ => Qualifiers {
                base,
                which: which.unwrap_or(Which::Either),
                what: what.unwrap_or(Type::Unsaid),
            },
        };
        let pattern = self.value(qualifiers)?;
        self.qualifiers = Some(qualifiers);
        let matching = Primitive::Match(qualifiers.which, pattern);
        self.count(first, &matching)?;
        let matching = Expression::Primitive(matching);
        let Some(base) = qualifiers.base else {
            return Ok(matching);
        };
        self.count(first, &base.primitive)?;
        let base = Expression::Primitive(base.primitive);
        Ok(Expression::And(Box::new(base), Box::new(matching)))
    }

    /// A value with no words before it has those of the value before.
    fn bare(&self) -> Result<Qualifiers, FilterError> {
        let is_value =
            |word: &str| word.starts_with(|c: char| c.is_ascii_digit()) || word.contains(':');
        if !matches!(self.peek().kind, Kind::Word(word) if is_value(word)) {
            return Err(self.unexpected(self.position, PRIMITIVE));
        }
        let mut qualifiers = self.qualifiers.unwrap_or(Qualifiers {
            base: None,
            which: Which::Either,
            what: Type::Unsaid,
        });
        if qualifiers.what == Type::Host {
            qualifiers.what = Type::Unsaid;
        }
        Ok(qualifiers)
    }

    fn base_alone(&mut self, first: usize, base: Base) -> Result<Expression, FilterError> {
        if matches!(self.peek().kind, Kind::Word(_) | Kind::Open | Kind::Not) {
            return Err(self.unexpected(self.position, AFTER_PROTOCOL));
        }
        self.count(first, &base.primitive)?;
        Ok(Expression::Primitive(base.primitive))
    }

    fn count(&mut self, first: usize, primitive: &Primitive) -> Result<(), FilterError> {
        self.tests += tests_of(primitive);
        if self.tests > MAX_TESTS {
            return Err(self.fail(first, Problem::TooLong));
        }
        Ok(())
    }

    fn base(&mut self) -> Option<Base> {
        let base = BASES
            .into_iter()
            .find(|base| self.peek().kind == Kind::Word(base.word));
        if base.is_some() {
            self.advance();
        }
        base
    }

    /// `src`, `dst`, `src or dst`, `src and dst`.
    fn which(&mut self) -> Result<Option<Which>, FilterError> {
        if self.skip_if(Kind::Word("dst")) {
            return Ok(Some(Which::Destination));
        }
        if !self.skip_if(Kind::Word("src")) {
            return Ok(None);
        }
        let which = if self.skip_if(Kind::Or) {
            Which::Either
        } else if self.skip_if(Kind::And) {
            Which::Both
        } else {
            return Ok(Some(Which::Source));
        };
        if self.skip_if(Kind::Word("dst")) {
            Ok(Some(which))
        } else {
            Err(self.unexpected(self.position, AFTER_SOURCE_AND))
        }
    }

    fn what(&mut self) -> Option<Type> {
        let what = match self.peek().kind {
            Kind::Word("host") => Type::Host,
            Kind::Word("net") => Type::Net,
            Kind::Word("port") => Type::Port,
            Kind::Word("portrange") => Type::Range,
            _ => return None,
        };
        self.advance();
        Some(what)
    }

    fn value(&mut self, qualifiers: Qualifiers) -> Result<Pattern, FilterError> {
        let position = self.position;
        let word = match self.peek().kind {
            Kind::Word(word) => word,
            _ => "",
        };
        let pattern = pattern(word, qualifiers.what).map_err(|wrong| match wrong {
            Wrong::Word(expected) => self.unexpected(position, expected),
            Wrong::Value(problem) => self.fail(position, problem),
        })?;
        if let (Pattern::Net(net), Some(base)) = (pattern, qualifiers.base) {
            let is_v4 = net.address().is_ipv4();
            if base.primitive == Primitive::Version(if is_v4 { Version::V6 } else { Version::V4 }) {
                let qualifier = base.word;
                return Err(self.fail(position, Problem::OtherVersion { qualifier }));
            }
        }
        self.advance();
        Ok(pattern)
    }
}

/// The reason why a value is invalid.
enum Wrong {
    /// The word is not a value; this is expected.
    Word(&'static str),
    Value(Problem),
}

fn pattern(word: &str, what: Type) -> Result<Pattern, Wrong> {
    match what {
        Type::Unsaid if word.contains('/') => network(word).map(Pattern::Net),
        Type::Unsaid => host(word, HOST_OR_NET).map(Pattern::Net),
        Type::Host if word.contains('/') => Err(Wrong::Word(SINGLE_ADDRESS)),
        Type::Host => host(word, ADDRESS).map(Pattern::Net),
        Type::Net => network(word).map(Pattern::Net),
        Type::Port if number::<u16>(word).is_none() && ports(word).is_some() => {
            Err(Wrong::Word(SINGLE_PORT))
        }
        Type::Port => {
            let port = number(word).ok_or(Wrong::Word(PORT))?;
            Ok(Pattern::Ports {
                first: port,
                last: port,
            })
        }
        Type::Range => match ports(word).ok_or(Wrong::Word(RANGE))? {
            (first, last) if first > last => Err(Wrong::Value(Problem::Backwards)),
            (first, last) => Ok(Pattern::Ports { first, last }),
        },
    }
}

fn host(word: &str, expected: &'static str) -> Result<Net, Wrong> {
    let address = word.parse().map_err(|_| Wrong::Word(expected))?;
    Ok(Net::host(address))
}

fn network(word: &str) -> Result<Net, Wrong> {
    let (address, prefix) = match word.split_once('/') {
        Some((address, prefix)) => (address, Some(prefix)),
        None => (word, None),
    };
    let (address, longest) = parse_address(address).ok_or(Wrong::Word(NETWORK))?;
    let prefix = match prefix {
        Some(prefix) => number(prefix).ok_or(Wrong::Word(NETWORK))?,
        None => longest,
    };
    let network = Net::around(address, prefix).ok_or(Wrong::Word(NETWORK))?;
    if network.address() != address.to_canonical() {
        return Err(Wrong::Value(Problem::HostBits {
            network: network.to_string(),
        }));
    }
    Ok(network)
}

/// An address and the prefix that it has if none is given: pcap-filter(7) lets IPv4 networks end
/// early.
fn parse_address(word: &str) -> Option<(IpAddr, u8)> {
    if let Ok(address) = word.parse::<IpAddr>() {
        return Some((address, if address.is_ipv4() { 32 } else { 128 }));
    }
    let parts: Vec<u8> = word.split('.').map(number).collect::<Option<_>>()?;
    let mut octets = [0; 4];
    octets.get_mut(..parts.len())?.copy_from_slice(&parts);
    let prefix = u8::try_from(parts.len() * 8).ok()?;
    Some((Ipv4Addr::from(octets).into(), prefix))
}

fn ports(word: &str) -> Option<(u16, u16)> {
    match word.split_once('-') {
        Some((first, last)) => Some((number(first)?, number(last)?)),
        None => number(word).map(|port| (port, port)),
    }
}

/// Digits alone: `str::parse()` takes a sign as well.
fn number<T: std::str::FromStr>(word: &str) -> Option<T> {
    let digits = word.bytes().all(|byte| byte.is_ascii_digit());
    digits.then(|| word.parse().ok()).flatten()
}
