//! Commands on keys of any type.

use super::{Arguments, Effect, Stage, changed};
use crate::fault::Fault;

/// `DEL key [key …]`
pub(super) fn del(stage: &mut Stage<'_>, args: Arguments<'_>) -> Result<Effect, Fault> {
    let removed = args[1..].iter().filter(|key| stage.keyspace.remove(key)).count();
    stage.reply.count(removed);
    Ok(changed(removed > 0))
}

/// `EXISTS key [key …]`
pub(super) fn exists(stage: &mut Stage<'_>, args: Arguments<'_>) -> Result<Effect, Fault> {
    let count = args[1..].iter().filter(|key| stage.keyspace.contains(key)).count();
    stage.reply.count(count);
    Ok(Effect::None)
}
