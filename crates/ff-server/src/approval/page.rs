//! The page of a link. It needs no scripts, loads nothing, and is shown in no frame. Everything
//! that somebody wrote is escaped.

use std::time::{Duration, UNIX_EPOCH};

use axum::body::Body;
use axum::http::header::{
    CACHE_CONTROL, CONTENT_SECURITY_POLICY, HeaderMap, HeaderValue, REFERRER_POLICY, VARY,
    X_CONTENT_TYPE_OPTIONS,
};
use axum::http::{Response, StatusCode};
use ff_api::approval::LinkView;
use ff_api::headers::HTML;
use ff_api::problem::{HttpCode, Problem};
use ff_core::contracts::{ApprovalChoice, ApprovalDecision};
use ff_core::limits;
use ff_core::types::TimestampMs;

use crate::answer::with_type;

/// The only thing beside the text, and allowed by its hash: nothing that is loaded, nothing that
/// runs.
const STYLE: &str = "body{font:1.1rem/1.5 system-ui,sans-serif;margin:0;color:#1c2330;\
background:#f4f5f7}main{max-width:38rem;margin:8vh auto;padding:2rem;background:#fff;\
border-radius:.5rem}h1{font-size:1.4rem;margin:0 0 1rem}p{margin:.6rem 0}\
.subject{white-space:pre-wrap;overflow-wrap:anywhere}small{color:#5a6372}\
button{font:inherit;padding:.6rem 1.4rem;margin:1rem .6rem 0 0;border:1px solid #8a93a3;\
border-radius:.3rem;background:#fff;cursor:pointer}button:hover{background:#eef1f6}\
li{margin:.2rem 0}";

const STYLE_HASH: &str = "sha256-qzQd5OV83wBWafo4IM2km6stKWjPmygFz01Pxjt2oq4=";

/// Adds what tells browsers and those in between how to treat the answers of a link.
pub(crate) fn protect(headers: &mut HeaderMap) {
    let policy = format!(
        "default-src 'none'; style-src '{STYLE_HASH}'; form-action 'self'; \
         frame-ancestors 'none'; base-uri 'none'"
    );
    // The policy is made of printable ASCII.
    if let Ok(policy) = HeaderValue::from_str(&policy) {
        headers.insert(CONTENT_SECURITY_POLICY, policy);
    }
    for (name, value) in [
        (CACHE_CONTROL, "no-store"),
        (REFERRER_POLICY, "same-origin"),
        (X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (VARY, "accept"),
    ] {
        headers.insert(name, HeaderValue::from_static(value));
    }
}

/// Asks.
pub(crate) fn question(view: &LinkView) -> Response<Body> {
    let buttons: String = view.choices.iter().map(button).collect();
    let until = format!("<p><small>This link is good until {}.</small></p>", time(view.expires_at));
    let form = format!("<form method=\"post\">{buttons}</form>{until}");
    page(StatusCode::OK, title(view), &(about(view) + &asked_by(view) + &form))
}

/// Says what was decided.
pub(crate) fn decided(view: &LinkView) -> Response<Body> {
    page(
        StatusCode::OK,
        title(view),
        &(about(view) + "<p>Your decision is recorded.</p>" + &record(view)),
    )
}

/// Says that the first decision stands, not this one.
pub(crate) fn stands(view: &LinkView) -> Response<Body> {
    let body = about(view)
        + "<p>You have decided before, and your first decision stands.</p>"
        + &record(view);
    page(StatusCode::CONFLICT, title(view), &body)
}

/// Says why nothing can be decided.
pub(crate) fn refused(problem: &Problem) -> Response<Body> {
    let status = StatusCode::from_u16(problem.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    let title = match HttpCode::parse(&problem.code) {
        Some(HttpCode::LinkNotFound) => "This link leads nowhere",
        Some(HttpCode::LinkExpired) => "This link has expired",
        Some(HttpCode::ApprovalClosed) => "This is no longer open",
        _ => "That did not work",
    };
    page(status, title, &format!("<p>{}</p>", escaped(&problem.title)))
}

fn title(view: &LinkView) -> &str {
    if view.question.is_empty() { "An approval is asked for" } else { &view.question }
}

fn about(view: &LinkView) -> String {
    if view.subject.is_empty() {
        return String::new();
    }
    format!("<p class=\"subject\" dir=\"auto\">{}</p>", escaped(&view.subject))
}

fn asked_by(view: &LinkView) -> String {
    let by = match view.requested_by.as_str() {
        "" => String::new(),
        by => format!(" Asked by <bdi>{}</bdi>.", escaped(by)),
    };
    let whom = escaped(view.approver.as_str());
    format!("<p><small>You decide as <bdi>{whom}</bdi>.{by}</small></p>")
}

fn button(choice: &ApprovalChoice) -> String {
    let (value, label) = (escaped(&choice.signal), escaped(choice.shown()));
    format!("<button name=\"choice\" value=\"{value}\">{label}</button>")
}

/// Who decided what and when.
fn record(view: &LinkView) -> String {
    let rows: String = view.decisions.iter().map(|one| row(view, one)).collect();
    let more = if view.open { "Others have still to decide." } else { "This is now closed." };
    format!("<ul>{rows}</ul><p><small>{more}</small></p>")
}

fn row(view: &LinkView, one: &ApprovalDecision) -> String {
    let choice = view.choices.iter().find(|choice| choice.signal == one.signal);
    let what = choice.map_or(one.signal.as_str(), ApprovalChoice::shown);
    let (who, what) = (escaped(one.approver.as_str()), escaped(what));
    format!(
        "<li><bdi>{who}</bdi>: <strong><bdi>{what}</bdi></strong>, {}</li>",
        time(one.decided_at)
    )
}

/// A time for a person.
fn time(at: TimestampMs) -> String {
    let at = Duration::from_millis(at.get().min(limits::TIMESTAMP_MS_MAX));
    httpdate::fmt_http_date(UNIX_EPOCH + at)
}

fn page(status: StatusCode, title: &str, body: &str) -> Response<Body> {
    let title = escaped(title);
    let html = format!(
        "<!doctype html><html lang=\"en\"><head><meta charset=\"utf-8\">\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\
         <meta name=\"robots\" content=\"noindex\">\
         <title>{title}</title><style>{STYLE}</style></head>\
         <body><main><h1 dir=\"auto\">{title}</h1>{body}</main></body></html>\n"
    );
    with_type(status, HTML, html.into())
}

/// A text that means itself between tags and between double quotes.
pub(crate) fn escaped(text: &str) -> String {
    text.chars().fold(String::with_capacity(text.len()), |mut escaped, letter| {
        match letter {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '"' => escaped.push_str("&quot;"),
            '\'' => escaped.push_str("&#39;"),
            letter => escaped.push(letter),
        }
        escaped
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use ff_core::bytes::Base64;

    #[test]
    fn the_policy_allows_this_style_and_no_other() {
        let digest = ring::digest::digest(&ring::digest::SHA256, STYLE.as_bytes());
        let text = serde_json::to_string(&Base64(digest.as_ref().to_vec())).expect("text");
        assert_eq!(STYLE_HASH, format!("sha256-{}", text.trim_matches('"')));
    }

    #[test]
    fn what_somebody_wrote_stays_text() {
        let wrong = "<script>alert('1')</script>\"&amp;";
        let right = "&lt;script&gt;alert(&#39;1&#39;)&lt;/script&gt;&quot;&amp;amp;";
        assert_eq!(escaped(wrong), right);
    }

    #[test]
    fn a_time_is_for_a_person_and_never_too_late_to_be_one() {
        assert_eq!(time(TimestampMs::new(1_794_886_245_000)), "Tue, 17 Nov 2026 03:30:45 GMT");
        assert_eq!(time(TimestampMs::new(u64::MAX)), "Fri, 31 Dec 9999 23:59:59 GMT");
    }
}
