//! Credentials: the token that a client gives to be admitted.

use std::borrow::Cow;

use base64::Engine;
use base64::prelude::BASE64_STANDARD as BASE64;

/// Return the token in a value of `Authorization`: a program gives it as such, a browser as the
/// password of a user, whatever its name (RFC 7617).
pub(super) fn token(value: &[u8]) -> Option<Cow<'_, [u8]>> {
    if let Some(token) = credentials(value, "Bearer") {
        return Some(token.into());
    }
    let pair = BASE64.decode(credentials(value, "Basic")?).ok()?;
    let colon = pair.iter().position(|&byte| byte == b':')?;
    Some(pair[colon + 1..].to_vec().into())
}

/// Return the rest of a value that begins with this scheme, in any case (RFC 9110, section 11.1).
fn credentials<'a>(value: &'a [u8], scheme: &str) -> Option<&'a [u8]> {
    let (begin, rest) = value.split_at_checked(scheme.len())?;
    let rest = rest.strip_prefix(b" ")?.trim_ascii_start();
    begin
        .eq_ignore_ascii_case(scheme.as_bytes())
        .then_some(rest)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn given(value: &str) -> Option<String> {
        token(value.as_bytes()).map(|token| String::from_utf8_lossy(&token).into_owned())
    }

    #[test]
    fn a_browser_gives_the_token_as_a_password() {
        assert_eq!(given("Bearer a token").as_deref(), Some("a token"));
        // name:pass:word
        let pair = "Basic bmFtZTpwYXNzOndvcmQ=";
        assert_eq!(given(pair).as_deref(), Some("pass:word"));
        // :foo and name, without a colon
        assert_eq!(given("basic OmZvbw==").as_deref(), Some("foo"));
        assert_eq!(given("Basic bmFtZQ=="), None);
        for value in ["", "Bearer", "Basic =Zm9v", "Basic Zm 9v", "Digest Zm9v"] {
            assert_eq!(given(value), None, "{value}");
        }
    }
}
