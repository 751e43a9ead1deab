//! Commands on lists.

use super::{Arguments, Context, Effect, changed, integer, stretch};
use crate::error::CommandError;
use crate::keyspace::List;
use crate::number;

/// `RPUSH key value [value …]`
pub(super) fn rpush(
    context: &mut Context<'_>,
    args: Arguments<'_>,
) -> Result<Effect, CommandError> {
    let mut list = context.keyspace.get_or_new::<List>(args[1])?;
    args[2..].iter().for_each(|value| list.push(value));
    context.reply.count(list.len());
    Ok(Effect::AsCalled)
}

/// `LPOP key [count]`
pub(super) fn lpop(context: &mut Context<'_>, args: Arguments<'_>) -> Result<Effect, CommandError> {
    let count = match args {
        [_, _] => None,
        [_, _, count] => Some(positive(count)?),
        _ => return Err(CommandError::new("ERR wrong number of arguments for 'lpop' command")),
    };
    let Some(mut list) = context.keyspace.get_mut::<List>(args[1])? else {
        context.reply.nil();
        return Ok(Effect::None);
    };
    let taken = count.unwrap_or(1).min(list.len());
    if count.is_some() {
        context.reply.list(taken);
    }
    let values = std::iter::from_fn(|| list.pop()).take(taken);
    values.for_each(|value| context.reply.bytes(&value));
    let is_empty = list.is_empty();
    drop(list);
    if is_empty {
        context.keyspace.remove(args[1]);
    }
    Ok(changed(taken > 0))
}

fn positive(count: &[u8]) -> Result<usize, CommandError> {
    let count = number::parse_int(count).and_then(|count| usize::try_from(count).ok());
    count.ok_or(CommandError::new("ERR value is out of range, must be positive"))
}

/// `LLEN key`
pub(super) fn llen(context: &mut Context<'_>, args: Arguments<'_>) -> Result<Effect, CommandError> {
    let count = context.keyspace.get::<List>(args[1])?.map_or(0, List::len);
    context.reply.count(count);
    Ok(Effect::None)
}

/// `LINDEX key index`
pub(super) fn lindex(
    context: &mut Context<'_>,
    args: Arguments<'_>,
) -> Result<Effect, CommandError> {
    let value = match context.keyspace.get::<List>(args[1])? {
        None => None,
        Some(list) => {
            let index = integer(args[2])?;
            stretch(index, index, list.len()).and_then(|(at, _)| list.get(at))
        }
    };
    context.reply.bytes_or_nil(value);
    Ok(Effect::None)
}

/// `LSET key index value`
pub(super) fn lset(context: &mut Context<'_>, args: Arguments<'_>) -> Result<Effect, CommandError> {
    let Some(mut list) = context.keyspace.get_mut::<List>(args[1])? else {
        return Err(CommandError::new("ERR no such key"));
    };
    let index = integer(args[2])?;
    let Some((at, _)) = stretch(index, index, list.len()) else {
        return Err(CommandError::new("ERR index out of range"));
    };
    list.replace(at, args[3]);
    context.reply.status("OK");
    Ok(Effect::AsCalled)
}

/// `LRANGE key start stop`
pub(super) fn lrange(
    context: &mut Context<'_>,
    args: Arguments<'_>,
) -> Result<Effect, CommandError> {
    let (start, stop) = (integer(args[2])?, integer(args[3])?);
    let list = context.keyspace.get::<List>(args[1])?;
    let Some((list, (first, last))) =
        list.and_then(|list| Some((list, stretch(start, stop, list.len())?)))
    else {
        context.reply.list(0);
        return Ok(Effect::None);
    };
    context.reply.list(last - first + 1);
    list.range(first..=last).for_each(|value| context.reply.bytes(value));
    Ok(Effect::None)
}

/// `LTRIM key start stop`
pub(super) fn ltrim(
    context: &mut Context<'_>,
    args: Arguments<'_>,
) -> Result<Effect, CommandError> {
    let (start, stop) = (integer(args[2])?, integer(args[3])?);
    let Some(mut list) = context.keyspace.get_mut::<List>(args[1])? else {
        context.reply.status("OK");
        return Ok(Effect::None);
    };
    let before = list.len();
    let kept = stretch(start, stop, before);
    if let Some((first, last)) = kept {
        list.keep(first, last);
    }
    let after = kept.map_or(0, |_| list.len());
    drop(list);
    if after == 0 {
        context.keyspace.remove(args[1]);
    }
    context.reply.status("OK");
    Ok(changed(after != before))
}
