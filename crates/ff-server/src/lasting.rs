//! Answers that last: while one is sent, its connection counts as busy and keeps its place.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use axum::body::{Body, Bytes};
use axum::http::Response;
use hyper::body::{Body as Parts, Frame, SizeHint};

use crate::connection_limiter::Connection;

/// Marks an answer that lasts.
#[derive(Clone, Copy)]
pub(crate) struct Lasts;

/// The body of an answer, and the connection that is busy for as long as it lasts.
pub(crate) struct Answer {
    body: Body,
    busy: Option<Arc<Connection>>,
}

impl Answer {
    /// Tells the connection that its request is answered: now, or when all of it was sent.
    pub(crate) fn of(answer: Response<Body>, connection: &Arc<Connection>) -> Response<Self> {
        let lasts = answer.extensions().get::<Lasts>().is_some();
        if !lasts {
            connection.answer();
        }
        answer.map(|body| Self { body, busy: lasts.then(|| Arc::clone(connection)) })
    }
}

impl Drop for Answer {
    fn drop(&mut self) {
        if let Some(connection) = &self.busy {
            connection.answer();
        }
    }
}

impl Parts for Answer {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        Pin::new(&mut self.body).poll_frame(context)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
