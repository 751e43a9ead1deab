//! A connection that is cut when its client leaves an answer unread. What is read of it counts as
//! something heard of the client.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::{Instant, Sleep};

use crate::places::Connection;

/// Any connection, with a limit on how long a write may be stuck.
pub(crate) struct Timed<S> {
    stream: S,
    connection: Arc<Connection>,
    write_timeout: Duration,
    stuck: Option<Pin<Box<Sleep>>>,
}

impl<S> Timed<S> {
    pub(crate) fn new(stream: S, connection: Arc<Connection>, write_timeout: Duration) -> Self {
        Self { stream, connection, write_timeout, stuck: None }
    }

    /// Passes on what a write said; one that has been waiting for too long fails.
    fn within_time<T>(
        &mut self,
        written: Poll<io::Result<T>>,
        context: &mut Context<'_>,
    ) -> Poll<io::Result<T>> {
        if written.is_ready() {
            self.stuck = None;
            self.connection.was_heard();
            return written;
        }
        self.connection.was_sent();
        let limit = self.write_timeout;
        let stuck = self
            .stuck
            .get_or_insert_with(|| Box::pin(tokio::time::sleep_until(Instant::now() + limit)));
        match stuck.as_mut().poll(context) {
            Poll::Ready(()) => Poll::Ready(Err(io::ErrorKind::TimedOut.into())),
            Poll::Pending => Poll::Pending,
        }
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Timed<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(context, buffer)
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Timed<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write(context, bytes);
        self.within_time(written, context)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        parts: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write_vectored(context, parts);
        self.within_time(written, context)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let flushed = Pin::new(&mut self.stream).poll_flush(context);
        if flushed.is_ready() {
            self.connection.was_sent();
        }
        self.within_time(flushed, context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let closed = Pin::new(&mut self.stream).poll_shutdown(context);
        self.within_time(closed, context)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    #[tokio::test(start_paused = true)]
    async fn a_write_that_nobody_reads_fails_in_time() {
        let (client, server) = tokio::io::duplex(8);
        let mut server = Timed::new(server, Connection::alone(), Duration::from_secs(5));
        let started = Instant::now();
        let error = server.write_all(&[0; 100]).await.expect_err("nobody reads");
        assert_eq!(error.kind(), io::ErrorKind::TimedOut);
        assert_eq!(started.elapsed().as_secs(), 5);
        drop(client);
    }

    #[tokio::test]
    async fn what_is_read_in_time_is_written() {
        let (mut client, server) = tokio::io::duplex(8);
        let mut server = Timed::new(server, Connection::alone(), Duration::from_secs(5));
        let writing = tokio::spawn(async move { server.write_all(&[7; 100]).await });
        let mut read = vec![0; 100];
        client.read_exact(&mut read).await.expect("all of it comes");
        assert!(writing.await.expect("no panic").is_ok());
    }
}
