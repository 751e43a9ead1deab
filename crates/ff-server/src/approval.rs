//! Approvals: the links by which approvers are recognised, and the page that a link leads to.
//! Whatever is answered to a link, by whomever, is a page for browsers and protected.

mod link;
mod page;

pub(crate) use link::{Link, signed, verified};
pub(crate) use page::{decided, escaped, protect, question, stands};

use axum::body::Body;
use axum::http::Response;
use axum::http::header::{ACCEPT, HeaderMap, HeaderValue};
use axum::response::IntoResponse as _;

use crate::refusal::{AnswerCode, Refusal};

/// What the paths of links begin with.
const PATHS: &str = "/approve";

/// True for the path of a link, also of one that was cut or added to.
pub(crate) fn is_link(path: &str) -> bool {
    path.starts_with(PATHS)
}

/// Browsers say that they want a page; whoever does not gets JSON.
pub(crate) fn wants_page(headers: &HeaderMap) -> bool {
    let accepts = |value: &HeaderValue| {
        String::from_utf8_lossy(value.as_bytes()).to_ascii_lowercase().contains("text/html")
    };
    headers.get_all(ACCEPT).iter().any(accepts)
}

/// Refuses a request that came by a link.
pub(crate) fn refuse(refusal: Refusal, wants_page: bool) -> Response<Body> {
    let mut response = if wants_page {
        let mut page = page::refused(refusal.problem());
        page.extensions_mut().insert(AnswerCode(refusal.problem().code.clone().into()));
        page
    } else {
        refusal.into_response()
    };
    protect(response.headers_mut());
    response
}
