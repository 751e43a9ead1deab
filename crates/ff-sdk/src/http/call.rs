//! One call of the API: sent, repeated where that is safe, and read back.

use std::time::Duration;

use ff_api::headers;
use ff_api::problem::Problem;
use ff_core::backend_error::{BackendError, BackendErrorKind, Retry};
use ff_core::error::EngineError;
use http::header::{CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue};
use http::{Method, StatusCode};
use hyper::body::Bytes;
use serde::Serialize;
use serde::de::DeserializeOwned;
use tokio::time::{Instant, sleep};

use super::{Answered, HttpBackend, Sent};
use crate::error::{HttpError, HttpErrorKind};

/// How long the server may be silent that need not wait for anything.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(5);
/// How long a call that was not applied is tried again before it fails.
const RETRY_TIME: Duration = Duration::from_secs(3);
/// How often a call whose answer was lost is sent again.
const REPEATS_MAX: u32 = 3;
const FIRST_PAUSE: Duration = Duration::from_millis(10);
const LONGEST_PAUSE: Duration = Duration::from_millis(250);

/// One call of the API.
pub(super) struct Call {
    method: Method,
    path: String,
    headers: HeaderMap,
    body: Bytes,
    /// How long the server may be silent.
    limit: Duration,
    /// The body of a repetition, if that must be marked.
    repeated_body: Option<Bytes>,
    /// For how long a lost answer is asked for again; a few times if absent.
    insist: Option<Duration>,
}

impl Call {
    fn new(method: Method, path: String) -> Self {
        Self {
            method,
            path,
            headers: HeaderMap::new(),
            body: Bytes::new(),
            limit: ANSWER_TIMEOUT,
            repeated_body: None,
            insist: None,
        }
    }

    pub(super) fn get(path: String) -> Self {
        Self::new(Method::GET, path)
    }

    /// A request with a JSON body.
    pub(super) fn post(
        path: impl Into<String>,
        body: &impl Serialize,
    ) -> Result<Self, EngineError> {
        Self::new(Method::POST, path.into()).with_json(body)
    }

    /// A request with a JSON body.
    pub(super) fn put(path: impl Into<String>, body: &impl Serialize) -> Result<Self, EngineError> {
        Self::new(Method::PUT, path.into()).with_json(body)
    }

    /// A request whose body is bytes.
    pub(super) fn post_bytes(path: &str, body: Vec<u8>) -> Self {
        let mut call = Self::new(Method::POST, path.to_owned());
        let octets = HeaderValue::from_static(headers::OCTET_STREAM);
        call.headers.insert(CONTENT_TYPE, octets);
        call.body = body.into();
        call
    }

    fn with_json(mut self, body: &impl Serialize) -> Result<Self, EngineError> {
        self.body = json(body)?;
        self.headers.insert(CONTENT_TYPE, HeaderValue::from_static(headers::JSON));
        Ok(self)
    }

    pub(super) fn with_header(mut self, name: &'static str, value: &str) -> Self {
        if let Ok(value) = HeaderValue::try_from(value) {
            self.headers.insert(HeaderName::from_static(name), value);
        }
        self
    }

    /// The server may take this much longer.
    pub(super) fn waiting(mut self, wait: Duration) -> Self {
        self.limit = self.limit.saturating_add(wait);
        self
    }

    /// Once it may have been received, it is sent with this body.
    pub(super) fn repeated_as(mut self, body: &impl Serialize) -> Result<Self, EngineError> {
        self.repeated_body = Some(json(body)?);
        Ok(self)
    }

    /// A lost answer is asked for again for so long.
    pub(super) fn insisting(mut self, time: Duration) -> Self {
        self.insist = Some(time);
        self
    }
}

fn json(body: &impl Serialize) -> Result<Bytes, EngineError> {
    let body = serde_json::to_vec(body);
    Ok(body.map_err(|error| EngineError::invalid("request", error.to_string()))?.into())
}

/// How often a call was tried, and whether it may have been received.
struct Tries {
    begun: Instant,
    pause: Duration,
    lost_at: Option<Instant>,
    repeats: u32,
}

impl Tries {
    fn begin() -> Self {
        Self { begun: Instant::now(), pause: FIRST_PAUSE, lost_at: None, repeats: 0 }
    }

    /// Whether a call that went wrong is tried once more.
    fn again(&mut self, call: &Call, retry: Retry) -> bool {
        let now = Instant::now();
        if retry == Retry::IfReplaySafe {
            self.lost_at.get_or_insert(now);
            self.repeats += 1;
        }
        match (self.lost_at.zip(call.insist), retry) {
            (_, Retry::Never) => false,
            (Some((lost_at, insist)), _) => now.duration_since(lost_at) < insist,
            (None, Retry::Safe) => now + self.pause < self.begun + RETRY_TIME,
            (None, Retry::IfReplaySafe) => self.repeats <= REPEATS_MAX,
        }
    }

    async fn pause(&mut self) {
        sleep(self.pause).await;
        self.pause = (self.pause * 2).min(LONGEST_PAUSE);
    }
}

impl HttpBackend {
    /// Runs a call and reads its answer as JSON.
    pub(super) async fn json<T: DeserializeOwned>(&self, call: Call) -> Result<T, EngineError> {
        let body = self.run(call).await?.body;
        serde_json::from_slice(&body).map_err(|error| {
            let message = format!("the server's answer has another shape: {error}");
            BackendError::new(BackendErrorKind::Protocol, Retry::Never, message).into()
        })
    }

    /// Runs a call whose answer says nothing but that it was done.
    pub(super) async fn done(&self, call: Call) -> Result<(), EngineError> {
        self.run(call).await.map(drop)
    }

    /// Runs a call. What certainly was not applied is tried again for a while; what may have been
    /// is repeated a few times: the server recognises that.
    pub(super) async fn run(&self, mut call: Call) -> Result<Answered, EngineError> {
        let mut tries = Tries::begin();
        loop {
            let error = match self.attempt(&call).await {
                Ok(answered) => return Ok(answered),
                Err(error) => error,
            };
            if !tries.again(&call, retry_of(&error)) {
                return Err(error);
            }
            if tries.lost_at.is_some()
                && let Some(body) = call.repeated_body.take()
            {
                tracing::warn!(path = call.path, %error, "the answer was lost, trying again");
                call.body = body;
            }
            tries.pause().await;
        }
    }

    async fn attempt(&self, call: &Call) -> Result<Answered, EngineError> {
        let sent = Sent {
            method: call.method.clone(),
            path: &call.path,
            headers: call.headers.clone(),
            body: call.body.clone(),
            limit: call.limit,
        };
        let answered = self.client.send(sent).await.map_err(|error| lost(&error))?;
        if answered.status.is_success() { Ok(answered) } else { Err(refused(&answered)) }
    }
}

fn retry_of(error: &EngineError) -> Retry {
    match error {
        EngineError::Backend(error) => error.retry,
        _ => Retry::Never,
    }
}

/// A request that got no answer.
fn lost(error: &HttpError) -> EngineError {
    let (kind, retry) = match error.kind {
        HttpErrorKind::Connect => (BackendErrorKind::Transport, Retry::Safe),
        HttpErrorKind::Timeout => (BackendErrorKind::Timeout, Retry::IfReplaySafe),
        HttpErrorKind::Broken => (BackendErrorKind::Transport, Retry::IfReplaySafe),
        HttpErrorKind::Malformed => (BackendErrorKind::Protocol, Retry::Never),
    };
    BackendError::new(kind, retry, error.message.clone()).into()
}

/// An answer that is an error: a problem document of the server, or something that stands between
/// us and it.
fn refused(answered: &Answered) -> EngineError {
    if let Ok(problem) = serde_json::from_slice::<Problem>(&answered.body) {
        return problem.into();
    }
    let (kind, retry) = match answered.status {
        StatusCode::BAD_GATEWAY | StatusCode::SERVICE_UNAVAILABLE | StatusCode::GATEWAY_TIMEOUT => {
            (BackendErrorKind::Transport, Retry::IfReplaySafe)
        }
        // Whatever broke there may have passed the request on before.
        status if status.is_server_error() => (BackendErrorKind::Protocol, Retry::IfReplaySafe),
        StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN => (BackendErrorKind::Auth, Retry::Never),
        _ => (BackendErrorKind::Protocol, Retry::Never),
    };
    let message = format!("answer {} without a problem document", answered.status);
    BackendError::new(kind, retry, message).into()
}

#[cfg(test)]
mod tests {
    use super::*;
    use ff_core::error::Code;

    fn answered(status: u16, body: &str) -> EngineError {
        let status = StatusCode::from_u16(status).expect("a status");
        refused(&Answered { status, body: body.to_owned().into() })
    }

    #[test]
    fn a_problem_document_is_read_back_as_its_error() {
        let error = EngineError::Refused { code: Code::StaleLease, details: vec!["x".to_owned()] };
        let json = serde_json::to_string(&Problem::from(&error)).expect("text");
        assert_eq!(answered(409, &json), error);
    }

    #[test]
    fn an_answer_of_somebody_in_between_is_classified_by_its_status() {
        for (status, kind, retry) in [
            (502, BackendErrorKind::Transport, Retry::IfReplaySafe),
            (503, BackendErrorKind::Transport, Retry::IfReplaySafe),
            (401, BackendErrorKind::Auth, Retry::Never),
            (404, BackendErrorKind::Protocol, Retry::Never),
            (500, BackendErrorKind::Protocol, Retry::IfReplaySafe),
        ] {
            let EngineError::Backend(error) = answered(status, "<html>") else {
                panic!("{status} is no answer of the engine");
            };
            assert_eq!((error.kind, error.retry), (kind, retry), "{status}");
        }
    }

    #[test]
    fn a_request_that_was_not_sent_is_told_apart_from_one_that_may_have_been() {
        let retry = |kind| retry_of(&lost(&HttpError::new(kind, "")));
        assert_eq!(retry(HttpErrorKind::Connect), Retry::Safe);
        assert_eq!(retry(HttpErrorKind::Broken), Retry::IfReplaySafe);
        assert_eq!(retry(HttpErrorKind::Timeout), Retry::IfReplaySafe);
        assert_eq!(retry(HttpErrorKind::Malformed), Retry::Never);
    }
}
