//! Reading bodies: no larger, no slower and no more of them at a time than allowed.

use axum::body::{Body, Bytes};
use axum::http::header::{CONTENT_LENGTH, CONTENT_TYPE, HeaderMap};
use ff_api::headers::{FORM, JSON};
use ff_api::problem::{HttpCode, Problem};
use ff_core::limits;
use tokio::sync::OwnedSemaphorePermit;

use crate::app::App;
use crate::refusal::Refusal;

/// Room for everything in a submission but its payload: policy, tags, names.
const AROUND_PAYLOAD_BYTES: usize = 256 * 1024;

/// A body that carries a payload or a result, in base64 at worst.
pub(crate) const PAYLOAD_BODY_BYTES: usize =
    (limits::PAYLOAD_BYTES_MAX as usize).div_ceil(3) * 4 + AROUND_PAYLOAD_BYTES;

/// A body in memory, and the room it takes.
pub(crate) struct Whole {
    pub(crate) bytes: Bytes,
    pub(crate) room: Option<OwnedSemaphorePermit>,
}

/// Reads a body to its end.
pub(crate) async fn read(
    app: &App,
    headers: &HeaderMap,
    body: Body,
    bytes_max: usize,
) -> Result<Whole, Refusal> {
    let announced = announced_bytes(headers)?;
    if announced.is_some_and(|bytes| bytes > bytes_max) {
        return Err(too_large(bytes_max));
    }
    let room = app.requests.hold_body(announced.unwrap_or(bytes_max_of(headers, bytes_max)))?;
    let reading = axum::body::to_bytes(body, bytes_max);
    match tokio::time::timeout(app.limits.body_timeout(), reading).await {
        Ok(Ok(bytes)) => Ok(Whole { bytes, room }),
        Ok(Err(error)) => Err(broken(&error, bytes_max)),
        Err(_) => Err(Problem::new(HttpCode::RequestTimeout, "the body came too slowly").into()),
    }
}

/// A body that does not say how long it is may be as long as allowed; one that is not there is not.
fn bytes_max_of(headers: &HeaderMap, bytes_max: usize) -> usize {
    if headers.contains_key(axum::http::header::TRANSFER_ENCODING) { bytes_max } else { 0 }
}

fn announced_bytes(headers: &HeaderMap) -> Result<Option<usize>, Refusal> {
    let Some(value) = headers.get(CONTENT_LENGTH) else { return Ok(None) };
    let length = value.to_str().ok().and_then(|text| text.parse::<u64>().ok());
    let length = length.ok_or_else(|| Refusal::invalid("Content-Length", "must be a number"))?;
    Ok(Some(usize::try_from(length).unwrap_or(usize::MAX)))
}

fn too_large(bytes_max: usize) -> Refusal {
    let mut problem = Problem::new(
        HttpCode::BodyTooLarge,
        format!("a body may have at most {bytes_max} bytes here"),
    );
    problem.details = vec![bytes_max.to_string()];
    problem.into()
}

fn broken(error: &axum::Error, bytes_max: usize) -> Refusal {
    let text = std::error::Error::source(error).map(ToString::to_string).unwrap_or_default();
    if text.contains("length limit") {
        return too_large(bytes_max);
    }
    Problem::new(HttpCode::MalformedRequest, "the body did not arrive whole").into()
}

/// What a body says it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// JSON.
    Json,
    /// Something else.
    Other,
    /// It does not say.
    Unsaid,
}

/// What the content type says, without its parameters.
pub(crate) fn kind(headers: &HeaderMap) -> Kind {
    let Some(value) = headers.get(CONTENT_TYPE) else { return Kind::Unsaid };
    let essence = value.to_str().unwrap_or_default().split(';').next().unwrap_or_default().trim();
    if essence.eq_ignore_ascii_case(JSON) { Kind::Json } else { Kind::Other }
}

/// Is it what a form of a page sends?
pub(crate) fn is_form(headers: &HeaderMap) -> bool {
    let value = headers.get(CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or_default();
    let essence = value.split(';').next().unwrap_or_default().trim();
    essence.eq_ignore_ascii_case(FORM)
}

/// The refusal of a body that is neither JSON nor a form.
pub(crate) fn not_form() -> Refusal {
    Problem::new(
        HttpCode::UnsupportedMediaType,
        "this path takes the form of its page, or application/json",
    )
    .about("Content-Type")
    .into()
}

/// The refusal of a body that is not JSON.
pub(crate) fn not_json() -> Refusal {
    Problem::new(
        HttpCode::UnsupportedMediaType,
        "this path takes application/json: send Content-Type: application/json (curl --json)",
    )
    .about("Content-Type")
    .into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_content_type_is_read_without_its_parameters() {
        let of = |value: &str| {
            let mut headers = HeaderMap::new();
            headers.insert(CONTENT_TYPE, value.parse().expect("a header value"));
            kind(&headers)
        };
        assert_eq!(of("application/json"), Kind::Json);
        assert_eq!(of("Application/JSON; charset=utf-8"), Kind::Json);
        assert_eq!(of("application/octet-stream"), Kind::Other);
        assert_eq!(of("application/jsonp"), Kind::Other);
        assert_eq!(of(""), Kind::Other);
        assert_eq!(kind(&HeaderMap::new()), Kind::Unsaid);
    }

    #[test]
    fn the_largest_payload_fits_in_base64() {
        assert!(PAYLOAD_BODY_BYTES > limits::PAYLOAD_BYTES_MAX as usize * 4 / 3);
    }
}
