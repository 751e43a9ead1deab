//! One pipelined connection to one server, and how it is opened.

use std::sync::atomic::{AtomicBool, Ordering};

use redis::aio::{AsyncPushSender, MultiplexedConnection};
use redis::{
    AsyncConnectionConfig, Cmd, Pipeline, ProtocolVersion, RedisConnectionInfo, RedisError,
};
use tokio::sync::{Mutex, watch};
use tokio::task::JoinHandle;
use tokio::time::timeout;

use ff_core::backend_error::{BackendError, BackendErrorKind, Retry};
use ff_script::value::Value;

use crate::config::{Address, ValkeyConfig};
use crate::errors::{Failure, Phase, Remedy, classify, of_connecting};
use crate::reply::to_value;
use crate::stream::Dialer;

/// How many calls may wait to be written. Beyond that, callers wait for room.
const WRITE_QUEUE: usize = 256;

/// An open connection. Many callers share it; their calls are pipelined.
pub(crate) struct Connection {
    pub(crate) address: Address,
    pipelined: MultiplexedConnection,
    driver: JoinHandle<()>,
    closed: watch::Receiver<bool>,
    /// True once the library on this server is known to be right.
    verified: AtomicBool,
    /// Held by the one who verifies, so that others wait instead of doing it too.
    pub(crate) verifying: Mutex<()>,
}

impl Connection {
    /// Runs one command.
    pub(crate) async fn run(&self, command: &Cmd) -> Result<Value, Failure> {
        let reply = self.pipelined.clone().send_packed_command(command).await;
        reply.and_then(to_value).map_err(|error| self.failure(&error))
    }

    /// Runs several commands in one go. The first error is the answer to all of them.
    pub(crate) async fn run_all(&self, commands: &Pipeline) -> Result<Vec<Value>, Failure> {
        let replies =
            self.pipelined.clone().send_packed_commands(commands, 0, commands.len()).await;
        replies
            .and_then(|replies| replies.into_iter().map(to_value).collect())
            .map_err(|error| self.failure(&error))
    }

    /// Runs several commands in one go, and tells how each of them went.
    pub(crate) async fn run_each(
        &self,
        commands: &Pipeline,
    ) -> Result<Vec<Result<Value, Failure>>, Failure> {
        let replies =
            self.pipelined.clone().send_packed_commands(commands, 0, commands.len()).await;
        let replies = replies.map_err(|error| self.failure(&error))?.into_iter();
        Ok(replies.map(|reply| to_value(reply).map_err(|error| self.failure(&error))).collect())
    }

    fn failure(&self, error: &RedisError) -> Failure {
        classify(error, &self.address, Phase::Calling)
    }

    /// True if the connection is known to be broken: a call would not get out.
    pub(crate) fn is_closed(&self) -> bool {
        self.driver.is_finished()
    }

    /// Returns when the connection breaks.
    pub(crate) async fn closed(&self) {
        let mut closed = self.closed.clone();
        // An error means that the driver is gone without a word, which is closed as well.
        let _ = closed.wait_for(|closed| *closed).await;
    }

    pub(crate) fn is_verified(&self) -> bool {
        self.verified.load(Ordering::Relaxed)
    }

    pub(crate) fn set_verified(&self, verified: bool) {
        self.verified.store(verified, Ordering::Relaxed);
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        // A server that hangs would otherwise keep the driver waiting for its answers.
        self.driver.abort();
    }
}

/// Opens connections.
pub(crate) struct Connector {
    pub(crate) config: ValkeyConfig,
    dialer: Dialer,
}

impl Connector {
    pub(crate) fn new(config: ValkeyConfig) -> Result<Self, BackendError> {
        let dialer = Dialer::new(&config).map_err(|error| {
            let message = format!("TLS cannot be used: {error}");
            BackendError::new(BackendErrorKind::Auth, Retry::Never, message)
        })?;
        Ok(Self { config, dialer })
    }

    /// Opens a connection for calls.
    pub(crate) async fn open(&self, address: &Address) -> Result<Connection, Failure> {
        self.open_with(address, ProtocolVersion::RESP2, AsyncConnectionConfig::new()).await
    }

    /// Opens a connection for wake-ups, which go to `sender`.
    pub(crate) async fn open_listening(
        &self,
        address: &Address,
        sender: impl AsyncPushSender,
    ) -> Result<Connection, Failure> {
        let options = AsyncConnectionConfig::new().set_push_sender(sender);
        self.open_with(address, ProtocolVersion::RESP3, options).await
    }

    async fn open_with(
        &self,
        address: &Address,
        protocol: ProtocolVersion,
        options: AsyncConnectionConfig,
    ) -> Result<Connection, Failure> {
        let limit = self.config.connect_timeout;
        let opening = self.open_unbounded(address, protocol, options);
        timeout(limit, opening).await.unwrap_or_else(|_| {
            let message = format!("{address} cannot be reached within {limit:?}");
            let kind = BackendErrorKind::Transport;
            Err(Failure::new(kind, Retry::Safe, Remedy::Reconnect, message))
        })
    }

    async fn open_unbounded(
        &self,
        address: &Address,
        protocol: ProtocolVersion,
        options: AsyncConnectionConfig,
    ) -> Result<Connection, Failure> {
        let stream =
            self.dialer.open(address).await.map_err(|error| of_connecting(&error, address))?;
        let options = options
            .set_response_timeout(Some(self.config.response_timeout))
            .set_pipeline_buffer_size(WRITE_QUEUE);
        let login = self.login(protocol);
        let (pipelined, driver) = MultiplexedConnection::new_with_config(&login, stream, options)
            .await
            .map_err(|error| classify(&error, address, Phase::Connecting))?;
        let (closing, closed) = watch::channel(false);
        let driver = tokio::spawn(async move {
            driver.await;
            closing.send_replace(true);
        });
        Ok(Connection {
            address: address.clone(),
            pipelined,
            driver,
            closed,
            verified: AtomicBool::new(false),
            verifying: Mutex::new(()),
        })
    }

    fn login(&self, protocol: ProtocolVersion) -> RedisConnectionInfo {
        let mut login = RedisConnectionInfo::default()
            .set_protocol(protocol)
            .set_lib_name("flowfabric", env!("CARGO_PKG_VERSION"));
        if let Some(user) = &self.config.username {
            login = login.set_username(user);
        }
        if let Some(password) = self.config.password() {
            login = login.set_password(password);
        }
        login
    }
}
