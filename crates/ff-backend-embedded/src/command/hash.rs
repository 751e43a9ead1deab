//! Commands on hashes.

use super::{Arguments, Effect, Stage, changed, integer, sum};
use crate::error::CommandError;
use crate::keyspace::Hash;
use crate::number;

/// `HGET key field`
pub(super) fn hget(stage: &mut Stage<'_>, args: Arguments<'_>) -> Result<Effect, CommandError> {
    let hash = stage.keyspace.get::<Hash>(args[1])?;
    stage.reply.bytes_or_nil(hash.and_then(|hash| hash.get(args[2])));
    Ok(Effect::None)
}

/// `HMGET key field [field …]`
pub(super) fn hmget(stage: &mut Stage<'_>, args: Arguments<'_>) -> Result<Effect, CommandError> {
    let hash = stage.keyspace.get::<Hash>(args[1])?;
    stage.reply.list(args.len() - 2);
    let mut hint = 0;
    for field in &args[2..] {
        stage.reply.bytes_or_nil(hash.and_then(|hash| hash.get_near(field, &mut hint)));
    }
    Ok(Effect::None)
}

/// `HGETALL key`
pub(super) fn hgetall(stage: &mut Stage<'_>, args: Arguments<'_>) -> Result<Effect, CommandError> {
    match stage.keyspace.get::<Hash>(args[1])? {
        None => stage.reply.list(0),
        Some(hash) => {
            stage.reply.list(hash.len() * 2);
            for (field, value) in hash.iter() {
                stage.reply.bytes(field);
                stage.reply.bytes(value);
            }
        }
    }
    Ok(Effect::None)
}

/// `HKEYS key`
pub(super) fn hkeys(stage: &mut Stage<'_>, args: Arguments<'_>) -> Result<Effect, CommandError> {
    match stage.keyspace.get::<Hash>(args[1])? {
        None => stage.reply.list(0),
        Some(hash) => {
            stage.reply.list(hash.len());
            hash.iter().for_each(|(field, _)| stage.reply.bytes(field));
        }
    }
    Ok(Effect::None)
}

/// `HEXISTS key field`
pub(super) fn hexists(stage: &mut Stage<'_>, args: Arguments<'_>) -> Result<Effect, CommandError> {
    let hash = stage.keyspace.get::<Hash>(args[1])?;
    stage.reply.int(hash.is_some_and(|hash| hash.get(args[2]).is_some()).into());
    Ok(Effect::None)
}

/// `HSET key field value [field value …]`
pub(super) fn hset(stage: &mut Stage<'_>, args: Arguments<'_>) -> Result<Effect, CommandError> {
    if !args.len().is_multiple_of(2) {
        return Err(CommandError::new("ERR wrong number of arguments for 'hset' command"));
    }
    let hash: &mut Hash = stage.keyspace.get_or_new(args[1])?;
    if hash.is_empty() {
        let bytes = args[2..].iter().map(|part| part.len()).sum();
        hash.reserve((args.len() - 2) / 2, bytes);
    }
    let added = args[2..].chunks_exact(2).filter(|pair| hash.set(pair[0], pair[1])).count();
    stage.reply.count(added);
    Ok(Effect::AsCalled)
}

/// `HSETNX key field value`
pub(super) fn hsetnx(stage: &mut Stage<'_>, args: Arguments<'_>) -> Result<Effect, CommandError> {
    let hash: &mut Hash = stage.keyspace.get_or_new(args[1])?;
    let new = hash.get(args[2]).is_none() && hash.set(args[2], args[3]);
    stage.reply.int(new.into());
    Ok(changed(new))
}

/// `HINCRBY key field increment`
pub(super) fn hincrby(stage: &mut Stage<'_>, args: Arguments<'_>) -> Result<Effect, CommandError> {
    let increment = integer(args[3])?;
    let stored = stage.keyspace.get::<Hash>(args[1])?.and_then(|hash| hash.get(args[2]));
    let stored = stored.map_or(Some(0), number::parse_int);
    let value =
        sum(stored.ok_or(CommandError::new("ERR hash value is not an integer"))?, increment)?;
    let mut text = Vec::new();
    number::write_int(&mut text, value);
    stage.keyspace.get_or_new::<Hash>(args[1])?.set(args[2], &text);
    stage.reply.int(value);
    Ok(Effect::AsCalled)
}

/// `HDEL key field [field …]`
pub(super) fn hdel(stage: &mut Stage<'_>, args: Arguments<'_>) -> Result<Effect, CommandError> {
    let Some(hash) = stage.keyspace.get_mut::<Hash>(args[1])? else {
        stage.reply.int(0);
        return Ok(Effect::None);
    };
    let removed = args[2..].iter().filter(|field| hash.remove(field)).count();
    if hash.is_empty() {
        stage.keyspace.remove(args[1]);
    }
    stage.reply.count(removed);
    Ok(changed(removed > 0))
}

/// `HLEN key`
pub(super) fn hlen(stage: &mut Stage<'_>, args: Arguments<'_>) -> Result<Effect, CommandError> {
    let count = stage.keyspace.get::<Hash>(args[1])?.map_or(0, Hash::len);
    stage.reply.count(count);
    Ok(Effect::None)
}
