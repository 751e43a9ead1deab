//! Approvals: links for approvers, and what is behind a link.

use std::sync::Arc;

use axum::body::Body;
use axum::extract::{Request, State};
use axum::http::header::HeaderMap;
use axum::http::{Response, StatusCode};
use axum::response::IntoResponse as _;
use ff_api::approval::{
    ApprovalLink, ApprovalLinks, DecideByLink, LinkKeyRotated, LinkText, LinkView,
    MakeApprovalLinks, ReadLink, RotateLinkKey,
};
use ff_api::problem::{HttpCode, Problem};
use ff_core::argument::check_range;
use ff_core::contracts::{
    Approval, ApprovalDecision, DecisionOutcome, LinkKey, LinkKeys, ListApprovals, NewDecision,
};
use ff_core::error::{Code, EngineError};
use ff_core::limits;
use ff_core::operation::{Operation as _, fill};
use ff_core::types::{Approver, ExecutionId, TimestampMs, WaitpointId};

use crate::answer::{Answered, Json, ok};
use crate::app::App;
use crate::approval::{self, Link, signed, verified, wants_page};
use crate::body::{self, Kind};
use crate::extract::{Asked, On, parse_form, parse_json};
use crate::refusal::Refusal;
use crate::route::{Route, direct, json, raw};

/// How long links are good for on a wait that does not end by itself.
const LINK_TTL_MS: u64 = 7 * 86_400_000;

pub(super) fn routes() -> Vec<Route> {
    vec![
        direct::<ListApprovals, _>(|engine, id, _| engine.list_approvals(id)),
        json::<MakeApprovalLinks, _, _>(make_links),
        raw::<ReadLink, _, _>(show).answers_page::<LinkView>(ReadLink::ANSWERS).tokenless(),
        raw::<DecideByLink, _, _>(decide)
            .or_form()
            .answers_page::<LinkView>(DecideByLink::ANSWERS)
            .tokenless(),
        json::<RotateLinkKey, _, _>(rotate),
    ]
}

async fn make_links(
    State(app): State<Arc<App>>,
    On(execution_id, name): On<ExecutionId>,
    Asked(request, _): Asked<MakeApprovalLinks>,
) -> Answered<ApprovalLinks> {
    let listed = app.backend.list_approvals(execution_id).await;
    let listed = listed.map_err(|error| Refusal::from(error).advise(name))?;
    let approval = wanted(listed.approvals, request.waitpoint_id)?;
    let approvers = approvers(&approval, request.approvers)?;
    let (now, key) = signing_key(&app).await?;
    let expires_at = expiry(&approval, request.expires_in_ms, now)?;
    let waitpoint_id = approval.waitpoint_id;
    let Some(public_url) = &app.public_url else {
        return Err(Problem::new(HttpCode::NoPublicUrl, "").into());
    };
    let links = approvers.into_iter().map(|approver| {
        let link = Link { execution_id, waitpoint_id, approver: approver.clone(), expires_at };
        let url = public_url.join(&fill(ReadLink::PATH, signed(&link, &key)));
        ApprovalLink { approver, url }
    });
    ok(ApprovalLinks { waitpoint_id, expires_at, links: links.collect() })
}

/// The open approval that links are wanted for: the one on this waitpoint, or the latest.
fn wanted(approvals: Vec<Approval>, on: Option<WaitpointId>) -> Result<Approval, Refusal> {
    let is_wanted = |one: &Approval| on.is_none_or(|id| one.waitpoint_id == id);
    match approvals.into_iter().rev().find(is_wanted) {
        Some(approval) if approval.open => Ok(approval),
        Some(_) => Err(EngineError::refused(Code::WaitpointClosed).into()),
        None if on.is_some() => Err(EngineError::refused(Code::WaitpointNotFound).into()),
        None => Err(Problem::new(HttpCode::NothingToApprove, "").into()),
    }
}

/// Those who are to have links: all that are asked, or some of them.
fn approvers(approval: &Approval, named: Vec<Approver>) -> Result<Vec<Approver>, Refusal> {
    let asked = &approval.request;
    let all = if named.is_empty() { asked.approvers.clone() } else { named };
    let rule = match all.iter().find(|approver| !asked.asks(approver)) {
        _ if all.is_empty() => "must be given: the suspension names none".to_owned(),
        _ if all.len() as u64 > limits::APPROVERS_MAX => {
            format!("must be at most {}", limits::APPROVERS_MAX)
        }
        Some(stranger) => format!("must be among those whom the suspension names, not {stranger}"),
        None => return Ok(all),
    };
    Err(Refusal::invalid("approvers", rule))
}

fn expiry(
    approval: &Approval,
    expires_in_ms: Option<u64>,
    now: TimestampMs,
) -> Result<TimestampMs, EngineError> {
    if let Some(expires_in_ms) = expires_in_ms {
        check_range("expires_in_ms", expires_in_ms, 1..=limits::LINK_TTL_MS_MAX)?;
        return Ok(now.plus_millis(expires_in_ms));
    }
    Ok(approval.closes_at.unwrap_or_else(|| now.plus_millis(LINK_TTL_MS)))
}

/// The key that signs, made on first use, and the store's time.
async fn signing_key(app: &App) -> Result<(TimestampMs, LinkKey), EngineError> {
    let keys = app.backend.link_keys().await?;
    if let Some(found) = current(keys) {
        return Ok(found);
    }
    app.backend.rotate_link_key(None, 0, true).await?;
    let damaged = || EngineError::corrupt("keys of approval links", "current", "");
    current(app.backend.link_keys().await?).ok_or_else(damaged)
}

fn current(keys: LinkKeys) -> Option<(TimestampMs, LinkKey)> {
    let kid = keys.current_kid?;
    keys.keys.into_iter().find(|key| key.kid == kid).map(|key| (keys.now, key))
}

async fn rotate(
    State(app): State<Arc<App>>,
    Asked(request, _): Asked<RotateLinkKey>,
) -> Answered<LinkKeyRotated> {
    let grace_ms = request.grace_ms.unwrap_or(app.grace_ms);
    check_range("grace_ms", grace_ms, 0..=limits::DELAY_MS_MAX)?;
    let kid = app.backend.rotate_link_key(request.new_kid, grace_ms, false).await?;
    ok(LinkKeyRotated { kid })
}

/// Shows what is asked, or what was decided. Never decides.
async fn show(
    State(app): State<Arc<App>>,
    link: Result<On<LinkText>, Refusal>,
    headers: HeaderMap,
) -> Response<Body> {
    respond(shown(&app, link).await, wants_page(&headers))
}

async fn shown(app: &App, link: Result<On<LinkText>, Refusal>) -> Result<Shown, Refusal> {
    let (link, approval) = read(app, &link?.0).await?;
    let view = view(&link, approval);
    match view.open || view.decision.is_some() {
        true => Ok(Shown::of(view)),
        false => Err(Problem::new(HttpCode::ApprovalClosed, "").into()),
    }
}

async fn decide(
    State(app): State<Arc<App>>,
    link: Result<On<LinkText>, Refusal>,
    request: Request,
) -> Response<Body> {
    let page = wants_page(request.headers());
    respond(decision(&app, link, request).await, page)
}

async fn decision(
    app: &App,
    link: Result<On<LinkText>, Refusal>,
    request: Request,
) -> Result<Shown, Refusal> {
    let On(text, _) = link?;
    let choice = chosen(app, request).await?;
    let (link, approval) = read(app, &text).await?;
    if !approval.request.offered().iter().any(|offered| offered.signal == choice) {
        return Err(Refusal::invalid("choice", "must be the signal of one of the choices"));
    }
    let decision = NewDecision {
        waitpoint_id: link.waitpoint_id,
        approver: link.approver.clone(),
        signal: choice.clone(),
    };
    let outcome = app.backend.record_decision(link.execution_id, decision).await;
    let (DecisionOutcome::Taken(made) | DecisionOutcome::Stands(made)) =
        outcome.map_err(of_link)?;
    let view = after(view(&link, reread(app, &link).await?), &made);
    Ok(if made.signal == choice { Shown::Decided(view) } else { Shown::Stands(view) })
}

/// What the page's form or a program sent.
async fn chosen(app: &App, request: Request) -> Result<String, Refusal> {
    let (parts, body) = request.into_parts();
    let kind = body::kind(&parts.headers);
    if kind == Kind::Other && !body::is_form(&parts.headers) || kind == Kind::Unsaid {
        return Err(body::not_form());
    }
    let whole = body::read(app, &parts.headers, body, DecideByLink::BODY_BYTES_MAX).await?;
    let decide: DecideByLink = match kind {
        Kind::Json => parse_json(&whole.bytes)?,
        _ => parse_form(&whole.bytes)?,
    };
    Ok(decide.choice)
}

/// What a link says, and the approval that it leads to.
async fn read(app: &App, LinkText(text): &LinkText) -> Result<(Link, Approval), Refusal> {
    let keys = app.backend.link_keys().await?;
    let link = verified(text, &keys).ok_or_else(nowhere)?;
    if link.expires_at <= keys.now {
        return Err(Problem::new(HttpCode::LinkExpired, "").into());
    }
    let approval = reread(app, &link).await?;
    Ok((link, approval))
}

async fn reread(app: &App, link: &Link) -> Result<Approval, Refusal> {
    let approval = app.backend.read_approval(link.execution_id, link.waitpoint_id).await;
    approval.map_err(of_link)
}

fn nowhere() -> Refusal {
    Problem::new(HttpCode::LinkNotFound, "").into()
}

/// What refuses a decision, in the words of a link: whose execution is gone leads nowhere.
fn of_link(error: EngineError) -> Refusal {
    match error.code() {
        Some(Code::WaitpointNotFound | Code::PartitionMismatch) => nowhere(),
        Some(Code::WaitpointClosed | Code::TargetNotSignalable) => {
            Problem::new(HttpCode::ApprovalClosed, "").into()
        }
        _ => error.into(),
    }
}

/// What an approver may know: what others decided only after having decided.
fn view(link: &Link, approval: Approval) -> LinkView {
    let decision = approval.decision_of(&link.approver).cloned();
    let choices = approval.request.offered();
    LinkView {
        approver: link.approver.clone(),
        question: approval.request.question,
        subject: approval.request.subject,
        choices,
        requested_by: approval.requested_by,
        open: approval.open,
        expires_at: link.expires_at,
        decisions: if decision.is_some() { approval.decisions } else { Vec::new() },
        decision,
    }
}

/// The same with a decision that was made in between, if the read went before it.
fn after(view: LinkView, made: &ApprovalDecision) -> LinkView {
    LinkView { decision: view.decision.or_else(|| Some(made.clone())), ..view }
}

/// What an approver sees.
enum Shown {
    Question(LinkView),
    Decided(LinkView),
    Stands(LinkView),
}

impl Shown {
    fn of(view: LinkView) -> Self {
        if view.decision.is_some() { Self::Decided(view) } else { Self::Question(view) }
    }

    fn page(&self) -> Response<Body> {
        match self {
            Self::Question(view) => approval::question(view),
            Self::Decided(view) => approval::decided(view),
            Self::Stands(view) => approval::stands(view),
        }
    }

    fn json(self) -> Response<Body> {
        match self {
            Self::Question(view) | Self::Decided(view) => {
                Json(StatusCode::OK, view).into_response()
            }
            Self::Stands(view) => decided_otherwise(&view).into_response(),
        }
    }
}

fn decided_otherwise(view: &LinkView) -> Refusal {
    let first = view.decision.as_ref().map(|made| made.signal.clone()).unwrap_or_default();
    Problem::new(HttpCode::DecisionStands, format!("the first decision was {first}")).into()
}

fn respond(answer: Result<Shown, Refusal>, page: bool) -> Response<Body> {
    let mut response = match answer {
        Ok(shown) if page => shown.page(),
        Ok(shown) => shown.json(),
        Err(refusal) => return approval::refuse(refusal, page),
    };
    approval::protect(response.headers_mut());
    response
}
