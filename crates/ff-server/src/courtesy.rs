//! A connection on which hyper's own refusals become problem documents. Hyper answers a request
//! that it cannot read by itself, before any code of ours runs, with a bare head and no way to say
//! more.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};

use ff_api::headers::PROBLEM_JSON;
use ff_api::problem::{HttpCode, Problem};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// Any connection of a server.
pub(crate) struct Courteous<S> {
    stream: S,
    instead: Option<Instead>,
}

/// What is written instead of a refusal, and how much of it has been.
struct Instead {
    answer: Vec<u8>,
    written: usize,
}

impl<S> Courteous<S> {
    pub(crate) fn new(stream: S) -> Self {
        Self { stream, instead: None }
    }
}

impl<S: AsyncWrite + Unpin> Courteous<S> {
    /// Writes the document; done when all of it is written, which counts as the refusal's bytes.
    fn write_instead(
        &mut self,
        context: &mut Context<'_>,
        refused_bytes: usize,
    ) -> Poll<io::Result<usize>> {
        while let Some(Instead { answer, written }) = &mut self.instead {
            let rest = &answer[*written..];
            if rest.is_empty() {
                self.instead = None;
                break;
            }
            match Pin::new(&mut self.stream).poll_write(context, rest) {
                Poll::Ready(Ok(0)) => return Poll::Ready(Err(io::ErrorKind::WriteZero.into())),
                Poll::Ready(Ok(more)) => *written += more,
                Poll::Ready(Err(error)) => return Poll::Ready(Err(error)),
                Poll::Pending => return Poll::Pending,
            }
        }
        Poll::Ready(Ok(refused_bytes))
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Courteous<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(context, buffer)
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Courteous<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        if self.instead.is_none() {
            self.instead = refusal(bytes).map(|answer| Instead { answer, written: 0 });
        }
        if self.instead.is_some() {
            return self.write_instead(context, bytes.len());
        }
        Pin::new(&mut self.stream).poll_write(context, bytes)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        parts: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        match parts {
            // A refusal has no body, so it comes alone.
            [only] => self.poll_write(context, only),
            _ => Pin::new(&mut self.stream).poll_write_vectored(context, parts),
        }
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
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

    const BARE: &[u8] = b"HTTP/1.1 431 Request Header Fields Too Large\r\nconnection: close\r\n\
        content-length: 0\r\ndate: Mon, 16 Nov 2026 00:00:00 GMT\r\n\r\n";

    async fn written(bytes: &[u8]) -> String {
        // So narrow that everything takes several writes.
        let (mut client, server) = tokio::io::duplex(16);
        let bytes = bytes.to_vec();
        let writing = tokio::spawn(async move {
            let mut server = Courteous::new(server);
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
}
