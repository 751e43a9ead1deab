//! The task a request is about: its token stands in a header or in the body.

use std::sync::Arc;

use axum::extract::FromRequestParts;
use axum::http::request::Parts;
use ff_api::headers;
use ff_api::task::handle_of;
use ff_core::backend::Handle;
use ff_core::error::EngineError;

use super::header;
use crate::app::App;
use crate::refusal::Refusal;

/// The token in the header, if there is one.
pub(crate) struct TaskHeader(pub(crate) Option<String>);

impl FromRequestParts<Arc<App>> for TaskHeader {
    type Rejection = Refusal;

    async fn from_request_parts(parts: &mut Parts, _: &Arc<App>) -> Result<Self, Refusal> {
        header(&parts.headers, headers::TASK).map(|token| Self(token.map(str::to_owned)))
    }
}

/// The task that header and body agree on.
pub(crate) fn handle(
    app: &App,
    TaskHeader(in_header): TaskHeader,
    in_body: Option<String>,
) -> Result<Handle, Refusal> {
    let token = match (in_header, in_body) {
        (Some(one), Some(other)) if one != other => {
            let rule = "must be the same in the header and in the body, or stand in one of them";
            return Err(Refusal::invalid("task_token", rule));
        }
        (Some(token), _) | (None, Some(token)) => token,
        (None, None) => {
            let rule = "must be given, in the body or in the header FlowFabric-Task";
            return Err(Refusal::invalid("task_token", rule));
        }
    };
    let handle = handle_of(&token)?;
    handle.execution_id.check(&app.partitions()).map_err(EngineError::from)?;
    Ok(handle)
}
