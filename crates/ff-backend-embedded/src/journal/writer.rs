//! The journal's thread: appends what the shards did, syncs it, and answers the calls. One sync
//! serves every call that arrived while the last one was under way.

use std::io;
use std::sync::atomic::Ordering;
use std::sync::{Arc, mpsc};
use std::time::{Duration, Instant};

use super::commit::{Batch, Gate, NextFile, Shared, Work, refuse_all};
use super::disk::{self, JournalFile};
use super::record::{self, Word};
use crate::clock::monotonic;
use crate::config::{CompactionConfig, SyncMode};
use crate::effects::Transactions;
use crate::refusal;
use crate::stats::{self, Counters};
use crate::wake::WakeHub;

const SYNC_INTERVAL: Duration = Duration::from_secs(1);
/// Longest time to wait for callers that were just answered, so that they share the next sync.
const GATHER_MAX: Duration = Duration::from_micros(250);
/// Fewer callers than this are not worth waiting for.
const GATHER_CALLS_MIN: usize = 8;
/// When nothing else happened for as long, the file is told up to where it was synced.
const IDLE: Duration = Duration::from_millis(100);

/// Where the journal is appended to.
pub(crate) struct OpenFile {
    pub(crate) file: Box<dyn JournalFile>,
    pub(crate) salt: u64,
    /// Length up to the last whole batch.
    pub(crate) length: u64,
}

/// Where the journal goes on.
pub(crate) struct WriterStart {
    pub(crate) open: OpenFile,
    /// The last transaction that is there.
    pub(crate) sequence: u64,
    /// Bytes since the last rewrite.
    pub(crate) appended: u64,
}

/// How the journal is written.
#[derive(Clone, Copy)]
pub(crate) struct Policy {
    pub(crate) sync: SyncMode,
    pub(crate) compaction: CompactionConfig,
    pub(crate) full_disk_retry: Duration,
}

/// The journal's thread.
pub(crate) struct Writer {
    shared: Arc<Shared>,
    hub: Arc<WakeHub>,
    counters: Arc<Counters>,
    policy: Policy,
    open: OpenFile,
    /// Asks for a rewrite.
    compact: mpsc::Sender<()>,
    /// The last transaction that was numbered.
    sequence: u64,
    /// The last transaction that is known to be on the disk.
    synced: u64,
    /// The last transaction that the file says is on the disk.
    announced: u64,
    /// What could not be written while the disk was full.
    backlog: Vec<u8>,
    next_file: Option<NextFile>,
    last_sync: Instant,
    sync_took: Duration,
    /// Calls that were answered last.
    answered: usize,
    /// Bytes since the last rewrite after which the next one is due.
    compact_at: u64,
    /// Bytes since the last rewrite.
    appended: u64,
}

impl Writer {
    pub(crate) fn new(
        shared: Arc<Shared>,
        hub: Arc<WakeHub>,
        counters: Arc<Counters>,
        policy: Policy,
        tail: WriterStart,
        compact: mpsc::Sender<()>,
    ) -> Self {
        let WriterStart { open, sequence, appended } = tail;
        Self {
            shared,
            hub,
            counters,
            policy,
            open,
            compact,
            sequence,
            synced: sequence,
            announced: 0,
            backlog: Vec::new(),
            next_file: None,
            last_sync: monotonic(),
            sync_took: Duration::ZERO,
            answered: 0,
            compact_at: policy.compaction.min_bytes,
            appended,
        }
    }

    /// Works until the store is closed and everything is written.
    pub(crate) fn run(mut self) {
        loop {
            let work = self.shared.wait(self.patience(), self.gathering());
            let closing = work.closing;
            self.step(work);
            if closing {
                self.finish();
                return;
            }
        }
    }

    fn gate(&self) -> Gate {
        self.shared.gate()
    }

    /// How long to wait for work before there is something else to do.
    fn patience(&self) -> Option<Duration> {
        match self.gate() {
            Gate::Stopped => None,
            Gate::Full => Some(self.policy.full_disk_retry),
            Gate::Open if self.policy.sync == SyncMode::EverySec && self.synced < self.sequence => {
                Some(SYNC_INTERVAL.saturating_sub(self.last_sync.elapsed()))
            }
            Gate::Open if self.announced < self.synced => Some(IDLE),
            Gate::Open => None,
        }
    }

    /// How many calls to expect, and how long to wait for them: those that were answered together
    /// are likely to be back together. Small against what a sync takes, which they then share.
    fn gathering(&self) -> (usize, Duration) {
        if self.policy.sync == SyncMode::Always && self.answered >= GATHER_CALLS_MIN {
            (self.answered, (self.sync_took / 8).min(GATHER_MAX))
        } else {
            (0, Duration::ZERO)
        }
    }

    fn step(&mut self, mut work: Work) {
        if let Some(next) = work.next_file.take() {
            self.next_file = Some(next);
        }
        let idle = work.batches.is_empty() && !work.retry;
        match self.gate() {
            Gate::Stopped => refuse_all(work.batches),
            Gate::Full => self.step_full(work.batches),
            Gate::Open => self.step_open(work.batches, idle),
        }
        if self.gate() == Gate::Open {
            self.shared.set_committed(work.ticket);
            self.ask_for_compaction();
        }
    }

    fn step_open(&mut self, mut batches: Vec<Batch>, idle: bool) {
        let outcome = self.append(&mut batches, idle).and_then(|()| self.sync_if_due());
        match outcome {
            Ok(()) => self.answer_all(batches),
            Err(Trouble::Full) => self.enter_full(batches),
            Err(Trouble::Broken(error)) => self.stop(batches, &error),
        }
    }

    /// Appends the batches, numbered. On trouble nothing of them is in the file for good.
    fn append(&mut self, batches: &mut [Batch], idle: bool) -> Result<(), Trouble> {
        let some = batches.iter().any(|batch| !batch.transactions.is_empty());
        let mut lead = Vec::new();
        if self.announced < self.synced && (some || idle) {
            record::write_line(&mut lead, Word::Synced, self.synced, self.open.salt);
        }
        self.number(batches);
        let pieces = batches.iter().map(|batch| &*batch.transactions.bytes);
        let written = write_pieces(&mut *self.open.file, std::iter::once(&*lead).chain(pieces));
        match written {
            Ok(bytes) => {
                self.grown(bytes);
                self.announced = if lead.is_empty() { self.announced } else { self.synced };
                Ok(())
            }
            Err(error) if disk::is_full(&error) => {
                self.cut_back()?;
                // A line that nobody waits for is not worth refusing writes.
                self.announced = if some { self.announced } else { self.synced };
                if some { Err(Trouble::Full) } else { Ok(()) }
            }
            Err(error) => Err(Trouble::Broken(error)),
        }
    }

    fn number(&mut self, batches: &mut [Batch]) {
        for Batch { transactions, .. } in batches {
            stats::add(&self.counters.transactions, transactions.marks.len() as u64);
            transactions.number(&mut self.sequence, self.open.salt);
        }
    }

    /// Removes what was appended since the last whole batch.
    fn cut_back(&mut self) -> Result<(), Trouble> {
        self.open.file.truncate(self.open.length).map_err(Trouble::Broken)
    }

    fn grown(&mut self, bytes: u64) {
        self.open.length += bytes;
        self.appended += bytes;
        stats::add(&self.counters.journal_bytes, bytes);
    }

    /// Syncs if the mode wants it now. A file that is to be left is sealed on the way.
    fn sync_if_due(&mut self) -> Result<(), Trouble> {
        if let Some(next) = self.next_file.take() {
            return self.switch(next);
        }
        let due = match self.policy.sync {
            SyncMode::Always => true,
            SyncMode::EverySec => self.last_sync.elapsed() >= SYNC_INTERVAL,
            SyncMode::Off => false,
        };
        if due && self.synced < self.sequence { self.sync() } else { Ok(()) }
    }

    fn sync(&mut self) -> Result<(), Trouble> {
        let started = monotonic();
        self.open.file.sync().map_err(Trouble::Broken)?;
        stats::add(&self.counters.journal_syncs, 1);
        self.synced = self.sequence;
        self.last_sync = monotonic();
        self.sync_took = self.last_sync - started;
        Ok(())
    }

    /// Seals the file with the sync that is due anyway, and goes on in the next one.
    fn switch(&mut self, next: NextFile) -> Result<(), Trouble> {
        let mut line = Vec::new();
        record::write_line(&mut line, Word::Sealed, self.sequence, self.open.salt);
        match disk::write_all(&mut *self.open.file, &line) {
            Ok(()) => {}
            Err(error) if disk::is_full(&error) => {
                // The batch is in the file; only the seal is not. Try again later.
                self.next_file = Some(next);
                self.cut_back()?;
                return self.sync();
            }
            Err(error) => return Err(Trouble::Broken(error)),
        }
        self.sync()?;
        let NextFile { file, salt, length, sealed } = next;
        self.open = OpenFile { file, salt, length };
        self.appended = length;
        self.compact_at = self.policy.compaction.min_bytes;
        self.announced = 0;
        // A compaction that gave up waiting will find the sealed file another time.
        let _ = sealed.send(self.sequence);
        Ok(())
    }

    fn answer_all(&mut self, batches: Vec<Batch>) {
        let mut spares: Vec<Transactions> = Vec::with_capacity(batches.len());
        self.answered = batches.iter().map(|batch| batch.answers.len()).sum();
        for Batch { transactions, answers } in batches {
            spares.push(transactions);
            answers.into_iter().for_each(|answer| answer.deliver(&self.hub));
        }
        self.shared.reuse(spares.into_iter());
    }

    /// The disk is full: keeps what could not be written, and says so.
    fn enter_full(&mut self, batches: Vec<Batch>) {
        tracing::error!("the disk is full: writes are refused until there is room");
        self.shared.set_gate(Gate::Full);
        for batch in &batches {
            self.backlog.extend_from_slice(&batch.transactions.bytes);
        }
        self.answer_while_full(batches);
    }

    fn step_full(&mut self, mut batches: Vec<Batch>) {
        self.number(&mut batches);
        for batch in &batches {
            self.backlog.extend_from_slice(&batch.transactions.bytes);
        }
        match self.write_backlog() {
            Ok(()) => {
                tracing::info!("there is room on the disk again: writes are taken");
                self.shared.set_gate(Gate::Open);
                self.answer_all(batches);
            }
            Err(Trouble::Full) => self.answer_while_full(batches),
            Err(Trouble::Broken(error)) => self.stop(batches, &error),
        }
    }

    /// Reads are answered; a call whose effects are still in memory only is told so.
    fn answer_while_full(&mut self, batches: Vec<Batch>) {
        for answer in batches.into_iter().flat_map(|batch| batch.answers) {
            if answer.wrote {
                answer.refuse(refusal::disk_full_midway());
            } else {
                answer.deliver(&self.hub);
            }
        }
    }

    fn write_backlog(&mut self) -> Result<(), Trouble> {
        match disk::write_all(&mut *self.open.file, &self.backlog) {
            Ok(()) => {}
            Err(error) if disk::is_full(&error) => {
                self.cut_back()?;
                return Err(Trouble::Full);
            }
            Err(error) => return Err(Trouble::Broken(error)),
        }
        self.grown(self.backlog.len() as u64);
        self.backlog = Vec::new();
        self.sync()
    }

    /// What is on the disk is no longer known: nothing may be answered from here on.
    fn stop(&mut self, batches: Vec<Batch>, error: &io::Error) {
        self.shared.stop.because(format!("the journal could not be written or synced: {error}"));
        self.shared.set_gate(Gate::Stopped);
        refuse_all(batches);
    }

    fn ask_for_compaction(&mut self) {
        let base = self.shared.base_bytes.load(Ordering::Relaxed);
        let wanted = self.policy.compaction.growth.saturating_mul(base).max(self.compact_at);
        if self.appended >= wanted && !self.shared.compacting.swap(true, Ordering::AcqRel) {
            // If it fails, try again when as much has been appended once more.
            self.compact_at = self.appended + self.policy.compaction.min_bytes;
            // The other end is only gone when the store is being closed.
            let _ = self.compact.send(());
        }
    }

    /// Leaves a file in which any damage can be told from a torn write.
    fn finish(&mut self) {
        if self.gate() == Gate::Full {
            self.step_full(Vec::new());
        }
        if self.gate() != Gate::Open {
            return;
        }
        let synced = self.sync().and_then(|()| self.append(&mut [], true));
        if synced.and_then(|()| self.sync()).is_err() {
            tracing::error!("the journal could not be synced when the store was closed");
        }
    }
}

/// Why a batch is not in the file.
enum Trouble {
    Full,
    Broken(io::Error),
}

/// Writes pieces one after the other; answers how many bytes that were.
fn write_pieces<'a>(
    file: &mut dyn JournalFile,
    pieces: impl Iterator<Item = &'a [u8]>,
) -> io::Result<u64> {
    let mut bytes = 0;
    for piece in pieces {
        disk::write_all(file, piece)?;
        bytes += piece.len() as u64;
    }
    Ok(bytes)
}
