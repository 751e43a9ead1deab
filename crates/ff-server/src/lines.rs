//! Bodies that are read line by line, for as long as they come.

use axum::body::{Body, Bytes};
use axum::http::HeaderMap;
use axum::http::header::CONTENT_TYPE;
use ff_api::headers::NDJSON;
use ff_api::problem::{HttpCode, Problem};
use hyper::body::Body as Parts;

use crate::app::App;
use crate::refusal::Refusal;

/// Does the body say that it is lines of JSON?
pub(crate) fn are_given(headers: &HeaderMap) -> bool {
    let given = headers.get(CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or_default();
    given.split(';').next().unwrap_or_default().trim().eq_ignore_ascii_case(NDJSON)
}

/// A body that is read line by line.
pub(crate) struct Lines {
    body: Body,
    rest: Vec<u8>,
    /// So much of the rest was dealt with.
    from: usize,
    ended: bool,
    /// The longest line.
    bytes_max: usize,
}

impl Lines {
    pub(crate) fn new(body: Body, bytes_max: usize) -> Self {
        Self { body, rest: Vec::new(), from: 0, ended: false, bytes_max }
    }

    /// The whole lines that are there, each with its end.
    pub(crate) fn whole(&self) -> impl Iterator<Item = &[u8]> {
        let lines = self.rest[self.from..].split_inclusive(|byte| *byte == b'\n');
        lines.filter(|line| line.ends_with(b"\n"))
    }

    /// So many bytes of them were dealt with.
    pub(crate) fn done(&mut self, bytes: usize) {
        self.from += bytes;
    }

    /// Waits for more of the body. False if there is no more.
    pub(crate) async fn receive(&mut self, app: &App) -> Result<bool, Refusal> {
        if self.ended {
            return Ok(false);
        }
        self.rest.drain(..self.from);
        self.from = 0;
        if self.rest.len() > self.bytes_max {
            let rule = format!("a line may have at most {} bytes", self.bytes_max);
            return Err(Problem::new(HttpCode::BodyTooLarge, rule).into());
        }
        let silence = app.limits.header_timeout();
        match tokio::time::timeout(silence, chunk(&mut self.body)).await {
            Ok(Ok(Some(bytes))) => self.rest.extend_from_slice(&bytes),
            Ok(Ok(None)) => {
                self.ended = true;
                // The last line may lack its end.
                self.rest.push(b'\n');
            }
            Ok(Err(_)) => {
                let broken = "the body did not arrive whole; what arrived before may have counted";
                return Err(Problem::new(HttpCode::MalformedRequest, broken).into());
            }
            Err(_) => {
                let silent = "no line came for too long";
                return Err(Problem::new(HttpCode::RequestTimeout, silent).into());
            }
        }
        Ok(true)
    }
}

/// The next bytes of a body; none at its end.
async fn chunk(body: &mut Body) -> Result<Option<Bytes>, axum::Error> {
    loop {
        let frame = std::future::poll_fn(|it| std::pin::Pin::new(&mut *body).poll_frame(it)).await;
        match frame.transpose()? {
            None => return Ok(None),
            Some(frame) => {
                if let Ok(bytes) = frame.into_data() {
                    return Ok(Some(bytes));
                }
            }
        }
    }
}
