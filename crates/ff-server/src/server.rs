//! Starting a server and ending it.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use ff_script::ids::{IdSource, SystemIds};
use tokio::net::TcpListener;
use tokio::sync::{mpsc, watch};
use tokio::task::JoinHandle;
use tokio::time::Instant;
use tokio_rustls::TlsAcceptor;

use crate::accept::{Acceptor, Phase};
use crate::access::Access;
use crate::app::App;
use crate::config::{Limits, ServerConfig};
use crate::ended::Ended;
use crate::gate::Gates;
use crate::metrics::Metrics;
use crate::places::Places;
use crate::store::{self, Place, Store};
use crate::{files, routes, tls};

/// No process lives as long.
const FOR_EVER: Duration = Duration::from_secs(30 * 365 * 24 * 60 * 60);

/// Why a server did not start.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// A setting makes no sense.
    #[error("{0}")]
    Config(String),
    /// The certificate or its key cannot be used.
    #[error("TLS: {0}")]
    Tls(String),
    /// The address cannot be listened on.
    #[error("cannot listen on {address}: {source}")]
    Listen {
        /// The address.
        address: SocketAddr,
        /// What the operating system says.
        source: std::io::Error,
    },
    /// The store cannot be opened.
    #[error("cannot open the store: {0}")]
    Store(String),
}

/// Starts servers.
pub struct Server;

impl Server {
    /// Opens the store, starts the engine and the scheduler, and listens. Nothing is touched if a
    /// setting is wrong or the address is taken.
    pub async fn start(config: ServerConfig) -> Result<RunningServer, StartError> {
        config.check().map_err(StartError::Config)?;
        let tls = tls(&config)?;
        let listener = listen(config.listen).await?;
        let local_addr = listener.local_addr();
        let local_addr =
            local_addr.map_err(|source| StartError::Listen { address: config.listen, source })?;
        let ids: Arc<dyn IdSource> = Arc::new(SystemIds);
        let store = store::open(&config.store, config.partition_config(), Arc::clone(&ids));
        let store = store.await.map_err(StartError::Store)?;
        Ok(RunningServer::run(&config, store, ids, listener, local_addr, tls))
    }
}

fn tls(config: &ServerConfig) -> Result<Option<TlsAcceptor>, StartError> {
    config.tls.as_ref().map(tls::acceptor).transpose().map_err(StartError::Tls)
}

/// The limits as the operating system allows them.
fn limits(config: &ServerConfig) -> Limits {
    let limits = config.limits.within(files::make_room(config.limits.connections));
    if limits.connections < config.limits.connections {
        tracing::warn!(
            connections = limits.connections,
            waiting = limits.waiting,
            requests = limits.requests,
            "the limit of open files leaves room for fewer connections than configured"
        );
    }
    limits
}

async fn listen(address: SocketAddr) -> Result<TcpListener, StartError> {
    let listening = TcpListener::bind(address).await;
    listening.map_err(|source| StartError::Listen { address, source })
}

/// A running server. Dropping it stops it without waiting; [`RunningServer::shutdown`] waits.
pub struct RunningServer {
    app: Arc<App>,
    local_addr: SocketAddr,
    banner: String,
    phase: watch::Sender<Phase>,
    tls: watch::Sender<Option<TlsAcceptor>>,
    accepting: JoinHandle<()>,
    hearing: JoinHandle<()>,
    unfinished: mpsc::Receiver<()>,
}

impl RunningServer {
    fn run(
        config: &ServerConfig,
        store: Store,
        ids: Arc<dyn IdSource>,
        listener: TcpListener,
        local_addr: SocketAddr,
        tls: Option<TlsAcceptor>,
    ) -> Self {
        let limits = limits(config);
        let banner = banner(config, &store.place, local_addr);
        let ended = Arc::new(Ended::default());
        let hearing = tokio::spawn(Arc::clone(&ended).listen(store.ended));
        let (background, unfinished) = mpsc::channel(1);
        let app = Arc::new(App {
            backend: store.backend,
            work: store.work,
            ended,
            ids,
            place: store.place,
            engine: Mutex::new(Some(store.engine)),
            metrics: Metrics::default(),
            readiness: Default::default(),
            access: Access::new(config),
            open_metrics: config.open_metrics,
            gates: Gates::new(&limits),
            places: Places::new(limits.connections),
            limits,
            drain: watch::Sender::new(false),
            background: Mutex::new(Some(background)),
        });
        let (phase, phases) = watch::channel(Phase::Running);
        let (tls, current_tls) = watch::channel(tls);
        let acceptor = Acceptor::new(Arc::clone(&app), routes::router(&app), current_tls, phases);
        let accepting = tokio::spawn(acceptor.run(listener));
        Self { app, local_addr, banner, phase, tls, accepting, hearing, unfinished }
    }

    /// Where the server listens.
    pub fn local_addr(&self) -> SocketAddr {
        self.local_addr
    }

    /// Five lines for a person: the version, the store, the partitions, the address, and what to
    /// try first.
    pub fn banner(&self) -> &str {
        &self.banner
    }

    /// Takes tokens, allowed hosts and the certificate from a configuration; all else stays as it
    /// was at the start. Open connections go on. Nothing changes if anything is wrong.
    pub fn reload(&self, config: &ServerConfig) -> Result<(), StartError> {
        let config = ServerConfig { listen: self.local_addr, ..config.clone() };
        config.check().map_err(StartError::Config)?;
        if config.tls.is_some() != self.tls.borrow().is_some() {
            let rule = "TLS can be turned on and off only by a restart".to_owned();
            return Err(StartError::Config(rule));
        }
        if config.tokens.is_empty() && self.app.access.wants_tokens() {
            let rule = "there are no tokens any more; a server that lets everybody in is restarted";
            return Err(StartError::Config(rule.to_owned()));
        }
        self.tls.send_replace(tls(&config)?);
        self.app.access.replace(&config);
        Ok(())
    }

    /// Waits until the store stops itself, and answers why: its disk failed, or a call failed
    /// halfway. Every request is refused from then on; the server is to be started again.
    pub async fn stopped(&self) -> String {
        self.app.place.stopped().await
    }

    /// Stops accepting, answers waiting claims with nothing, lets requests under way finish within
    /// a time, and then stops the engine and closes the store. Answers whether everything was
    /// finished in time.
    pub async fn shutdown(mut self, within: Duration) -> bool {
        let deadline = Instant::now() + within.min(FOR_EVER);
        self.app.drain.send_replace(true);
        self.phase.send_replace(Phase::Draining);
        let background = self.app.background.lock().unwrap_or_else(PoisonError::into_inner).take();
        drop(background);
        let finished = self.finish(deadline).await;
        let engine = self.app.engine().take();
        if let Some(engine) = engine {
            engine.shutdown().await;
        }
        self.hearing.abort();
        self.app.place.close().await;
        finished
    }

    /// Waits for connections and for what they left behind, then ends the rest.
    async fn finish(&mut self, deadline: Instant) -> bool {
        let accepting = &mut self.accepting;
        let _ = tokio::time::timeout_at(deadline, accepting).await;
        // Nobody sends: the channel closes when the last task lets go of its end.
        let finished = tokio::time::timeout_at(deadline, self.unfinished.recv()).await.is_ok();
        self.phase.send_replace(Phase::Ended);
        // What claims found that nobody waits for any more is handed back first.
        let settled = tokio::time::timeout_at(deadline, self.app.work.settled()).await.is_ok();
        let finished = finished && settled;
        if !finished {
            tracing::warn!("requests were under way when the time to finish them was over");
            let last = tokio::time::timeout(Duration::from_secs(1), self.unfinished.recv());
            let _ = last.await;
        }
        finished
    }
}

impl Drop for RunningServer {
    fn drop(&mut self) {
        self.app.drain.send_replace(true);
        self.phase.send_replace(Phase::Ended);
        self.accepting.abort();
        self.hearing.abort();
    }
}

fn banner(config: &ServerConfig, place: &Place, address: SocketAddr) -> String {
    let scheme = if config.tls.is_some() { "https" } else { "http" };
    let url = format!("{scheme}://{address}");
    let (access, token) = match config.tokens.len() {
        0 => ("no token needed", ""),
        _ => ("bearer token needed", "-H 'Authorization: Bearer …' "),
    };
    let kept = place.kept().map(|kept| format!("\n  on disk     {kept}")).unwrap_or_default();
    [
        format!("FlowFabric {}", env!("CARGO_PKG_VERSION")),
        format!("  store       {}{kept}", place.shown()),
        format!("  partitions  {}", config.partitions),
        format!("  listening   {url} ({access}), API at {url}/openapi.json"),
        format!("  try         curl {token}--json '{{\"kind\":\"hello\"}}' {url}/v1/executions"),
    ]
    .join("\n")
}
