//! Commands on keys of any type.

use super::{Arguments, Context, Effect, changed};
use crate::error::CommandError;

/// `DEL key [key …]`, and `UNLINK`, which differs only in when Valkey frees the memory.
pub(super) fn del(context: &mut Context<'_>, args: Arguments<'_>) -> Result<Effect, CommandError> {
    let removed = args[1..].iter().filter(|key| context.keyspace.remove(key)).count();
    context.reply.count(removed);
    Ok(changed(removed > 0))
}

/// `EXISTS key [key …]`
pub(super) fn exists(
    context: &mut Context<'_>,
    args: Arguments<'_>,
) -> Result<Effect, CommandError> {
    let count = args[1..].iter().filter(|key| context.keyspace.contains(key)).count();
    context.reply.count(count);
    Ok(Effect::None)
}

/// `RENAME key newkey`
pub(super) fn rename(
    context: &mut Context<'_>,
    args: Arguments<'_>,
) -> Result<Effect, CommandError> {
    if !context.keyspace.contains(args[1]) {
        return Err(CommandError::NO_SUCH_KEY);
    }
    let moves = args[1] != args[2];
    if moves {
        context.keyspace.rename(args[1], args[2]);
    }
    context.reply.status("OK");
    Ok(changed(moves))
}
