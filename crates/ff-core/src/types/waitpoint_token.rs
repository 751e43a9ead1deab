//! The proof that somebody may signal a waitpoint.

use std::fmt;

use serde::{Deserialize, Serialize};

/// How many digits stand behind the key id.
const DIGITS: usize = 40;

/// A bearer credential: `<key id>:<40 lower-case hex digits>`. Whoever shows one may signal its
/// waitpoint, so only [`WaitpointToken::as_str`] and JSON give the text away.
#[derive(Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct WaitpointToken(String);

impl WaitpointToken {
    /// Takes a text for a token; whether it is one, the store finds out.
    pub fn new(text: impl Into<String>) -> Self {
        Self(text.into())
    }

    /// The text itself, for the wire and for nothing else.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    fn key_id(&self) -> Option<&str> {
        let (kid, digest) = self.0.split_once(':')?;
        let is_digit = |byte: u8| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte);
        let whole = digest.len() == DIGITS && digest.bytes().all(is_digit);
        (whole && !kid.is_empty()).then_some(kid)
    }
}

/// The key id and how many digits follow.
impl fmt::Display for WaitpointToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.key_id() {
            Some(kid) => write!(f, "{kid}:<{DIGITS} digits>"),
            None => f.write_str("<malformed token>"),
        }
    }
}

impl fmt::Debug for WaitpointToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "WaitpointToken({self})")
    }
}

/// A token as calls of a backend pass it on.
#[derive(Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct WaitpointHmac(WaitpointToken);

impl WaitpointHmac {
    /// Wraps a token.
    pub fn new(token: impl Into<String>) -> Self {
        Self(WaitpointToken::new(token))
    }

    /// The token.
    pub fn token(&self) -> &WaitpointToken {
        &self.0
    }

    /// The text itself, for the wire and for nothing else.
    pub fn as_str(&self) -> &str {
        self.0.as_str()
    }
}

impl From<WaitpointToken> for WaitpointHmac {
    fn from(token: WaitpointToken) -> Self {
        Self(token)
    }
}

impl fmt::Display for WaitpointHmac {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl fmt::Debug for WaitpointHmac {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "WaitpointHmac({self})")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_is_shown_without_its_digits() {
        let digits = "0123456789abcdef0123456789abcdef01234567";
        let token = WaitpointToken::new(format!("k1:{digits}"));
        assert_eq!(token.to_string(), "k1:<40 digits>");
        assert_eq!(format!("{token:?}"), "WaitpointToken(k1:<40 digits>)");
        assert_eq!(
            format!("{:?}", WaitpointHmac::from(token.clone())),
            "WaitpointHmac(k1:<40 digits>)"
        );
        assert_eq!(serde_json::to_string(&token).expect("text"), format!("\"k1:{digits}\""));
    }

    #[test]
    fn what_is_no_token_is_not_shown_at_all() {
        for text in ["", "secret", "k1:", ":0123", "k1:0123456789ABCDEF0123456789abcdef01234567"] {
            assert_eq!(WaitpointToken::new(text).to_string(), "<malformed token>", "{text}");
        }
    }
}
