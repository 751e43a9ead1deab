//! Query strings.

use std::sync::Arc;

use axum::extract::FromRequestParts;
use axum::http::request::Parts;
use serde::de::DeserializeOwned;

use super::shorten;
use crate::app::App;
use crate::refusal::Refusal;

/// What stands behind the question mark.
pub(crate) struct Query<T>(pub(crate) T);

impl<T: DeserializeOwned> FromRequestParts<Arc<App>> for Query<T> {
    type Rejection = Refusal;

    async fn from_request_parts(parts: &mut Parts, _: &Arc<App>) -> Result<Self, Refusal> {
        parse(parts.uri.query().unwrap_or_default()).map(Self)
    }
}

fn parse<T: DeserializeOwned>(query: &str) -> Result<T, Refusal> {
    let pairs = serde_urlencoded::Deserializer::new(form_pairs(query));
    serde_path_to_error::deserialize(pairs).map_err(|error| {
        let path = error.path().to_string();
        let field = if path.is_empty() || path == "." { "query".to_owned() } else { path };
        let rule = format!("is wrong: {}", error.into_inner());
        Refusal::invalid(shorten(field), shorten(rule))
    })
}

fn form_pairs(query: &str) -> form_urlencoded::Parse<'_> {
    form_urlencoded::parse(query.as_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;
    use ff_api::listing::ListQuery;

    #[test]
    fn a_query_is_read_strictly() {
        let query: ListQuery = parse("lane=a%20b&state=failed&limit=7&from=12").expect("valid");
        assert_eq!(query.lane.expect("given").as_str(), "a b");
        assert_eq!((query.limit, query.from.map(|from| from.as_millis())), (Some(7), Some(12)));
        for wrong in ["limit=x", "limit=-1", "lane=", "lane=a&lane=b", "state=x", "colour=red"] {
            assert!(parse::<ListQuery>(wrong).is_err(), "{wrong}");
        }
    }
}
