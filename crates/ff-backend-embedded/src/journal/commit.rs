//! Where shards and the journal's thread meet: batches go in, and answers wait for them.

use std::io;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, mpsc};
use std::time::Duration;

use ff_core::backend_error::BackendError;

use super::room::{self, Room};
use super::writer::OpenFile;
use crate::effects::Transactions;
use crate::error::backend as errors;
use crate::shard::{Answer, Commit};
use crate::stop::Stop;
use crate::vm::Machine;
use crate::wake::WakeHub;

/// What a shard did in one go.
#[derive(Default)]
pub(crate) struct Batch {
    pub(crate) transactions: Transactions,
    pub(crate) answers: Vec<Answer>,
}

/// Whether calls are run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum JournalState {
    Writable,
    /// There is no room for what a call may write: only reads are run.
    Full,
    /// The disk failed: nothing is run.
    Stopped,
}

/// A file to go on in, once the current one is sealed.
pub(crate) struct NextFile {
    pub(crate) open: OpenFile,
    /// Told the last transaction of the old file when it is sealed.
    pub(crate) sealed: mpsc::Sender<u64>,
}

/// What the journal's thread is to do.
#[derive(Default)]
pub(crate) struct Work {
    pub(crate) batches: Vec<Batch>,
    pub(crate) next_file: Option<NextFile>,
    /// How a sync on another thread ended, and up to which transaction it went.
    pub(crate) synced: Option<io::Result<u64>>,
    /// Calls wait for as much room.
    pub(crate) wanted: u64,
    /// Somebody wants to write while the disk is full.
    pub(crate) retry: bool,
    /// Every shard has ended.
    pub(crate) closing: bool,
    /// Number of the last batch.
    pub(crate) ticket: u64,
}

/// Shared by the shards, the journal's thread and the compaction.
#[derive(Default)]
pub(crate) struct Shared {
    queue: Mutex<Queue>,
    arrived: Condvar,
    /// Tells calls that wait for room that there is more, or that there is none.
    answered: Condvar,
    /// Room in the journal for the calls to come.
    pub(crate) room: Room,
    state: AtomicU8,
    /// Number of the last batch whose effects are as durable as configured.
    committed: AtomicU64,
    /// Length of the rewritten journal.
    pub(crate) base_bytes: AtomicU64,
    /// Length of what was sealed and is still to be rewritten.
    pub(crate) sealed_bytes: AtomicU64,
    /// A rewrite is under way.
    pub(crate) compacting: AtomicBool,
    /// Stops the store when the journal cannot go on.
    pub(crate) stop: Arc<Stop>,
}

#[derive(Default)]
struct Queue {
    work: Work,
    spares: Vec<Transactions>,
    /// Nobody takes work any more.
    abandoned: bool,
    /// How often calls that waited for room were answered, and whether the disk was full then.
    answers: u64,
    full: bool,
}

/// Bytes after which a batch is handed over, however few calls it has.
const BATCH_BYTES: usize = 1 << 20;
/// Buffers that are kept for reuse, and how large they may be.
const SPARES_MAX: usize = 16;
const SPARE_BYTES_MAX: usize = 1 << 20;

impl Shared {
    pub(crate) fn new(stop: Arc<Stop>) -> Self {
        Self { stop, ..Self::default() }
    }

    pub(crate) fn state(&self) -> JournalState {
        match self.state.load(Ordering::Acquire) {
            0 => JournalState::Writable,
            1 => JournalState::Full,
            _ => JournalState::Stopped,
        }
    }

    pub(crate) fn set_state(&self, state: JournalState) {
        self.state.store(state as u8, Ordering::Release);
        if state != JournalState::Writable {
            self.answer_waiting(true);
        }
    }

    /// Tells calls that wait for room to look again; without more if the disk is full.
    pub(crate) fn answer_waiting(&self, full: bool) {
        let mut queue = self.lock();
        queue.answers += 1;
        queue.full = full;
        self.answered.notify_all();
    }

    /// Takes room for a call; waits if more must be reserved first. False if there is none.
    fn take_room(&self, bytes: u64) -> bool {
        self.room.take(bytes) || self.wait_for_room(bytes)
    }

    fn wait_for_room(&self, bytes: u64) -> bool {
        let mut queue = self.lock();
        while self.state() == JournalState::Writable {
            queue.work.wanted = queue.work.wanted.max(bytes);
            self.arrived.notify_one();
            let answers = queue.answers;
            let unanswered = |queue: &mut Queue| queue.answers == answers;
            let waited = self.answered.wait_while(queue, unanswered);
            queue = waited.unwrap_or_else(PoisonError::into_inner);
            if self.room.take(bytes) {
                return true;
            }
            if queue.full {
                return false;
            }
        }
        false
    }

    pub(crate) fn committed(&self) -> u64 {
        self.committed.load(Ordering::Acquire)
    }

    pub(crate) fn set_committed(&self, ticket: u64) {
        self.committed.store(ticket, Ordering::Release);
    }

    fn lock(&self) -> MutexGuard<'_, Queue> {
        // Nothing that can panic runs under this lock.
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Hands over a batch; answers its number.
    fn submit(&self, batch: Batch) -> u64 {
        let mut queue = self.lock();
        queue.work.ticket += 1;
        if queue.abandoned {
            let ticket = queue.work.ticket;
            drop(queue);
            self.refuse_all(vec![batch]);
            return ticket;
        }
        queue.work.batches.push(batch);
        let ticket = queue.work.ticket;
        drop(queue);
        self.arrived.notify_one();
        ticket
    }

    fn spare(&self) -> Transactions {
        self.lock().spares.pop().unwrap_or_default()
    }

    /// Takes back buffers that were written.
    pub(crate) fn reuse(&self, spares: impl Iterator<Item = Transactions>) {
        let mut queue = self.lock();
        for mut spare in spares {
            if queue.spares.len() < SPARES_MAX && spare.bytes.capacity() <= SPARE_BYTES_MAX {
                spare.clear();
                queue.spares.push(spare);
            }
        }
    }

    fn ask_for_retry(&self) {
        self.lock().work.retry = true;
        self.arrived.notify_one();
    }

    /// Asks the journal's thread to seal its file and go on in another.
    pub(crate) fn switch_to(&self, next: NextFile) {
        self.lock().work.next_file = Some(next);
        self.arrived.notify_one();
    }

    /// Tells the journal's thread how a sync on another thread ended.
    pub(crate) fn synced(&self, outcome: io::Result<u64>) {
        self.lock().work.synced = Some(outcome);
        self.arrived.notify_one();
    }

    /// Tells the journal's thread that no more batches will come.
    pub(crate) fn close(&self) {
        self.lock().work.closing = true;
        self.arrived.notify_one();
    }

    /// The journal's thread is gone: refuses what is there and what will come.
    pub(crate) fn abandon(&self) {
        self.set_state(JournalState::Stopped);
        let mut queue = self.lock();
        queue.abandoned = true;
        let left = std::mem::take(&mut queue.work.batches);
        drop(queue);
        self.refuse_all(left);
    }

    /// Tells calls that the store has stopped.
    pub(crate) fn refuse_all(&self, batches: Vec<Batch>) {
        for answer in batches.into_iter().flat_map(|batch| batch.answers) {
            let error = if answer.wrote { errors::stopped_midway } else { errors::stopped };
            answer.refuse(error(self.stop_reason()));
        }
    }

    fn stop_reason(&self) -> &str {
        self.stop.reason().unwrap_or("the journal has ended")
    }

    /// Waits until there is something to do, or for the given time at most. If there are calls to
    /// answer, waits a little longer until there are as many as `gather` says.
    pub(crate) fn wait(&self, time_limit: Option<Duration>, gather: (usize, Duration)) -> Work {
        let nothing = |queue: &mut Queue| {
            let work = &queue.work;
            let asked = work.retry || work.closing || work.wanted > 0 || work.synced.is_some();
            work.batches.is_empty() && work.next_file.is_none() && !asked
        };
        let (calls, gather_time) = gather;
        let too_few = |queue: &mut Queue| {
            let waiting: usize = queue.work.batches.iter().map(|batch| batch.answers.len()).sum();
            waiting > 0 && waiting < calls && !queue.work.closing
        };
        let queue = self.lock();
        let mut queue = match time_limit {
            None => self.arrived.wait_while(queue, nothing).unwrap_or_else(PoisonError::into_inner),
            Some(time) => {
                let waited = self.arrived.wait_timeout_while(queue, time, nothing);
                waited.unwrap_or_else(PoisonError::into_inner).0
            }
        };
        if too_few(&mut queue) {
            let waited = self.arrived.wait_timeout_while(queue, gather_time, too_few);
            queue = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
        let (ticket, closing) = (queue.work.ticket, queue.work.closing);
        let fresh = Work { ticket, closing, ..Work::default() };
        std::mem::replace(&mut queue.work, fresh)
    }
}

/// Answers calls through the journal.
pub(crate) struct CommitToJournal {
    shared: Arc<Shared>,
    hub: Arc<WakeHub>,
    answers: Vec<Answer>,
    /// Number of this shard's last batch.
    last_ticket: u64,
    /// Room that was taken for the call that is being run.
    promised: u64,
    /// Bytes of the batch before that call.
    collected: usize,
}

impl CommitToJournal {
    pub(crate) fn new(shared: Arc<Shared>, hub: Arc<WakeHub>) -> Self {
        Self { shared, hub, answers: Vec::new(), last_ticket: 0, promised: 0, collected: 0 }
    }

    /// True if everything that this shard did is as durable as configured.
    fn is_settled(&self, machine: &mut Machine) -> bool {
        !machine.session().effects.has_batch() && self.shared.committed() >= self.last_ticket
    }
}

impl CommitToJournal {
    /// Takes room for what a call may write. If it cannot, answers why not.
    fn promise(&mut self, argument_bytes: usize) -> Result<(), BackendError> {
        let needed = room::needed(argument_bytes);
        if self.shared.take_room(needed) {
            self.promised = needed;
            return Ok(());
        }
        Err(match self.shared.state() {
            JournalState::Stopped => errors::stopped(self.shared.stop_reason()),
            JournalState::Writable | JournalState::Full => errors::disk_full(),
        })
    }

    /// The call was run: gives back what it did not use.
    fn settle(&mut self, machine: &mut Machine) {
        let collected = machine.session().effects.batch_bytes();
        let used = (collected - self.collected) as u64;
        let promised = std::mem::take(&mut self.promised);
        debug_assert!(used <= promised, "a call wrote {used} bytes, and was promised {promised}");
        if used > promised {
            tracing::error!("a call wrote {used} bytes, and was promised {promised}");
        }
        self.shared.room.settle(promised, used);
        self.collected = collected;
    }
}

impl Commit for CommitToJournal {
    fn admits(&mut self, read_only: bool, argument_bytes: usize) -> Result<(), BackendError> {
        match self.shared.state() {
            JournalState::Writable | JournalState::Full if read_only => Ok(()),
            JournalState::Writable => self.promise(argument_bytes),
            JournalState::Full => {
                self.shared.ask_for_retry();
                Err(errors::disk_full())
            }
            JournalState::Stopped => Err(errors::stopped(self.shared.stop_reason())),
        }
    }

    fn answer(&mut self, machine: &mut Machine, answer: Answer) {
        self.settle(machine);
        if self.is_settled(machine) {
            answer.deliver(&self.hub);
        } else {
            self.answers.push(answer);
        }
    }

    fn is_batch_large(&self) -> bool {
        self.collected >= BATCH_BYTES
    }

    fn end_batch(&mut self, machine: &mut Machine) {
        if self.answers.is_empty() {
            return;
        }
        let transactions = machine.session().effects.take_batch(self.shared.spare());
        self.collected = 0;
        let answers = std::mem::take(&mut self.answers);
        self.last_ticket = self.shared.submit(Batch { transactions, answers });
    }
}
