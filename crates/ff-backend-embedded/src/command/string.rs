//! Commands on strings.

use super::{Arguments, Context, Effect, integer, sum};
use crate::error::CommandError;
use crate::keyspace::Bytes;
use crate::number;

/// `GET key`
pub(super) fn get(context: &mut Context<'_>, args: Arguments<'_>) -> Result<Effect, CommandError> {
    let value = context.keyspace.get::<Bytes>(args[1])?;
    context.reply.bytes_or_nil(value.map(|value| &**value));
    Ok(Effect::None)
}

/// `SET key value`, without options.
pub(super) fn set(context: &mut Context<'_>, args: Arguments<'_>) -> Result<Effect, CommandError> {
    let [_, key, value] = args else { return Err(CommandError::SYNTAX) };
    context.keyspace.put::<Bytes>(key, (*value).into());
    context.reply.status("OK");
    Ok(Effect::AsCalled)
}

/// `APPEND key value`
pub(super) fn append(
    context: &mut Context<'_>,
    args: Arguments<'_>,
) -> Result<Effect, CommandError> {
    let mut value = context.keyspace.get_or_new::<Bytes>(args[1])?;
    let mut longer = std::mem::take(&mut *value).into_vec();
    longer.extend_from_slice(args[2]);
    *value = longer.into_boxed_slice();
    context.reply.count(value.len());
    Ok(Effect::AsCalled)
}

/// `STRLEN key`
pub(super) fn strlen(
    context: &mut Context<'_>,
    args: Arguments<'_>,
) -> Result<Effect, CommandError> {
    let length = context.keyspace.get::<Bytes>(args[1])?.map_or(0, |value| value.len());
    context.reply.count(length);
    Ok(Effect::None)
}

/// `GETRANGE key start end`
pub(super) fn getrange(
    context: &mut Context<'_>,
    args: Arguments<'_>,
) -> Result<Effect, CommandError> {
    let (start, end) = (integer(args[2])?, integer(args[3])?);
    let value = context.keyspace.get::<Bytes>(args[1])?;
    let part = value.map_or(&[][..], |value| part(value, start, end));
    context.reply.bytes(part);
    Ok(Effect::None)
}

/// Unlike in a list, an end before the first byte means the first byte.
fn part(value: &[u8], start: i64, end: i64) -> &[u8] {
    if start < 0 && end < 0 && start > end {
        return &[];
    }
    let length = value.len() as i64;
    let from_end = |index: i64| if index < 0 { length.saturating_add(index).max(0) } else { index };
    let (start, end) = (from_end(start), from_end(end).min(length - 1));
    if start <= end { &value[start as usize..=end as usize] } else { &[] }
}

/// `INCRBY key increment`
pub(super) fn incrby(
    context: &mut Context<'_>,
    args: Arguments<'_>,
) -> Result<Effect, CommandError> {
    let increment = integer(args[2])?;
    let stored = context.keyspace.get::<Bytes>(args[1])?.map_or(Ok(0), |text| integer(text))?;
    let value = sum(stored, increment)?;
    let mut text = Vec::new();
    number::write_int(&mut text, value);
    context.keyspace.put::<Bytes>(args[1], text.into());
    context.reply.int(value);
    Ok(Effect::AsCalled)
}
