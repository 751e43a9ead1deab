//! Commands on keys of any type.

use super::{Arguments, Effect, Stage, changed};
use crate::error::CommandError;

/// `DEL key [key …]`, and `UNLINK`, which differs only in when Valkey frees the memory.
pub(super) fn del(stage: &mut Stage<'_>, args: Arguments<'_>) -> Result<Effect, CommandError> {
    let removed = args[1..].iter().filter(|key| stage.keyspace.remove(key)).count();
    stage.reply.count(removed);
    Ok(changed(removed > 0))
}

/// `EXISTS key [key …]`
pub(super) fn exists(stage: &mut Stage<'_>, args: Arguments<'_>) -> Result<Effect, CommandError> {
    let count = args[1..].iter().filter(|key| stage.keyspace.contains(key)).count();
    stage.reply.count(count);
    Ok(Effect::None)
}

/// `RENAME key newkey`
pub(super) fn rename(stage: &mut Stage<'_>, args: Arguments<'_>) -> Result<Effect, CommandError> {
    if !stage.keyspace.contains(args[1]) {
        return Err(CommandError::NO_SUCH_KEY);
    }
    let moves = args[1] != args[2];
    if moves {
        stage.keyspace.rename(args[1], args[2]);
    }
    stage.reply.status("OK");
    Ok(changed(moves))
}
