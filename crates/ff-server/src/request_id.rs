//! Every request has an id: the client's own if it brings one, else one that is made. It stands in
//! the answer, in problem documents and in the access log, so that what a client saw can be found
//! in the log.

use std::sync::Arc;
use std::time::Instant;

use axum::body::Body;
use axum::extract::{Request, State};
use axum::http::header::{CONTENT_LENGTH, HeaderMap, HeaderValue};
use axum::middleware::Next;
use axum::response::Response;
use ff_api::headers::REQUEST_ID;
use ff_api::problem::Problem;

use crate::app::App;
use crate::approval;
use crate::extract::shorten;

/// A client's own id may be so long.
const BYTES_MAX: usize = 128;

/// Gives a request its id, and tells the log about it if that is wanted.
pub(crate) async fn identify(
    State(app): State<Arc<App>>,
    request: Request,
    next: Next,
) -> Response {
    let id = given(request.headers()).unwrap_or_else(|| made(&app));
    let entry = app.access_log.then(|| Entry::of(&request));
    let mut answer = next.run(request).await;
    if let Some(Told(problem)) = answer.extensions_mut().remove() {
        rewrite(&mut answer, *problem, &id);
    }
    if let Some(entry) = entry {
        entry.log(&answer, &id);
    }
    answer.headers_mut().insert(REQUEST_ID, id);
    answer
}

/// The problem that an answer tells, so that the request's id can be added to it.
#[derive(Clone)]
pub(crate) struct Told(pub(crate) Box<Problem>);

fn given(headers: &HeaderMap) -> Option<HeaderValue> {
    let id = headers.get(REQUEST_ID)?;
    let bytes = id.as_bytes();
    let fits = !bytes.is_empty() && bytes.len() <= BYTES_MAX;
    (fits && bytes.iter().all(u8::is_ascii_graphic)).then(|| id.clone())
}

fn made(app: &App) -> HeaderValue {
    let id = app.ids.ordered().to_string();
    HeaderValue::try_from(id).unwrap_or_else(|_| HeaderValue::from_static("none"))
}

fn rewrite(answer: &mut Response, mut problem: Problem, id: &HeaderValue) {
    problem.request_id = id.to_str().ok().map(str::to_owned);
    // Without its JSON form, which it always has, the answer stays as it was.
    let Ok(body) = serde_json::to_vec(&problem) else { return };
    answer.headers_mut().remove(CONTENT_LENGTH);
    *answer.body_mut() = Body::from(body);
}

/// What the access log says about a request.
struct Entry {
    method: String,
    path: String,
    begun: Instant,
}

impl Entry {
    /// The path without its query, which may hold what is nobody else's business; a link's path is
    /// a secret itself.
    #[allow(clippy::disallowed_methods, reason = "how long a request took is only told")]
    fn of(request: &Request) -> Self {
        let path = request.uri().path();
        let path = if approval::is_link(path) { "/approve/…" } else { path };
        let method = shorten(request.method().to_string());
        Self { method, path: shorten(path.to_owned()), begun: Instant::now() }
    }

    fn log(&self, answer: &Response, id: &HeaderValue) {
        tracing::info!(
            target: "access",
            method = self.method,
            path = self.path,
            status = answer.status().as_u16(),
            took_ms = u64::try_from(self.begun.elapsed().as_millis()).unwrap_or(u64::MAX),
            request_id = id.to_str().unwrap_or_default(),
        );
    }
}
