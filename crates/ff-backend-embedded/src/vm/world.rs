//! What the machine's own C functions work on, and those functions. See the parent module for why
//! this is sound.

use std::ffi::c_int;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::ptr;

use ff_script::args::Args;
use mlua_sys::{self as lua, lua_State};
use sha1::{Digest, Sha1};

use super::Anchors;
use super::read::text_at;
use crate::number;
use crate::reply::{Item, Reply};
use crate::session::Session;

/// Longest text of a number, with room to spare.
const NUMBER_BYTES_MAX: usize = 32;

/// What our C functions work on.
pub(super) struct World {
    pub(super) session: Session,
    pub(super) anchors: Anchors,
    pub(super) invocation: Invocation,
    arguments: Vec<&'static [u8]>,
    numbers: Vec<u8>,
    fault: Vec<u8>,
    pub(super) line: c_int,
    pub(super) broken: bool,
}

/// The call under way; only valid while it is.
#[derive(Clone, Copy)]
pub(super) struct Invocation {
    pub(super) function: c_int,
    pub(super) partition_key: *const [u8],
    pub(super) arguments: *const Args,
}

impl World {
    pub(super) fn new(session: Session) -> Self {
        let nothing: &[u8] = &[];
        let invocation = Invocation { function: 0, partition_key: nothing, arguments: ptr::null() };
        Self {
            session,
            anchors: Anchors::default(),
            invocation,
            arguments: Vec::new(),
            numbers: Vec::new(),
            fault: Vec::new(),
            line: 0,
            broken: false,
        }
    }

    /// Runs the command whose arguments are on the stack. True if its reply is in the session,
    /// false if `fault` says why there is none. Calls nothing that raises.
    unsafe fn dispatch(&mut self, state: *mut lua_State) -> bool {
        self.fault.clear();
        // SAFETY: the arguments stay on the stack until we return.
        let collected = unsafe { self.collect(state) };
        let outcome = collected.and_then(|()| self.execute());
        self.arguments.clear();
        outcome.is_ok()
    }

    fn execute(&mut self) -> Result<(), ()> {
        let run = AssertUnwindSafe(|| self.session.execute(&self.arguments));
        match catch_unwind(run) {
            Ok(Ok(())) => Ok(()),
            Ok(Err(fault)) => self.fail(&fault.0),
            Err(_panic) => {
                self.broken = true;
                self.fail("ERR a command broke; the store must be reopened")
            }
        }
    }

    fn fail(&mut self, text: &str) -> Result<(), ()> {
        self.fault.extend_from_slice(text.as_bytes());
        Err(())
    }

    unsafe fn collect(&mut self, state: *mut lua_State) -> Result<(), ()> {
        unsafe {
            let count = lua::lua_gettop(state);
            if count == 0 {
                return self.fail("ERR Please specify at least one argument for this call");
            }
            self.numbers.clear();
            // Never grown below, so that what points into it stays.
            self.numbers.reserve(count as usize * NUMBER_BYTES_MAX);
            for index in 1..=count {
                let argument = match lua::lua_type(state, index) {
                    lua::LUA_TSTRING => text_at(state, index),
                    lua::LUA_TNUMBER => self.number(lua::lua_tonumber(state, index)),
                    _ => return self.fail("ERR Command arguments must be strings or integers"),
                };
                self.arguments.push(argument);
            }
            Ok(())
        }
    }

    unsafe fn number(&mut self, value: f64) -> &'static [u8] {
        let start = self.numbers.len();
        number::write_double(&mut self.numbers, value);
        let text = &self.numbers[start..];
        debug_assert!(text.len() <= NUMBER_BYTES_MAX, "a number outgrew its room");
        // SAFETY: the buffer has room for every number of the call and is not touched until then.
        unsafe { std::slice::from_raw_parts(text.as_ptr(), text.len()) }
    }
}

/// Our world, from the upvalue that each of our functions has.
unsafe fn world_of(state: *mut lua_State) -> *mut World {
    unsafe { lua::lua_touserdata(state, lua::lua_upvalueindex(1)).cast() }
}

/// Calls the function of the invocation with its two tables.
pub(super) unsafe extern "C-unwind" fn enter(state: *mut lua_State) -> c_int {
    unsafe {
        let invocation = (*world_of(state)).invocation;
        lua::lua_rawgeti_(state, lua::LUA_REGISTRYINDEX, invocation.function);
        lua::lua_createtable(state, 1, 0);
        push(state, &*invocation.partition_key);
        lua::lua_rawseti_(state, -2, 1);
        let arguments = &*invocation.arguments;
        lua::lua_createtable(state, arguments.len() as c_int, 0);
        for (index, argument) in (1..).zip(arguments.iter()) {
            push(state, argument);
            lua::lua_rawseti_(state, -2, index);
        }
        lua::lua_call(state, 2, 1);
        1
    }
}

/// Collects all garbage.
pub(super) unsafe extern "C-unwind" fn collect(state: *mut lua_State) -> c_int {
    unsafe { lua::lua_gc(state, lua::LUA_GCCOLLECT, 0) };
    0
}

/// `redis.call`: an error is raised.
pub(super) unsafe extern "C-unwind" fn command(state: *mut lua_State) -> c_int {
    unsafe {
        let world = world_of(state);
        if (*world).dispatch(state) {
            push_reply(state, world);
            return 1;
        }
        push_fault(state, world);
        lua::lua_error(state)
    }
}

/// `redis.pcall`: an error is answered as a table.
pub(super) unsafe extern "C-unwind" fn protected_command(state: *mut lua_State) -> c_int {
    unsafe {
        let world = world_of(state);
        if (*world).dispatch(state) {
            push_reply(state, world);
        } else {
            push_fault(state, world);
        }
        1
    }
}

/// `redis.sha1hex(text)`: the digest in lower-case digits. As in Valkey, a number is its text, and
/// what has no text is as good as empty.
pub(super) unsafe extern "C-unwind" fn sha1hex(state: *mut lua_State) -> c_int {
    unsafe {
        if lua::lua_gettop(state) != 1 {
            let world = world_of(state);
            (*world).fault.clear();
            (*world).fault.extend_from_slice(b"ERR wrong number of arguments");
            push_fault(state, world);
            lua::lua_error(state);
        }
        let text = match lua::lua_type(state, 1) {
            lua::LUA_TSTRING | lua::LUA_TNUMBER => text_at(state, 1),
            _ => &[],
        };
        push(state, &hexadecimal(Sha1::digest(text).into()));
        1
    }
}

fn hexadecimal(digest: [u8; 20]) -> [u8; 40] {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    std::array::from_fn(|at| {
        let byte = digest[at / 2];
        let digit = if at % 2 == 0 { byte >> 4 } else { byte & 15 };
        DIGITS[usize::from(digit)]
    })
}

/// `redis.log(level, text, …)`
pub(super) unsafe extern "C-unwind" fn log(state: *mut lua_State) -> c_int {
    // Whoever listens to the log may panic, which must not cross Lua's frames.
    // SAFETY: `write_log` calls nothing that raises.
    let _ = catch_unwind(|| unsafe { write_log(state) });
    0
}

unsafe fn write_log(state: *mut lua_State) {
    unsafe {
        let level = lua::lua_tonumber(state, 1);
        let mut message = String::new();
        for index in 2..=lua::lua_gettop(state) {
            if lua::lua_type(state, index) == lua::LUA_TSTRING {
                message.push_str(if message.is_empty() { "" } else { " " });
                message.push_str(&String::from_utf8_lossy(text_at(state, index)));
            }
        }
        match level as i64 {
            ..=1 => tracing::debug!(target: "flowfabric::library", "{message}"),
            2 => tracing::info!(target: "flowfabric::library", "{message}"),
            _ => tracing::warn!(target: "flowfabric::library", "{message}"),
        }
    }
}

/// Runs where an error is raised, while the frames are still there; answers the error unchanged.
pub(super) unsafe extern "C-unwind" fn remember_line(state: *mut lua_State) -> c_int {
    unsafe {
        let mut frame: lua::lua_Debug = std::mem::zeroed();
        let mut level = 0;
        while lua::lua_getstack(state, level, &mut frame) != 0 {
            if lua::lua_getinfo(state, c"l".as_ptr(), &mut frame) != 0 && frame.currentline > 0 {
                (*world_of(state)).line = frame.currentline;
                break;
            }
            level += 1;
        }
        1
    }
}

unsafe fn push_fault(state: *mut lua_State, world: *const World) {
    unsafe {
        lua::lua_createtable(state, 0, 1);
        lua::lua_rawgeti_(state, lua::LUA_REGISTRYINDEX, (*world).anchors.err);
        push(state, &(*world).fault);
        lua::lua_rawset(state, -3);
    }
}

unsafe fn push_reply(state: *mut lua_State, world: *const World) {
    unsafe {
        push_item(state, &(*world).session.reply, (*world).anchors.ok, 0);
    }
}

/// Pushes the item at this position; answers the position after it. Replies of commands are nested
/// three deep at most, which every C function has room for.
unsafe fn push_item(state: *mut lua_State, reply: &Reply, ok: c_int, at: usize) -> usize {
    unsafe {
        match reply.items()[at] {
            Item::Nil => lua::lua_pushboolean(state, 0),
            Item::Int(value) => lua::lua_pushnumber(state, value as f64),
            Item::Bytes { start, end } => push(state, reply.slice(start, end)),
            Item::Status(text) => {
                lua::lua_createtable(state, 0, 1);
                lua::lua_rawgeti_(state, lua::LUA_REGISTRYINDEX, ok);
                push(state, text.as_bytes());
                lua::lua_rawset(state, -3);
            }
            Item::List(count) => {
                lua::lua_createtable(state, count as c_int, 0);
                let mut next = at + 1;
                for index in 1..=count as c_int {
                    next = push_item(state, reply, ok, next);
                    lua::lua_rawseti_(state, -2, index);
                }
                return next;
            }
        }
        at + 1
    }
}

/// Pushes a byte string.
pub(super) unsafe fn push(state: *mut lua_State, bytes: &[u8]) {
    unsafe { lua::lua_pushlstring_(state, bytes.as_ptr().cast(), bytes.len()) }
}
