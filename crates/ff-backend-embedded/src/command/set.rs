//! Commands on sets.

use super::{Arguments, Effect, Stage, changed};
use crate::error::CommandError;
use crate::keyspace::Set;

/// `SADD key member [member …]`
pub(super) fn sadd(stage: &mut Stage<'_>, args: Arguments<'_>) -> Result<Effect, CommandError> {
    let set: &mut Set = stage.keyspace.get_or_new(args[1])?;
    let added = args[2..]
        .iter()
        .filter(|member| !set.contains(**member) && set.insert((**member).into()))
        .count();
    stage.reply.count(added);
    Ok(changed(added > 0))
}

/// `SREM key member [member …]`
pub(super) fn srem(stage: &mut Stage<'_>, args: Arguments<'_>) -> Result<Effect, CommandError> {
    let Some(set) = stage.keyspace.get_mut::<Set>(args[1])? else {
        stage.reply.int(0);
        return Ok(Effect::None);
    };
    let removed = args[2..].iter().filter(|member| set.remove(**member)).count();
    if set.is_empty() {
        stage.keyspace.remove(args[1]);
    }
    stage.reply.count(removed);
    Ok(changed(removed > 0))
}

/// `SCARD key`
pub(super) fn scard(stage: &mut Stage<'_>, args: Arguments<'_>) -> Result<Effect, CommandError> {
    let count = stage.keyspace.get::<Set>(args[1])?.map_or(0, Set::len);
    stage.reply.count(count);
    Ok(Effect::None)
}

/// `SISMEMBER key member`
pub(super) fn sismember(
    stage: &mut Stage<'_>,
    args: Arguments<'_>,
) -> Result<Effect, CommandError> {
    let set = stage.keyspace.get::<Set>(args[1])?;
    stage.reply.int(set.is_some_and(|set| set.contains(args[2])).into());
    Ok(Effect::None)
}

/// `SMEMBERS key`: ordered by bytes; Valkey promises no order.
pub(super) fn smembers(stage: &mut Stage<'_>, args: Arguments<'_>) -> Result<Effect, CommandError> {
    match stage.keyspace.get::<Set>(args[1])? {
        None => stage.reply.list(0),
        Some(set) => {
            stage.reply.list(set.len());
            set.iter().for_each(|member| stage.reply.bytes(member));
        }
    }
    Ok(Effect::None)
}
