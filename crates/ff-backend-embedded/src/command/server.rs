//! Commands that touch no key.

use super::{Arguments, Effect, Stage};
use crate::error::CommandError;
use crate::number;

const US_PER_SECOND: u64 = 1_000_000;

/// `TIME`: the same answer throughout one call.
pub(super) fn time(stage: &mut Stage<'_>, _args: Arguments<'_>) -> Result<Effect, CommandError> {
    let now_us = stage.moment.now_us();
    stage.reply.list(2);
    stage.reply.text(|text| number::write_uint(text, now_us / US_PER_SECOND));
    stage.reply.text(|text| number::write_uint(text, now_us % US_PER_SECOND));
    Ok(Effect::None)
}

/// `SPUBLISH channel message`: delivered when the call is answered, so the count is not known yet.
pub(super) fn spublish(stage: &mut Stage<'_>, args: Arguments<'_>) -> Result<Effect, CommandError> {
    stage.effects.publish(args[1], args[2]);
    stage.reply.int(0);
    Ok(Effect::None)
}
