//! One call of the API: sent, repeated where that is safe, and read back.

use std::time::Duration;

use ff_api::headers;
use ff_api::problem::Problem;
use ff_core::backend_error::{BackendError, BackendErrorKind, Retry};
use ff_core::engine_backend::Answer;
use ff_core::error::EngineError;
use ff_core::operation::{self, Input, Operation};
use ff_script::backoff::Backoff;
use http::header::{CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue};
use http::{Method, StatusCode};
use hyper::body::Bytes;
use serde::Serialize;
use serde::de::DeserializeOwned;
use tokio::time::Instant;

use super::transport::Sent;
use super::{Answered, HttpBackend};
use crate::error::{HttpError, HttpErrorKind};

/// How long the server may be silent that need not wait for anything.
pub(super) const ANSWER_TIMEOUT: Duration = Duration::from_secs(5);
/// How often a call whose answer was lost is sent again.
const REPEATS_MAX: u32 = 3;
const BACKOFF: Backoff = Backoff::of_ms(10, 250);

/// One call of the API.
pub(crate) struct Call {
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

    /// The request of an operation.
    pub(super) fn of<O: Operation>(
        target: O::Target,
        request: &O::Request,
    ) -> Result<Self, EngineError> {
        Self::at::<O>(O::path(target), request)
    }

    /// The same, by its path.
    pub(crate) fn at<O: Operation>(
        path: String,
        request: &O::Request,
    ) -> Result<Self, EngineError> {
        let method = match O::METHOD {
            operation::Method::Get => Method::GET,
            operation::Method::Post => Method::POST,
            operation::Method::Put => Method::PUT,
        };
        match O::INPUT {
            Input::Nothing => Ok(Self::new(method, path)),
            Input::Query => Ok(Self::new(method, format!("{path}?{}", query(request)?))),
            Input::Body | Input::OptionalBody => Self::new(method, path).with_json(request),
        }
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
    pub(crate) fn waiting(mut self, wait: Duration) -> Self {
        self.limit = self.limit.saturating_add(wait);
        self
    }

    /// Once it may have been received, it is sent with this body.
    pub(super) fn repeated_as(mut self, body: &impl Serialize) -> Result<Self, EngineError> {
        self.repeated_body = Some(json(body)?);
        Ok(self)
    }

    /// What is sent.
    pub(crate) fn sent(&self) -> Sent<'_> {
        Sent {
            method: self.method.clone(),
            path: &self.path,
            headers: self.headers.clone(),
            body: self.body.clone(),
            limit: self.limit,
        }
    }

    /// A lost answer is asked for again for so long.
    pub(super) fn insisting(mut self, time: Duration) -> Self {
        self.insist = Some(time);
        self
    }
}

fn json(body: &impl Serialize) -> Result<Bytes, EngineError> {
    serde_json::to_vec(body).map(Bytes::from).map_err(unsendable)
}

/// A request as it stands behind the question mark.
fn query(request: &impl Serialize) -> Result<String, EngineError> {
    let fields = match serde_json::to_value(request).map_err(unsendable)? {
        serde_json::Value::Object(fields) => fields,
        _ => serde_json::Map::new(),
    };
    let pairs = fields.iter().map(|(name, value)| match value {
        serde_json::Value::String(text) => format!("{name}={}", operation::encode(text)),
        other => format!("{name}={}", operation::encode(&other.to_string())),
    });
    Ok(pairs.collect::<Vec<_>>().join("&"))
}

fn unsendable(error: serde_json::Error) -> EngineError {
    EngineError::invalid("request", error.to_string())
}

/// How often a call was tried, and whether it may have been received.
struct Tries {
    begun: Instant,
    backoff: Backoff,
    lost_at: Option<Instant>,
    repeats: u32,
}

impl Tries {
    fn begin() -> Self {
        Self { begun: Instant::now(), backoff: BACKOFF, lost_at: None, repeats: 0 }
    }

    /// Whether a call that went wrong is tried once more.
    fn again(&mut self, call: &Call, retry: Retry, patience: Duration) -> bool {
        let now = Instant::now();
        if retry == Retry::IfReplaySafe {
            self.lost_at.get_or_insert(now);
            self.repeats += 1;
        }
        match (self.lost_at.zip(call.insist), retry) {
            (_, Retry::Never) => false,
            (Some((lost_at, insist)), _) => now.duration_since(lost_at) < insist,
            (None, Retry::Safe) => now + self.backoff.next() < self.begun + patience,
            (None, Retry::IfReplaySafe) => self.repeats <= REPEATS_MAX,
        }
    }
}

impl HttpBackend {
    /// Asks for an operation.
    pub(super) fn send<O: Operation>(
        &self,
        target: O::Target,
        request: O::Request,
    ) -> Answer<'_, O::Reply> {
        let call = Call::of::<O>(target, &request);
        Box::pin(async move { self.reply::<O>(call?).await })
    }

    /// Runs a call of an operation and reads its answer.
    pub(super) async fn reply<O: Operation>(&self, call: Call) -> Result<O::Reply, EngineError> {
        self.read(call).await
    }

    /// Runs a call and reads its answer.
    pub(super) async fn read<T: DeserializeOwned>(&self, call: Call) -> Result<T, EngineError> {
        let body = self.run(call).await?.body;
        let json: &[u8] = if body.is_empty() { b"{}" } else { &body };
        serde_json::from_slice(json).map_err(|error| {
            let message = format!("the server's answer has another shape: {error}");
            BackendError::new(BackendErrorKind::Protocol, Retry::Never, message).into()
        })
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
            if !tries.again(&call, error.retry(), self.patience) {
                return Err(error);
            }
            if tries.lost_at.is_some()
                && let Some(body) = call.repeated_body.take()
            {
                tracing::warn!(path = call.path, %error, "the answer was lost, trying again");
                call.body = body;
            }
            tries.backoff.pause().await;
        }
    }

    async fn attempt(&self, call: &Call) -> Result<Answered, EngineError> {
        let answered = self.client.send(call.sent()).await.map_err(|error| lost(&error))?;
        if answered.status.is_success() { Ok(answered) } else { Err(refused(&answered)) }
    }
}

/// A request that got no answer.
pub(super) fn lost(error: &HttpError) -> EngineError {
    let (kind, retry) = match error.kind {
        HttpErrorKind::Connect => (BackendErrorKind::Transport, Retry::Safe),
        HttpErrorKind::Untrusted => (BackendErrorKind::Auth, Retry::Never),
        HttpErrorKind::Timeout => (BackendErrorKind::Timeout, Retry::IfReplaySafe),
        HttpErrorKind::Broken => (BackendErrorKind::Transport, Retry::IfReplaySafe),
        HttpErrorKind::Malformed => (BackendErrorKind::Protocol, Retry::Never),
    };
    BackendError::new(kind, retry, error.message.clone()).into()
}

/// An answer that is an error: a problem document of the server, or something that stands between
/// us and it.
pub(super) fn refused(answered: &Answered) -> EngineError {
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
    use ff_core::contracts::ListFilter;
    use ff_core::error::Code;
    use ff_core::operation::Nothing;
    use ff_core::state::PublicState;
    use ff_core::types::LaneId;

    fn answered(status: u16, body: &str) -> EngineError {
        let status = StatusCode::from_u16(status).expect("a status");
        refused(&Answered { status, body: body.to_owned().into() })
    }

    #[test]
    fn a_query_is_percent_encoded() {
        let filter = ListFilter {
            lane: LaneId::try_new("eu west/1").ok(),
            state: Some(PublicState::WaitingChildren),
            limit: Some(7),
            ..ListFilter::default()
        };
        let call = Call::of::<ListFilter>(Nothing {}, &filter).expect("a request");
        assert_eq!(call.path, "/v1/executions?lane=eu%20west%2F1&limit=7&state=waiting_children");
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
        let retry = |kind| lost(&HttpError::new(kind, "")).retry();
        assert_eq!(retry(HttpErrorKind::Connect), Retry::Safe);
        assert_eq!(retry(HttpErrorKind::Broken), Retry::IfReplaySafe);
        assert_eq!(retry(HttpErrorKind::Timeout), Retry::IfReplaySafe);
        assert_eq!(retry(HttpErrorKind::Malformed), Retry::Never);
    }
}
