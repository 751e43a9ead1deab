//! The server's API for those who schedule through it, or look after what waits: a worker asks for
//! a reservation and turns it into a lease by itself; an operator makes links for approvers.

mod approvals;
mod backup;

use std::fmt::Display;
use std::time::Duration;

use ff_api::problem::Problem;
use ff_core::capability::{CapabilityError, CapabilitySet};
use ff_core::contracts::{
    DeliverSignal, Grant, NextGrant, NextGrantRequest, RotateWaitpointSecretRequest,
    RotateWaitpointSecretResponse, SignalOutcome,
};
use ff_core::operation::{self, Nothing, Operation};
use ff_core::types::{ExecutionRef, LaneId, WorkerId, WorkerInstanceId};
use http::StatusCode;
use serde::de::DeserializeOwned;

use crate::backend_config::ServerConnection;
use crate::error::SdkError;
use crate::http::{Answered, Call, HttpClient};
use crate::task::ClaimedTask;
use crate::worker::FlowFabricWorker;

/// Longer than a server may take, so that its own answer wins.
const PATIENCE: Duration = Duration::from_secs(130);

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
        Self::of(&ServerConnection::new(base_url.as_ref(), None))
    }

    /// A client of a server that wants a bearer token.
    pub fn with_token(base_url: impl AsRef<str>, token: impl AsRef<str>) -> Result<Self, SdkError> {
        Self::of(&ServerConnection::new(base_url.as_ref(), Some(token.as_ref())))
    }

    /// A client of a server with everything that is said about it.
    pub fn of(server: &ServerConnection) -> Result<Self, SdkError> {
        Ok(Self { client: HttpClient::new(CONTEXT, "base_url", server)? })
    }

    /// Asks the server to reserve the next execution of a lane for a worker; none if there is none.
    pub async fn claim_for_worker(
        &self,
        request: ClaimForWorkerRequest,
    ) -> Result<Option<ClaimForWorkerResponse>, SdkError> {
        let wrong = |error: CapabilityError| {
            SdkError::config("claim_for_worker", "capabilities", error.to_string())
        };
        let body = NextGrantRequest {
            lane: request.lane_id,
            worker_instance_id: request.worker_instance_id,
            capabilities: CapabilitySet::try_new(request.capabilities).map_err(wrong)?,
            grant_ttl_ms: request.grant_ttl_ms,
        };
        let path = NextGrantRequest::path(request.worker_id);
        let answered = self.answer::<NextGrantRequest>(path, &body).await?;
        if answered.status == StatusCode::NO_CONTENT { Ok(None) } else { read(&answered).map(Some) }
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
        self.operate::<DeliverSignal>(execution.into(), &signal).await
    }

    /// An operation by its row. What it is about is named as the server takes it, which need not be
    /// as the row has it: an execution by its UUID, for one.
    async fn operate<O: Operation>(
        &self,
        target: impl Display,
        request: &O::Request,
    ) -> Result<O::Reply, SdkError> {
        read(&self.answer::<O>(operation::fill(O::PATH, target), request).await?)
    }

    /// What the server answers, if it is no error. Errors name the path without what it is about:
    /// that may be a link.
    async fn answer<O: Operation>(
        &self,
        path: String,
        request: &O::Request,
    ) -> Result<Answered, SdkError> {
        self.answer_within::<O>(path, request, PATIENCE).await
    }

    async fn answer_within<O: Operation>(
        &self,
        path: String,
        request: &O::Request,
        patience: Duration,
    ) -> Result<Answered, SdkError> {
        let call = Call::at::<O>(path, request)?.waiting(patience);
        let answered = self.client.send(call.sent()).await.map_err(|source| {
            let context = format!("{} {}", O::METHOD.as_str(), O::PATH);
            SdkError::Http { source, context }
        })?;
        if answered.status.is_success() { Ok(answered) } else { Err(refused(&answered)) }
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
