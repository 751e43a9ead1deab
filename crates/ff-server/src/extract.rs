//! Reads the parts of a request, and names the part and the rule if one is broken.

mod json;
mod path;
mod query;
mod rule;
mod target;
mod task;

pub(crate) use json::{Asked, bulk, parse_json};
pub(crate) use query::parse_form;
pub(crate) use target::{On, Target};
pub(crate) use task::{TaskHeader, handle};

use axum::http::HeaderMap;

use crate::refusal::Refusal;

/// The text of a header, if it is there.
pub(crate) fn header<'a>(headers: &'a HeaderMap, name: &str) -> Result<Option<&'a str>, Refusal> {
    let mut values = headers.get_all(name).into_iter();
    let Some(value) = values.next() else { return Ok(None) };
    if values.next().is_some() {
        return Err(Refusal::invalid(name, "must be given once"));
    }
    let text = std::str::from_utf8(value.as_bytes());
    text.map(Some).map_err(|_| Refusal::invalid(name, "must be UTF-8"))
}

/// Long texts of a client are not repeated to it in full.
pub(crate) fn shorten(mut text: String) -> String {
    const SHOWN_BYTES: usize = 400;
    if text.len() > SHOWN_BYTES {
        let cut = (0..=SHOWN_BYTES).rev().find(|at| text.is_char_boundary(*at)).unwrap_or(0);
        text.truncate(cut);
        text.push('…');
    }
    text
}
