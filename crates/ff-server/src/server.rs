//! Starting a server and ending it.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use ff_core::engine_backend::PartitionBackend;
use ff_core::error::EngineError;
use ff_script::ids::{IdSource, SystemIds};
use ff_script::in_flight::InFlight;
use ff_store::{FirstSecrets, KeptFacts, Store};
use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio::time::Instant;
use tokio_rustls::TlsAcceptor;

use crate::accept::{Acceptor, Phase};
use crate::access::Access;
use crate::app::App;
use crate::config::{Limits, PublicUrl, ServerConfig};
use crate::connection_limiter::ConnectionLimiter;
use crate::metrics::Metrics;
use crate::request_limiter::RequestLimiter;
use crate::{open_files, routes, store, tls};

/// No process lives as long.
const FOR_EVER: Duration = Duration::from_secs(30 * 365 * 24 * 60 * 60);

/// What is cut off has this long to notice.
const LAST_WAIT: Duration = Duration::from_secs(1);

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
    #[error("cannot listen on {address}: {}", refusal(.source))]
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

/// What the operating system says of an address, and what that mostly means.
fn refusal(source: &std::io::Error) -> String {
    match source.kind() {
        std::io::ErrorKind::AddrInUse => {
            format!("{source}; is a server running there already? `listen` names another address")
        }
        _ => source.to_string(),
    }
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
        let (counts, secrets) = (config.partition_config(), config.waitpoint_secrets.clone());
        let store = Store::open_with(config.store.clone(), counts, secrets).await;
        let store = store.map_err(|error| StartError::Store(error.to_string()))?;
        let app = app(&config, local_addr, store, ids).await;
        let app = app.map_err(|error| StartError::Store(error.to_string()))?;
        Ok(RunningServer::run(&config, Arc::new(app), listener, local_addr, tls))
    }
}

fn tls(config: &ServerConfig) -> Result<Option<TlsAcceptor>, StartError> {
    config.tls.as_ref().map(tls::acceptor).transpose().map_err(StartError::Tls)
}

/// The limits as the operating system allows them.
fn limits(config: &ServerConfig) -> Limits {
    let limits = config.limits.within(open_files::make_room(config.limits.connections));
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

/// Starts what runs on the store.
async fn app(
    config: &ServerConfig,
    local_addr: SocketAddr,
    store: Store,
    ids: Arc<dyn IdSource>,
) -> Result<App, EngineError> {
    let limits = limits(config);
    Ok(App {
        endings: store.endings(),
        engine: Mutex::new(Some(store.start_engine(ids.as_ref()).await?)),
        work: store.scheduler(Arc::clone(&ids)),
        backend: Arc::clone(store.backend()) as Arc<dyn PartitionBackend>,
        ids,
        store,
        metrics: Metrics::default(),
        readiness: Default::default(),
        access: Access::new(config),
        public_url: public_url(config, local_addr),
        open_metrics: config.open_metrics,
        access_log: config.access_log,
        grace_ms: config.waitpoint_secrets.grace_ms,
        requests: RequestLimiter::new(&limits),
        connections: ConnectionLimiter::new(limits.connections),
        limits,
        drain: watch::Sender::new(false),
        in_flight: InFlight::default(),
    })
}

/// A running server. Dropping it stops it without waiting; [`RunningServer::shutdown`] waits.
pub struct RunningServer {
    app: Arc<App>,
    local_addr: SocketAddr,
    banner: String,
    phase: watch::Sender<Phase>,
    tls: watch::Sender<Option<TlsAcceptor>>,
    accepting: JoinHandle<()>,
    first_secrets: Option<FirstSecrets>,
    facts: Option<KeptFacts>,
}

impl RunningServer {
    fn run(
        config: &ServerConfig,
        app: Arc<App>,
        listener: TcpListener,
        local_addr: SocketAddr,
        tls: Option<TlsAcceptor>,
    ) -> Self {
        let banner = banner(config, &app, local_addr);
        let (phase, phases) = watch::channel(Phase::Running);
        let (tls, current_tls) = watch::channel(tls);
        let acceptor = Acceptor::new(Arc::clone(&app), routes::router(&app), current_tls, phases);
        let accepting = tokio::spawn(acceptor.run(listener));
        let first_secrets = Some(app.store.install_first_secrets());
        let facts = Some(app.store.keep_facts());
        Self { app, local_addr, banner, phase, tls, accepting, first_secrets, facts }
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

    /// What the server listens at, for links and clients.
    pub fn url(&self) -> String {
        let scheme = if self.tls.borrow().is_some() { "https" } else { "http" };
        format!("{scheme}://{}", self.local_addr)
    }

    /// Takes tokens, allowed hosts and the certificate from a configuration; all else stays as it
    /// was at the start. Open connections go on. Nothing changes if anything is wrong.
    pub fn reload(&self, config: &ServerConfig) -> Result<(), StartError> {
        let public_url = self.app.public_url.clone();
        let config = ServerConfig { listen: self.local_addr, public_url, ..config.clone() };
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
        self.app.store.stopped().await
    }

    /// Stops accepting, answers waiting claims with nothing, lets requests under way finish within
    /// a time, and then stops the engine and closes the store. Answers whether everything was
    /// finished in time.
    pub async fn shutdown(mut self, within: Duration) -> bool {
        let deadline = Instant::now() + within.min(FOR_EVER);
        drop((self.first_secrets.take(), self.facts.take()));
        self.app.drain.send_replace(true);
        self.phase.send_replace(Phase::Draining);
        let finished = self.finish(deadline).await;
        let engine = self.app.engine().take();
        if let Some(engine) = engine {
            engine.shutdown().await;
        }
        self.app.store.close().await;
        finished
    }

    /// Waits for connections and for what they left behind, then ends the rest.
    async fn finish(&mut self, deadline: Instant) -> bool {
        let accepting = &mut self.accepting;
        let _ = tokio::time::timeout_at(deadline, accepting).await;
        let finished = tokio::time::timeout_at(deadline, self.app.in_flight.none()).await.is_ok();
        self.phase.send_replace(Phase::Ended);
        // What claims found that nobody waits for any more is handed back first.
        let settled = tokio::time::timeout_at(deadline, self.app.work.settled()).await.is_ok();
        let finished = finished && settled;
        if !finished {
            tracing::warn!("requests were under way when the time to finish them was over");
            let _ = tokio::time::timeout(LAST_WAIT, self.app.in_flight.none()).await;
        }
        finished
    }
}

impl Drop for RunningServer {
    fn drop(&mut self) {
        self.app.drain.send_replace(true);
        self.phase.send_replace(Phase::Ended);
        self.accepting.abort();
    }
}

/// Where links lead to. What a request calls the server is never asked: whoever sends one could
/// make links that lead elsewhere.
fn public_url(config: &ServerConfig, address: SocketAddr) -> Option<PublicUrl> {
    let listening = || (!address.ip().is_unspecified()).then(|| url(config, address).parse().ok());
    config.public_url.clone().or_else(|| listening().flatten())
}

fn url(config: &ServerConfig, address: SocketAddr) -> String {
    let scheme = if config.tls.is_some() { "https" } else { "http" };
    format!("{scheme}://{address}")
}

fn banner(config: &ServerConfig, app: &App, address: SocketAddr) -> String {
    let url = url(config, address);
    let (access, token) = match config.tokens.len() {
        0 => ("no token needed", ""),
        _ => ("bearer token needed", "-H 'Authorization: Bearer …' "),
    };
    let kept =
        store::kept(&app.store).map(|kept| format!("\n  on disk     {kept}")).unwrap_or_default();
    [
        format!("FlowFabric {}", env!("CARGO_PKG_VERSION")),
        format!("  store       {}{kept}", config.store),
        format!("  partitions  {}", app.partitions().num_flow_partitions),
        format!("  listening   {url} ({access}), API at {url}/reference"),
        format!("  try         curl {token}--json '{{\"kind\":\"hello\"}}' {url}/v1/executions"),
    ]
    .join("\n")
}
