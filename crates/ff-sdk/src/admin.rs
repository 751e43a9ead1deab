//! The server's API for those who schedule through it, or look after what waits: a worker asks for
//! a reservation and turns it into a lease by itself; an operator makes links for approvers.

mod approvals;

use std::time::Duration;

use ff_api::grant::{ClaimForWorker, Grant};
use ff_api::problem::Problem;
use ff_core::capability::CapabilitySet;
use ff_core::contracts::{
    DeliverSignal, NextGrant, RotateWaitpointSecretRequest, RotateWaitpointSecretResponse,
    SignalOutcome,
};
use ff_core::operation::{self, Nothing, Operation};
use ff_core::types::{ExecutionRef, LaneId, WorkerId, WorkerInstanceId};
use http::header::{CONTENT_TYPE, HeaderMap, HeaderValue};
use http::{Method, StatusCode};
use serde::de::DeserializeOwned;

use crate::error::SdkError;
use crate::http::{Answered, HttpClient, Sent};
use crate::task::ClaimedTask;
use crate::worker::FlowFabricWorker;

/// Longer than a server may take, so that its own answer wins.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(130);

const CONTEXT: &str = "admin_client";

/// A client of a server's API. Cheap to clone; connections are shared.
///
/// ```
/// use ff_sdk::FlowFabricAdminClient;
///
/// let admin = FlowFabricAdminClient::with_token("http://localhost:7480", "secret")?;
/// # let _ = admin;
/// # Ok::<(), ff_sdk::SdkError>(())
/// ```
#[derive(Clone)]
pub struct FlowFabricAdminClient {
    client: HttpClient,
}

impl FlowFabricAdminClient {
    /// A client of a server without a token.
    pub fn new(base_url: impl AsRef<str>) -> Result<Self, SdkError> {
        Ok(Self { client: HttpClient::new(CONTEXT, "base_url", base_url.as_ref(), None)? })
    }

    /// A client of a server that wants a bearer token.
    pub fn with_token(base_url: impl AsRef<str>, token: impl AsRef<str>) -> Result<Self, SdkError> {
        let (base_url, token) = (base_url.as_ref(), Some(token.as_ref()));
        Ok(Self { client: HttpClient::new(CONTEXT, "base_url", base_url, token)? })
    }

    /// Asks the server to reserve the next execution of a lane for a worker; none if there is none.
    pub async fn claim_for_worker(
        &self,
        request: ClaimForWorkerRequest,
    ) -> Result<Option<ClaimForWorkerResponse>, SdkError> {
        let wrong = |field, error: String| SdkError::config("claim_for_worker", field, error);
        let body = ClaimForWorker {
            lane_id: request.lane_id,
            worker_instance_id: request.worker_instance_id,
            capabilities: CapabilitySet::try_new(request.capabilities)
                .map_err(|error| wrong("capabilities", error.to_string()))?,
            grant_ttl_ms: request.grant_ttl_ms,
        };
        let path = operation::fill(ClaimForWorker::PATH, &request.worker_id);
        let body = serde_json::to_vec(&body).map_err(|error| wrong("body", error.to_string()))?;
        let answered = self.send(Method::POST, &path, &path, body).await?;
        match answered.status {
            StatusCode::NO_CONTENT => Ok(None),
            status if status.is_success() => read(&answered).map(Some),
            _ => Err(refused(&answered)),
        }
    }

    /// Makes a key the one that signs waitpoint tokens, in all partitions. It can be repeated, and
    /// carries on where a partition could not be reached.
    pub async fn rotate_waitpoint_secret(
        &self,
        request: RotateWaitpointSecretRequest,
    ) -> Result<RotateWaitpointSecretResponse, SdkError> {
        self.operate::<RotateWaitpointSecretRequest>(Nothing {}, &request).await
    }

    /// Gives a signal to a waitpoint. Its token is the right to do so: the client needs none.
    pub async fn deliver_signal(
        &self,
        execution: impl Into<ExecutionRef>,
        signal: DeliverSignal,
    ) -> Result<SignalOutcome, SdkError> {
        let path = operation::fill(DeliverSignal::PATH, execution.into());
        self.operate_at::<DeliverSignal>(&path, &signal).await
    }

    /// An operation by its row. Errors name the path without what it is about: that may be a link.
    async fn operate<O: Operation>(
        &self,
        target: O::Target,
        request: &O::Request,
    ) -> Result<O::Reply, SdkError> {
        self.operate_at::<O>(&operation::fill(O::PATH, target), request).await
    }

    async fn operate_at<O: Operation>(
        &self,
        path: &str,
        request: &O::Request,
    ) -> Result<O::Reply, SdkError> {
        let (method, body) = match O::METHOD {
            operation::Method::Get => (Method::GET, Vec::new()),
            operation::Method::Post => (Method::POST, body::<O>(request)?),
            operation::Method::Put => (Method::PUT, body::<O>(request)?),
        };
        let answered = self.send(method, path, O::PATH, body).await?;
        if answered.status.is_success() { read(&answered) } else { Err(refused(&answered)) }
    }

    /// Sends a request; errors show the path like this.
    async fn send(
        &self,
        method: Method,
        path: &str,
        shown: &str,
        body: Vec<u8>,
    ) -> Result<Answered, SdkError> {
        let json = HeaderValue::from_static(ff_api::headers::JSON);
        let context = format!("{method} {shown}");
        let sent = Sent {
            method,
            path,
            headers: HeaderMap::from_iter([(CONTENT_TYPE, json)]),
            body: body.into(),
            limit: ANSWER_TIMEOUT,
        };
        let answered = self.client.send(sent).await;
        answered.map_err(|source| SdkError::Http { source, context })
    }
}

/// Who wants work, and from where.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClaimForWorkerRequest {
    /// The kind of worker.
    pub worker_id: WorkerId,
    /// The lane to take from.
    pub lane_id: LaneId,
    /// The process.
    pub worker_instance_id: WorkerInstanceId,
    /// What the worker can do.
    pub capabilities: Vec<String>,
    /// How long the reservation lasts.
    pub grant_ttl_ms: u64,
}

/// A reservation as the server answers it.
pub type ClaimForWorkerResponse = Grant;

impl FlowFabricWorker {
    /// Asks a server for the next execution of a lane, and claims it. None if there is none.
    /// Capacity is reserved first, so that a worker without room does not hold work back.
    pub async fn claim_via_server(
        &self,
        admin: &FlowFabricAdminClient,
        lane: &LaneId,
        grant_ttl_ms: u64,
    ) -> Result<Option<ClaimedTask>, SdkError> {
        let permit = self.reserve()?;
        let config = self.config();
        let request = ClaimForWorkerRequest {
            worker_id: config.worker_id.clone(),
            lane_id: lane.clone(),
            worker_instance_id: config.worker_instance_id.clone(),
            capabilities: config.capabilities.clone(),
            grant_ttl_ms,
        };
        let Some(grant) = admin.claim_for_worker(request).await? else { return Ok(None) };
        let grant = grant.into_next(config.worker_id.clone(), config.worker_instance_id.clone());
        let task = match grant {
            NextGrant::Claim(grant) | NextGrant::Resume(grant) => {
                self.claim_granted(lane.clone(), grant, permit).await?
            }
            NextGrant::Reclaim(grant) => self.reclaim_granted(grant, permit).await?,
        };
        Ok(Some(task))
    }
}

fn body<O: Operation>(request: &O::Request) -> Result<Vec<u8>, SdkError> {
    let wrong = |error: serde_json::Error| SdkError::config(O::NAME, "body", error.to_string());
    serde_json::to_vec(request).map_err(wrong)
}

fn read<T: DeserializeOwned>(answered: &Answered) -> Result<T, SdkError> {
    serde_json::from_slice(&answered.body).map_err(|error| SdkError::AdminApi {
        status: answered.status.as_u16(),
        message: error.to_string(),
        kind: Some("malformed_response".to_owned()),
        retryable: Some(false),
        raw_body: text(answered),
    })
}

/// An error of the server, with its code and its own opinion about trying again if it gave them.
fn refused(answered: &Answered) -> SdkError {
    let problem: Option<Problem> = serde_json::from_slice(&answered.body).ok();
    let message = match &problem {
        Some(problem) if problem.detail.is_empty() => problem.title.clone(),
        Some(problem) => format!("{} {}", problem.title, problem.detail),
        None => "no problem document".to_owned(),
    };
    SdkError::AdminApi {
        status: answered.status.as_u16(),
        message,
        kind: problem.as_ref().map(|problem| problem.code.clone()),
        retryable: problem.as_ref().map(|problem| problem.retryable),
        raw_body: text(answered),
    }
}

fn text(answered: &Answered) -> String {
    String::from_utf8_lossy(&answered.body).into_owned()
}
