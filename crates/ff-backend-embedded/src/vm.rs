//! The Lua machine of one shard, through the raw stack API. The only module with `unsafe`.
//!
//! Why this is sound:
//!
//! * **Errors.** Lua raises by unwinding or jumping over our frames. Every function here that calls
//!   something which may raise holds nothing that needs to be dropped: what is allocated lives in
//!   [`World`], not in the frame. Everything with destructors runs in [`World::dispatch`] and
//!   [`read_value`], which call only parts of the API that never raise.
//! * **Panics.** Commands run under `catch_unwind`; no panic crosses a Lua frame.
//! * **Lifetimes.** The arguments of a command are borrowed from Lua strings on the stack of the
//!   running C function. Nothing that could collect or move them is called until they are dropped.
//! * **Aliasing.** The world is reached through one raw pointer. A reference to it never lives while
//!   Lua runs.
//! * **Threads.** A machine is made, used and closed by one thread: it is neither `Send` nor `Sync`.
#![allow(unsafe_code)]

use std::ffi::{CStr, c_int};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::ptr;

use ff_script::args::Args;
use ff_script::value::Value;
use hashbrown::HashMap;
use mlua_sys::{self as lua, lua_State};

use crate::keyspace::Seeded;
use crate::number;
use crate::reply::{Item, Reply};
use crate::session::Session;

const SANDBOX: &str = include_str!("vm/sandbox.lua");
/// The name under which Valkey's messages mention a library.
const LIBRARY_CHUNK: &CStr = c"@user_function";
/// Replies nested deeper than this are a bug, most likely a table that contains itself.
const REPLY_DEPTH_MAX: c_int = 64;
/// Longest text of a number, with room to spare.
const NUMBER_BYTES_MAX: usize = 32;

/// A Lua machine with the library loaded, and the keyspace that its commands work on.
pub(crate) struct Machine {
    state: *mut lua_State,
    world: *mut World,
    functions: HashMap<String, LoadedFunction, Seeded>,
    anchors: Anchors,
}

/// A function of the library.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LoadedFunction {
    reference: c_int,
    /// Registered with `no-writes`.
    pub(crate) read_only: bool,
}

/// Why a call gave no value.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Failure {
    /// The function raised or answered an error: its text and, if known, its line.
    Raised { text: String, line: Option<u32> },
    /// A command panicked: what the keyspace holds now is not to be trusted.
    Broken,
}

/// Values that are kept in Lua's registry, so that a call allocates as little as possible.
#[derive(Clone, Copy, Default)]
struct Anchors {
    enter: c_int,
    handler: c_int,
    err: c_int,
    ok: c_int,
}

/// What our C functions work on.
struct World {
    session: Session,
    anchors: Anchors,
    invocation: Invocation,
    arguments: Vec<&'static [u8]>,
    numbers: Vec<u8>,
    fault: Vec<u8>,
    line: c_int,
    broken: bool,
}

/// The call under way; only valid while it is.
#[derive(Clone, Copy)]
struct Invocation {
    function: c_int,
    partition_key: *const [u8],
    arguments: *const Args,
}

impl Machine {
    /// A machine that runs this library on this session's keyspace.
    pub(crate) fn new(library: &str, session: Session) -> Result<Self, String> {
        // SAFETY: the state is made here and used by no one else. Setting up can only raise for
        // want of memory, which ends the process as it does everywhere else in Rust.
        unsafe {
            let state = lua::luaL_newstate();
            if state.is_null() {
                return Err("no memory for a Lua machine".to_owned());
            }
            let world = Box::into_raw(Box::new(World::new(session)));
            let functions = HashMap::default();
            let mut machine = Self { state, world, functions, anchors: Anchors::default() };
            machine.open_libraries();
            machine.anchor();
            machine.load(library)?;
            Ok(machine)
        }
    }

    /// The function of this name.
    pub(crate) fn function(&self, name: &str) -> Option<LoadedFunction> {
        self.functions.get(name).copied()
    }

    /// What the commands work on, between calls.
    pub(crate) fn session(&mut self) -> &mut Session {
        // SAFETY: Lua does not run while `self` is borrowed, so this is the only reference.
        unsafe { &mut (*self.world).session }
    }

    /// Runs one function on one partition.
    pub(crate) fn call(
        &mut self,
        function: LoadedFunction,
        partition_key: &[u8],
        arguments: &Args,
    ) -> Result<Value, Failure> {
        // SAFETY: the invocation's pointers outlive the protected call, and nothing before or after
        // it raises: the anchors exist and the stack has room.
        unsafe {
            let state = self.state;
            {
                let world = &mut *self.world;
                world.session.begin(partition_key, function.read_only);
                world.invocation =
                    Invocation { function: function.reference, partition_key, arguments };
                world.line = 0;
            }
            lua::lua_rawgeti_(state, lua::LUA_REGISTRYINDEX, self.anchors.handler);
            lua::lua_rawgeti_(state, lua::LUA_REGISTRYINDEX, self.anchors.enter);
            let status = lua::lua_pcall(state, 0, 1, 1);
            // Room for a reply of the greatest depth, so that reading one never grows the stack.
            lua::lua_checkstack(state, 3 * REPLY_DEPTH_MAX);
            let outcome = if status == lua::LUA_OK {
                read_value(state, &self.anchors, 2, 0)
            } else {
                Err(read_error(state, &self.anchors, 2))
            };
            lua::lua_settop(state, 0);
            outcome.map_err(|text| self.failure(text))
        }
    }

    fn failure(&mut self, text: String) -> Failure {
        // SAFETY: as in `session`.
        let world = unsafe { &*self.world };
        if world.broken {
            return Failure::Broken;
        }
        Failure::Raised { text, line: u32::try_from(world.line).ok().filter(|line| *line > 0) }
    }

    /// Opens only what the sandbox chooses from. The compiler stays out: functions consist of
    /// commands, which it cannot compile.
    unsafe fn open_libraries(&mut self) {
        unsafe {
            let openers: [lua::lua_CFunction; 5] = [
                lua::luaopen_base,
                lua::luaopen_string,
                lua::luaopen_table,
                lua::luaopen_math,
                lua::luaopen_bit,
            ];
            for open in openers {
                lua::lua_pushcfunction(self.state, open);
                lua::lua_pushstring_(self.state, c"".as_ptr());
                lua::lua_call(self.state, 1, 0);
            }
        }
    }

    unsafe fn anchor(&mut self) {
        unsafe {
            let state = self.state;
            self.push_closure(enter);
            let enter = lua::luaL_ref(state, lua::LUA_REGISTRYINDEX);
            self.push_closure(remember_line);
            let handler = lua::luaL_ref(state, lua::LUA_REGISTRYINDEX);
            push(state, b"err");
            let err = lua::luaL_ref(state, lua::LUA_REGISTRYINDEX);
            push(state, b"ok");
            let ok = lua::luaL_ref(state, lua::LUA_REGISTRYINDEX);
            self.anchors = Anchors { enter, handler, err, ok };
            (*self.world).anchors = self.anchors;
        }
    }

    unsafe fn push_closure(&self, function: lua::lua_CFunction) {
        unsafe {
            lua::lua_pushlightuserdata(self.state, self.world.cast());
            lua::lua_pushcclosure(self.state, function, 1);
        }
    }

    unsafe fn load(&mut self, library: &str) -> Result<(), String> {
        unsafe {
            let state = self.state;
            self.compile(SANDBOX, c"=sandbox")?;
            self.push_closure(command);
            self.push_closure(protected_command);
            self.push_closure(log);
            self.run(3, 3)?;
            // Now on the stack: globals, registered functions, and the function that ends loading.
            self.compile(&without_shebang(library)?, LIBRARY_CHUNK)?;
            lua::lua_pushvalue(state, 1);
            lua::lua_setfenv(state, -2);
            self.run(0, 0)?;
            self.run(0, 0)?;
            self.collect_functions()?;
            lua::lua_settop(state, 0);
            Ok(())
        }
    }

    unsafe fn compile(&self, source: &str, chunk: &CStr) -> Result<(), String> {
        unsafe {
            let (start, length) = (source.as_ptr().cast(), source.len());
            match lua::luaL_loadbuffer(self.state, start, length, chunk.as_ptr()) {
                lua::LUA_OK => Ok(()),
                _ => Err(self.error_on_top()),
            }
        }
    }

    unsafe fn run(&self, arguments: c_int, results: c_int) -> Result<(), String> {
        unsafe {
            match lua::lua_pcall(self.state, arguments, results, 0) {
                lua::LUA_OK => Ok(()),
                _ => Err(self.error_on_top()),
            }
        }
    }

    unsafe fn error_on_top(&self) -> String {
        unsafe { read_error(self.state, &self.anchors, lua::lua_gettop(self.state)) }
    }

    /// Reads the list of `{name, callback, read_only}` at index 2.
    unsafe fn collect_functions(&mut self) -> Result<(), String> {
        unsafe {
            let state = self.state;
            for index in 1..=lua::lua_objlen(state, 2) as c_int {
                lua::lua_rawgeti_(state, 2, index);
                let entry = lua::lua_gettop(state);
                lua::lua_rawgeti_(state, entry, 1);
                let name = String::from_utf8_lossy(text_at(state, -1)).into_owned();
                lua::lua_rawgeti_(state, entry, 3);
                let read_only = lua::lua_toboolean(state, -1) != 0;
                lua::lua_rawgeti_(state, entry, 2);
                let reference = lua::luaL_ref(state, lua::LUA_REGISTRYINDEX);
                self.functions.insert(name, LoadedFunction { reference, read_only });
                lua::lua_settop(state, entry - 1);
            }
        }
        if self.functions.is_empty() { Err("No functions registered".to_owned()) } else { Ok(()) }
    }
}

impl Drop for Machine {
    fn drop(&mut self) {
        // SAFETY: both were made in `new`, and closing the state runs none of our functions.
        unsafe {
            lua::lua_close(self.state);
            drop(Box::from_raw(self.world));
        }
    }
}

/// Valkey wants a first line `#!lua name=…`; Lua does not. The line stays, empty, so that line
/// numbers agree.
fn without_shebang(library: &str) -> Result<String, String> {
    let end = library.find('\n').unwrap_or(library.len());
    if !library.starts_with("#!lua name=") {
        return Err("the library must start with a line `#!lua name=…`".to_owned());
    }
    Ok(library[end..].to_owned())
}

impl World {
    fn new(session: Session) -> Self {
        let nothing: &[u8] = &[];
        let invocation =
            Invocation { function: 0, partition_key: nothing, arguments: ptr::null() };
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
unsafe extern "C-unwind" fn enter(state: *mut lua_State) -> c_int {
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

/// `redis.call`: an error is raised.
unsafe extern "C-unwind" fn command(state: *mut lua_State) -> c_int {
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
unsafe extern "C-unwind" fn protected_command(state: *mut lua_State) -> c_int {
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

/// `redis.log(level, text, …)`
unsafe extern "C-unwind" fn log(state: *mut lua_State) -> c_int {
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
        0
    }
}

/// Runs where an error is raised, while the frames are still there; answers the error unchanged.
unsafe extern "C-unwind" fn remember_line(state: *mut lua_State) -> c_int {
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
unsafe fn push(state: *mut lua_State, bytes: &[u8]) {
    unsafe { lua::lua_pushlstring_(state, bytes.as_ptr().cast(), bytes.len()) }
}

/// The bytes of the string at this index; only for strings, which it does not convert.
unsafe fn text_at<'a>(state: *mut lua_State, index: c_int) -> &'a [u8] {
    unsafe {
        let mut length = 0;
        let start = lua::lua_tolstring(state, index, &mut length);
        std::slice::from_raw_parts(start.cast(), length)
    }
}

/// The text of the error at this index.
unsafe fn read_error(state: *mut lua_State, anchors: &Anchors, index: c_int) -> String {
    unsafe {
        match lua::lua_type(state, index) {
            lua::LUA_TSTRING => String::from_utf8_lossy(text_at(state, index)).into_owned(),
            lua::LUA_TTABLE => field_text(state, index, anchors.err)
                .map_or_else(|| "a table was raised".to_owned(), |text| lossy(&text)),
            _ => "something that is no text was raised".to_owned(),
        }
    }
}

fn lossy(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// The string in the field that an anchor names.
unsafe fn field_text(state: *mut lua_State, table: c_int, anchor: c_int) -> Option<Vec<u8>> {
    unsafe {
        lua::lua_rawgeti_(state, lua::LUA_REGISTRYINDEX, anchor);
        lua::lua_rawget_(state, table);
        let text = (lua::lua_type(state, -1) == lua::LUA_TSTRING)
            .then(|| text_at(state, -1).to_vec());
        lua::lua_pop(state, 1);
        text
    }
}

/// Reads what a function answered, by Valkey's rules. Calls nothing that raises.
unsafe fn read_value(
    state: *mut lua_State,
    anchors: &Anchors,
    index: c_int,
    depth: c_int,
) -> Result<Value, String> {
    unsafe {
        match lua::lua_type(state, index) {
            lua::LUA_TSTRING => Ok(Value::Bytes(text_at(state, index).to_vec())),
            lua::LUA_TNUMBER => Ok(Value::Int(truncated(lua::lua_tonumber(state, index)))),
            lua::LUA_TBOOLEAN if lua::lua_toboolean(state, index) != 0 => Ok(Value::Int(1)),
            lua::LUA_TTABLE => read_table(state, anchors, index, depth),
            _ => Ok(Value::Nil),
        }
    }
}

unsafe fn read_table(
    state: *mut lua_State,
    anchors: &Anchors,
    index: c_int,
    depth: c_int,
) -> Result<Value, String> {
    unsafe {
        if depth == REPLY_DEPTH_MAX {
            return Err("the reply is nested too deeply".to_owned());
        }
        if let Some(error) = field_text(state, index, anchors.err) {
            return Err(lossy(&error));
        }
        if let Some(status) = field_text(state, index, anchors.ok) {
            return Ok(Value::Bytes(status));
        }
        let mut values = Vec::with_capacity(lua::lua_objlen(state, index));
        for position in 1.. {
            lua::lua_rawgeti_(state, index, position);
            let top = lua::lua_gettop(state);
            if lua::lua_type(state, top) == lua::LUA_TNIL {
                lua::lua_pop(state, 1);
                break;
            }
            let value = read_value(state, anchors, top, depth + 1);
            lua::lua_pop(state, 1);
            values.push(value?);
        }
        Ok(Value::Array(values))
    }
}

/// A number as a whole one, as the processor converts it: out of range is the smallest.
fn truncated(value: f64) -> i64 {
    let limit = i64::MAX as f64;
    if value >= -limit && value < limit { value as i64 } else { i64::MIN }
}
