//! FlowFabric for programs: workers that take executions, typed handlers, and a client that submits
//! them, on any backend: a store inside this process, Valkey, or a server over HTTP.
//!
//! | to | use |
//! |---|---|
//! | run handlers | [`Worker`] |
//! | share the types of inputs and results between both | [`Kind`] |
//! | put a graph of executions together | [`Flow`] |
//! | submit executions, signal them, follow their output, wait for results | [`Client`] |
//! | have every step in your own hands | [`FlowFabricWorker`], [`ClaimedTask`] |
//! | say where executions live | [`BackendConfig`], [`Connection`] |
//! | act on errors | [`SdkError`], [`TerminalError`], [`AwaitError`] |
//!
//! Everything goes through the traits of `ff_core`: [`EngineBackend`], [`WorkSource`] and
//! [`CompletionBackend`]. Whatever implements them can be worked on
//! ([`FlowFabricWorker::connect_with`]), and sees every call.
#![deny(missing_docs)]

mod backend_config;
mod config;
mod error;
mod kind;

mod connection;
mod deadline;
mod endings;
mod http;
mod store_clock;
mod stream;

mod task;
mod worker;

mod admin;
mod client;
mod flow;
mod json;

mod runtime;

pub use admin::{ClaimForWorkerRequest, ClaimForWorkerResponse, FlowFabricAdminClient};
pub use backend_config::{BackendConfig, BackendConnection, ServerConnection};
pub use client::{AwaitError, Call, Client, Follow, FollowFlow, Followed, Listing, Submission};
pub use config::WorkerConfig;
pub use connection::Connection;
pub use error::{HttpError, HttpErrorKind, SdkError, TerminalError};
pub use flow::{Flow, FlowHandle, FlowTask, Input, InputName, TaskOutcome, Upstream};
pub use kind::{Kind, Takes};
pub use runtime::{
    Context, INVALID_DELAY, INVALID_INPUT, INVALID_OUTPUT, INVALID_SUSPENSION, PANIC,
    ShutdownHandle, TaskError, TaskResult, UNKNOWN_KIND, Worker, WorkerBuilder,
};
pub use stream::{read_stream, tail_stream};
pub use task::{
    Child, ClaimedTask, FENCE_HEADER, Frames, LeaseLoss, LeaseMonitor, SuspendOutcome, Usage,
    parse_report_usage_result,
};
pub use worker::{FlowFabricWorker, ShutdownReport, WorkerStatus};

pub use ff_api::approval::{
    ApprovalLink, ApprovalLinks, LinkView, MakeApprovalLinks, RotateLinkKey,
};
pub use ff_api::backup::Backup;

#[cfg(feature = "embedded")]
pub use ff_backend_embedded::EmbeddedConfig;
#[cfg(feature = "valkey")]
pub use ff_backend_valkey::{Durability, ValkeyConfig};
pub use ff_core::backend::{
    FailOutcome, FailureClass, FailureReason, Frame, FrameKind, HandleKind,
};
pub use ff_core::backend_error::{BackendError, BackendErrorKind};
pub use ff_core::completion_backend::CompletionBackend;
pub use ff_core::contracts::{
    ANY_SIGNAL, AppendFrameOutcome, Approval, ApprovalChoice, ApprovalDecision, ApprovalList,
    ApprovalRequest, AttemptRecord, BudgetCreated, BudgetDeleted, BudgetEvent, BudgetPage,
    BudgetRecord, BudgetReset, BudgetScope, BudgetUsagePage, ClaimGrant, Condition,
    ConditionMatcher, CreateBudget, CreateQuota, Created, DeliverSignal, DimensionLimits,
    DimensionUsage, ExecutionSnapshot, ExecutionState, ExecutionSummary, ExecutionUsage,
    Explanation, HeldExecution, HoldSummary, KindChanged, KindList, KindOutcome, KindRecord,
    KindsRegistered, LaneChanged, LaneDepth, LaneList, LaneOrder, LanePage, LaneQuery,
    LaneSettings, ListBudgetUsage, ListBudgets, ListFilter, ListHeld, ListHeldPage, ListSuspended,
    ListSuspendedPage, MAX_TAIL_BLOCK_MS, NearWorker, OnHardLimit, OpenUpstream, OpenWaitpoint,
    Output, OutputCursor, PartitionFailure, PendingWaitpoint, QuotaCreated, QuotaDeleted,
    QuotaEntry, QuotaHolder, QuotaHolders, QuotaHoldersQuery, QuotaLimits, QuotaQuery, QuotaRecord,
    ReclaimGrant, RegisterKinds, ReplayExecution, ReportUsageResult, ResumeSignal, ResumedBy,
    Resumption, RotateWaitpointSecretRequest, RotateWaitpointSecretResponse, STREAM_READ_HARD_CAP,
    SetDefaults, SetKind, SetLane, Signal, SignalOutcome, StreamFrame, StreamFrames,
    SuspendRequest, SuspendedExecutionEntry, SuspensionReason, TimeoutBehavior, UpdateBudget,
    UsageDimensions, UsedAmount, WaitpointKind, WaitpointSpec, WaitpointState, Why, WorkerRecord,
};
pub use ff_core::contracts::{
    AddEdge, AddFlowMember, CancelFlow, CancelFlowPolicy, CancelFlowResult, CancelFlowWait,
    CancelReceipt, CancelReceiptQuery, CancelledMember, ChildResult, ChildrenAdded,
    CreateExecution, CreateFlow, Debounce, DependencyKind, EdgeDirection, EdgeList, EdgeQuery,
    EdgeSnapshot, EdgeState, FailedReplayed, FailurePolicy, FlowActivity, FlowEvent, FlowGraph,
    FlowMember, FlowMembers, FlowPosition, FlowQuery, FlowSnapshot, FlowState, FlowSummary,
    GraphAccepted, GraphDependency, GraphQuery, GraphTask, IfTaken, InputPage, InputQuery,
    ListFlowsPage, MemberFate, MemberQuery, PassedInput, ReplayFailed, ReplayRefused, RetryStuck,
    Singleton, StuckRetried, SubmitGraph,
};
pub use ff_core::engine_backend::EngineBackend;
pub use ff_core::error::{Code, EngineError, ErrorClass, ErrorKind};
pub use ff_core::partition::PartitionConfig;
pub use ff_core::policy::{
    Backoff, DurabilityMode, ExecutionPolicy, QuotaUse, RetryPolicy, StreamPolicy,
    SuspensionPolicy, TimeoutPolicy,
};
pub use ff_core::state::PublicState;
pub use ff_core::types::{
    Approver, AttemptId, AttemptIndex, BudgetId, EdgeId, EventCursor, ExecutionId, ExecutionKind,
    ExecutionRef, FlowId, LaneId, LeaseEpoch, LeaseFence, LeaseId, Namespace, QuotaPolicyId,
    SignalId, StreamCursor, SuspensionId, ThrottleKey, TimestampMs, WaitpointHmac, WaitpointId,
    WaitpointToken, WorkerId, WorkerInstanceId,
};
pub use ff_core::value::Value;
pub use ff_core::work_source::WorkSource;
pub use ff_script::backend::rotate_waitpoint_hmac_secret_all_partitions;
pub use ff_script::host::Host;

/// The programs of the documentation, which must compile and run.
#[cfg(doctest)]
#[doc = include_str!("../../../docs/sdk.md")]
struct Documented;
