//! Repeats journaled commands on a keyspace.

use std::sync::Arc;

use ff_core::clock::Clock;

use crate::command::{self, Context, Keys};
use crate::effects::Effects;
use crate::keyspace::Keyspace;
use crate::moment::Moment;
use crate::reply::Reply;

/// A keyspace that a journal is repeated on.
pub(crate) struct Replay {
    keyspace: Keyspace,
    reply: Reply,
    effects: Effects,
    moment: Moment,
}

/// Journaled commands carry their times, so nothing may ask for one.
struct NoClock;

impl Clock for NoClock {
    fn now_us(&self) -> u64 {
        0
    }
}

impl Default for Replay {
    fn default() -> Self {
        Self {
            keyspace: Keyspace::default(),
            reply: Reply::default(),
            effects: Effects::new(false),
            moment: Moment::new(Arc::new(NoClock)),
        }
    }
}

impl Replay {
    /// Repeats one command.
    pub(crate) fn apply(&mut self, args: &[&[u8]]) -> Result<(), String> {
        let command = command::find(args[0])
            .filter(|command| command.writes && command.keys != Keys::None)
            .ok_or_else(|| format!("{} is not a journaled command", args[0].escape_ascii()))?;
        if !command.takes(args.len()) {
            return Err(format!("{} has a wrong number of arguments", command.name));
        }
        self.reply.clear();
        let mut context = Context {
            keyspace: &mut self.keyspace,
            reply: &mut self.reply,
            effects: &mut self.effects,
            moment: &mut self.moment,
        };
        (command.run)(&mut context, args).map_err(|error| format!("{}: {error}", command.name))?;
        Ok(())
    }

    pub(crate) fn keyspace(&mut self) -> &mut Keyspace {
        &mut self.keyspace
    }

    pub(crate) fn into_keyspace(self) -> Keyspace {
        self.keyspace
    }
}

/// The key that says where a command belongs: the first, as all are of one partition.
pub(crate) fn key_of<'a>(command: &[&'a [u8]]) -> Result<&'a [u8], String> {
    match command {
        [_, key, ..] => Ok(key),
        _ => Err("a command has no name or no key".to_owned()),
    }
}
