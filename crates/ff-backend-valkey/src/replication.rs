//! Calls that are answered when a replica has them, too: `durability = replica`.
//!
//! WAIT keeps back whatever stands behind it on its connection, so these calls have a connection of
//! their own to each server. Who calls while a batch is under way is part of the next one. A batch
//! is its calls, a mark and one WAIT; all are answered after that.
//!
//! WAIT asks whether a replica has the last write of its connection. A call that writes nothing,
//! such as the repetition of one that was done and not confirmed, would be confirmed at once,
//! although what it tells of may be on no replica. The mark always writes, and replicas have writes
//! in their order: one that has the mark has everything that the calls before it saw.
//!
//! After a batch that was not confirmed nothing is sent until a replica has caught up with it, so
//! that no more than one batch of each process is done and not safe.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use ff_core::backend_error::{BackendError, BackendErrorKind, Retry};
use ff_core::partition::Partition;
use ff_script::call::Call;
use ff_script::calls::mark::MarkShard;
use ff_script::ids::{IdSource as _, SystemIds};
use ff_script::value::Value;
use redis::{Cmd, Pipeline};
use tokio::sync::oneshot;

use crate::caller::{Caller, call_command};
use crate::config::Address;
use crate::connection::Connection;
use crate::errors::{Failure, Remedy};
use crate::node::{Lane, Node};

/// The most calls of a batch. The replies of all of them wait in memory for the last one.
const BATCH_MAX: usize = 256;

/// The calls of one server that wait for a replica, and the connection they go over.
pub(crate) struct Replication {
    pub(crate) lane: Lane,
    queue: Mutex<Queue>,
    /// Whose marks these are. They end batches and are compared with nothing.
    server: MarkShard,
    marks: AtomicU64,
    /// Why the last batch was not confirmed, if it was not.
    trouble: Mutex<Option<BackendError>>,
}

#[derive(Default)]
struct Queue {
    calls: VecDeque<Waiting>,
    /// True while somebody sends batches, who will find what is added.
    under_way: bool,
}

struct Waiting {
    command: Cmd,
    answer: oneshot::Sender<Result<Value, Failure>>,
}

type Replies = Vec<Result<Value, Failure>>;

impl Replication {
    pub(crate) fn new() -> Self {
        Self {
            lane: Lane::default(),
            queue: Mutex::default(),
            server: MarkShard { server: SystemIds.random(), mark: 0 },
            marks: AtomicU64::new(0),
            trouble: Mutex::default(),
        }
    }

    /// Why calls are not confirmed at present.
    pub(crate) fn trouble(&self) -> Option<BackendError> {
        self.trouble.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn note(&self, trouble: Option<&Failure>) {
        let mut noted = self.trouble.lock().unwrap_or_else(PoisonError::into_inner);
        *noted = trouble.map(|failure| failure.error.clone());
    }

    /// Adds a call. True if nobody sends batches: whoever added it has to.
    fn add(&self, call: Waiting) -> bool {
        let mut queue = self.queue();
        queue.calls.push_back(call);
        !std::mem::replace(&mut queue.under_way, true)
    }

    /// The calls of the next batch; those whose callers are gone are not sent. With none, whoever
    /// adds the next call sends it.
    fn next_batch(&self) -> Option<Vec<Waiting>> {
        let mut queue = self.queue();
        queue.calls.retain(|call| !call.answer.is_closed());
        let count = queue.calls.len().min(BATCH_MAX);
        queue.under_way = count > 0;
        queue.under_way.then(|| queue.calls.drain(..count).collect())
    }

    /// A write that comes after everything in the batch.
    fn mark(&self, partition: Partition) -> Cmd {
        let mark = self.marks.fetch_add(1, Ordering::Relaxed) + 1;
        let call = MarkShard { mark, ..self.server.clone() };
        call_command(MarkShard::FUNCTION, partition, &call.encode())
    }

    fn queue(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Runs one command in the next batch of its server.
pub(crate) async fn run(
    caller: &Arc<Caller>,
    node: &Arc<Node>,
    replication: &Arc<Replication>,
    command: &Cmd,
) -> Result<Value, Failure> {
    let (answer, answered) = oneshot::channel();
    if replication.add(Waiting { command: command.clone(), answer }) {
        // By a task of its own: a caller that is gone must not take the others' answers with it.
        let (caller, node) = (Arc::clone(caller), Arc::clone(node));
        tokio::spawn(send_batches(caller, node, Arc::clone(replication)));
    }
    answered.await.unwrap_or_else(|_| {
        let message = format!("the process stopped waiting for {}", node.address);
        let kind = BackendErrorKind::Closed;
        Err(Failure::new(kind, Retry::IfReplaySafe, Remedy::GiveUp, message))
    })
}

async fn send_batches(caller: Arc<Caller>, node: Arc<Node>, replication: Arc<Replication>) {
    let mut turn = Turn { of: &replication, over: false };
    while let Some(calls) = replication.next_batch() {
        let commands: Vec<&Cmd> = calls.iter().map(|call| &call.command).collect();
        let sent = send(&caller, &node, &replication, &commands).await;
        let replies = match sent {
            Ok(replies) => replies,
            Err(failure) => vec![Err(failure); calls.len()],
        };
        for (call, reply) in calls.into_iter().zip(replies) {
            // Who does not wait any more is not told.
            let _ = call.answer.send(reply);
        }
    }
    turn.over = true;
}

/// Sends one batch. An error is that of all its calls.
async fn send(
    caller: &Caller,
    node: &Arc<Node>,
    replication: &Replication,
    commands: &[&Cmd],
) -> Result<Replies, Failure> {
    let config = &caller.topology.connector.config;
    let ready = caller.replicating(node, replication).await;
    let connection = ready.inspect_err(|failure| replication.note(Some(failure)))?;
    let mark = replication.mark(caller.topology.last_partition_of(&node.address)?);
    let sent = connection.run_each(&batch(commands, mark, config.replica_timeout)).await;
    let mut replies = sent.inspect_err(|failure| node.react(failure, &connection))?;
    let confirmed = confirmed(&mut replies, &node.address, config.replica_timeout);
    replication.note(confirmed.as_ref().err());
    let failures = replies.iter().filter_map(|reply| reply.as_ref().err());
    failures.chain(confirmed.as_ref().err()).for_each(|failure| node.react(failure, &connection));
    if let Err(failure) = confirmed {
        // Whoever comes next looks first whether a replica has caught up.
        connection.set_verified(false);
        replies.iter_mut().filter(|reply| reply.is_ok()).for_each(|it| *it = Err(failure.clone()));
    }
    Ok(replies)
}

fn batch(commands: &[&Cmd], mark: Cmd, within: Duration) -> Pipeline {
    let mut batch = Pipeline::with_capacity(commands.len() + 2);
    for command in commands {
        batch.add_command((*command).clone());
    }
    batch.add_command(mark).add_command(wait(within));
    batch
}

/// Takes the replies to the mark and to WAIT: whether a replica has the batch.
fn confirmed(replies: &mut Replies, address: &Address, within: Duration) -> Result<(), Failure> {
    let (waited, marked) = (replies.pop(), replies.pop());
    let (remedy, why) = match (marked, waited) {
        (Some(Ok(_)), Some(Ok(Value::Int(1..)))) => return Ok(()),
        (Some(Ok(_)), Some(Ok(_))) => (Remedy::GiveUp, format!("no replica within {within:?}")),
        (Some(Err(failure)), _) | (_, Some(Err(failure))) => {
            (Remedy::Reconnect, failure.error.message)
        }
        (_, None) | (None, _) => (Remedy::Reconnect, "its reply is incomplete".to_owned()),
    };
    let message = format!(
        "{address} has done it, but no replica has confirmed it ({why}): it may be lost if this \
         server fails; it is safe to send it again"
    );
    let kind = BackendErrorKind::NotReplicated;
    Err(Failure::new(kind, Retry::IfReplaySafe, remedy, message))
}

/// Refuses a server without a replica that has all that this connection has written so far.
pub(crate) async fn check(connection: &Connection, within: Duration) -> Result<(), Failure> {
    match connection.run(&wait(within)).await? {
        Value::Int(1..) => Ok(()),
        _ => {
            let message = format!(
                "{} has no replica that keeps up, which durability = replica asks for: nothing \
                 was done",
                connection.address
            );
            let kind = BackendErrorKind::Resource;
            Err(Failure::new(kind, Retry::Safe, Remedy::GiveUp, message))
        }
    }
}

fn wait(within: Duration) -> Cmd {
    // No time at all would be for ever.
    let ms = within.as_millis().max(1);
    let mut command = redis::cmd("WAIT");
    command.arg(1).arg(u64::try_from(ms).unwrap_or(u64::MAX));
    command
}

/// Held by the one who sends batches. If its task ends with its runtime, what waits is let go, and
/// the next call begins anew.
struct Turn<'a> {
    of: &'a Replication,
    over: bool,
}

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        if !self.over {
            *self.of.queue() = Queue::default();
        }
    }
}
