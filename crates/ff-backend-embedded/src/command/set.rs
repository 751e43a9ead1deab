//! Commands on sets.

use super::{Arguments, Effect, Stage, changed};
use crate::fault::Fault;
use crate::keyspace::Set;

/// `SADD key member [member …]`
pub(super) fn sadd(stage: &mut Stage<'_>, args: Arguments<'_>) -> Result<Effect, Fault> {
    let set: &mut Set = stage.keyspace.get_or_new(args[1])?;
    let added = args[2..]
        .iter()
        .filter(|member| !set.contains(**member) && set.insert((**member).into()))
        .count();
    stage.reply.count(added);
    Ok(changed(added > 0))
}

/// `SISMEMBER key member`
pub(super) fn sismember(stage: &mut Stage<'_>, args: Arguments<'_>) -> Result<Effect, Fault> {
    let set = stage.keyspace.get::<Set>(args[1])?;
    stage.reply.int(set.is_some_and(|set| set.contains(args[2])).into());
    Ok(Effect::None)
}

/// `SMEMBERS key`: ordered by bytes; Valkey promises no order.
pub(super) fn smembers(stage: &mut Stage<'_>, args: Arguments<'_>) -> Result<Effect, Fault> {
    match stage.keyspace.get::<Set>(args[1])? {
        None => stage.reply.list(0),
        Some(set) => {
            stage.reply.list(set.len());
            set.iter().for_each(|member| stage.reply.bytes(member));
        }
    }
    Ok(Effect::None)
}
