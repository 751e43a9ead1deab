//! Follows output through a server's events, and connects again where it was.

use std::time::Duration;

use ff_api::events::Decoder;
use ff_api::headers::{EVENT_STREAM, LAST_EVENT_ID};
use ff_core::backend_error::{BackendError, BackendErrorKind, Retry};
use ff_core::contracts::{FollowOutput, Output, OutputCursor, OutputStream};
use ff_core::error::EngineError;
use ff_core::operation::Operation as _;
use ff_core::types::ExecutionId;
use ff_script::unfold::unfold;
use http::header::{ACCEPT, HeaderMap, HeaderName, HeaderValue};
use http_body_util::BodyExt as _;
use hyper::body::{Bytes, Incoming};
use tokio::time::{sleep, timeout};

use super::HttpClient;
use super::call::{ANSWER_TIMEOUT, lost, refused};
use super::transport::Sent;

/// A server gives a sign of life more often than this.
const SILENCE: Duration = Duration::from_secs(45);
const FIRST_PAUSE: Duration = Duration::from_millis(50);
const LONGEST_PAUSE: Duration = Duration::from_secs(2);

/// Follows from a position. Answers when the server knows the execution.
pub(super) async fn follow(
    client: HttpClient,
    execution_id: ExecutionId,
    after: OutputCursor,
) -> Result<OutputStream, EngineError> {
    let (decoder, pause) = (Decoder::default(), FIRST_PAUSE);
    let mut follower =
        Follower { client, execution_id, after, body: None, decoder, pause, over: false };
    while let Err(error) = follower.connect().await {
        if error.retry() == Retry::Never || follower.pause >= LONGEST_PAUSE {
            return Err(error);
        }
        follower.pause().await;
    }
    Ok(Box::pin(unfold(follower, |follower| Box::pin(follower.step()))))
}

/// One who follows.
struct Follower {
    client: HttpClient,
    execution_id: ExecutionId,
    after: OutputCursor,
    body: Option<Incoming>,
    decoder: Decoder,
    pause: Duration,
    over: bool,
}

type Item = Result<Output, EngineError>;

impl Follower {
    /// The next piece; none behind the last one.
    async fn step(mut self) -> Option<(Item, Self)> {
        if self.over {
            return None;
        }
        let item = self.next().await;
        self.over = matches!(item, Err(_) | Ok(Output::End { .. }));
        Some((item, self))
    }

    async fn next(&mut self) -> Item {
        loop {
            if let Some(output) = self.decoder.next_output().map_err(unreadable)? {
                (self.after, self.pause) = (output.cursor(), FIRST_PAUSE);
                return Ok(output);
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
            self.pause().await;
            match self.connect().await {
                Err(error) if error.retry() != Retry::Never => {
                    let execution_id = self.execution_id;
                    tracing::debug!(%execution_id, %error, "following failed, trying again");
                }
                connected => return connected,
            }
        }
    }

    async fn connect(&mut self) -> Result<(), EngineError> {
        (self.body, self.decoder) = (None, Decoder::default());
        let mut headers = HeaderMap::new();
        headers.insert(ACCEPT, HeaderValue::from_static(EVENT_STREAM));
        if let Ok(after) = HeaderValue::try_from(self.after.to_string()) {
            headers.insert(HeaderName::from_static(LAST_EVENT_ID), after);
        }
        let path = FollowOutput::path(self.execution_id);
        let (method, body, limit) = (http::Method::GET, Bytes::new(), ANSWER_TIMEOUT);
        let sent = Sent { method, path: &path, headers, body, limit };
        let answer = self.client.open(sent).await.map_err(|error| lost(&error))?;
        if answer.status().is_success() {
            self.body = Some(answer.into_body());
            return Ok(());
        }
        let answered = self.client.finish(answer, limit).await.map_err(|error| lost(&error))?;
        Err(refused(&answered))
    }

    async fn pause(&mut self) {
        sleep(self.pause).await;
        self.pause = (self.pause * 2).min(LONGEST_PAUSE);
    }
}

fn unreadable(error: ff_api::events::EventError) -> EngineError {
    BackendError::new(BackendErrorKind::Protocol, Retry::Never, error.to_string()).into()
}
