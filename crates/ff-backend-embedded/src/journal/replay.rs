//! Repeats journaled commands on keyspaces.

use std::sync::Arc;

use ff_core::clock::Clock;
use ff_core::partition::Partition;
use ff_core::slot::hash_tag;

use crate::command::{self, Context, Keys};
use crate::effects::Effects;
use crate::keyspace::Keyspace;
use crate::moment::Moment;
use crate::reply::Reply;

/// Keyspaces that a journal is repeated on: one for each shard.
pub(crate) struct Replay {
    keyspaces: Vec<Keyspace>,
    reply: Reply,
    effects: Effects,
    moment: Moment,
    /// The last tag and the shard it belongs to: neighbours in the journal often share one.
    last_tag: Vec<u8>,
    last_shard: usize,
}

/// Journaled commands carry their times, so nothing may ask for one.
struct NoClock;

impl Clock for NoClock {
    fn now_us(&self) -> u64 {
        0
    }
}

impl Replay {
    pub(crate) fn new(shards: usize) -> Self {
        Self {
            keyspaces: (0..shards).map(|_| Keyspace::default()).collect(),
            reply: Reply::default(),
            effects: Effects::new(false),
            moment: Moment::new(Arc::new(NoClock)),
            last_tag: Vec::new(),
            last_shard: 0,
        }
    }

    /// Repeats one command.
    pub(crate) fn apply(&mut self, args: &[&[u8]]) -> Result<(), String> {
        let name = args.first().ok_or("a command has no name")?;
        let command = command::find(name)
            .filter(|command| command.writes && command.keys != Keys::None)
            .ok_or_else(|| format!("{} is not a journaled command", name.escape_ascii()))?;
        if !command.takes(args.len()) {
            return Err(format!("{} has a wrong number of arguments", command.name));
        }
        let shard = self.shard_of(args[1])?;
        self.reply.clear();
        let mut context = Context {
            keyspace: &mut self.keyspaces[shard],
            reply: &mut self.reply,
            effects: &mut self.effects,
            moment: &mut self.moment,
        };
        (command.run)(&mut context, args).map_err(|error| format!("{}: {error}", command.name))?;
        Ok(())
    }

    /// The shard that a key belongs to, by the partition in its tag.
    fn shard_of(&mut self, key: &[u8]) -> Result<usize, String> {
        let tag = hash_tag(key);
        if self.keyspaces.len() > 1 && tag != self.last_tag {
            let partition: Partition = std::str::from_utf8(tag)
                .ok()
                .and_then(|tag| format!("{{{tag}}}").parse().ok())
                .ok_or_else(|| format!("key {} belongs to no partition", key.escape_ascii()))?;
            self.last_shard = usize::from(partition.index) % self.keyspaces.len();
            self.last_tag.clear();
            self.last_tag.extend_from_slice(tag);
        }
        Ok(self.last_shard)
    }

    pub(crate) fn keys(&self) -> u64 {
        self.keyspaces.iter().map(|keyspace| keyspace.len() as u64).sum()
    }

    pub(crate) fn into_keyspaces(self) -> Vec<Keyspace> {
        self.keyspaces
    }
}
