//! What a request asks: its query, or its JSON body.

use std::sync::Arc;

use axum::extract::{FromRequest, Request};
use ff_api::problem::{HttpCode, Problem};
use ff_core::object::Object;
use ff_core::operation::{Input, Operation};
use serde::de::DeserializeOwned;
use serde_json::error::Category;
use tokio::sync::OwnedSemaphorePermit;

use super::{query, rule, shorten};
use crate::app::App;
use crate::body::{self, Kind};
use crate::refusal::Refusal;

/// What an operation is asked with, and the room that its body takes while it is dealt with.
pub(crate) struct Asked<O: Operation>(
    pub(crate) O::Request,
    pub(crate) Option<OwnedSemaphorePermit>,
);

impl<O: Operation> FromRequest<Arc<App>> for Asked<O> {
    type Rejection = Refusal;

    async fn from_request(request: Request, app: &Arc<App>) -> Result<Self, Refusal> {
        match O::INPUT {
            Input::Nothing => parse_json(NOTHING).map(|nothing| (nothing, None)),
            Input::Query => {
                query::parse(request.uri().query().unwrap_or_default()).map(|query| (query, None))
            }
            Input::Body => body(request, app, false, O::BODY_BYTES_MAX).await,
            Input::OptionalBody => body(request, app, true, O::BODY_BYTES_MAX).await,
        }
        .map(|(request, room)| Self(request, room))
    }
}

/// Several requests in one, and the room that they take.
pub(crate) async fn bulk<T: DeserializeOwned>(
    request: Request,
    app: &App,
) -> Result<(T, Option<OwnedSemaphorePermit>), Refusal> {
    let bytes_max = usize::try_from(app.limits.bulk_body_bytes).unwrap_or(usize::MAX);
    body(request, app, false, bytes_max).await
}

/// A body of which everything is optional may be left out altogether.
const NOTHING: &[u8] = b"{}";

async fn body<T: DeserializeOwned>(
    request: Request,
    app: &App,
    optional: bool,
    bytes_max: usize,
) -> Result<(T, Option<OwnedSemaphorePermit>), Refusal> {
    let (parts, body) = request.into_parts();
    let is_json = body::kind(&parts.headers) == Kind::Json;
    if !is_json && !optional {
        return Err(body::not_json());
    }
    let whole = body::read(app, &parts.headers, body, bytes_max).await?;
    if whole.bytes.is_empty() && optional {
        return Ok((parse_json(NOTHING)?, None));
    }
    if !is_json {
        return Err(body::not_json());
    }
    Ok((parse_json(&whole.bytes)?, whole.room))
}

/// Reads a JSON object. The quick way first; where it fails, again with the path of the failure.
pub(crate) fn parse_json<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, Refusal> {
    serde_json::from_slice::<Object<T>>(bytes)
        .map(|object| object.0)
        .map_err(|error| refuse(&error, || path_of::<T>(bytes)))
}

fn path_of<T: DeserializeOwned>(bytes: &[u8]) -> String {
    let mut reader = serde_json::Deserializer::from_slice(bytes);
    match serde_path_to_error::deserialize::<_, Object<T>>(&mut reader) {
        Err(error) => error.path().to_string(),
        Ok(_) => String::new(),
    }
}

fn refuse(error: &serde_json::Error, path: impl FnOnce() -> String) -> Refusal {
    if error.classify() != Category::Data {
        return Problem::new(HttpCode::MalformedJson, shorten(error.to_string())).into();
    }
    let message = error.to_string();
    Refusal::invalid(shorten(rule::field(&message, path(), "body")), rule::in_words(&message))
}

#[cfg(test)]
mod tests {
    use super::*;
    use axum::response::IntoResponse;
    use ff_api::create::BulkCreate;

    fn problem(json: &str) -> (u16, Problem) {
        let refusal = parse_json::<BulkCreate>(json.as_bytes()).expect_err(json);
        let answer = refusal.into_response();
        let status = answer.status().as_u16();
        let body = futures_now(axum::body::to_bytes(answer.into_body(), 100_000));
        (status, serde_json::from_slice(&body.expect("whole")).expect("a problem"))
    }

    fn futures_now<T>(future: impl Future<Output = T>) -> T {
        let mut context = std::task::Context::from_waker(std::task::Waker::noop());
        match std::pin::pin!(future).poll(&mut context) {
            std::task::Poll::Ready(value) => value,
            std::task::Poll::Pending => panic!("bodies in memory are ready at once"),
        }
    }

    #[test]
    fn the_field_and_the_rule_are_named() {
        for (json, field, says) in [
            (r#"{}"#, "executions", "executions is missing"),
            (r#"{"x":1}"#, "x", "x is not known here; there are executions"),
            (r#"{"executions":7}"#, "executions", "expected a sequence"),
            (r#"{"executions":[{"kind":"a"},{}]}"#, "executions[1].kind", "is missing"),
            (r#"{"executions":[{"kind":"a:"}]}"#, "executions[0].kind", "printable ASCII"),
            (
                r#"{"executions":[{"kind":"a","prio":1}]}"#,
                "executions[0].prio",
                "is not known here",
            ),
            (r#"[]"#, "body", "expected an object"),
            (r#"null"#, "body", "expected an object"),
        ] {
            let (status, problem) = problem(json);
            assert_eq!((status, problem.code.as_str()), (400, "invalid_input"), "{json}");
            assert_eq!(problem.field.as_deref(), Some(field), "{json}: {}", problem.detail);
            assert!(problem.detail.contains(says), "{json}: {}", problem.detail);
        }
    }

    #[test]
    fn what_is_not_json_is_said_to_be_so() {
        let deep = "[".repeat(100_000);
        for json in ["", "{", "nope", "{\"a\":}", "\u{0}", deep.as_str()] {
            let (status, problem) = problem(json);
            assert_eq!(status, 400);
            assert!(problem.detail.len() < 500);
        }
    }
}
