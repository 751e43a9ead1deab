//! The body of a request, which tells the connection when its client is waited for.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use hyper::body::{Body, Bytes, Frame, Incoming, SizeHint};

use crate::connection_limiter::Connection;

/// A body on its way.
pub(crate) struct RequestBody {
    body: Incoming,
    connection: Arc<Connection>,
}

impl RequestBody {
    pub(crate) fn new(body: Incoming, connection: Arc<Connection>) -> Self {
        Self { body, connection }
    }
}

impl Body for RequestBody {
    type Data = Bytes;
    type Error = hyper::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, hyper::Error>>> {
        let polled = Pin::new(&mut self.body).poll_frame(context);
        if polled.is_pending() {
            self.connection.wait();
            return Poll::Pending;
        }
        // One that was cut is about to be dropped: what is left of it must not be acted on.
        if self.connection.work() { polled } else { Poll::Pending }
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
