//! The commands that a function may call: one table from name to implementation.

mod hash;
mod keys;
mod list;
mod server;
mod set;
mod sorted_set;
mod stream;
mod string;

use std::sync::OnceLock;

use crate::effects::Effects;
use crate::error::CommandError;
use crate::keyspace::Keyspace;
use crate::moment::Moment;
use crate::number;
use crate::reply::Reply;

/// What a command works on.
pub(crate) struct Context<'a> {
    pub(crate) keyspace: &'a mut Keyspace,
    pub(crate) reply: &'a mut Reply,
    pub(crate) effects: &'a mut Effects,
    pub(crate) moment: &'a mut Moment,
}

/// What a command did, as far as the journal is concerned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Effect {
    /// Nothing that needs to be kept.
    None,
    /// To be repeated as it was called.
    AsCalled,
    /// The command put a repeatable form of itself into the journal.
    Recorded,
}

/// Which arguments are keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Keys {
    None,
    First,
    All,
}

impl Keys {
    /// The keys among the arguments.
    pub(crate) fn of<'a>(self, args: &'a [&'a [u8]]) -> &'a [&'a [u8]] {
        match self {
            Self::None => &[],
            Self::First => &args[1..2],
            Self::All => &args[1..],
        }
    }
}

/// The arguments of a command, its name first.
pub(crate) type Arguments<'a> = &'a [&'a [u8]];

/// Implements one command. Checks everything before it changes anything.
type Run = fn(&mut Context<'_>, Arguments<'_>) -> Result<Effect, CommandError>;

/// One command.
pub(crate) struct Command {
    pub(crate) name: &'static str,
    /// Number of arguments with the name; negative if more are allowed.
    arity: isize,
    pub(crate) writes: bool,
    pub(crate) keys: Keys,
    pub(crate) run: Run,
}

impl Command {
    pub(crate) fn takes(&self, arguments: usize) -> bool {
        let wanted = self.arity.unsigned_abs();
        if self.arity < 0 { arguments >= wanted } else { arguments == wanted }
    }
}

macro_rules! commands {
    ($($name:literal $arity:literal $writes:ident $keys:ident $run:path;)*) => {
        /// The name of every command that a function may call.
        pub const COMMANDS: &[&str] = &[$($name),*];

        static TABLE: &[Command] = &[$(Command {
            name: $name,
            arity: $arity,
            writes: commands!(@ $writes),
            keys: Keys::$keys,
            run: $run,
        }),*];
    };
    (@ reads) => { false };
    (@ writes) => { true };
}

commands! {
    "TIME"       1 reads  None  server::time;
    "DEL"       -2 writes All   keys::del;
    "UNLINK"    -2 writes All   keys::del;
    "EXISTS"    -2 reads  All   keys::exists;
    "RENAME"     3 writes All   keys::rename;
    "GET"        2 reads  First string::get;
    "SET"       -3 writes First string::set;
    "APPEND"     3 writes First string::append;
    "STRLEN"     2 reads  First string::strlen;
    "GETRANGE"   4 reads  First string::getrange;
    "INCRBY"     3 writes First string::incrby;
    "HGET"       3 reads  First hash::hget;
    "HMGET"     -3 reads  First hash::hmget;
    "HGETALL"    2 reads  First hash::hgetall;
    "HKEYS"      2 reads  First hash::hkeys;
    "HEXISTS"    3 reads  First hash::hexists;
    "HSET"      -4 writes First hash::hset;
    "HSETNX"     4 writes First hash::hsetnx;
    "HINCRBY"    4 writes First hash::hincrby;
    "HDEL"      -3 writes First hash::hdel;
    "HLEN"       2 reads  First hash::hlen;
    "ZADD"      -4 writes First sorted_set::zadd;
    "ZINCRBY"    4 writes First sorted_set::zincrby;
    "ZREM"      -3 writes First sorted_set::zrem;
    "ZRANGE"    -4 reads  First sorted_set::zrange;
    "ZSCORE"     3 reads  First sorted_set::zscore;
    "ZMSCORE"   -3 reads  First sorted_set::zmscore;
    "ZCOUNT"     4 reads  First sorted_set::zcount;
    "ZCARD"      2 reads  First sorted_set::zcard;
    "ZRANK"      3 reads  First sorted_set::zrank;
    "ZREVRANK"   3 reads  First sorted_set::zrevrank;
    "XADD"      -5 writes First stream::xadd;
    "XTRIM"     -4 writes First stream::xtrim;
    "XDEL"      -3 writes First stream::xdel;
    "XLEN"       2 reads  First stream::xlen;
    "XRANGE"    -4 reads  First stream::xrange;
    "XREVRANGE" -4 reads  First stream::xrevrange;
    "RPUSH"     -3 writes First list::rpush;
    "LPOP"      -2 writes First list::lpop;
    "LRANGE"     4 reads  First list::lrange;
    "LTRIM"      4 writes First list::ltrim;
    "LLEN"       2 reads  First list::llen;
    "LINDEX"     3 reads  First list::lindex;
    "LSET"       4 writes First list::lset;
    "SADD"      -3 writes First set::sadd;
    "SREM"      -3 writes First set::srem;
    "SCARD"      2 reads  First set::scard;
    "SISMEMBER"  3 reads  First set::sismember;
    "SMEMBERS"   2 reads  First set::smembers;
    "SPUBLISH"   3 writes First server::spublish;
}

type Index = hashbrown::HashMap<&'static [u8], &'static Command, ahash::RandomState>;

/// The command of this name, in any case.
pub(crate) fn find(name: &[u8]) -> Option<&'static Command> {
    static INDEX: OnceLock<Index> = OnceLock::new();
    let index = INDEX
        .get_or_init(|| TABLE.iter().map(|command| (command.name.as_bytes(), command)).collect());
    index.get(name).or_else(|| index.get(&*name.to_ascii_uppercase())).copied()
}

/// An argument that must be a whole number.
fn integer(argument: &[u8]) -> Result<i64, CommandError> {
    number::parse_int(argument).ok_or(CommandError::NOT_AN_INTEGER)
}

/// The sum of a stored number and an argument.
fn sum(stored: i64, argument: i64) -> Result<i64, CommandError> {
    stored.checked_add(argument).ok_or(CommandError::OVERFLOW)
}

/// First and last index of a stretch of a list, counted from the end if negative; `None` if empty.
fn stretch(start: i64, stop: i64, length: usize) -> Option<(usize, usize)> {
    let length = length as i64;
    let from_end = |index: i64| if index < 0 { length.saturating_add(index) } else { index };
    let start = from_end(start).max(0);
    let stop = from_end(stop).min(length - 1);
    (start <= stop).then_some((start as usize, stop as usize))
}

/// `AsCalled` if something changed.
fn changed(something: bool) -> Effect {
    if something { Effect::AsCalled } else { Effect::None }
}
