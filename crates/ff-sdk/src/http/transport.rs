//! One pooled HTTP client: sends a request, reads the whole answer, and says how far it got.

use std::fmt;
use std::time::Duration;

use http::header::{AUTHORIZATION, HeaderMap, HeaderValue, USER_AGENT};
use http::{Request, StatusCode, Uri};
use http_body_util::{BodyExt as _, Full, Limited};
use hyper::body::Bytes;
use hyper_rustls::HttpsConnector;
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::{TokioExecutor, TokioTimer};
use tokio::time::timeout;

use crate::error::{HttpError, HttpErrorKind, SdkError};

const CONNECT_TIMEOUT: Duration = Duration::from_secs(2);
/// Shorter than servers keep a silent connection, so that few are found dead.
const IDLE_TIMEOUT: Duration = Duration::from_secs(15);
/// A claim of many tasks with large payloads; more is not read.
const ANSWER_BYTES_MAX: usize = 256 << 20;
const AGENT: &str = concat!("flowfabric-sdk/", env!("CARGO_PKG_VERSION"));

/// A client of one server. Cheap to clone; connections are shared.
#[derive(Clone)]
pub(crate) struct HttpClient {
    client: Client<HttpsConnector<HttpConnector>, Full<Bytes>>,
    base: String,
    authorization: Option<HeaderValue>,
}

/// A request, without what all requests have in common.
pub(crate) struct Sent<'a> {
    pub(crate) method: http::Method,
    /// Path and query.
    pub(crate) path: &'a str,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Bytes,
    /// How long the answer may take.
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
        url: &str,
        token: Option<&str>,
    ) -> Result<Self, SdkError> {
        let base = url.trim_end_matches('/').to_owned();
        check_url(&base).map_err(|rule| SdkError::config(context, url_field, rule))?;
        let authorization = token
            .map(bearer)
            .transpose()
            .map_err(|rule| SdkError::config(context, "bearer_token", rule))?;
        let client = Client::builder(TokioExecutor::new())
            .pool_timer(TokioTimer::new())
            .pool_idle_timeout(IDLE_TIMEOUT)
            .build(connector(&base).map_err(|error| SdkError::config(context, "tls", error))?);
        Ok(Self { client, base, authorization })
    }

    /// Sends a request and reads the whole answer.
    pub(crate) async fn send(&self, sent: Sent<'_>) -> Result<Answered, HttpError> {
        let limit = sent.limit;
        let request = self.request(sent)?;
        match timeout(limit, self.exchange(request)).await {
            Ok(answered) => answered,
            Err(_) => {
                let message = format!("{} did not answer within {limit:?}", self.base);
                Err(HttpError::new(HttpErrorKind::Timeout, message))
            }
        }
    }

    fn request(&self, sent: Sent<'_>) -> Result<Request<Full<Bytes>>, HttpError> {
        let uri = format!("{}{}", self.base, sent.path);
        let mut request = Request::new(Full::new(sent.body));
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

    async fn exchange(&self, request: Request<Full<Bytes>>) -> Result<Answered, HttpError> {
        let answer = self.client.request(request).await.map_err(|error| {
            let kind =
                if error.is_connect() { HttpErrorKind::Connect } else { HttpErrorKind::Broken };
            HttpError::new(kind, format!("{}: {}", self.base, Causes(&error)))
        })?;
        let status = answer.status();
        let body = Limited::new(answer.into_body(), ANSWER_BYTES_MAX).collect().await;
        let body = body.map_err(|error| {
            HttpError::new(HttpErrorKind::Broken, format!("{}: {error}", self.base))
        })?;
        Ok(Answered { status, body: body.to_bytes() })
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

fn check_url(url: &str) -> Result<(), String> {
    let rule = || "must look like http://host:7480 or https://host".to_owned();
    let uri: Uri = url.parse().map_err(|_| rule())?;
    let known = matches!(uri.scheme_str(), Some("http" | "https"));
    let host = uri.host().is_some_and(|host| !host.is_empty());
    let plain =
        uri.query().is_none() && uri.authority().is_some_and(|it| !it.as_str().contains('@'));
    if known && host && plain { Ok(()) } else { Err(rule()) }
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

/// The system's certificates are read only where they are needed.
fn connector(base: &str) -> Result<HttpsConnector<HttpConnector>, std::io::Error> {
    let mut plain = HttpConnector::new();
    plain.enforce_http(false);
    plain.set_nodelay(true);
    plain.set_connect_timeout(Some(CONNECT_TIMEOUT));
    let provider = rustls::crypto::ring::default_provider();
    let builder = hyper_rustls::HttpsConnectorBuilder::new();
    let builder = if base.starts_with("https:") {
        builder.with_provider_and_native_roots(provider)?
    } else {
        builder.with_tls_config(trust_nobody(provider)?)
    };
    Ok(builder.https_or_http().enable_http1().wrap_connector(plain))
}

fn trust_nobody(
    provider: rustls::crypto::CryptoProvider,
) -> Result<rustls::ClientConfig, std::io::Error> {
    let builder = rustls::ClientConfig::builder_with_provider(provider.into());
    let builder = builder.with_safe_default_protocol_versions().map_err(std::io::Error::other)?;
    let none = rustls::RootCertStore::empty();
    Ok(builder.with_root_certificates(none).with_no_client_auth())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(url: &str, token: Option<&str>) -> String {
        let error = HttpClient::new("admin_client", "base_url", url, token).err();
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
}
