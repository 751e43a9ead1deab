//! Who may use the API: whoever has one of the configured tokens, and comes from no other site's
//! page. Both can be replaced while requests come.

use std::sync::{Arc, PoisonError, RwLock};

use axum::extract::Request;
use axum::http::HeaderMap;
use axum::http::header::AUTHORIZATION;
use ff_api::problem::Problem;
use ff_core::error::{Code, EngineError};
use subtle::{Choice, ConstantTimeEq};

use crate::config::{ServerConfig, Token};
use crate::origin::OriginRules;
use crate::refusal::Refusal;

/// Who may use the API.
pub(crate) struct Access(RwLock<Arc<Rules>>);

struct Rules {
    tokens: Tokens,
    origin: OriginRules,
}

impl Rules {
    fn new(config: &ServerConfig) -> Arc<Self> {
        Arc::new(Self { tokens: Tokens::new(&config.tokens), origin: OriginRules::new(config) })
    }
}

impl Access {
    pub(crate) fn new(config: &ServerConfig) -> Self {
        Self(RwLock::new(Rules::new(config)))
    }

    /// True if nobody is let in without a token.
    pub(crate) fn wants_tokens(&self) -> bool {
        !self.rules().tokens.0.is_empty()
    }

    fn rules(&self) -> Arc<Rules> {
        Arc::clone(&self.0.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// From now on, others may.
    pub(crate) fn replace(&self, config: &ServerConfig) {
        *self.0.write().unwrap_or_else(PoisonError::into_inner) = Rules::new(config);
    }

    /// Refuses a request of somebody who may not. What is `open` needs no token.
    pub(crate) fn check(&self, request: &Request, open: bool) -> Result<(), Refusal> {
        let rules = self.rules();
        rules.origin.check(request, !rules.tokens.0.is_empty())?;
        if open { Ok(()) } else { rules.tokens.check(request.headers()) }
    }
}

/// The tokens that open the API. Without any, everybody is let in.
struct Tokens(Vec<Box<[u8]>>);

impl Tokens {
    fn new(tokens: &[Token]) -> Self {
        Self(tokens.iter().map(|token| token.0.as_bytes().into()).collect())
    }

    fn check(&self, headers: &HeaderMap) -> Result<(), Refusal> {
        if self.0.is_empty() {
            return Ok(());
        }
        let given = headers.get(AUTHORIZATION).and_then(|value| bearer(value.as_bytes()));
        match given {
            Some(token) if self.knows(token) => Ok(()),
            Some(_) => Err(refused("the token is not one of this server's")),
            None => Err(refused("the request needs a header Authorization: Bearer <token>")),
        }
    }

    /// Compares with every token, in a time that does not tell how much of which one was right.
    fn knows(&self, given: &[u8]) -> bool {
        let found = self.0.iter().fold(Choice::from(0), |found, token| found | token.ct_eq(given));
        found.into()
    }
}

fn refused(detail: &str) -> Refusal {
    let mut problem = Problem::from(&EngineError::refused(Code::Unauthorized));
    problem.detail = detail.to_owned();
    problem.into()
}

/// The scheme is the same in any case; one blank follows.
fn bearer(value: &[u8]) -> Option<&[u8]> {
    let (scheme, token) = value.split_at_checked(b"bearer ".len())?;
    scheme.eq_ignore_ascii_case(b"bearer ").then_some(token.trim_ascii())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn allowed(tokens: &Tokens, header: &str) -> bool {
        let mut headers = HeaderMap::new();
        if !header.is_empty() {
            headers.insert(AUTHORIZATION, header.parse().expect("a header value"));
        }
        tokens.check(&headers).is_ok()
    }

    #[test]
    fn only_a_whole_token_opens() {
        let tokens = Tokens::new(&[Token("first-token".into()), Token("second-token".into())]);
        for right in ["Bearer first-token", "bearer second-token", "BEARER  first-token "] {
            assert!(allowed(&tokens, right), "{right}");
        }
        for wrong in [
            "",
            "Bearer",
            "Bearer ",
            "Bearer first-toke",
            "Bearer first-tokens",
            "Bearer first-token second-token",
            "Basic first-token",
            "first-token",
        ] {
            assert!(!allowed(&tokens, wrong), "{wrong}");
        }
    }

    #[test]
    fn without_tokens_everybody_is_let_in() {
        assert!(allowed(&Tokens::new(&[]), ""));
    }
}
