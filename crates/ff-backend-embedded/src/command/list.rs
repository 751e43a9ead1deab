//! Commands on lists.

use super::{Arguments, Effect, Stage, changed, integer, stretch};
use crate::fault::Fault;
use crate::keyspace::List;

/// `RPUSH key value [value …]`
pub(super) fn rpush(stage: &mut Stage<'_>, args: Arguments<'_>) -> Result<Effect, Fault> {
    let list: &mut List = stage.keyspace.get_or_new(args[1])?;
    list.extend(args[2..].iter().map(|value| (*value).into()));
    stage.reply.count(list.len());
    Ok(Effect::AsCalled)
}

/// `LRANGE key start stop`
pub(super) fn lrange(stage: &mut Stage<'_>, args: Arguments<'_>) -> Result<Effect, Fault> {
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
pub(super) fn ltrim(stage: &mut Stage<'_>, args: Arguments<'_>) -> Result<Effect, Fault> {
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
