//! Answers: JSON, raw bytes, or nothing.

use axum::body::Body;
use axum::http::header::{CONTENT_TYPE, HeaderValue};
use axum::http::{Response, StatusCode};
use axum::response::IntoResponse;
use ff_api::headers::{JSON, OCTET_STREAM};
use ff_api::problem::{HttpCode, Problem};
use serde::Serialize;

use crate::refusal::Refusal;

/// What every JSON route answers.
pub(crate) type Answered<T> = Result<Json<T>, Refusal>;

/// A JSON answer with its status.
pub(crate) struct Json<T>(pub(crate) StatusCode, pub(crate) T);

/// An ordinary JSON answer.
pub(crate) fn ok<T>(value: T) -> Answered<T> {
    Ok(Json(StatusCode::OK, value))
}

impl<T: Serialize> IntoResponse for Json<T> {
    fn into_response(self) -> Response<Body> {
        match serde_json::to_vec(&self.1) {
            Ok(body) => with_type(self.0, JSON, body.into()),
            Err(error) => {
                tracing::error!(%error, "an answer has no JSON form");
                Refusal::from(Problem::new(HttpCode::Internal, "")).into_response()
            }
        }
    }
}

/// Bytes as they are.
pub(crate) fn raw(bytes: Vec<u8>) -> Response<Body> {
    let mut answer = with_type(StatusCode::OK, OCTET_STREAM, bytes.into());
    // Nobody may guess that somebody's bytes are a page to show.
    let nosniff = HeaderValue::from_static("nosniff");
    answer.headers_mut().insert("x-content-type-options", nosniff);
    answer
}

/// A body with its content type.
pub(crate) fn with_type(status: StatusCode, kind: &'static str, body: Body) -> Response<Body> {
    let mut answer = Response::new(body);
    *answer.status_mut() = status;
    answer.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(kind));
    answer
}
