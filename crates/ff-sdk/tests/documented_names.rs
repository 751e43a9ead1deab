//! Code that was written to the documents compiles: every name of waiting and streaming at the root
//! of the SDK, with its signature. Nothing but the literals at the end is run.
#![allow(dead_code, unused_variables)]

use std::sync::Arc;

use ff_sdk::{
    AppendFrameOutcome, Approver, AttemptId, AttemptIndex, ClaimedTask, Client, ConditionMatcher,
    DurabilityMode, EngineBackend, EngineError, ExecutionId, ExecutionPolicy,
    FlowFabricAdminClient, FlowFabricWorker, Frame, FrameKind, HandleKind, Host, LaneId, LeaseId,
    ListSuspended, ListSuspendedPage, MAX_TAIL_BLOCK_MS, PartitionConfig, PendingWaitpoint,
    ResumeSignal, RotateWaitpointSecretRequest, RotateWaitpointSecretResponse,
    STREAM_READ_HARD_CAP, SdkError, Signal, SignalId, SignalOutcome, StreamCursor, StreamFrame,
    StreamFrames, StreamPolicy, SuspendOutcome, SuspendRequest, SuspensionId, SuspensionPolicy,
    TerminalError, TimeoutBehavior, Value, WaitpointHmac, WaitpointId, WaitpointKind,
    WaitpointSpec, WaitpointToken, WorkerId, read_stream,
    rotate_waitpoint_hmac_secret_all_partitions, tail_stream,
};

async fn a_task_suspends(task: ClaimedTask) -> Result<SuspendOutcome, TerminalError> {
    let matchers = [ConditionMatcher { signal_name: "approved".to_owned() }];
    task.suspend("waiting_for_approval", &matchers, Some(60_000), TimeoutBehavior::Fail).await
}

async fn a_task_suspends_with(
    task: ClaimedTask,
    request: SuspendRequest,
) -> Result<Option<ClaimedTask>, TerminalError> {
    Ok(match task.suspend_with(request).await? {
        SuspendOutcome::Suspended { suspension_id, waitpoint_id, waitpoint_token, .. } => {
            let _: (SuspensionId, WaitpointId, WaitpointToken) =
                (suspension_id, waitpoint_id, waitpoint_token);
            None
        }
        SuspendOutcome::AlreadySatisfied { task, .. } => Some(*task),
    })
}

async fn a_task_waits_and_streams(task: &ClaimedTask) -> Result<(), SdkError> {
    let (_, _): (WaitpointId, WaitpointToken) =
        task.create_pending_waitpoint("payment", 60_000).await?;
    let _: AppendFrameOutcome = task.append_frame("token", b"word", Some("c-1")).await?;
    let signals: Vec<ResumeSignal> = task.resume_signals().await?;
    let (start, end) = (StreamCursor::Start, StreamCursor::End);
    let read: StreamFrames = task.read_stream(start, end, STREAM_READ_HARD_CAP).await?;
    let beginning = StreamCursor::from_beginning();
    let tailed: StreamFrames = task.tail_stream(beginning, MAX_TAIL_BLOCK_MS, 1).await?;
    let frames: Vec<StreamFrame> = tailed.frames;
    assert!(matches!(task.claim_kind(), HandleKind::Fresh | HandleKind::Resumed));
    Ok(())
}

async fn anybody_reads_and_tails(
    backend: &dyn EngineBackend,
    execution_id: &ExecutionId,
    attempt_index: AttemptIndex,
) -> Result<(), SdkError> {
    let (start, end) = (StreamCursor::Start, StreamCursor::End);
    let _: StreamFrames = read_stream(backend, execution_id, attempt_index, start, end, 10).await?;
    let after = StreamCursor::from_beginning();
    let _: StreamFrames =
        tail_stream(backend, execution_id, attempt_index, after, 1000, 10).await?;
    Ok(())
}

async fn a_worker_signals(
    worker: &FlowFabricWorker,
    execution_id: &ExecutionId,
    waitpoint_id: &WaitpointId,
    waitpoint_token: WaitpointToken,
) -> Result<(), SdkError> {
    let signal = Signal {
        signal_name: "approved".to_owned(),
        signal_category: "decision".to_owned(),
        payload: Some(b"{}".to_vec()),
        source_type: "user".to_owned(),
        source_identity: "ann".to_owned(),
        idempotency_key: Some("once".to_owned()),
        waitpoint_token,
    };
    match worker.deliver_signal(execution_id, waitpoint_id, signal).await? {
        SignalOutcome::Accepted { signal_id, .. }
        | SignalOutcome::TriggeredResume { signal_id }
        | SignalOutcome::Buffered { signal_id } => assert_eq!(signal_id, SignalId::new("")),
        SignalOutcome::Duplicate { existing_signal_id } => drop::<String>(existing_signal_id),
    }
    let _: ListSuspendedPage = worker.list_suspended(ListSuspended::default()).await?;
    Ok(())
}

async fn an_operator_rotates(admin: &FlowFabricAdminClient) -> Result<(), SdkError> {
    let request = RotateWaitpointSecretRequest {
        new_kid: "k2".to_owned(),
        new_secret_hex: "00".repeat(32),
        ..RotateWaitpointSecretRequest::default()
    };
    let RotateWaitpointSecretResponse { rotated, failed, new_kid, .. } =
        admin.rotate_waitpoint_secret(request).await?;
    let _: (u16, Vec<u16>, String) = (rotated, failed, new_kid);
    Ok(())
}

async fn a_host_rotates<H: Host>(
    host: Arc<H>,
    config: &PartitionConfig,
    request: RotateWaitpointSecretRequest,
) -> Result<RotateWaitpointSecretResponse, EngineError> {
    rotate_waitpoint_hmac_secret_all_partitions(host, config, request, 60_000).await
}

async fn a_client_follows(client: &Client, execution_id: &ExecutionId) -> Result<(), SdkError> {
    let mut output = client.follow(execution_id).await?;
    while let Some(piece) = output.next().await {
        drop(piece?);
    }
    Ok(())
}

fn a_policy_bounds_both() -> ExecutionPolicy {
    ExecutionPolicy {
        suspension_policy: Some(SuspensionPolicy::default()),
        stream_policy: Some(StreamPolicy {
            durability_mode: Some(DurabilityMode::BestEffort),
            retention_ttl_ms: Some(60_000),
            ..StreamPolicy::default()
        }),
        ..ExecutionPolicy::default()
    }
}

fn a_backend_is_given(token: WaitpointHmac) -> (WaitpointSpec, Frame) {
    let matcher = b"approved".to_vec();
    let spec = WaitpointSpec { kind: WaitpointKind::SignalName, matcher, hmac_token: token };
    (spec, Frame::new(FrameKind::Stdout, "text"))
}

fn a_backend_answers(pending: PendingWaitpoint) -> (WaitpointId, WaitpointHmac) {
    (pending.waitpoint_id, pending.hmac_token)
}

#[test]
fn a_raw_reply_is_read() {
    let (refused, code) = (Value::Int(0), Value::Bytes(b"invalid_token".to_vec()));
    let error = SignalOutcome::from_fcall_value(&Value::Array(vec![refused, code]));
    assert!(error.is_err());
}

#[test]
fn every_id_has_a_form_for_literals() {
    const UUID: &str = "550e8400-e29b-41d4-a716-446655440000";
    assert_eq!(LaneId::new("main").as_str(), "main");
    assert_eq!(WorkerId::new("mailer").as_str(), "mailer");
    assert_eq!(Approver::new("ann@example.com").as_str(), "ann@example.com");
    assert_eq!(ExecutionId::new(&format!("{{fp:7}}:{UUID}")).partition().index, 7);
    assert_eq!(WaitpointId::new(UUID).to_string(), UUID);
    assert_eq!(SuspensionId::new(UUID).to_string(), UUID);
    assert_eq!(SignalId::new(UUID).to_string(), UUID);
    assert_eq!(AttemptId::new(UUID).to_string(), UUID);
    assert_eq!(LeaseId::new(UUID).to_string(), UUID);
    assert_eq!(WaitpointToken::new("k1:00").as_str(), "k1:00");
}
