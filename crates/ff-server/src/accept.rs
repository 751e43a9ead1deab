//! Accepts connections, as many as allowed, and ends them when the server does.

use std::io;
use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use axum::Router;
use ff_api::headers::PROBLEM_JSON;
use ff_api::problem::{HttpCode, Problem};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::{Service, service_fn};
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Semaphore, watch};
use tokio_rustls::TlsAcceptor;

use crate::app::App;
use crate::client_stream::ClientStream;
use crate::connection_limiter::{Connection, ConnectionPermit};
use crate::lasting::Answer;
use crate::request_body::RequestBody;

/// Clients at a time that are told why they are turned away; others are only cut.
const TURNED_AWAY_MAX: usize = 64;
/// Pause when the operating system has no more files.
const PAUSE: Duration = Duration::from_millis(50);
/// The largest head of a request.
const HEAD_BYTES_MAX: usize = 256 * 1024;

/// How far the shutdown is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Phase {
    /// Everything is served.
    Running,
    /// What is under way is finished, nothing new is begun.
    Draining,
    /// Everything ends now.
    Ended,
}

/// The accepting side of a server.
#[derive(Clone)]
pub(crate) struct Acceptor {
    app: Arc<App>,
    router: Router,
    tls: watch::Receiver<Option<TlsAcceptor>>,
    phase: watch::Receiver<Phase>,
    turned_away: Arc<Semaphore>,
}

impl Acceptor {
    pub(crate) fn new(
        app: Arc<App>,
        router: Router,
        tls: watch::Receiver<Option<TlsAcceptor>>,
        phase: watch::Receiver<Phase>,
    ) -> Self {
        let turned_away = Arc::new(Semaphore::new(TURNED_AWAY_MAX));
        Self { app, router, tls, phase, turned_away }
    }

    /// Accepts until the server drains.
    pub(crate) async fn run(mut self, listener: TcpListener) {
        loop {
            let accepted = tokio::select! {
                accepted = listener.accept() => accepted,
                _ = self.phase.wait_for(|phase| *phase > Phase::Running) => return,
            };
            match accepted {
                Ok((stream, address)) => self.take(stream, address.ip()),
                Err(error) => {
                    tracing::warn!(%error, "a connection could not be accepted");
                    tokio::time::sleep(PAUSE).await;
                }
            }
        }
    }

    fn take(&self, stream: TcpStream, address: IpAddr) {
        // Answers are small and awaited: they must not wait for more to send.
        let _ = stream.set_nodelay(true);
        match self.app.connections.enter(address) {
            Some(permit) => {
                tokio::spawn(self.clone().serve(stream, permit));
            }
            None => self.turn_away(stream),
        }
    }

    async fn serve(self, stream: TcpStream, permit: ConnectionPermit) {
        let metrics = &self.app.metrics;
        metrics.connections.fetch_add(1, Ordering::Relaxed);
        let in_flight = self.app.in_flight.begin();
        tokio::select! {
            () = self.serve_stream(stream, permit.connection()) => {}
            () = permit.connection().over() => {
                metrics.connections_cut.fetch_add(1, Ordering::Relaxed);
            }
        }
        metrics.connections.fetch_sub(1, Ordering::Relaxed);
        drop((permit, in_flight));
    }

    async fn serve_stream(&self, stream: TcpStream, connection: &Arc<Connection>) {
        let tls = self.tls.borrow().clone();
        let Some(tls) = tls else { return self.serve_http(stream, connection).await };
        let limit = self.app.limits.header_timeout();
        if let Ok(Ok(stream)) = tokio::time::timeout(limit, tls.accept(stream)).await {
            self.serve_http(stream, connection).await;
        }
    }

    async fn serve_http(
        &self,
        stream: impl AsyncRead + AsyncWrite + Unpin,
        connection: &Arc<Connection>,
    ) {
        let limits = &self.app.limits;
        let stream = ClientStream::new(stream, Arc::clone(connection), limits.write_timeout());
        let stream = TokioIo::new(stream);
        let router = TowerToHyperService::new(self.router.clone());
        let service = service_fn(|request: hyper::Request<Incoming>| {
            let begun = connection.work();
            let request = request.map(|body| RequestBody::new(body, Arc::clone(connection)));
            let answering = router.call(request);
            async move {
                // The place was given to somebody else: nothing is begun any more.
                if !begun {
                    std::future::pending::<()>().await;
                }
                answering.await.map(|answer| Answer::of(answer, connection))
            }
        });
        let connection = http1::Builder::new()
            .timer(TokioTimer::new())
            .header_read_timeout(limits.header_timeout())
            .max_buf_size(HEAD_BYTES_MAX)
            .serve_connection(stream, service);
        let mut connection = std::pin::pin!(connection);
        let (mut draining, mut ended) = (self.phase.clone(), self.phase.clone());
        // What goes wrong here is the client's doing, and the client is gone.
        tokio::select! {
            _ = connection.as_mut() => return,
            _ = draining.wait_for(|phase| *phase > Phase::Running) => {}
        }
        connection.as_mut().graceful_shutdown();
        tokio::select! {
            _ = connection => {}
            _ = ended.wait_for(|phase| *phase > Phase::Draining) => {}
        }
    }

    /// Says that there is no room, to a few at a time.
    fn turn_away(&self, stream: TcpStream) {
        self.app.metrics.connections_refused.fetch_add(1, Ordering::Relaxed);
        let Ok(permit) = Arc::clone(&self.turned_away).try_acquire_owned() else { return };
        if self.tls.borrow().is_none() {
            tokio::spawn(async move {
                let _ = tokio::time::timeout(Duration::from_secs(1), say_full(stream)).await;
                drop(permit);
            });
        }
    }
}

/// The request is read before the connection is closed: closing with unread bytes would make the
/// client's system throw the answer away.
async fn say_full(mut stream: TcpStream) -> io::Result<()> {
    let problem = Problem::new(HttpCode::Overloaded, "there are too many connections");
    let body = serde_json::to_string(&problem).unwrap_or_default();
    let head = format!(
        "HTTP/1.1 503 Service Unavailable\r\ncontent-type: {PROBLEM_JSON}\r\nretry-after: 1\r\n\
         connection: close\r\ncontent-length: {}\r\n\r\n",
        body.len()
    );
    stream.write_all(head.as_bytes()).await?;
    stream.write_all(body.as_bytes()).await?;
    stream.shutdown().await?;
    let mut unread = [0; 4096];
    while stream.read(&mut unread).await? > 0 {}
    Ok(())
}
