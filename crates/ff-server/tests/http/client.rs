//! A small blocking HTTP/1.1 client. It does what it is told, right or wrong.

use std::cell::RefCell;
use std::io::{self, BufRead, BufReader, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use serde_json::Value;

/// How long a test waits for an answer at most.
const TIME_LIMIT: Duration = Duration::from_secs(90);

/// A client of one server, with one connection that is opened again when it was closed.
pub(crate) struct Client {
    pub(crate) address: SocketAddr,
    pub(crate) token: Option<String>,
    connection: RefCell<Option<BufReader<TcpStream>>>,
}

/// An answer.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) headers: Vec<(String, String)>,
    pub(crate) body: Vec<u8>,
}

impl Answer {
    /// The value of a header.
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        let found = self.headers.iter().find(|(other, _)| other.eq_ignore_ascii_case(name));
        found.map(|(_, value)| value.as_str())
    }

    /// The body as JSON.
    #[track_caller]
    pub(crate) fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap_or_else(|error| panic!("{error}: {self:?}"))
    }

    /// The answer, if it has this status.
    #[track_caller]
    pub(crate) fn expect(self, status: u16) -> Self {
        let body = String::from_utf8_lossy(&self.body);
        assert_eq!(self.status, status, "{body}");
        self
    }

    /// The problem, if it has this status and code.
    #[track_caller]
    pub(crate) fn problem(&self, status: u16, code: &str) -> Value {
        let body = String::from_utf8_lossy(&self.body).into_owned();
        assert_eq!(self.status, status, "{body}");
        assert_eq!(self.header("content-type"), Some("application/problem+json"), "{body}");
        let problem = self.json();
        assert_eq!(problem["code"], code, "{body}");
        assert_eq!(problem["status"], status, "{body}");
        assert_eq!(problem["type"], format!("urn:flowfabric:problem:{code}"), "{body}");
        problem
    }
}

impl Client {
    pub(crate) fn new(address: SocketAddr) -> Self {
        Self { address, token: None, connection: RefCell::default() }
    }

    pub(crate) fn with_token(mut self, token: &str) -> Self {
        self.token = Some(token.to_owned());
        self
    }

    /// Another client of the same server, with a connection of its own.
    pub(crate) fn another(&self) -> Self {
        Self { token: self.token.clone(), ..Self::new(self.address) }
    }

    /// The connection that was kept after the last answer.
    pub(crate) fn kept(&self) -> Option<BufReader<TcpStream>> {
        self.connection.borrow_mut().take()
    }

    /// Opens a connection.
    pub(crate) fn connect(&self) -> io::Result<TcpStream> {
        let stream = TcpStream::connect(self.address)?;
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(TIME_LIMIT))?;
        stream.set_write_timeout(Some(TIME_LIMIT))?;
        Ok(stream)
    }

    #[track_caller]
    pub(crate) fn get(&self, path: &str) -> Answer {
        self.send("GET", path, &[], b"")
    }

    #[track_caller]
    pub(crate) fn post(&self, path: &str, body: &Value) -> Answer {
        self.json_request("POST", path, body)
    }

    #[track_caller]
    pub(crate) fn put(&self, path: &str, body: &Value) -> Answer {
        self.json_request("PUT", path, body)
    }

    #[track_caller]
    fn json_request(&self, method: &str, path: &str, body: &Value) -> Answer {
        let json = [("content-type", "application/json")];
        self.send(method, path, &json, body.to_string().as_bytes())
    }

    /// Sends anything.
    #[track_caller]
    pub(crate) fn send(
        &self,
        method: &str,
        path: &str,
        headers: &[(&str, &str)],
        body: &[u8],
    ) -> Answer {
        let sent = self.try_send(method, path, headers, body);
        sent.unwrap_or_else(|error| panic!("{method} {path}: {error}"))
    }

    /// Sends anything. A connection that the server had closed meanwhile is replaced once.
    pub(crate) fn try_send(
        &self,
        method: &str,
        path: &str,
        headers: &[(&str, &str)],
        body: &[u8],
    ) -> io::Result<Answer> {
        let request = self.encode(method, path, headers, body);
        let kept = self.connection.borrow_mut().take();
        let reused = kept.is_some();
        let mut connection = match kept {
            Some(connection) => connection,
            None => BufReader::new(self.connect()?),
        };
        let mut answer = exchange(&mut connection, &request, method);
        if reused && answer.is_err() {
            connection = BufReader::new(self.connect()?);
            answer = exchange(&mut connection, &request, method);
        }
        let answer = answer?;
        if answer.header("connection") != Some("close") {
            *self.connection.borrow_mut() = Some(connection);
        }
        Ok(answer)
    }

    fn encode(&self, method: &str, path: &str, headers: &[(&str, &str)], body: &[u8]) -> Vec<u8> {
        let mut head = format!("{method} {path} HTTP/1.1\r\nhost: {}\r\n", self.address);
        if let Some(token) = &self.token {
            head.push_str(&format!("authorization: Bearer {token}\r\n"));
        }
        for (name, value) in headers {
            head.push_str(&format!("{name}: {value}\r\n"));
        }
        if !body.is_empty() || method != "GET" {
            head.push_str(&format!("content-length: {}\r\n", body.len()));
        }
        head.push_str("\r\n");
        [head.as_bytes(), body].concat()
    }
}

fn exchange(
    connection: &mut BufReader<TcpStream>,
    request: &[u8],
    method: &str,
) -> io::Result<Answer> {
    // A server may answer, and close, before it has read everything.
    let written = connection.get_mut().write_all(request);
    let answer = read_answer(connection, method);
    if answer.is_err() {
        written?;
    }
    answer
}

/// Reads one answer.
pub(crate) fn read_answer(connection: &mut impl BufRead, method: &str) -> io::Result<Answer> {
    let status_line = read_line(connection)?;
    let broken = |what: &str| io::Error::other(format!("{what} in {status_line:?}"));
    let status = status_line.split(' ').nth(1).and_then(|word| word.parse().ok());
    let status = status.ok_or_else(|| broken("no status"))?;
    let mut headers = Vec::new();
    loop {
        let line = read_line(connection)?;
        if line.is_empty() {
            break;
        }
        let (name, value) = line.split_once(':').ok_or_else(|| broken("no colon"))?;
        headers.push((name.to_ascii_lowercase(), value.trim().to_owned()));
    }
    let mut answer = Answer { status, headers, body: Vec::new() };
    if method != "HEAD" && status != 204 {
        let length = answer.header("content-length").and_then(|text| text.parse().ok());
        answer.body = match length {
            None if answer.header("transfer-encoding") == Some("chunked") => {
                read_chunks(connection)?
            }
            length => read_bytes(connection, length.ok_or_else(|| broken("no length"))?)?,
        };
    }
    Ok(answer)
}

fn read_bytes(connection: &mut impl BufRead, length: usize) -> io::Result<Vec<u8>> {
    let mut bytes = vec![0; length];
    connection.read_exact(&mut bytes)?;
    Ok(bytes)
}

/// Reads a body that comes in pieces, each with its length in front.
fn read_chunks(connection: &mut impl BufRead) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    loop {
        let length = usize::from_str_radix(&read_line(connection)?, 16);
        let chunk = read_bytes(connection, length.map_err(io::Error::other)?)?;
        bytes.extend_from_slice(&chunk);
        read_line(connection)?;
        if chunk.is_empty() {
            return Ok(bytes);
        }
    }
}

fn read_line(connection: &mut impl BufRead) -> io::Result<String> {
    let mut line = String::new();
    if connection.read_line(&mut line)? == 0 {
        return Err(io::ErrorKind::UnexpectedEof.into());
    }
    Ok(line.trim_end_matches(['\r', '\n']).to_owned())
}

/// Percent-encodes a path's parameter.
pub(crate) fn encoded(text: &str) -> String {
    ff_core::operation::encode(text)
}
