//! Commands on sorted sets.

use super::{Arguments, Context, Effect, changed, integer, stretch};
use crate::error::CommandError;
use crate::keyspace::{Bound, Expanded, SortedSet};
use crate::number;
use crate::reply::Reply;

/// Which members `ZADD` may touch.
#[derive(Clone, Copy, Default)]
struct AddOptions {
    only_new: bool,
    only_known: bool,
}

/// `ZADD key [NX | XX] score member [score member …]`
pub(super) fn zadd(context: &mut Context<'_>, args: Arguments<'_>) -> Result<Effect, CommandError> {
    let (options, pairs) = add_options(&args[2..])?;
    let first = number::parse_score(pairs[0]).ok_or(CommandError::NOT_A_FLOAT)?;
    // Nothing may be changed before every score was looked at.
    for pair in pairs[2..].chunks_exact(2) {
        number::parse_score(pair[0]).ok_or(CommandError::NOT_A_FLOAT)?;
    }
    if options.only_known && context.keyspace.get::<SortedSet>(args[1])?.is_none() {
        context.reply.int(0);
        return Ok(Effect::None);
    }
    let mut set = context.keyspace.get_or_new::<SortedSet>(args[1])?;
    let (mut added, mut rescored) = (0, 0);
    for (index, pair) in pairs.chunks_exact(2).enumerate() {
        let score = match index {
            0 => first,
            _ => number::parse_score(pair[0]).ok_or(CommandError::NOT_A_FLOAT)?,
        };
        let known = if options.only_known { set.score(pair[1]) } else { set.add(pair[1], score) };
        match known {
            None => added += usize::from(!options.only_known),
            Some(old) if options.only_new || old == score => {}
            Some(_) => {
                set.rescore(pair[1], score);
                rescored += 1;
            }
        }
    }
    context.reply.count(added);
    Ok(changed(added + rescored > 0))
}

fn add_options<'a>(mut rest: Arguments<'a>) -> Result<(AddOptions, Arguments<'a>), CommandError> {
    let mut options = AddOptions::default();
    while let [option, tail @ ..] = rest {
        if option.eq_ignore_ascii_case(b"NX") {
            options.only_new = true;
        } else if option.eq_ignore_ascii_case(b"XX") {
            options.only_known = true;
        } else {
            break;
        }
        rest = tail;
    }
    if rest.is_empty() || !rest.len().is_multiple_of(2) {
        return Err(CommandError::SYNTAX);
    }
    if options.only_new && options.only_known {
        return Err(CommandError::new("ERR XX and NX options at the same time are not compatible"));
    }
    Ok((options, rest))
}

/// `ZINCRBY key increment member`
pub(super) fn zincrby(
    context: &mut Context<'_>,
    args: Arguments<'_>,
) -> Result<Effect, CommandError> {
    let increment = number::parse_score(args[2]).ok_or(CommandError::NOT_A_FLOAT)?;
    let stored = context.keyspace.get::<SortedSet>(args[1])?.and_then(|set| set.score(args[3]));
    let score = stored.unwrap_or(0.0) + increment;
    if score.is_nan() {
        return Err(CommandError::new("ERR resulting score is not a number (NaN)"));
    }
    let mut set = context.keyspace.get_or_new::<SortedSet>(args[1])?;
    if set.add(args[3], score).is_some() {
        set.rescore(args[3], score);
    }
    context.reply.double(score);
    Ok(Effect::AsCalled)
}

/// `ZREM key member [member …]`
pub(super) fn zrem(context: &mut Context<'_>, args: Arguments<'_>) -> Result<Effect, CommandError> {
    let Some(mut set) = context.keyspace.get_mut::<SortedSet>(args[1])? else {
        context.reply.int(0);
        return Ok(Effect::None);
    };
    let removed = args[2..].iter().filter(|member| set.remove(member)).count();
    let is_empty = set.is_empty();
    drop(set);
    if is_empty {
        context.keyspace.remove(args[1]);
    }
    context.reply.count(removed);
    Ok(changed(removed > 0))
}

/// `ZSCORE key member`
pub(super) fn zscore(
    context: &mut Context<'_>,
    args: Arguments<'_>,
) -> Result<Effect, CommandError> {
    let set = context.keyspace.get::<SortedSet>(args[1])?;
    answer_score(context.reply, set, args[2]);
    Ok(Effect::None)
}

/// `ZMSCORE key member [member …]`
pub(super) fn zmscore(
    context: &mut Context<'_>,
    args: Arguments<'_>,
) -> Result<Effect, CommandError> {
    let set = context.keyspace.get::<SortedSet>(args[1])?;
    context.reply.list(args.len() - 2);
    args[2..].iter().for_each(|member| answer_score(context.reply, set, member));
    Ok(Effect::None)
}

fn answer_score(reply: &mut Reply, set: Option<&SortedSet>, member: &[u8]) {
    match set.and_then(|set| set.score(member)) {
        Some(score) => reply.double(score),
        None => reply.nil(),
    }
}

/// `ZCOUNT key min max`
pub(super) fn zcount(
    context: &mut Context<'_>,
    args: Arguments<'_>,
) -> Result<Effect, CommandError> {
    let (min, max) = (bound(args[2])?, bound(args[3])?);
    let set = context.keyspace.get::<SortedSet>(args[1])?;
    context.reply.count(set.map_or(0, |set| set.count(min, max)));
    Ok(Effect::None)
}

/// `ZCARD key`
pub(super) fn zcard(
    context: &mut Context<'_>,
    args: Arguments<'_>,
) -> Result<Effect, CommandError> {
    let count = context.keyspace.get::<SortedSet>(args[1])?.map_or(0, SortedSet::len);
    context.reply.count(count);
    Ok(Effect::None)
}

/// `ZRANK key member`
pub(super) fn zrank(
    context: &mut Context<'_>,
    args: Arguments<'_>,
) -> Result<Effect, CommandError> {
    rank(context, args, |_, rank| rank)
}

/// `ZREVRANK key member`
pub(super) fn zrevrank(
    context: &mut Context<'_>,
    args: Arguments<'_>,
) -> Result<Effect, CommandError> {
    rank(context, args, |set, rank| set.len() - 1 - rank)
}

fn rank(
    context: &mut Context<'_>,
    args: Arguments<'_>,
    counted: fn(&SortedSet, usize) -> usize,
) -> Result<Effect, CommandError> {
    let set = context.keyspace.get::<SortedSet>(args[1])?;
    match set.and_then(|set| Some(counted(set, set.rank_of(args[2])?))) {
        Some(rank) => context.reply.count(rank),
        None => context.reply.nil(),
    }
    Ok(Effect::None)
}

/// What `ZRANGE` was asked for beyond its two ends.
#[derive(Clone, Copy, Default)]
struct RangeOptions {
    by_score: bool,
    descending: bool,
    with_scores: bool,
    limit: Option<(i64, i64)>,
}

/// `ZRANGE key start stop [BYSCORE] [REV] [LIMIT offset count] [WITHSCORES]`
pub(super) fn zrange(
    context: &mut Context<'_>,
    args: Arguments<'_>,
) -> Result<Effect, CommandError> {
    let options = range_options(&args[4..])?;
    if options.by_score {
        by_score(context, args, options)
    } else {
        by_rank(context, args, options)
    }
}

fn range_options(mut rest: Arguments<'_>) -> Result<RangeOptions, CommandError> {
    let mut options = RangeOptions::default();
    while let [option, tail @ ..] = rest {
        rest = tail;
        if option.eq_ignore_ascii_case(b"BYSCORE") {
            options.by_score = true;
        } else if option.eq_ignore_ascii_case(b"REV") {
            options.descending = true;
        } else if option.eq_ignore_ascii_case(b"WITHSCORES") {
            options.with_scores = true;
        } else if let ([offset, count, tail @ ..], true) =
            (rest, option.eq_ignore_ascii_case(b"LIMIT"))
        {
            options.limit = Some((integer(offset)?, integer(count)?));
            rest = tail;
        } else {
            return Err(CommandError::SYNTAX);
        }
    }
    if options.limit.is_some() && !options.by_score {
        return Err(CommandError::new(
            "ERR syntax error, LIMIT is only supported in combination with either BYSCORE or BYLEX",
        ));
    }
    Ok(options)
}

fn by_rank(
    context: &mut Context<'_>,
    args: Arguments<'_>,
    options: RangeOptions,
) -> Result<Effect, CommandError> {
    let (start, stop) = (integer(args[2])?, integer(args[3])?);
    let set = context.keyspace.get::<SortedSet>(args[1])?;
    let Some((set, (first, last))) =
        set.and_then(|set| Some((set, stretch(start, stop, set.len())?)))
    else {
        context.reply.list(0);
        return Ok(Effect::None);
    };
    if options.descending {
        let end = set.len() - 1;
        answer(context.reply, set.by_rank(end - last, end - first).rev(), options.with_scores);
    } else {
        answer(context.reply, set.by_rank(first, last), options.with_scores);
    }
    Ok(Effect::None)
}

fn by_score(
    context: &mut Context<'_>,
    args: Arguments<'_>,
    options: RangeOptions,
) -> Result<Effect, CommandError> {
    let (first, second) = (bound(args[2])?, bound(args[3])?);
    let (min, max) = if options.descending { (second, first) } else { (first, second) };
    let (offset, count) = options.limit.unwrap_or((0, -1));
    let set = context.keyspace.get::<SortedSet>(args[1])?;
    let (Some(set), Ok(offset)) = (set, usize::try_from(offset)) else {
        context.reply.list(0);
        return Ok(Effect::None);
    };
    let count = usize::try_from(count).unwrap_or(usize::MAX);
    let members = set.by_score(min, max);
    if options.descending {
        answer(context.reply, members.rev().skip(offset).take(count), options.with_scores);
    } else {
        answer(context.reply, members.skip(offset).take(count), options.with_scores);
    }
    Ok(Effect::None)
}

fn answer<'a>(
    reply: &mut Reply,
    members: impl Iterator<Item = (f64, Expanded<'a>)>,
    with_scores: bool,
) {
    let list = reply.start_list();
    let mut count = 0;
    for (score, member) in members {
        reply.bytes(&member);
        count += 1;
        if with_scores {
            reply.double(score);
            count += 1;
        }
    }
    reply.end_list(list, count);
}

/// A limit of a score range: a number, exclusive after an opening bracket.
fn bound(text: &[u8]) -> Result<Bound, CommandError> {
    let (exclusive, number) = match text {
        [b'(', rest @ ..] => (true, rest),
        _ => (false, text),
    };
    let score =
        number::parse_bound(number).ok_or(CommandError::new("ERR min or max is not a float"))?;
    Ok(Bound { score, exclusive })
}
