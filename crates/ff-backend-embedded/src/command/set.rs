//! Commands on sets.

use super::{Arguments, Context, Effect, changed};
use crate::error::CommandError;
use crate::keyspace::Set;

/// `SADD key member [member …]`
pub(super) fn sadd(context: &mut Context<'_>, args: Arguments<'_>) -> Result<Effect, CommandError> {
    let mut set = context.keyspace.get_or_new::<Set>(args[1])?;
    let added = args[2..]
        .iter()
        .filter(|member| !set.contains(**member) && set.insert((**member).into()))
        .count();
    context.reply.count(added);
    Ok(changed(added > 0))
}

/// `SREM key member [member …]`
pub(super) fn srem(context: &mut Context<'_>, args: Arguments<'_>) -> Result<Effect, CommandError> {
    let Some(mut set) = context.keyspace.get_mut::<Set>(args[1])? else {
        context.reply.int(0);
        return Ok(Effect::None);
    };
    let removed = args[2..].iter().filter(|member| set.remove(**member)).count();
    let is_empty = set.is_empty();
    drop(set);
    if is_empty {
        context.keyspace.remove(args[1]);
    }
    context.reply.count(removed);
    Ok(changed(removed > 0))
}

/// `SCARD key`
pub(super) fn scard(
    context: &mut Context<'_>,
    args: Arguments<'_>,
) -> Result<Effect, CommandError> {
    let count = context.keyspace.get::<Set>(args[1])?.map_or(0, Set::len);
    context.reply.count(count);
    Ok(Effect::None)
}

/// `SISMEMBER key member`
pub(super) fn sismember(
    context: &mut Context<'_>,
    args: Arguments<'_>,
) -> Result<Effect, CommandError> {
    let set = context.keyspace.get::<Set>(args[1])?;
    context.reply.int(set.is_some_and(|set| set.contains(args[2])).into());
    Ok(Effect::None)
}

/// `SMEMBERS key`: ordered by bytes; Valkey promises no order.
pub(super) fn smembers(
    context: &mut Context<'_>,
    args: Arguments<'_>,
) -> Result<Effect, CommandError> {
    match context.keyspace.get::<Set>(args[1])? {
        None => context.reply.list(0),
        Some(set) => {
            context.reply.list(set.len());
            set.iter().for_each(|member| context.reply.bytes(member));
        }
    }
    Ok(Effect::None)
}
