//! Commands on lists.

use super::{Arguments, Effect, Stage, changed, integer, stretch};
use crate::error::CommandError;
use crate::keyspace::List;
use crate::number;

/// `RPUSH key value [value …]`
pub(super) fn rpush(stage: &mut Stage<'_>, args: Arguments<'_>) -> Result<Effect, CommandError> {
    let list: &mut List = stage.keyspace.get_or_new(args[1])?;
    list.extend(args[2..].iter().map(|value| (*value).into()));
    stage.reply.count(list.len());
    Ok(Effect::AsCalled)
}

/// `LPOP key [count]`
pub(super) fn lpop(stage: &mut Stage<'_>, args: Arguments<'_>) -> Result<Effect, CommandError> {
    let count = match args {
        [_, _] => None,
        [_, _, count] => Some(positive(count)?),
        _ => return Err(CommandError::new("ERR wrong number of arguments for 'lpop' command")),
    };
    let Some(list) = stage.keyspace.get_mut::<List>(args[1])? else {
        stage.reply.nil();
        return Ok(Effect::None);
    };
    let taken = count.unwrap_or(1).min(list.len());
    if count.is_some() {
        stage.reply.list(taken);
    }
    list.drain(..taken).for_each(|value| stage.reply.bytes(&value));
    if list.is_empty() {
        stage.keyspace.remove(args[1]);
    }
    Ok(changed(taken > 0))
}

fn positive(count: &[u8]) -> Result<usize, CommandError> {
    let count = number::parse_int(count).and_then(|count| usize::try_from(count).ok());
    count.ok_or(CommandError::new("ERR value is out of range, must be positive"))
}

/// `LLEN key`
pub(super) fn llen(stage: &mut Stage<'_>, args: Arguments<'_>) -> Result<Effect, CommandError> {
    let count = stage.keyspace.get::<List>(args[1])?.map_or(0, List::len);
    stage.reply.count(count);
    Ok(Effect::None)
}

/// `LINDEX key index`
pub(super) fn lindex(stage: &mut Stage<'_>, args: Arguments<'_>) -> Result<Effect, CommandError> {
    let value = match stage.keyspace.get::<List>(args[1])? {
        None => None,
        Some(list) => {
            let index = integer(args[2])?;
            stretch(index, index, list.len()).map(|(at, _)| &*list[at])
        }
    };
    stage.reply.bytes_or_nil(value);
    Ok(Effect::None)
}

/// `LRANGE key start stop`
pub(super) fn lrange(stage: &mut Stage<'_>, args: Arguments<'_>) -> Result<Effect, CommandError> {
    let (start, stop) = (integer(args[2])?, integer(args[3])?);
    let list = stage.keyspace.get::<List>(args[1])?;
    let Some((list, (first, last))) =
        list.and_then(|list| Some((list, stretch(start, stop, list.len())?)))
    else {
        stage.reply.list(0);
        return Ok(Effect::None);
    };
    stage.reply.list(last - first + 1);
    list.range(first..=last).for_each(|value| stage.reply.bytes(value));
    Ok(Effect::None)
}

/// `LTRIM key start stop`
pub(super) fn ltrim(stage: &mut Stage<'_>, args: Arguments<'_>) -> Result<Effect, CommandError> {
    let (start, stop) = (integer(args[2])?, integer(args[3])?);
    let Some(list) = stage.keyspace.get_mut::<List>(args[1])? else {
        stage.reply.status("OK");
        return Ok(Effect::None);
    };
    let before = list.len();
    match stretch(start, stop, before) {
        Some((first, last)) => {
            list.truncate(last + 1);
            list.drain(..first);
        }
        None => list.clear(),
    }
    let after = list.len();
    if after == 0 {
        stage.keyspace.remove(args[1]);
    }
    stage.reply.status("OK");
    Ok(changed(after != before))
}
