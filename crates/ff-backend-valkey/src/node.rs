//! One server and its connections, opened when needed and replaced when broken.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, PoisonError, RwLock};

use tokio::sync::Mutex;
use tokio::time::Instant;

use crate::config::Address;
use crate::connection::{Connection, Connector};
use crate::durability::Durability;
use crate::errors::{Failure, Remedy};
use crate::replication::Replication;

/// A server that calls can go to.
pub(crate) struct Node {
    pub(crate) address: Address,
    connector: Arc<Connector>,
    lanes: Box<[Lane]>,
    turn: AtomicUsize,
    /// The way of calls that a replica must have before they are answered, if any have to.
    pub(crate) replication: Option<Arc<Replication>>,
    /// True if it has acknowledged something since its last mark.
    unmarked: AtomicBool,
}

impl Node {
    pub(crate) fn new(address: Address, connector: Arc<Connector>) -> Self {
        let count = connector.config.connections.max(1);
        let lanes = (0..count).map(|_| Lane::default()).collect();
        let replicated = connector.config.durability == Durability::Replica;
        Self {
            address,
            connector,
            lanes,
            replication: replicated.then(|| Arc::new(Replication::new())),
            turn: AtomicUsize::new(0),
            unmarked: AtomicBool::new(false),
        }
    }

    /// A connection that is not known to be broken.
    pub(crate) async fn connection(&self) -> Result<Arc<Connection>, Failure> {
        self.connection_of(self.next_lane()).await
    }

    /// The connection of a lane, opened if it is not there or known to be broken.
    pub(crate) async fn connection_of(&self, lane: &Lane) -> Result<Arc<Connection>, Failure> {
        match lane.usable() {
            Some(connection) => Ok(connection),
            None => lane.open(&self.address, &self.connector).await,
        }
    }

    /// Does what a failure means for the connection it happened on. One that broke, or that nobody
    /// answers on, is taken out of use; calls that wait on it keep it until they are answered.
    pub(crate) fn react(&self, failure: &Failure, connection: &Arc<Connection>) {
        match failure.remedy {
            Remedy::Reconnect => self.all_lanes().for_each(|lane| lane.discard(connection)),
            Remedy::LoadLibrary => connection.set_verified(false),
            Remedy::GiveUp | Remedy::Wait | Remedy::Refresh => {}
        }
    }

    /// Notes that something was acknowledged that no mark covers. True if that is new.
    pub(crate) fn note_unmarked(&self) -> bool {
        // Looking first: while a mark is due, calls only read.
        !self.unmarked.load(Ordering::Relaxed) && !self.unmarked.swap(true, Ordering::AcqRel)
    }

    /// True if something was acknowledged since this was last asked.
    pub(crate) fn take_unmarked(&self) -> bool {
        self.unmarked.swap(false, Ordering::AcqRel)
    }

    fn all_lanes(&self) -> impl Iterator<Item = &Lane> {
        self.lanes.iter().chain(self.replication.iter().map(|replication| &replication.lane))
    }

    fn next_lane(&self) -> &Lane {
        match &*self.lanes {
            [only] => only,
            lanes => &lanes[self.turn.fetch_add(1, Ordering::Relaxed) % lanes.len()],
        }
    }
}

/// The place of one connection.
#[derive(Default)]
pub(crate) struct Lane {
    current: RwLock<Option<Arc<Connection>>>,
    /// Held by the one who opens. Remembers when and how the last try failed.
    opening: Mutex<Option<(Instant, Failure)>>,
}

impl Lane {
    fn usable(&self) -> Option<Arc<Connection>> {
        let current = self.current.read().unwrap_or_else(PoisonError::into_inner);
        current.as_ref().filter(|connection| !connection.is_closed()).cloned()
    }

    async fn open(
        &self,
        address: &Address,
        connector: &Connector,
    ) -> Result<Arc<Connection>, Failure> {
        let asked_at = Instant::now();
        let mut last_failure = self.opening.lock().await;
        if let Some(connection) = self.usable() {
            return Ok(connection);
        }
        // Those who waited for a try that failed share its result: one by one they would take
        // a connect timeout each.
        if let Some((at, failure)) = last_failure.as_ref().filter(|(at, _)| *at >= asked_at) {
            tracing::trace!(%address, age = ?at.elapsed(), "shares a failed connection attempt");
            return Err(failure.clone());
        }
        match connector.open(address).await {
            Ok(connection) => Ok(self.set(Arc::new(connection))),
            Err(failure) => {
                *last_failure = Some((Instant::now(), failure.clone()));
                Err(failure)
            }
        }
    }

    fn set(&self, connection: Arc<Connection>) -> Arc<Connection> {
        let mut current = self.current.write().unwrap_or_else(PoisonError::into_inner);
        *current = Some(Arc::clone(&connection));
        connection
    }

    fn discard(&self, connection: &Arc<Connection>) {
        let mut current = self.current.write().unwrap_or_else(PoisonError::into_inner);
        if current.as_ref().is_some_and(|current| Arc::ptr_eq(current, connection)) {
            *current = None;
        }
    }
}
