//! A frugal HTTP client: it shares its processors with the server it measures, so it does no more
//! than a load needs. One connection, one request at a time, answers with a Content-Length.

use std::io::Write;
use std::ops::Range;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::Failure;

/// The content type of JSON, as a header line.
pub(crate) const JSON: &str = "content-type: application/json\r\n";

/// One connection.
pub(crate) struct HttpClient {
    stream: TcpStream,
    request: Vec<u8>,
    answer: Vec<u8>,
}

impl HttpClient {
    pub(crate) async fn connect(address: &str) -> Result<Self, Failure> {
        let stream = TcpStream::connect(address).await?;
        stream.set_nodelay(true)?;
        Ok(Self { stream, request: Vec::new(), answer: Vec::new() })
    }

    /// Asks for a path; answers the body.
    pub(crate) async fn get(&mut self, path: &str) -> Result<&[u8], Failure> {
        self.request.clear();
        write!(self.request, "GET {path} HTTP/1.1\r\nhost: localhost\r\n\r\n")?;
        self.exchange().await
    }

    /// Sends a body, with header lines that each have their line's end; answers the body.
    pub(crate) async fn post(
        &mut self,
        path: &str,
        header_lines: &str,
        body: &[u8],
    ) -> Result<&[u8], Failure> {
        let length = body.len();
        self.request.clear();
        write!(
            self.request,
            "POST {path} HTTP/1.1\r\nhost: localhost\r\n{header_lines}content-length: {length}\r\n\r\n"
        )?;
        self.request.extend_from_slice(body);
        self.exchange().await
    }

    async fn exchange(&mut self) -> Result<&[u8], Failure> {
        self.stream.write_all(&self.request).await?;
        self.answer.clear();
        let head = loop {
            self.read_some().await?;
            if let Some(head) = Head::read(&self.answer)? {
                break head;
            }
        };
        while self.answer.len() < head.body.end {
            self.read_some().await?;
        }
        let body = &self.answer[head.body];
        if head.status / 100 == 2 {
            return Ok(body);
        }
        Err(format!("{}: {}", head.status, String::from_utf8_lossy(body)).into())
    }

    async fn read_some(&mut self) -> Result<(), Failure> {
        match self.stream.read_buf(&mut self.answer).await? {
            0 => Err("the server closed the connection".into()),
            _ => Ok(()),
        }
    }
}

/// What the head of an answer says.
#[derive(Debug, PartialEq, Eq)]
struct Head {
    status: u16,
    /// Where the body is.
    body: Range<usize>,
}

impl Head {
    /// None if it has not come whole yet.
    fn read(answer: &[u8]) -> Result<Option<Self>, Failure> {
        let Some(end) = find(answer, b"\r\n\r\n") else { return Ok(None) };
        let text = std::str::from_utf8(&answer[..end])?;
        let status = text.get(9..12).and_then(|status| status.parse().ok());
        let mut lengths = text.lines().filter_map(|line| line.strip_prefix("content-length: "));
        let length: usize = lengths.next().map_or(Ok(0), str::parse)?;
        let begin = end + 4;
        let status = status.ok_or_else(|| format!("this is no answer: {text}"))?;
        Ok(Some(Self { status, body: begin..begin + length }))
    }
}

/// Where the words begin.
fn find(text: &[u8], words: &[u8]) -> Option<usize> {
    text.windows(words.len()).position(|part| part == words)
}

/// The values of a text field in JSON, by a look that is enough for tokens, which need no escapes.
pub(crate) fn text_fields<'a>(json: &'a [u8], name: &str) -> impl Iterator<Item = &'a str> {
    let begin = format!("\"{name}\":\"");
    let mut rest = json;
    std::iter::from_fn(move || {
        rest = &rest[find(rest, begin.as_bytes())? + begin.len()..];
        std::str::from_utf8(&rest[..find(rest, b"\"")?]).ok()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_is_read_when_its_head_is_whole() {
        let answer = b"HTTP/1.1 201 Created\r\ncontent-length: 2\r\n\r\n{}";
        for length in 0..answer.len() - 2 {
            assert_eq!(Head::read(&answer[..length]).expect("well-formed"), None, "{length}");
        }
        let head = Head::read(answer).expect("well-formed").expect("whole");
        assert_eq!((head.status, &answer[head.body]), (201, b"{}".as_slice()));
        let head = Head::read(b"HTTP/1.1 204 No Content\r\nx: y\r\n\r\n").expect("well-formed");
        assert_eq!(head.map(|head| head.body.len()), Some(0));
    }

    #[test]
    fn fields_are_found_by_name() {
        let json = br#"{"tasks":[{"task_token":"a","x":"b"},{"task_token":"c"}]}"#;
        assert_eq!(text_fields(json, "task_token").collect::<Vec<_>>(), ["a", "c"]);
    }
}
