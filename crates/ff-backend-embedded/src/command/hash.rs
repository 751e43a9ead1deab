//! Commands on hashes.

use super::{Arguments, Context, Effect, changed, integer, sum};
use crate::error::CommandError;
use crate::keyspace::Hash;
use crate::number;

/// `HGET key field`
pub(super) fn hget(context: &mut Context<'_>, args: Arguments<'_>) -> Result<Effect, CommandError> {
    let hash = context.keyspace.get::<Hash>(args[1])?;
    context.reply.bytes_or_nil(hash.and_then(|hash| hash.get(args[2])));
    Ok(Effect::None)
}

/// `HMGET key field [field …]`
pub(super) fn hmget(
    context: &mut Context<'_>,
    args: Arguments<'_>,
) -> Result<Effect, CommandError> {
    let hash = context.keyspace.get::<Hash>(args[1])?;
    context.reply.list(args.len() - 2);
    let mut hint = 0;
    for field in &args[2..] {
        context.reply.bytes_or_nil(hash.and_then(|hash| hash.get_near(field, &mut hint)));
    }
    Ok(Effect::None)
}

/// `HGETALL key`
pub(super) fn hgetall(
    context: &mut Context<'_>,
    args: Arguments<'_>,
) -> Result<Effect, CommandError> {
    match context.keyspace.get::<Hash>(args[1])? {
        None => context.reply.list(0),
        Some(hash) => {
            context.reply.list(hash.len() * 2);
            for (field, value) in hash.iter() {
                context.reply.bytes(field);
                context.reply.bytes(value);
            }
        }
    }
    Ok(Effect::None)
}

/// `HKEYS key`
pub(super) fn hkeys(
    context: &mut Context<'_>,
    args: Arguments<'_>,
) -> Result<Effect, CommandError> {
    match context.keyspace.get::<Hash>(args[1])? {
        None => context.reply.list(0),
        Some(hash) => {
            context.reply.list(hash.len());
            hash.iter().for_each(|(field, _)| context.reply.bytes(field));
        }
    }
    Ok(Effect::None)
}

/// `HEXISTS key field`
pub(super) fn hexists(
    context: &mut Context<'_>,
    args: Arguments<'_>,
) -> Result<Effect, CommandError> {
    let hash = context.keyspace.get::<Hash>(args[1])?;
    context.reply.int(hash.is_some_and(|hash| hash.get(args[2]).is_some()).into());
    Ok(Effect::None)
}

/// `HSET key field value [field value …]`
pub(super) fn hset(context: &mut Context<'_>, args: Arguments<'_>) -> Result<Effect, CommandError> {
    if !args.len().is_multiple_of(2) {
        return Err(CommandError::new("ERR wrong number of arguments for 'hset' command"));
    }
    let mut hash = context.keyspace.get_or_new::<Hash>(args[1])?;
    let pairs = args[2..].chunks_exact(2).map(|pair| (pair[0], pair[1]));
    let added = if hash.is_empty() {
        let bytes = args[2..].iter().map(|part| part.len()).sum();
        hash.reserve(pairs.len(), bytes);
        hash.fill(pairs)
    } else {
        pairs.filter(|(field, value)| hash.set(field, value)).count()
    };
    context.reply.count(added);
    Ok(Effect::AsCalled)
}

/// `HSETNX key field value`
pub(super) fn hsetnx(
    context: &mut Context<'_>,
    args: Arguments<'_>,
) -> Result<Effect, CommandError> {
    let mut hash = context.keyspace.get_or_new::<Hash>(args[1])?;
    let new = hash.get(args[2]).is_none() && hash.set(args[2], args[3]);
    context.reply.int(new.into());
    Ok(changed(new))
}

/// `HINCRBY key field increment`
pub(super) fn hincrby(
    context: &mut Context<'_>,
    args: Arguments<'_>,
) -> Result<Effect, CommandError> {
    let increment = integer(args[3])?;
    let stored = context.keyspace.get::<Hash>(args[1])?.and_then(|hash| hash.get(args[2]));
    let stored = stored.map_or(Some(0), number::parse_int);
    let value =
        sum(stored.ok_or(CommandError::new("ERR hash value is not an integer"))?, increment)?;
    let mut text = Vec::new();
    number::write_int(&mut text, value);
    context.keyspace.get_or_new::<Hash>(args[1])?.set(args[2], &text);
    context.reply.int(value);
    Ok(Effect::AsCalled)
}

/// `HDEL key field [field …]`
pub(super) fn hdel(context: &mut Context<'_>, args: Arguments<'_>) -> Result<Effect, CommandError> {
    let Some(mut hash) = context.keyspace.get_mut::<Hash>(args[1])? else {
        context.reply.int(0);
        return Ok(Effect::None);
    };
    let removed = args[2..].iter().filter(|field| hash.remove(field)).count();
    let is_empty = hash.is_empty();
    drop(hash);
    if is_empty {
        context.keyspace.remove(args[1]);
    }
    context.reply.count(removed);
    Ok(changed(removed > 0))
}

/// `HLEN key`
pub(super) fn hlen(context: &mut Context<'_>, args: Arguments<'_>) -> Result<Effect, CommandError> {
    let count = context.keyspace.get::<Hash>(args[1])?.map_or(0, Hash::len);
    context.reply.count(count);
    Ok(Effect::None)
}
