//! What a call did: its commands in the journal's form, and its wake-ups.

use ff_core::partition::Partition;
use ff_script::host::Channel;

use crate::journal::record::{self, Mark};
use crate::wake::Wakes;

/// Collects the effects of the calls of one shard until they are handed to the journal.
#[derive(Debug, Default)]
pub(crate) struct Effects {
    /// False if there is no journal: then only wake-ups are collected.
    kept: bool,
    batch: Transactions,
    /// The current call has changed something.
    begun: bool,
    /// Where the transaction of the current call starts, once it has one.
    open: Option<usize>,
    /// Where the current call runs.
    partition: Option<Partition>,
    channel_prefix: Vec<u8>,
    wakes: Wakes,
}

/// Whole transactions, ready to be numbered and written.
#[derive(Debug, Default)]
pub(crate) struct Transactions {
    pub(crate) bytes: Vec<u8>,
    pub(crate) marks: Vec<Mark>,
}

impl Transactions {
    pub(crate) fn is_empty(&self) -> bool {
        self.marks.is_empty()
    }

    pub(crate) fn clear(&mut self) {
        self.bytes.clear();
        self.marks.clear();
    }

    /// Numbers the transactions from the one after `sequence` on, which is moved to the last.
    pub(crate) fn number(&mut self, sequence: &mut u64, salt: u64) {
        for mark in &self.marks {
            *sequence += 1;
            record::fill_mark(&mut self.bytes, *mark, *sequence, salt);
        }
    }
}

impl Effects {
    pub(crate) fn new(kept: bool) -> Self {
        Self { kept, ..Self::default() }
    }

    /// A call on this partition begins.
    pub(crate) fn begin(&mut self, partition: Partition, partition_key: &[u8]) {
        self.partition = Some(partition);
        self.channel_prefix.clear();
        self.channel_prefix.extend_from_slice(partition_key);
        self.channel_prefix.push(b':');
        self.wakes.clear();
        self.begun = false;
        self.open = None;
    }

    /// Records a whole command.
    pub(crate) fn command(&mut self, arguments: &[&[u8]]) {
        self.start(arguments.len());
        arguments.iter().for_each(|argument| self.argument(argument));
    }

    /// Starts a command; as many arguments follow.
    pub(crate) fn start(&mut self, arguments: usize) {
        self.begun = true;
        if self.kept {
            let bytes = &mut self.batch.bytes;
            if self.open.is_none() {
                self.open = Some(bytes.len());
                bytes.extend_from_slice(record::MULTI);
            }
            record::write_array(bytes, arguments);
        }
    }

    pub(crate) fn argument(&mut self, argument: &[u8]) {
        if self.kept {
            record::write_bulk(&mut self.batch.bytes, argument);
        }
    }

    /// An argument that is written in place; short.
    pub(crate) fn written(&mut self, write: impl FnOnce(&mut Vec<u8>)) {
        let mut text = Vec::with_capacity(48);
        write(&mut text);
        self.argument(&text);
    }

    /// Remembers a wake-up. Channels that nobody can subscribe to are dropped here.
    pub(crate) fn publish(&mut self, channel: &[u8], message: &[u8]) {
        let name = channel.strip_prefix(self.channel_prefix.as_slice());
        let place = self.partition.zip(name);
        if let Some(channel) = place.and_then(|(place, name)| Channel::named(place, name)) {
            self.wakes.push((channel, message.to_vec()));
        }
    }

    /// The call ended: closes its transaction. True if it has one.
    pub(crate) fn finish(&mut self) -> bool {
        let Some(start) = self.open.take() else { return false };
        self.batch.bytes.extend_from_slice(record::EXEC);
        let mark = record::reserve_mark(&mut self.batch.bytes, start);
        self.batch.marks.push(mark);
        true
    }

    /// True if the current call has changed something.
    pub(crate) fn has_begun(&self) -> bool {
        self.begun
    }

    /// The call failed: nothing of it is kept, and nobody is woken by it.
    pub(crate) fn abandon(&mut self) {
        if let Some(start) = self.open.take() {
            self.batch.bytes.truncate(start);
        }
        self.wakes.clear();
    }

    /// The wake-ups of the call that just ended.
    pub(crate) fn take_wakes(&mut self) -> Wakes {
        std::mem::take(&mut self.wakes)
    }

    /// Takes what was collected since the last time, leaving `spare` to collect into.
    pub(crate) fn take_batch(&mut self, spare: Transactions) -> Transactions {
        debug_assert!(self.open.is_none(), "a batch is taken between calls");
        std::mem::replace(&mut self.batch, spare)
    }

    /// Bytes that were collected since the last batch was taken.
    pub(crate) fn batch_bytes(&self) -> usize {
        self.batch.bytes.len()
    }

    pub(crate) fn has_batch(&self) -> bool {
        !self.batch.is_empty()
    }
}
