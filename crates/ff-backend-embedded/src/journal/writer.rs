//! The journal's thread: appends what the shards did, syncs it, and answers the calls. One sync
//! serves every call that arrived while the last one was under way. It also keeps room in its file
//! for what calls will do; a write that fails nevertheless ends the store.

use std::io;
use std::sync::atomic::Ordering;
use std::sync::{Arc, mpsc};
use std::time::{Duration, Instant};

use super::commit::{Batch, JournalState, NextFile, Shared, Work};
use super::compaction::Request;
use super::disk::{self, JournalFile};
use super::record::{self, LINE_MAX, Word};
use super::room::{LINES_ROOM, ROOM_HIGH, ROOM_LOW};
use crate::clock::monotonic;
use crate::config::{CompactionConfig, SyncMode};
use crate::effects::Transactions;
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
    /// How long it is.
    pub(crate) length: u64,
    /// How long it can become for certain.
    pub(crate) reserved: u64,
}

/// Where the journal goes on.
pub(crate) struct WriterStart {
    pub(crate) open: OpenFile,
    /// The last transaction that is there.
    pub(crate) sequence: u64,
    /// Bytes since the last rewrite that are in files before this one.
    pub(crate) sealed_bytes: u64,
}

/// How the journal is written.
#[derive(Clone, Copy)]
pub(crate) struct Policy {
    pub(crate) sync: SyncMode,
    pub(crate) compaction: CompactionConfig,
    pub(crate) full_disk_retry: Duration,
    pub(crate) background_sync: Duration,
}

/// The journal's thread.
pub(crate) struct Writer {
    shared: Arc<Shared>,
    hub: Arc<WakeHub>,
    counters: Arc<Counters>,
    policy: Policy,
    open: OpenFile,
    /// Asks for a rewrite, or for a sync that no call waits for.
    background: mpsc::Sender<Request>,
    /// The last transaction that was numbered.
    sequence: u64,
    /// The last transaction that is known to be on the disk.
    synced: u64,
    /// The last transaction that the file says is on the disk.
    announced: u64,
    /// Room that is left for lines of our own.
    lines_room: u64,
    /// When the disk was last found full.
    found_full: Option<Instant>,
    next_file: Option<NextFile>,
    /// When the last sync began or ended.
    last_sync: Instant,
    /// A sync is under way on another thread.
    syncing: bool,
    sync_took: Duration,
    /// Calls that were answered last.
    answered: usize,
    /// Bytes since the last rewrite after which the next one is due.
    compact_at: u64,
}

impl Writer {
    pub(crate) fn new(
        shared: Arc<Shared>,
        hub: Arc<WakeHub>,
        counters: Arc<Counters>,
        policy: Policy,
        tail: WriterStart,
        background: mpsc::Sender<Request>,
    ) -> Self {
        let WriterStart { open, sequence, sealed_bytes } = tail;
        shared.sealed_bytes.store(sealed_bytes, Ordering::Relaxed);
        Self {
            shared,
            hub,
            counters,
            policy,
            open,
            background,
            sequence,
            synced: sequence,
            announced: 0,
            lines_room: 0,
            found_full: None,
            next_file: None,
            last_sync: monotonic(),
            syncing: false,
            sync_took: Duration::ZERO,
            answered: 0,
            compact_at: policy.compaction.min_bytes,
        }
    }

    /// Works until the store is closed and everything is written. Answers the last transaction if
    /// that is known to be on the disk.
    pub(crate) fn run(mut self) -> Option<u64> {
        self.keep_room(0);
        loop {
            let work = self.shared.wait(self.time_limit(), self.gathering());
            let closing = work.closing;
            self.step(work);
            if closing {
                return self.finish();
            }
        }
    }

    fn state(&self) -> JournalState {
        self.shared.state()
    }

    /// How long to wait for work before there is something else to do.
    fn time_limit(&self) -> Option<Duration> {
        let unsynced = self.synced < self.sequence && !self.syncing;
        let sync_in = unsynced.then(|| self.sync_in()).flatten();
        match self.state() {
            JournalState::Stopped => None,
            JournalState::Full => Some(self.policy.full_disk_retry),
            JournalState::Writable if sync_in.is_some() => sync_in,
            JournalState::Writable if self.announced < self.synced => Some(IDLE),
            JournalState::Writable => None,
        }
    }

    /// When a sync that no call waits for is due.
    fn sync_in(&self) -> Option<Duration> {
        let interval = match self.policy.sync {
            SyncMode::Always => return None,
            SyncMode::EverySec => SYNC_INTERVAL,
            SyncMode::Off => self.policy.background_sync,
        };
        Some(interval.saturating_sub(self.last_sync.elapsed()))
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
        if self.state() == JournalState::Stopped {
            self.shared.refuse_all(work.batches);
            return;
        }
        let noted = self.note_synced(work.synced.take());
        let mut batches = work.batches;
        let written = noted.and_then(|()| self.append(&mut batches, idle));
        match written.and_then(|()| self.sync_if_due()) {
            Err(error) => return self.stop(batches, &error),
            Ok(()) => self.answer_all(batches),
        }
        self.shared.set_committed(work.ticket);
        self.keep_room(work.wanted);
        self.sync_in_background();
        if self.state() == JournalState::Writable {
            self.ask_for_compaction();
        }
    }

    /// Appends the batches, numbered. There is room for them.
    fn append(&mut self, batches: &mut [Batch], idle: bool) -> io::Result<()> {
        let some = batches.iter().any(|batch| !batch.transactions.is_empty());
        let mut lead = Vec::new();
        if self.announced < self.synced && (some || idle) && self.lines_room >= LINES_KEPT {
            record::write_line(&mut lead, Word::Synced, self.synced, self.open.salt);
        }
        self.number(batches);
        let pieces = batches.iter().map(|batch| &*batch.transactions.bytes);
        let bytes = write_pieces(&mut *self.open.file, std::iter::once(&*lead).chain(pieces))?;
        self.grown(bytes);
        if self.announced < self.synced && (some || idle) {
            self.lines_room -= lead.len() as u64;
            self.announced = self.synced;
        }
        Ok(())
    }

    fn number(&mut self, batches: &mut [Batch]) {
        for Batch { transactions, .. } in batches {
            stats::add(&self.counters.transactions, transactions.marks.len() as u64);
            transactions.number(&mut self.sequence, self.open.salt);
        }
    }

    fn grown(&mut self, bytes: u64) {
        self.open.length += bytes;
        // A call that wrote more than was promised to it has taken from others.
        self.open.reserved = self.open.reserved.max(self.open.length);
        stats::add(&self.counters.journal_bytes, bytes);
    }

    /// Syncs if the mode wants it now. A file that is to be left is sealed on the way.
    fn sync_if_due(&mut self) -> io::Result<()> {
        if let Some(next) = self.next_file.take()
            && self.switch(next)?
        {
            return Ok(());
        }
        let due = match self.policy.sync {
            SyncMode::Always => true,
            SyncMode::EverySec => self.last_sync.elapsed() >= SYNC_INTERVAL,
            SyncMode::Off => false,
        };
        if due && self.synced < self.sequence { self.sync() } else { Ok(()) }
    }

    fn sync(&mut self) -> io::Result<()> {
        let started = monotonic();
        self.open.file.sync()?;
        stats::add(&self.counters.journal_syncs, 1);
        self.synced = self.sequence;
        self.last_sync = monotonic();
        self.sync_took = self.last_sync - started;
        Ok(())
    }

    /// A file that is never synced could not tell damage from a torn write, so where no call waits
    /// for a sync, another thread does one now and then.
    fn sync_in_background(&mut self) {
        let due = self.policy.sync == SyncMode::Off && self.sync_in() == Some(Duration::ZERO);
        if !due
            || self.syncing
            || self.synced >= self.sequence
            || self.state() == JournalState::Stopped
        {
            return;
        }
        match self.open.file.later_sync() {
            Ok(sync) => {
                self.syncing = true;
                self.last_sync = monotonic();
                // The other end is only gone when the store is being closed.
                let _ = self.background.send(Request::Sync { sync, sequence: self.sequence });
            }
            Err(error) => self.stop(Vec::new(), &error),
        }
    }

    /// Takes note of a sync that ended on another thread.
    fn note_synced(&mut self, outcome: Option<io::Result<u64>>) -> io::Result<()> {
        let Some(outcome) = outcome else { return Ok(()) };
        self.syncing = false;
        self.synced = self.synced.max(outcome?);
        stats::add(&self.counters.journal_syncs, 1);
        Ok(())
    }

    /// Seals the file with the sync that is due anyway, and goes on in the next one. False if there
    /// is no room yet for what was promised to calls.
    fn switch(&mut self, mut next: NextFile) -> io::Result<bool> {
        let promised = self.open.reserved - self.open.length;
        next.open.reserved = next.open.length + promised;
        match next.open.file.reserve(next.open.reserved) {
            Ok(()) => {}
            Err(error) if disk::is_full(&error) => {
                self.next_file = Some(next);
                return Ok(false);
            }
            Err(error) => return Err(error),
        }
        let mut line = Vec::new();
        record::write_line(&mut line, Word::Sealed, self.sequence, self.open.salt);
        disk::write_all(&mut *self.open.file, &line)?;
        self.sync()?;
        self.open.file.truncate(self.open.length + line.len() as u64)?;
        self.shared.sealed_bytes.fetch_add(self.open.length, Ordering::Relaxed);
        self.open = next.open;
        self.announced = 0;
        // A compaction that gave up waiting will find the sealed file another time.
        let _ = next.sealed.send(self.sequence);
        Ok(true)
    }

    /// Reserves more room if little is left, or if calls wait for as much as `wanted`.
    fn keep_room(&mut self, wanted: u64) {
        let left = self.shared.room.left();
        let outcome = if left >= ROOM_LOW.max(wanted) {
            Ok(())
        } else if wanted == 0 && self.was_full_just_now() {
            return;
        } else {
            self.reserve(ROOM_HIGH + wanted - left)
        };
        match outcome {
            Ok(()) => self.found_room(),
            Err(error) if disk::is_full(&error) => self.found_no_room(left),
            Err(error) => return self.stop(Vec::new(), &error),
        }
        if wanted > 0 {
            self.shared.answer_waiting(self.found_full.is_some());
        }
    }

    /// True while calls are served from what is left, and a full disk need not be asked again.
    fn was_full_just_now(&self) -> bool {
        let just_now = |at: Instant| at.elapsed() < self.policy.full_disk_retry;
        self.state() == JournalState::Writable && self.found_full.is_some_and(just_now)
    }

    fn reserve(&mut self, bytes: u64) -> io::Result<()> {
        let lines = LINES_ROOM - self.lines_room;
        self.open.file.reserve(self.open.reserved + bytes + lines)?;
        self.open.reserved += bytes + lines;
        self.lines_room = LINES_ROOM;
        self.shared.room.add(bytes);
        Ok(())
    }

    fn found_room(&mut self) {
        self.found_full = None;
        if self.state() == JournalState::Full {
            tracing::info!("there is room on the disk again: writes are taken");
            self.shared.set_state(JournalState::Writable);
        }
    }

    /// While enough is left, only a very large call is refused.
    fn found_no_room(&mut self, left: u64) {
        self.found_full = Some(monotonic());
        if left < ROOM_LOW && self.state() == JournalState::Writable {
            tracing::error!("the disk is full: writes are refused until there is room");
            self.shared.set_state(JournalState::Full);
        }
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

    /// What is on the disk is no longer known: nothing may be answered from here on.
    fn stop(&mut self, batches: Vec<Batch>, error: &io::Error) {
        self.shared.stop.because(format!("the journal could not be written or synced: {error}"));
        self.shared.set_state(JournalState::Stopped);
        self.shared.refuse_all(batches);
    }

    fn ask_for_compaction(&mut self) {
        let CompactionConfig { min_bytes, growth, .. } = self.policy.compaction;
        let appended = self.open.length + self.shared.sealed_bytes.load(Ordering::Relaxed);
        // Less than there was then: the last rewrite has ended.
        if appended + min_bytes < self.compact_at {
            self.compact_at = min_bytes;
        }
        let base = self.shared.base_bytes.load(Ordering::Relaxed);
        let wanted = growth.saturating_mul(base).max(self.compact_at);
        if appended >= wanted && !self.shared.compacting.swap(true, Ordering::AcqRel) {
            // If it fails, try again when as much has been appended once more.
            self.compact_at = appended + min_bytes;
            // The other end is only gone when the store is being closed.
            let _ = self.background.send(Request::Compact);
        }
    }

    /// Leaves a file in which any damage can be told from a torn write, and without reserved room.
    /// Answers the last transaction.
    fn finish(&mut self) -> Option<u64> {
        if self.state() == JournalState::Stopped {
            return None;
        }
        let written = self.sync().and_then(|()| self.announce());
        let synced = written.and_then(|()| self.open.file.truncate(self.open.length));
        if let Err(error) = synced.and_then(|()| self.sync()) {
            tracing::error!("the journal could not be synced when the store was closed: {error}");
            return None;
        }
        Some(self.sequence)
    }

    /// Says in the file up to where it was synced.
    fn announce(&mut self) -> io::Result<()> {
        let mut line = Vec::new();
        if self.announced < self.synced && self.lines_room >= LINE_MAX as u64 {
            record::write_line(&mut line, Word::Synced, self.synced, self.open.salt);
        }
        disk::write_all(&mut *self.open.file, &line)?;
        self.grown(line.len() as u64);
        Ok(())
    }
}

/// Room that is kept for the last two lines of a file: up to where it was synced, and its seal.
const LINES_KEPT: u64 = 3 * LINE_MAX as u64;

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
