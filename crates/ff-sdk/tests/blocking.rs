//! Handlers that block the thread they run on: the leases of the worker are kept all the same, and
//! a stalled runtime is told.

mod site;

use std::sync::{Mutex, OnceLock};
use std::thread::JoinHandle;
use std::time::Duration;

use ff_sdk::{
    Connection, Context, PublicState, SdkError, ShutdownHandle, ShutdownReport, TaskError, Worker,
};
use site::{LANE, LEASE_TTL_MS, LONG, Site, eventually};
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Level, Metadata, Subscriber};

/// Longer than two leases.
const BLOCKED: Duration = Duration::from_millis(2 * LEASE_TTL_MS + 500);

/// A worker on a runtime with a single thread, apart from the deployment's.
struct Apart {
    stop: ShutdownHandle,
    running: JoinHandle<Result<ShutdownReport, SdkError>>,
}

impl Apart {
    fn start(site: &Site) -> Self {
        let (shared, config) = (site.connection.clone(), site.config.clone());
        let (tell, told) = std::sync::mpsc::channel();
        let running = std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
            runtime.expect("a runtime").block_on(async {
                // What can be opened twice is opened here, so that its connections block too.
                let connection = match config {
                    Some(config) => Connection::open(config).await.expect("connects"),
                    None => shared,
                };
                let worker = Worker::builder("blocker")
                    .connection(&connection)
                    .lane(LANE)
                    .lease_ttl(Duration::from_millis(LEASE_TTL_MS))
                    .concurrency(2)
                    .on("block", |_: Context, (): ()| async {
                        std::thread::sleep(BLOCKED);
                        Ok::<_, TaskError>(())
                    })
                    .build()
                    .expect("valid");
                tell.send(worker.shutdown_handle()).expect("somebody waits");
                worker.run().await
            })
        });
        Self { stop: told.recv().expect("it started"), running }
    }

    fn stop(self) {
        self.stop.shutdown();
        self.running.join().expect("no panic").expect("it could go on");
    }
}

/// The warnings of this process.
fn warnings() -> &'static Mutex<Vec<String>> {
    static WARNINGS: OnceLock<Mutex<Vec<String>>> = OnceLock::new();
    WARNINGS.get_or_init(|| {
        tracing::subscriber::set_global_default(Listener).expect("nobody else listens");
        Mutex::default()
    })
}

/// Keeps warnings as text.
struct Listener;

impl Subscriber for Listener {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        *metadata.level() <= Level::WARN
    }

    fn new_span(&self, _: &Attributes<'_>) -> Id {
        Id::from_u64(1)
    }

    fn record(&self, _: &Id, _: &Record<'_>) {}

    fn record_follows_from(&self, _: &Id, _: &Id) {}

    fn event(&self, event: &Event<'_>) {
        struct Text(String);
        impl Visit for Text {
            fn record_debug(&mut self, field: &Field, value: &dyn std::fmt::Debug) {
                self.0 += &format!("{field}={value:?} ");
            }
        }
        let mut text = Text(String::new());
        event.record(&mut text);
        warnings().lock().expect("no panic").push(text.0);
    }

    fn enter(&self, _: &Id) {}

    fn exit(&self, _: &Id) {}
}

async fn a_handler_that_blocks_its_thread_keeps_every_lease(site: Site) {
    warnings();
    let client = &site.client;
    let submissions = (0..2).map(|_| client.submit("block", &()).lane(LANE));
    let ids = client.submit_many(submissions).await;
    let ids: Vec<_> = ids.into_iter().map(|it| it.expect("submitted").execution_id()).collect();
    let apart = Apart::start(&site);
    for id in &ids {
        client.await_result::<()>(id, LONG).await.expect("it ends well");
        let snapshot = site.describe(id).await;
        let ended = (snapshot.public_state(), snapshot.total_attempt_count);
        assert_eq!(ended, (PublicState::Completed, 1));
    }
    apart.stop();
    let warned = warnings().lock().expect("no panic").clone();
    let named = |text: &String| text.contains("stalled") && text.contains("block");
    assert!(warned.iter().any(named), "the stall must be told: {warned:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_handler_that_blocks_its_thread_keeps_every_lease_embedded() {
    a_handler_that_blocks_its_thread_keeps_every_lease(Site::embedded().await).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_handler_that_blocks_its_thread_keeps_every_lease_on_valkey() {
    a_handler_that_blocks_its_thread_keeps_every_lease(Site::valkey().await).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_handler_that_blocks_its_thread_keeps_every_lease_over_http() {
    a_handler_that_blocks_its_thread_keeps_every_lease(Site::server().await).await;
}

#[tokio::test]
async fn a_blocking_handler_runs_beside_the_others() {
    let site = Site::embedded().await;
    let (tell, told) = std::sync::mpsc::channel::<()>();
    let worker = site
        .handlers()
        .state((Mutex::new(tell), Mutex::new(told)))
        .concurrency(3)
        .on_blocking("wait", |context: Context<Line>, (): ()| {
            let told = context.state().1.lock().expect("no panic");
            told.recv_timeout(LONG).map_err(TaskError::fail)?;
            Ok::<_, TaskError>("told")
        })
        .on("tell", |context: Context<Line>, (): ()| async move {
            context.state().0.lock().expect("no panic").send(()).map_err(TaskError::fail)
        })
        .on_blocking("panic", |_: Context<Line>, (): ()| -> Result<(), TaskError> {
            panic!("no way")
        })
        .build()
        .expect("valid");
    let stop = worker.shutdown_handle();
    let running = tokio::spawn(worker.run());
    let submit = async |kind| {
        let submission = site.client.submit(kind, &()).lane(LANE);
        submission.await.expect("submitted").execution_id()
    };
    let (waits, panics) = (submit("wait").await, submit("panic").await);
    eventually("the wait", || async { site.state(&waits).await == PublicState::Active }).await;
    let tells = submit("tell").await;
    // On a runtime with one thread: it is free although a handler waits.
    site.client.await_result::<()>(&tells, LONG).await.expect("told");
    let result: String = site.client.await_result(&waits, LONG).await.expect("it was told");
    assert_eq!(result, "told");
    let failed = site.client.await_result::<()>(&panics, LONG).await.expect_err("it panicked");
    assert!(failed.to_string().contains("(panic): the handler panicked: no way"), "{failed}");
    stop.shutdown();
    running.await.expect("no panic").expect("it could go on");
}

/// What the one handler waits for and the other sends.
type Line = (Mutex<std::sync::mpsc::Sender<()>>, Mutex<std::sync::mpsc::Receiver<()>>);
