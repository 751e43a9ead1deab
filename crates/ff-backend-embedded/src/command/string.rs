//! Commands on strings.

use super::{Arguments, Effect, Stage};
use crate::fault::Fault;
use crate::keyspace::Bytes;

/// `GET key`
pub(super) fn get(stage: &mut Stage<'_>, args: Arguments<'_>) -> Result<Effect, Fault> {
    let value = stage.keyspace.get::<Bytes>(args[1])?;
    stage.reply.bytes_or_nil(value.map(|value| &**value));
    Ok(Effect::None)
}

/// `SET key value`, without options.
pub(super) fn set(stage: &mut Stage<'_>, args: Arguments<'_>) -> Result<Effect, Fault> {
    let [_, key, value] = args else { return Err(Fault::SYNTAX) };
    stage.keyspace.put::<Bytes>(key, (*value).into());
    stage.reply.status("OK");
    Ok(Effect::AsCalled)
}
