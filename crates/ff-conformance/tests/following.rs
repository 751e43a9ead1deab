//! Following output through a backend: what it costs the store, and that nothing passes unheard
//! although pushes are lost and the store goes away.

use std::future::poll_fn;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use ff_backend_embedded::{EmbeddedConfig, EmbeddedHost};
use ff_backend_valkey::{ValkeyConfig, ValkeyHost};
use ff_core::backend::{Frame, FrameKind, Handle};
use ff_core::backend_error::BackendError;
use ff_core::capability::CapabilitySet;
use ff_core::contracts::{ClaimRequest, CreateExecution, Output, OutputCursor, OutputStream};
use ff_core::engine_backend::roles::*;
use ff_core::partition::{Partition, PartitionConfig};
use ff_core::types::{ExecutionId, ExecutionKind, LaneId, LeaseId, WorkerId, WorkerInstanceId};
use ff_script::args::Args;
use ff_script::backend::ScriptBackend;
use ff_script::host::{Function, Host, Subject, Subscription, Topic};
use ff_script::ids::{IdSource, SystemIds};
use ff_script::library::Library;
use ff_script::value::Value;
use ff_test_valkey::{Valkey, ValkeyOptions};
use futures_core::future::BoxFuture;
use tokio::sync::broadcast;

const TIME_LIMIT: Duration = Duration::from_secs(120);

/// A host that counts what it is asked, and may hear nothing.
struct Watched<H> {
    host: Arc<H>,
    reads: AtomicU64,
    follows: AtomicU64,
    /// Feeds those who would be told, and never does.
    silence: Option<broadcast::Sender<ff_script::host::Wake>>,
}

impl<H: Host> Watched<H> {
    fn new(host: H, deaf: bool) -> Arc<Self> {
        let silence = deaf.then(|| broadcast::Sender::new(1));
        let (reads, follows) = (AtomicU64::new(0), AtomicU64::new(0));
        Arc::new(Self { host: Arc::new(host), reads, follows, silence })
    }
}

impl<H: Host> Host for Watched<H> {
    fn call(
        &self,
        function: Function,
        partition: Partition,
        args: Args,
    ) -> BoxFuture<'_, Result<Value, BackendError>> {
        self.reads.fetch_add(u64::from(function.read_only), Ordering::Relaxed);
        self.host.call(function, partition, args)
    }

    fn subscribe(&self, topic: Topic) -> BoxFuture<'_, Result<Subscription, BackendError>> {
        match &self.silence {
            Some(silence) => {
                let subscription = Subscription::new(silence.subscribe());
                Box::pin(std::future::ready(Ok(subscription)))
            }
            None => self.host.subscribe(topic),
        }
    }

    fn follow(&self, subject: Subject) -> BoxFuture<'_, Result<Subscription, BackendError>> {
        self.follows.fetch_add(1, Ordering::Relaxed);
        match &self.silence {
            Some(silence) => {
                let subscription = Subscription::new(silence.subscribe());
                Box::pin(std::future::ready(Ok(subscription)))
            }
            None => self.host.follow(subject),
        }
    }

    fn name(&self) -> &'static str {
        self.host.name()
    }
}

fn in_memory() -> EmbeddedHost {
    EmbeddedHost::open(EmbeddedConfig::in_memory(), &Library::current()).expect("a host")
}

async fn open<H: Host>(host: &Arc<H>) -> ScriptBackend<H> {
    let config = PartitionConfig { num_flow_partitions: 3, ..PartitionConfig::default() };
    ScriptBackend::open(Arc::clone(host), config).await.expect("opens")
}

/// An execution in somebody's hands.
async fn started<H: Host>(backend: &ScriptBackend<H>) -> Handle {
    let (partition, uuid) = (Partition::flow(1), || SystemIds.random());
    let id = ExecutionId::from_parts(partition, uuid());
    let execution = CreateExecution::new(ExecutionKind::try_new("k").expect("valid")).with_id(id);
    let lane = LaneId::default();
    backend.create(execution).await.expect("created");
    let request = ClaimRequest {
        kinds: Vec::new(),
        lane,
        worker_id: WorkerId::try_new("w").expect("valid"),
        worker_instance_id: WorkerInstanceId::try_new("w-1").expect("valid"),
        capabilities: CapabilitySet::default(),
        namespaces: Vec::new(),
        from: Default::default(),
        lease_ttl_ms: 600_000,
        lease_ids: vec![LeaseId::from_uuid(uuid())],
        retry: false,
    };
    let claimed = backend.claim_next(partition, request).await.expect("answers").claimed;
    claimed.into_iter().next().expect("claimed").handle
}

async fn append<H: Host>(backend: &ScriptBackend<H>, handle: &Handle, sequence: u64) {
    let frame = Frame::new(FrameKind::Event, sequence.to_string()).with_seq(sequence);
    backend.append_frames(handle, vec![frame]).await.expect("appended");
}

async fn next(output: &mut OutputStream) -> Option<Output> {
    let next = poll_fn(|context| output.as_mut().poll_next(context));
    let next = tokio::time::timeout(TIME_LIMIT, next).await.expect("something comes in time");
    next.map(|piece| piece.expect("no trouble"))
}

/// The same with no limit: where time is paused, it jumps on while a thread of the store works.
async fn next_some_time(output: &mut OutputStream) -> Option<Output> {
    let next = poll_fn(|context| output.as_mut().poll_next(context)).await;
    next.map(|piece| piece.expect("no trouble"))
}

/// The number of the next frame; none at the end.
async fn next_frame(output: &mut OutputStream) -> Option<u64> {
    loop {
        match next(output).await? {
            Output::Frame { frame, .. } => return frame.sequence(),
            Output::End { .. } => return None,
            _ => {}
        }
    }
}

#[tokio::test]
async fn however_many_follow_the_store_is_asked_once() {
    const FOLLOWERS: u64 = 50;
    const FRAMES: u64 = 20;
    let host = Watched::new(in_memory(), false);
    let backend = open(&host).await;
    let handle = started(&backend).await;
    let mut followers = Vec::new();
    for _ in 0..FOLLOWERS {
        let follower = backend.follow_output(handle.execution_id, OutputCursor::Start).await;
        followers.push(follower.expect("follows"));
    }
    assert_eq!(host.follows.load(Ordering::Relaxed), 1);
    let before = host.reads.load(Ordering::Relaxed);
    for sequence in 1..=FRAMES {
        append(&backend, &handle, sequence).await;
        for follower in &mut followers {
            assert_eq!(next_frame(follower).await, Some(sequence));
        }
    }
    let reads = host.reads.load(Ordering::Relaxed) - before;
    assert_eq!(reads, FRAMES, "one read for each frame, whoever follows");
    backend.complete(&handle, None).await.expect("completed");
    for follower in &mut followers {
        assert_eq!(next_frame(follower).await, None);
    }
}

#[tokio::test(start_paused = true)]
async fn what_no_push_told_of_is_found_by_looking_again() {
    let backend = open(&Watched::new(in_memory(), true)).await;
    let handle = started(&backend).await;
    let follower = backend.follow_output(handle.execution_id, OutputCursor::Start).await;
    let mut follower = follower.expect("follows");
    let attempt = next_some_time(&mut follower).await;
    assert!(matches!(attempt, Some(Output::Attempt { .. })), "{attempt:?}");
    append(&backend, &handle, 1).await;
    let frame = next_some_time(&mut follower).await;
    assert!(matches!(&frame, Some(Output::Frame { frame, .. }) if frame.sequence() == Some(1)));
    backend.complete(&handle, None).await.expect("completed");
    let end = next_some_time(&mut follower).await;
    assert!(matches!(end, Some(Output::End { .. })), "{end:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_valkey_that_is_killed_and_started_again_costs_a_follower_nothing() {
    const FRAMES: u64 = 60;
    let fsync = Some("always".to_owned());
    let options =
        ValkeyOptions { append_only: true, append_fsync: fsync, ..ValkeyOptions::default() };
    let mut server = Valkey::start(options).expect("a server");
    let config = ValkeyConfig::parse(&server.url()).expect("a URL").with_flow_partitions(3);
    let host = ValkeyHost::connect(config, Library::current()).await.expect("connects");
    let backend = Arc::new(open(&Arc::new(host)).await);
    let handle = started(&backend).await;
    let follower = backend.follow_output(handle.execution_id, OutputCursor::Start).await;
    let mut follower = follower.expect("follows");
    let following = tokio::spawn(async move {
        for sequence in 1..=FRAMES {
            assert_eq!(next_frame(&mut follower).await, Some(sequence));
        }
        assert_eq!(next_frame(&mut follower).await, None);
    });
    for sequence in 1..=FRAMES {
        if sequence % 20 == 0 {
            server.kill9().expect("killed");
            server.restart().expect("restarted");
        }
        append(&backend, &handle, sequence).await;
    }
    backend.complete(&handle, None).await.expect("completed");
    following.await.expect("every frame, once");
}

#[tokio::test]
async fn a_store_that_is_closed_ends_the_following_with_an_error() {
    let host = Arc::new(in_memory());
    let backend = open(&host).await;
    let handle = started(&backend).await;
    let follower = backend.follow_output(handle.execution_id, OutputCursor::End).await;
    let mut follower = follower.expect("follows");
    assert!(matches!(next(&mut follower).await, Some(Output::Skipped { .. })));
    host.close().await;
    let last = poll_fn(|context| follower.as_mut().poll_next(context));
    let last = tokio::time::timeout(TIME_LIMIT, last).await.expect("it ends in time");
    assert!(last.expect("an error").is_err());
    assert!(poll_fn(|context| follower.as_mut().poll_next(context)).await.is_none());
}
