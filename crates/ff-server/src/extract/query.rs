//! Query strings.

use serde::de::DeserializeOwned;

use super::{rule, shorten};
use crate::refusal::Refusal;

/// Reads what stands behind the question mark.
pub(super) fn parse<T: DeserializeOwned>(query: &str) -> Result<T, Refusal> {
    let pairs = serde_urlencoded::Deserializer::new(form_pairs(query));
    serde_path_to_error::deserialize(pairs).map_err(|error| {
        let path = error.path().to_string();
        let message = error.into_inner().to_string();
        Refusal::invalid(shorten(rule::field(&message, path, "query")), rule::in_words(&message))
    })
}

/// Reads what a form of a page sends.
pub(crate) fn parse_form<T: DeserializeOwned>(body: &[u8]) -> Result<T, Refusal> {
    let text = std::str::from_utf8(body);
    parse(text.map_err(|_| Refusal::invalid("body", "must be percent-encoded UTF-8"))?)
}

fn form_pairs(query: &str) -> form_urlencoded::Parse<'_> {
    form_urlencoded::parse(query.as_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;
    use ff_core::contracts::ListFilter;

    #[test]
    fn a_query_is_read_strictly() {
        let query: ListFilter = parse("lane=a%20b&state=failed&limit=7&from=12").expect("valid");
        assert_eq!(query.lane.expect("given").as_str(), "a b");
        assert_eq!((query.limit, query.from.map(|from| from.as_millis())), (Some(7), Some(12)));
        for wrong in ["limit=x", "limit=-1", "lane=", "lane=a&lane=b", "state=x", "colour=red"] {
            assert!(parse::<ListFilter>(wrong).is_err(), "{wrong}");
        }
    }
}
