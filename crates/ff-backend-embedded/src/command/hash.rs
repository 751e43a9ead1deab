//! Commands on hashes.

use super::{Arguments, Effect, Stage, changed};
use crate::fault::Fault;
use crate::keyspace::Hash;

/// `HGET key field`
pub(super) fn hget(stage: &mut Stage<'_>, args: Arguments<'_>) -> Result<Effect, Fault> {
    let hash = stage.keyspace.get::<Hash>(args[1])?;
    stage.reply.bytes_or_nil(hash.and_then(|hash| hash.get(args[2])));
    Ok(Effect::None)
}

/// `HMGET key field [field …]`
pub(super) fn hmget(stage: &mut Stage<'_>, args: Arguments<'_>) -> Result<Effect, Fault> {
    let hash = stage.keyspace.get::<Hash>(args[1])?;
    stage.reply.list(args.len() - 2);
    let mut hint = 0;
    for field in &args[2..] {
        stage.reply.bytes_or_nil(hash.and_then(|hash| hash.get_near(field, &mut hint)));
    }
    Ok(Effect::None)
}

/// `HGETALL key`
pub(super) fn hgetall(stage: &mut Stage<'_>, args: Arguments<'_>) -> Result<Effect, Fault> {
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

/// `HSET key field value [field value …]`
pub(super) fn hset(stage: &mut Stage<'_>, args: Arguments<'_>) -> Result<Effect, Fault> {
    if !args.len().is_multiple_of(2) {
        return Err(Fault::new("ERR wrong number of arguments for 'hset' command"));
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

/// `HDEL key field [field …]`
pub(super) fn hdel(stage: &mut Stage<'_>, args: Arguments<'_>) -> Result<Effect, Fault> {
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
pub(super) fn hlen(stage: &mut Stage<'_>, args: Arguments<'_>) -> Result<Effect, Fault> {
    let count = stage.keyspace.get::<Hash>(args[1])?.map_or(0, Hash::len);
    stage.reply.count(count);
    Ok(Effect::None)
}
