//! Commands on streams.

use super::{Arguments, Context, Effect, changed, integer};
use crate::effects::Effects;
use crate::error::CommandError;
use crate::keyspace::{EntryId, Stream};
use crate::number;

const INVALID_ID: CommandError =
    CommandError::new("ERR Invalid stream ID specified as stream command argument");
const ID_TOO_SMALL: CommandError = CommandError::new(
    "ERR The ID specified in XADD is equal or smaller than the target stream top item",
);
const EXHAUSTED: CommandError = CommandError::new(
    "ERR The stream has exhausted the last possible ID, unable to add more items",
);

/// How long a stream may become.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Limit {
    None,
    About(usize),
    Exactly(usize),
}

/// `XADD key [MAXLEN [~ | =] count] * | id field value [field value …]`
pub(super) fn xadd(context: &mut Context<'_>, args: Arguments<'_>) -> Result<Effect, CommandError> {
    let (limit, rest) = length_limit(&args[2..])?;
    let [id, fields @ ..] = rest else { return Err(CommandError::SYNTAX) };
    if fields.is_empty() || !fields.len().is_multiple_of(2) {
        return Err(CommandError::new("ERR wrong number of arguments for 'xadd' command"));
    }
    let given = if *id == b"*" { None } else { Some(given_id(id)?) };
    let known = context.keyspace.get::<Stream>(args[1])?;
    let last = known.map_or(EntryId::MIN, Stream::last_id);
    if last == EntryId::MAX {
        return Err(EXHAUSTED);
    }
    let id = match given {
        Some(id) if id > last => id,
        Some(_) => return Err(ID_TOO_SMALL),
        None => context.moment.next_id(known).ok_or(ID_TOO_SMALL)?,
    };
    let mut stream = context.keyspace.get_or_new::<Stream>(args[1])?;
    stream.push(id, fields);
    let trimmed = match limit {
        Limit::None => false,
        Limit::About(keep) => stream.trim_blocks(keep),
        Limit::Exactly(keep) => stream.trim(keep),
    };
    record(context.effects, args[1], trimmed.then_some(stream.len()), id, fields);
    context.reply.text(|text| id.write(text));
    Ok(Effect::Recorded)
}

/// `XTRIM key MAXLEN | MINID [~ | =] bound`
pub(super) fn xtrim(
    context: &mut Context<'_>,
    args: Arguments<'_>,
) -> Result<Effect, CommandError> {
    let cut = cut(&args[2..])?;
    let Some(mut stream) = context.keyspace.get_mut::<Stream>(args[1])? else {
        context.reply.int(0);
        return Ok(Effect::None);
    };
    let before = stream.len();
    cut(&mut stream);
    let left = stream.len();
    if left < before {
        record_trim(context.effects, args[1], left);
    }
    context.reply.count(before - left);
    Ok(if left < before { Effect::Recorded } else { Effect::None })
}

/// `XDEL key id [id …]`: the greatest id that was used stays used.
pub(super) fn xdel(context: &mut Context<'_>, args: Arguments<'_>) -> Result<Effect, CommandError> {
    let Some(mut stream) = context.keyspace.get_mut::<Stream>(args[1])? else {
        context.reply.int(0);
        return Ok(Effect::None);
    };
    // Nothing may be changed before every id was looked at.
    let ids = args[2..].iter().map(|id| EntryId::parse(id, 0).ok_or(INVALID_ID));
    let ids: Vec<EntryId> = ids.collect::<Result<_, _>>()?;
    let removed = ids.into_iter().filter(|id| stream.remove(*id)).count();
    context.reply.count(removed);
    Ok(changed(removed > 0))
}

/// `XLEN key`
pub(super) fn xlen(context: &mut Context<'_>, args: Arguments<'_>) -> Result<Effect, CommandError> {
    let count = context.keyspace.get::<Stream>(args[1])?.map_or(0, Stream::len);
    context.reply.count(count);
    Ok(Effect::None)
}

/// What a trim does to a stream.
type Cut = Box<dyn Fn(&mut Stream) -> bool>;

fn cut(args: Arguments<'_>) -> Result<Cut, CommandError> {
    let [option, rest @ ..] = args else { return Err(CommandError::SYNTAX) };
    if option.eq_ignore_ascii_case(b"MAXLEN") {
        return match length_limit(args)? {
            (Limit::About(keep), []) => Ok(Box::new(move |stream| stream.trim_blocks(keep))),
            (Limit::Exactly(keep), []) => Ok(Box::new(move |stream| stream.trim(keep))),
            _ => Err(CommandError::SYNTAX),
        };
    }
    if !option.eq_ignore_ascii_case(b"MINID") {
        return Err(CommandError::SYNTAX);
    }
    let (about, rest) = precision(rest);
    let [id] = rest else { return Err(CommandError::SYNTAX) };
    let id = EntryId::parse(id, 0).ok_or(INVALID_ID)?;
    Ok(if about {
        Box::new(move |stream| stream.trim_blocks_before(id))
    } else {
        Box::new(move |stream| stream.trim_before(id))
    })
}

/// What the journal keeps of a trim: the length that was left.
fn record_trim(effects: &mut Effects, key: &[u8], left: usize) {
    effects.start(5);
    effects.argument(b"XTRIM");
    effects.argument(key);
    effects.argument(b"MAXLEN");
    effects.argument(b"=");
    effects.written(|text| number::write_uint(text, left as u64));
}

/// What the journal keeps: the id that was chosen and the length that was left, so that a replay
/// depends neither on the time nor on how blocks were cut.
fn record(
    effects: &mut Effects,
    key: &[u8],
    left: Option<usize>,
    id: EntryId,
    fields: Arguments<'_>,
) {
    effects.start(fields.len() + if left.is_some() { 6 } else { 3 });
    effects.argument(b"XADD");
    effects.argument(key);
    if let Some(left) = left {
        effects.argument(b"MAXLEN");
        effects.argument(b"=");
        effects.written(|text| number::write_uint(text, left as u64));
    }
    effects.written(|text| id.write(text));
    fields.iter().for_each(|part| effects.argument(part));
}

fn length_limit<'a>(args: Arguments<'a>) -> Result<(Limit, Arguments<'a>), CommandError> {
    let [option, rest @ ..] = args else { return Err(CommandError::SYNTAX) };
    if !option.eq_ignore_ascii_case(b"MAXLEN") {
        return Ok((Limit::None, args));
    }
    let (about, rest) = precision(rest);
    let [count, rest @ ..] = rest else { return Err(CommandError::SYNTAX) };
    let count = usize::try_from(integer(count)?)
        .map_err(|_| CommandError::new("ERR The MAXLEN argument must be >= 0."))?;
    Ok((if about { Limit::About(count) } else { Limit::Exactly(count) }, rest))
}

/// Whether a bound is about so, and what follows the mark that says it.
fn precision<'a>(rest: Arguments<'a>) -> (bool, Arguments<'a>) {
    match rest {
        [mark, tail @ ..] if *mark == b"~" => (true, tail),
        [mark, tail @ ..] if *mark == b"=" => (false, tail),
        _ => (false, rest),
    }
}

fn given_id(text: &[u8]) -> Result<EntryId, CommandError> {
    let id = EntryId::parse(text, 0).ok_or(INVALID_ID)?;
    if id == EntryId::MIN {
        return Err(CommandError::new("ERR The ID specified in XADD must be greater than 0-0"));
    }
    Ok(id)
}

/// `XRANGE key start end [COUNT count]`
pub(super) fn xrange(
    context: &mut Context<'_>,
    args: Arguments<'_>,
) -> Result<Effect, CommandError> {
    range(context, args[1], args[2], args[3], &args[4..], false)
}

/// `XREVRANGE key end start [COUNT count]`
pub(super) fn xrevrange(
    context: &mut Context<'_>,
    args: Arguments<'_>,
) -> Result<Effect, CommandError> {
    range(context, args[1], args[3], args[2], &args[4..], true)
}

fn range(
    context: &mut Context<'_>,
    key: &[u8],
    start: &[u8],
    end: &[u8],
    options: Arguments<'_>,
    descending: bool,
) -> Result<Effect, CommandError> {
    let from = range_start(start)?;
    let to = range_end(end)?;
    let count = match options {
        [] => i64::MAX,
        [option, count] if option.eq_ignore_ascii_case(b"COUNT") => integer(count)?,
        _ => return Err(CommandError::SYNTAX),
    };
    match context.keyspace.get::<Stream>(key)? {
        None => context.reply.list(0),
        Some(_) if count <= 0 => context.reply.nil(),
        Some(stream) => answer(context.reply, stream, (from, to), count as usize, descending),
    }
    Ok(Effect::None)
}

fn answer(
    reply: &mut crate::reply::Reply,
    stream: &Stream,
    (from, to): (EntryId, EntryId),
    count: usize,
    descending: bool,
) {
    let list = reply.start_list();
    let entries = stream.range(from, to);
    let entries: Box<dyn Iterator<Item = _>> =
        if descending { Box::new(entries.rev()) } else { Box::new(entries) };
    let mut answered = 0;
    for entry in entries.take(count) {
        answered += 1;
        reply.list(2);
        reply.text(|text| entry.id.write(text));
        let fields = reply.start_list();
        let parts = entry.parts().map(|part| reply.bytes(part)).count();
        reply.end_list(fields, parts);
    }
    reply.end_list(list, answered);
}

fn range_start(text: &[u8]) -> Result<EntryId, CommandError> {
    match text {
        b"-" => Ok(EntryId::MIN),
        b"+" => Ok(EntryId::MAX),
        [b'(', rest @ ..] => EntryId::parse(rest, 0)
            .ok_or(INVALID_ID)?
            .next()
            .ok_or(CommandError::new("ERR invalid start ID for the interval")),
        _ => EntryId::parse(text, 0).ok_or(INVALID_ID),
    }
}

fn range_end(text: &[u8]) -> Result<EntryId, CommandError> {
    match text {
        b"-" => Ok(EntryId::MIN),
        b"+" => Ok(EntryId::MAX),
        [b'(', rest @ ..] => EntryId::parse(rest, u64::MAX)
            .ok_or(INVALID_ID)?
            .previous()
            .ok_or(CommandError::new("ERR invalid end ID for the interval")),
        _ => EntryId::parse(text, u64::MAX).ok_or(INVALID_ID),
    }
}
