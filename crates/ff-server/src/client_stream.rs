//! The stream of a client's connection. It is cut when the client leaves an answer unread; what is
//! read of it counts as a sign of life. Hyper answers a request that it cannot read by itself,
//! before any code of ours runs, with a bare head and no way to say more: here such a refusal
//! becomes a problem document.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use ff_api::headers::PROBLEM_JSON;
use ff_api::problem::{HttpCode, Problem};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::{Instant, Sleep};

use crate::connection_limiter::Connection;

/// Any connection, with a limit on how long a write may be stuck.
pub(crate) struct ClientStream<S> {
    stream: S,
    connection: Arc<Connection>,
    write_timeout: Duration,
    stuck: Option<Pin<Box<Sleep>>>,
    replacement: Option<Replacement>,
}

/// What is written instead of a refusal, and how much of it has been.
struct Replacement {
    answer: Vec<u8>,
    written: usize,
}

impl<S> ClientStream<S> {
    pub(crate) fn new(stream: S, connection: Arc<Connection>, write_timeout: Duration) -> Self {
        Self { stream, connection, write_timeout, stuck: None, replacement: None }
    }

    /// Passes on what a write said; one that has been waiting for too long fails.
    fn within_time<T>(
        &mut self,
        written: Poll<io::Result<T>>,
        context: &mut Context<'_>,
    ) -> Poll<io::Result<T>> {
        if written.is_ready() {
            self.stuck = None;
            self.connection.was_active();
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

impl<S: AsyncWrite + Unpin> ClientStream<S> {
    fn write(&mut self, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write(context, bytes);
        self.within_time(written, context)
    }

    /// Writes the document; done when all of it is written, which counts as the refusal's bytes.
    fn write_replacement(
        &mut self,
        context: &mut Context<'_>,
        mut replacement: Replacement,
        refused_bytes: usize,
    ) -> Poll<io::Result<usize>> {
        while replacement.written < replacement.answer.len() {
            match self.write(context, &replacement.answer[replacement.written..]) {
                Poll::Ready(Ok(0)) => return Poll::Ready(Err(io::ErrorKind::WriteZero.into())),
                Poll::Ready(Ok(more)) => replacement.written += more,
                Poll::Ready(Err(error)) => return Poll::Ready(Err(error)),
                Poll::Pending => {
                    self.replacement = Some(replacement);
                    return Poll::Pending;
                }
            }
        }
        Poll::Ready(Ok(refused_bytes))
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for ClientStream<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(context, buffer)
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for ClientStream<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let begun = self.replacement.take();
        let new = || refusal(bytes).map(|answer| Replacement { answer, written: 0 });
        match begun.or_else(new) {
            Some(replacement) => self.write_replacement(context, replacement, bytes.len()),
            None => self.write(context, bytes),
        }
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        parts: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        // A refusal has no body, so it comes alone.
        if let [only] = parts {
            return self.poll_write(context, only);
        }
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

/// The answer in place of a head that is a refusal of hyper's own. Ours all have a content type.
fn refusal(written: &[u8]) -> Option<Vec<u8>> {
    let status = written.strip_prefix(b"HTTP/1.1 ")?.first_chunk::<3>()?;
    let (code, detail) = match status {
        b"400" => (HttpCode::MalformedRequest, "the head of the request cannot be read"),
        b"414" => (HttpCode::UriTooLong, ""),
        b"431" => (HttpCode::HeadersTooLarge, ""),
        _ => return None,
    };
    let head = std::str::from_utf8(written).ok()?.strip_suffix("\r\n\r\n")?;
    let bare = head.contains("\r\ncontent-length: 0") && !head.contains("\r\ncontent-type:");
    bare.then(|| with_problem(head, &Problem::new(code, detail)))
}

fn with_problem(head: &str, problem: &Problem) -> Vec<u8> {
    // A problem is made of numbers and texts, which always have a JSON form.
    let body = serde_json::to_string(problem).unwrap_or_default();
    let length = format!("content-type: {PROBLEM_JSON}\r\ncontent-length: {}", body.len());
    let head = head.replacen("content-length: 0", &length, 1);
    format!("{head}\r\n\r\n{body}").into_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    fn client_stream<S>(stream: S) -> ClientStream<S> {
        ClientStream::new(stream, Connection::alone(), Duration::from_secs(5))
    }

    const BARE: &[u8] = b"HTTP/1.1 431 Request Header Fields Too Large\r\nconnection: close\r\n\
        content-length: 0\r\ndate: Mon, 16 Nov 2026 00:00:00 GMT\r\n\r\n";

    async fn written(bytes: &[u8]) -> String {
        // So narrow that everything takes several writes.
        let (mut client, server) = tokio::io::duplex(16);
        let bytes = bytes.to_vec();
        let writing = tokio::spawn(async move {
            let mut server = client_stream(server);
            server.write_all(&bytes).await?;
            server.shutdown().await
        });
        let mut text = String::new();
        client.read_to_string(&mut text).await.expect("text");
        writing.await.expect("no panic").expect("written");
        text
    }

    #[tokio::test]
    async fn a_bare_refusal_becomes_a_document() {
        let text = written(BARE).await;
        let (head, body) = text.split_once("\r\n\r\n").expect("a head and a body");
        assert!(head.starts_with("HTTP/1.1 431 "), "{head}");
        assert!(head.contains(&format!("content-length: {}\r\n", body.len())), "{head}");
        let problem: Problem = serde_json::from_str(body).expect("a problem");
        assert_eq!((problem.status, problem.code.as_str()), (431, "headers_too_large"));
    }

    #[tokio::test]
    async fn everything_else_passes_as_it_is() {
        for answer in [
            "HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n",
            "HTTP/1.1 400 Bad Request\r\ncontent-type: a/b\r\ncontent-length: 0\r\n\r\n",
            "HTTP/1.1 400 Bad Request\r\ncontent-length: 2\r\n\r\n{}",
            "HTTP/1.1 4",
        ] {
            assert_eq!(written(answer.as_bytes()).await, answer);
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_write_that_nobody_reads_fails_in_time() {
        let (client, server) = tokio::io::duplex(8);
        let mut server = client_stream(server);
        let started = Instant::now();
        let error = server.write_all(&[0; 100]).await.expect_err("nobody reads");
        assert_eq!(error.kind(), io::ErrorKind::TimedOut);
        assert_eq!(started.elapsed().as_secs(), 5);
        drop(client);
    }

    #[tokio::test]
    async fn what_is_read_in_time_is_written() {
        let (mut client, server) = tokio::io::duplex(8);
        let mut server = client_stream(server);
        let writing = tokio::spawn(async move { server.write_all(&[7; 100]).await });
        let mut read = vec![0; 100];
        client.read_exact(&mut read).await.expect("all of it comes");
        assert!(writing.await.expect("no panic").is_ok());
    }
}
