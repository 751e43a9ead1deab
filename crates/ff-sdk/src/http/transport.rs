//! One pooled HTTP client: sends a request, reads the whole answer, and says how far it got. Time
//! limits are about silence: bytes that come or go, however slowly, are a sign of life.

use std::convert::Infallible;
use std::fmt;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;

use http::header::{AUTHORIZATION, HeaderMap, HeaderValue, USER_AGENT};
use http::{Request, Response, StatusCode};
use http_body_util::BodyExt as _;
use hyper::body::{Body, Bytes, Frame, Incoming, SizeHint};
use hyper_rustls::HttpsConnector;
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::{TokioExecutor, TokioTimer};
use tokio::time::{Instant, sleep_until};

use super::addresses::Addresses;
use super::tls;
use crate::backend_config::ServerConnection;
use crate::error::{HttpError, HttpErrorKind, SdkError};

const CONNECT_TIMEOUT: Duration = Duration::from_secs(2);
/// Shorter than servers keep a silent connection, so that few are found dead.
const IDLE_TIMEOUT: Duration = Duration::from_secs(15);
/// A claim of many tasks with large payloads; more is not read.
const ANSWER_BYTES_MAX: usize = 256 << 20;
/// How much of a request is handed over at a time.
const CHUNK_BYTES: usize = 64 << 10;
/// What the client and the system may hold back of a request: what they swallowed counts as sent,
/// and must be through before the silence is too long. The system takes twice what it is told.
const CLIENT_BUFFER_BYTES: usize = 64 << 10;
const SEND_BUFFER_BYTES: usize = 128 << 10;
const AGENT: &str = concat!("flowfabric-sdk/", env!("CARGO_PKG_VERSION"));

/// A client of a deployment's servers. Cheap to clone; connections are shared.
#[derive(Clone)]
pub(crate) struct HttpClient {
    client: Client<HttpsConnector<HttpConnector>, Upload>,
    addresses: Addresses,
    authorization: Option<HeaderValue>,
}

/// A request, without what all requests have in common.
pub(crate) struct Sent<'a> {
    pub(crate) method: http::Method,
    /// Path and query.
    pub(crate) path: &'a str,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Bytes,
    /// How long the server may be silent.
    pub(crate) limit: Duration,
}

/// An answer, whatever its status.
pub(crate) struct Answered {
    pub(crate) status: StatusCode,
    pub(crate) body: Bytes,
}

impl HttpClient {
    /// A client for this address; wrong settings are reported by context and field.
    pub(crate) fn new(
        context: &str,
        url_field: &'static str,
        server: &ServerConnection,
    ) -> Result<Self, SdkError> {
        let addresses = Addresses::parse(&server.url)
            .map_err(|rule| SdkError::config(context, url_field, rule))?;
        let authorization = server
            .token()
            .map(bearer)
            .transpose()
            .map_err(|rule| SdkError::config(context, "bearer_token", rule))?;
        let connector = tls::connector(plain(), addresses.any_is_secure(), server.authorities())
            .map_err(|error| SdkError::config(context, "ca", error))?;
        let client = Client::builder(TokioExecutor::new())
            .pool_timer(TokioTimer::new())
            .pool_idle_timeout(IDLE_TIMEOUT)
            .http1_max_buf_size(CLIENT_BUFFER_BYTES)
            .build(connector);
        Ok(Self { client, addresses, authorization })
    }

    /// Sends a request and reads the whole answer.
    pub(crate) async fn send(&self, sent: Sent<'_>) -> Result<Answered, HttpError> {
        let limit = sent.limit;
        let heard = Heard::now();
        let (number, base) = self.addresses.current();
        let request = self.request(sent, base, &heard)?;
        let answered = tokio::select! {
            answered = self.exchange(request, base, &heard) => answered,
            () = heard.silence_of(limit) => Err(silent(base, limit)),
        };
        self.leave_if_gone(number, answered)
    }

    /// A server that does not answer, or says that it will not any more, is not asked again while
    /// there is another one.
    fn leave_if_gone(
        &self,
        number: usize,
        answered: Result<Answered, HttpError>,
    ) -> Result<Answered, HttpError> {
        let gone = match &answered {
            Ok(answered) => answered.status == StatusCode::SERVICE_UNAVAILABLE,
            Err(error) => error.kind != HttpErrorKind::Malformed,
        };
        if gone {
            self.addresses.leave(number);
        }
        answered
    }

    /// Sends a request whose answer is read as it comes. The server may be silent for the limit
    /// before it answers.
    pub(crate) async fn open(&self, sent: Sent<'_>) -> Result<Response<Incoming>, HttpError> {
        let (limit, heard) = (sent.limit, Heard::now());
        let (number, base) = self.addresses.current();
        let asking = self.ask(self.request(sent, base, &heard)?, base);
        let asked = tokio::time::timeout(limit, asking).await;
        let asked = asked.unwrap_or_else(|_| Err(silent(base, limit)));
        if asked.is_err() {
            self.addresses.leave(number);
        }
        asked
    }

    /// Reads an answer to its end.
    pub(crate) async fn finish(
        &self,
        answer: Response<Incoming>,
        limit: Duration,
    ) -> Result<Answered, HttpError> {
        let (status, heard) = (answer.status(), Heard::now());
        let base = self.addresses.current().1;
        let reading = read(answer.into_body(), base, &heard);
        let silent = |_| HttpError::new(HttpErrorKind::Timeout, format!("{base} is slow"));
        let body = tokio::time::timeout(limit, reading).await.map_err(silent)??;
        Ok(Answered { status, body })
    }

    fn request(
        &self,
        sent: Sent<'_>,
        base: &str,
        heard: &Heard,
    ) -> Result<Request<Upload>, HttpError> {
        let uri = format!("{base}{}", sent.path);
        let mut request = Request::new(Upload { rest: sent.body, heard: heard.clone() });
        *request.method_mut() = sent.method;
        *request.uri_mut() =
            uri.parse().map_err(|error| HttpError::new(HttpErrorKind::Malformed, error))?;
        *request.headers_mut() = sent.headers;
        let headers = request.headers_mut();
        headers.insert(USER_AGENT, HeaderValue::from_static(AGENT));
        if let Some(authorization) = &self.authorization {
            headers.insert(AUTHORIZATION, authorization.clone());
        }
        Ok(request)
    }

    async fn exchange(
        &self,
        request: Request<Upload>,
        base: &str,
        heard: &Heard,
    ) -> Result<Answered, HttpError> {
        let answer = self.ask(request, base).await?;
        heard.note();
        let status = answer.status();
        let body = read(answer.into_body(), base, heard).await?;
        Ok(Answered { status, body })
    }

    async fn ask(
        &self,
        request: Request<Upload>,
        base: &str,
    ) -> Result<Response<Incoming>, HttpError> {
        self.client.request(request).await.map_err(|error| {
            if let Some((kind, said)) = tls::explain(&error) {
                return HttpError::new(kind, format!("{base}: {said}"));
            }
            let kind =
                if error.is_connect() { HttpErrorKind::Connect } else { HttpErrorKind::Broken };
            HttpError::new(kind, format!("{base}: {}", Causes(&error)))
        })
    }
}

fn silent(base: &str, limit: Duration) -> HttpError {
    HttpError::new(HttpErrorKind::Timeout, format!("{base} was silent for {limit:?}"))
}

async fn read(mut body: Incoming, base: &str, heard: &Heard) -> Result<Bytes, HttpError> {
    let announced = usize::try_from(body.size_hint().lower()).unwrap_or(usize::MAX);
    let mut bytes = Vec::with_capacity(announced.min(ANSWER_BYTES_MAX));
    while let Some(frame) = body.frame().await {
        let frame = frame.map_err(|error| {
            let message = format!("{base}: {}", Causes(&error));
            HttpError::new(HttpErrorKind::Broken, message)
        })?;
        heard.note();
        if let Ok(data) = frame.into_data() {
            bytes.extend_from_slice(&data);
        }
        if bytes.len() > ANSWER_BYTES_MAX {
            let message = format!("{base} answers more than {ANSWER_BYTES_MAX} bytes");
            return Err(HttpError::new(HttpErrorKind::Malformed, message));
        }
    }
    Ok(bytes.into())
}

/// When the other side last gave a sign of life.
#[derive(Clone)]
struct Heard(Arc<Mutex<Instant>>);

impl Heard {
    fn now() -> Self {
        Self(Arc::new(Mutex::new(Instant::now())))
    }

    fn note(&self) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Instant::now();
    }

    fn last(&self) -> Instant {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns when there was none for so long.
    async fn silence_of(&self, limit: Duration) {
        loop {
            let over_at = self.last() + limit;
            if Instant::now() >= over_at {
                return;
            }
            sleep_until(over_at).await;
        }
    }
}

/// A request's body, handed over piece by piece: each that is taken is a sign of life.
struct Upload {
    rest: Bytes,
    heard: Heard,
}

impl Body for Upload {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        if self.rest.is_empty() {
            return Poll::Ready(None);
        }
        self.heard.note();
        let size = self.rest.len().min(CHUNK_BYTES);
        Poll::Ready(Some(Ok(Frame::data(self.rest.split_to(size)))))
    }

    fn is_end_stream(&self) -> bool {
        self.rest.is_empty()
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(self.rest.len() as u64)
    }
}

/// An error with what is behind it: the client's own words are often only "client error".
struct Causes<'a>(&'a (dyn std::error::Error + 'static));

impl fmt::Display for Causes<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self.0, f)?;
        match self.0.source() {
            Some(cause) => write!(f, ": {}", Causes(cause)),
            None => Ok(()),
        }
    }
}

fn bearer(token: &str) -> Result<HeaderValue, &'static str> {
    if token.trim().is_empty() {
        return Err("must not be blank");
    }
    let value = HeaderValue::try_from(format!("Bearer {token}"));
    let mut value = value.map_err(|_| "must consist of visible ASCII characters")?;
    value.set_sensitive(true);
    Ok(value)
}

/// How connections are made, apart from TLS.
fn plain() -> HttpConnector {
    let mut plain = HttpConnector::new();
    plain.enforce_http(false);
    plain.set_nodelay(true);
    plain.set_connect_timeout(Some(CONNECT_TIMEOUT));
    plain.set_send_buffer_size(Some(SEND_BUFFER_BYTES));
    plain
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(url: &str, token: Option<&str>) -> String {
        let server = ServerConnection::new(url, token);
        let error = HttpClient::new("admin_client", "base_url", &server).err();
        error.map(|error| error.to_string()).unwrap_or_default()
    }

    #[test]
    fn a_wrong_address_or_token_is_refused_by_name() {
        for url in ["", "localhost:7480", "ftp://host", "http://", "http://a?b", "http://u:p@host"]
        {
            let message = refused(url, None);
            assert!(message.starts_with("config: admin_client.base_url: "), "{url}: {message}");
        }
        for token in ["", " ", "a\nb", "é\u{7f}"] {
            let message = refused("http://host:1", Some(token));
            assert!(message.starts_with("config: admin_client.bearer_token: "), "{message}");
        }
        assert_eq!(refused("http://host:1/", Some("secret")), "");
        assert_eq!(refused("https://host", None), "");
    }
    /// A listener that takes little at a time, so that a request cannot hide in the system.
    fn small_listener() -> tokio::net::TcpListener {
        let socket = tokio::net::TcpSocket::new_v4().expect("a socket");
        socket.set_recv_buffer_size(64 << 10).expect("a small buffer");
        socket.bind("127.0.0.1:0".parse().expect("an address")).expect("a free port");
        socket.listen(8).expect("listens")
    }

    fn sent(body: Vec<u8>, limit: Duration) -> Sent<'static> {
        let (method, headers) = (http::Method::POST, HeaderMap::new());
        Sent { method, path: "/x", headers, body: body.into(), limit }
    }

    fn client(listener: &tokio::net::TcpListener) -> HttpClient {
        let address = listener.local_addr().expect("an address");
        let server = ServerConnection::new(format!("http://{address}"), None);
        HttpClient::new("test", "url", &server).expect("valid")
    }

    /// Both ways take several times as long as silence may last.
    #[tokio::test]
    async fn a_slow_transfer_is_no_silence() {
        use tokio::io::{AsyncReadExt, AsyncWriteExt};
        const LIMIT: Duration = Duration::from_secs(1);
        const BYTES: usize = 4 << 20;
        let listener = small_listener();
        let client = client(&listener);
        let slow = tokio::spawn(async move {
            let (mut peer, _) = listener.accept().await.expect("a client");
            let (mut read, mut buffer) = (0, vec![0; 64 << 10]);
            while read < BYTES {
                tokio::time::sleep(LIMIT / 32).await;
                read += peer.read(&mut buffer).await.expect("bytes");
            }
            let head = b"HTTP/1.1 200 OK\r\ncontent-length: 8\r\n\r\n";
            peer.write_all(head).await.expect("written");
            for byte in b"so slow!" {
                tokio::time::sleep(LIMIT / 4).await;
                peer.write_all(&[*byte]).await.expect("written");
            }
            peer
        });
        let begun = Instant::now();
        let answered = client.send(sent(vec![7; BYTES], LIMIT)).await.expect("an answer");
        assert_eq!((answered.status.as_u16(), &answered.body[..]), (200, &b"so slow!"[..]));
        assert!(begun.elapsed() > 3 * LIMIT, "it must have been slow: {:?}", begun.elapsed());
        slow.await.expect("no panic");
    }

    #[tokio::test]
    async fn silence_ends_a_call() {
        let listener = small_listener();
        let client = client(&listener);
        let error = client.send(sent(vec![7; 1 << 20], Duration::from_millis(200))).await;
        let error = error.err().expect("nobody reads it");
        assert_eq!(error.kind, HttpErrorKind::Timeout, "{error}");
    }
}
