//! Commands that touch no key.

use super::{Arguments, Context, Effect};
use crate::error::CommandError;
use crate::number;

const US_PER_SECOND: u64 = 1_000_000;

/// `TIME`: the same answer throughout one call.
pub(super) fn time(
    context: &mut Context<'_>,
    _args: Arguments<'_>,
) -> Result<Effect, CommandError> {
    let now_us = context.moment.now_us();
    context.reply.list(2);
    context.reply.text(|text| number::write_uint(text, now_us / US_PER_SECOND));
    context.reply.text(|text| number::write_uint(text, now_us % US_PER_SECOND));
    Ok(Effect::None)
}

/// `SPUBLISH channel message`: delivered when the call is answered, so the count is not known yet.
pub(super) fn spublish(
    context: &mut Context<'_>,
    args: Arguments<'_>,
) -> Result<Effect, CommandError> {
    context.effects.publish(args[1], args[2]);
    context.reply.int(0);
    Ok(Effect::None)
}
