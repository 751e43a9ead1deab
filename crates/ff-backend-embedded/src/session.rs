//! One call at a time on one keyspace: checks what a command may touch, runs it, keeps its effects.
//! Knows nothing of Lua.

use ff_core::partition::Partition;
use ff_core::slot::hash_tag;

use crate::command::{self, Command, Context, Effect};
use crate::effects::Effects;
use crate::error::CommandError;
use crate::keyspace::Keyspace;
use crate::moment::Moment;
use crate::reply::Reply;

/// The state that the commands of a call work on.
pub(crate) struct Session {
    pub(crate) keyspace: Keyspace,
    pub(crate) effects: Effects,
    pub(crate) reply: Reply,
    moment: Moment,
    partition_key: Vec<u8>,
    read_only: bool,
}

impl Session {
    pub(crate) fn new(keyspace: Keyspace, moment: Moment, journaled: bool) -> Self {
        Self {
            keyspace,
            effects: Effects::new(journaled),
            reply: Reply::default(),
            moment,
            partition_key: Vec::new(),
            read_only: true,
        }
    }

    /// A call on this partition begins.
    pub(crate) fn begin(&mut self, partition: Partition, partition_key: &[u8], read_only: bool) {
        self.partition_key.clear();
        self.partition_key.extend_from_slice(partition_key);
        self.read_only = read_only;
        self.moment.release();
        self.effects.begin(partition, partition_key);
    }

    /// Runs one command; its answer is in `reply`.
    pub(crate) fn execute(&mut self, args: &[&[u8]]) -> Result<(), CommandError> {
        let command = command::find(args[0]).ok_or(CommandError::UNKNOWN_COMMAND)?;
        self.admit(command, args)?;
        self.reply.clear();
        let mut context = Context {
            keyspace: &mut self.keyspace,
            reply: &mut self.reply,
            effects: &mut self.effects,
            moment: &mut self.moment,
        };
        match (command.run)(&mut context, args)? {
            Effect::AsCalled => self.effects.command(args),
            Effect::None | Effect::Recorded => {}
        }
        Ok(())
    }

    fn admit(&self, command: &Command, args: &[&[u8]]) -> Result<(), CommandError> {
        if !command.takes(args.len()) {
            return Err(CommandError::WRONG_ARITY);
        }
        if command.writes && self.read_only {
            return Err(CommandError::READ_ONLY);
        }
        let within = command.keys.of(args).iter().all(|key| self.is_within(key));
        if within { Ok(()) } else { Err(CommandError::OTHER_PARTITION) }
    }

    /// A call may touch only keys that carry its partition's tag, as in a cluster.
    fn is_within(&self, key: &[u8]) -> bool {
        key.starts_with(&self.partition_key) || hash_tag(key) == hash_tag(&self.partition_key)
    }
}
