//! Follows output, or a flow, through a server's events, and connects again where it was.

use std::pin::Pin;
use std::time::Duration;

use ff_api::events::{Decoder, Told};
use ff_api::headers::{EVENT_STREAM, LAST_EVENT_ID};
use ff_core::backend_error::{BackendError, BackendErrorKind, Retry};
use ff_core::error::EngineError;
use ff_script::backoff::Backoff;
use ff_script::unfold::unfold;
use futures_core::Stream;
use http::header::{ACCEPT, HeaderMap, HeaderName, HeaderValue};
use http_body_util::BodyExt as _;
use hyper::body::{Bytes, Incoming};
use tokio::time::timeout;

use super::HttpClient;
use super::call::{ANSWER_TIMEOUT, lost, refused};
use super::transport::Sent;

/// A server gives a sign of life more often than this.
const SILENCE: Duration = Duration::from_secs(45);
const BACKOFF: Backoff = Backoff::of_ms(50, 2_000);

/// What a server tells, as it comes.
type Tellings<T> = Pin<Box<dyn Stream<Item = Result<T, EngineError>> + Send>>;

/// Follows what is at a path, from a position. Answers when the server knows it.
pub(super) async fn follow<T: Told + Send + 'static>(
    client: HttpClient,
    path: String,
    after: String,
) -> Result<Tellings<T>, EngineError> {
    let (decoder, backoff) = (Decoder::default(), BACKOFF);
    let mut follower = Follower { client, path, after, body: None, decoder, backoff, over: false };
    while let Err(error) = follower.connect().await {
        if error.retry() == Retry::Never || follower.backoff.is_longest() {
            return Err(error);
        }
        follower.backoff.pause().await;
    }
    Ok(Box::pin(unfold(follower, |follower| Box::pin(follower.step()))))
}

/// One who follows.
struct Follower {
    client: HttpClient,
    path: String,
    /// The position, as the server writes it.
    after: String,
    body: Option<Incoming>,
    decoder: Decoder,
    backoff: Backoff,
    over: bool,
}

impl Follower {
    /// The next piece; none behind the last one.
    async fn step<T: Told>(mut self) -> Option<(Result<T, EngineError>, Self)> {
        if self.over {
            return None;
        }
        let item = self.next::<T>().await;
        self.over = item.as_ref().map_or(true, Told::is_last);
        Some((item, self))
    }

    async fn next<T: Told>(&mut self) -> Result<T, EngineError> {
        loop {
            if let Some(told) = self.decoder.next_told::<T>().map_err(unreadable)? {
                (self.after, self.backoff) = (told.position(), BACKOFF);
                return Ok(told);
            }
            match self.receive().await {
                Some(bytes) => self.decoder.push(&bytes),
                None => self.connect_again().await?,
            }
        }
    }

    /// What arrives next; none if the connection is gone, or silent for too long.
    async fn receive(&mut self) -> Option<Bytes> {
        let body = self.body.as_mut()?;
        let frame = timeout(SILENCE, body.frame()).await.ok()??.ok()?;
        Some(frame.into_data().unwrap_or_default())
    }

    async fn connect_again(&mut self) -> Result<(), EngineError> {
        loop {
            self.backoff.pause().await;
            match self.connect().await {
                Err(error) if error.retry() != Retry::Never => {
                    let path = self.path.as_str();
                    tracing::debug!(path, %error, "following failed, trying again");
                }
                connected => return connected,
            }
        }
    }

    async fn connect(&mut self) -> Result<(), EngineError> {
        (self.body, self.decoder) = (None, Decoder::default());
        let mut headers = HeaderMap::new();
        headers.insert(ACCEPT, HeaderValue::from_static(EVENT_STREAM));
        if let Ok(after) = HeaderValue::try_from(self.after.as_str()) {
            headers.insert(HeaderName::from_static(LAST_EVENT_ID), after);
        }
        let (method, body, limit) = (http::Method::GET, Bytes::new(), ANSWER_TIMEOUT);
        let sent = Sent { method, path: &self.path, headers, body, limit };
        let answer = self.client.open(sent).await.map_err(|error| lost(&error))?;
        if answer.status().is_success() {
            self.body = Some(answer.into_body());
            return Ok(());
        }
        let answered = self.client.finish(answer, limit).await.map_err(|error| lost(&error))?;
        Err(refused(&answered))
    }
}

fn unreadable(error: ff_api::events::EventError) -> EngineError {
    BackendError::new(BackendErrorKind::Protocol, Retry::Never, error.to_string()).into()
}
