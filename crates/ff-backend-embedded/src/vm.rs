//! The Lua machine of one shard, through the raw stack API. The only module with `unsafe`, here and
//! in its three parts.
//!
//! Why this is sound:
//!
//! * **Errors.** Lua raises by unwinding or jumping over our frames. Every function here that calls
//!   something which may raise holds nothing that needs to be dropped: what is allocated lives in
//!   `World`, not in the frame. Everything with destructors runs in `World::dispatch`,
//!   `write_log` and the `read` module, which call only parts of the API that never raise.
//! * **Panics.** Commands and logging run under `catch_unwind`; no panic crosses a Lua frame.
//! * **Lifetimes.** The arguments of a command are borrowed from Lua strings on the stack of the
//!   running C function. Nothing that could collect or move them is called until they are dropped.
//! * **Aliasing.** The world is reached through one raw pointer. No reference to it lives while Lua
//!   runs.
//! * **Threads.** A machine is made, used and closed by one thread; it is not `Send`.
#![allow(unsafe_code)]

mod compiled;
mod read;
mod world;

use std::ffi::{CStr, c_int};

use ff_core::partition::Partition;
use ff_script::args::Args;
use ff_script::value::Value;
use hashbrown::HashMap;
use mlua_sys::{self as lua, lua_State};

use crate::error::FunctionError;
use crate::keyspace::Seeded;
use crate::session::Session;
use read::{REPLY_DEPTH_MAX, read_error, read_value, text_at};
use world::{
    Invocation, World, collect, command, enter, log, protected_command, push, remember_line,
    sha1hex,
};

const SANDBOX: &str = include_str!("vm/sandbox.lua");
/// The name under which Valkey's messages mention a library.
const LIBRARY_CHUNK: &CStr = c"@user_function";

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
    /// Registered with `allow-oom`: frees memory, or is needed to.
    pub(crate) allowed_when_full: bool,
}

/// How far the machine's memory may grow, in percent of what is in use, before it is collected. The
/// library never changes, and marking it again and again costs more than the memory that waiting
/// takes; beyond this, the memory outgrows the processor's cache.
const GC_PAUSE_PERCENT: c_int = 500;

/// Values that are kept in Lua's registry, so that a call allocates as little as possible.
#[derive(Clone, Copy, Default)]
struct Anchors {
    enter: c_int,
    collect: c_int,
    handler: c_int,
    err: c_int,
    ok: c_int,
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
            lua::lua_gc(state, lua::LUA_GCSETPAUSE, GC_PAUSE_PERCENT);
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
        partition: Partition,
        partition_key: &[u8],
        arguments: &Args,
    ) -> Result<Value, FunctionError> {
        // SAFETY: the invocation's pointers outlive the protected call, and nothing before or after
        // it raises: the anchors exist and the stack has room.
        unsafe {
            let state = self.state;
            {
                let world = &mut *self.world;
                world.session.begin(partition, partition_key, function.read_only);
                world.invocation =
                    Invocation { function: function.reference, partition_key, arguments };
                world.line = 0;
            }
            lua::lua_rawgeti_(state, lua::LUA_REGISTRYINDEX, self.anchors.handler);
            lua::lua_rawgeti_(state, lua::LUA_REGISTRYINDEX, self.anchors.enter);
            let status = lua::lua_pcall(state, 0, 1, 1);
            // Room for a reply of the greatest depth, so that reading one never grows the stack.
            let room = lua::lua_checkstack(state, 3 * REPLY_DEPTH_MAX) != 0;
            let outcome = match status {
                lua::LUA_ERRMEM => Err(None),
                _ if !room => Err(None),
                lua::LUA_OK => read_value(state, &self.anchors, 2, 0).map_err(Some),
                _ => Err(Some(read_error(state, &self.anchors, 2))),
            };
            lua::lua_settop(state, 0);
            if matches!(outcome, Err(None)) {
                self.collect_garbage();
            }
            outcome.map_err(|text| self.error(text))
        }
    }

    /// Frees what calls have left behind, which the machine does not do by itself when memory is
    /// short.
    unsafe fn collect_garbage(&mut self) {
        unsafe {
            // Protected: collecting may need memory, too, and goes on with the next call then.
            lua::lua_rawgeti_(self.state, lua::LUA_REGISTRYINDEX, self.anchors.collect);
            lua::lua_pcall(self.state, 0, 0, 0);
            lua::lua_settop(self.state, 0);
        }
    }

    /// What went wrong: the text that was raised, or nothing if there was no memory.
    fn error(&mut self, text: Option<String>) -> FunctionError {
        // SAFETY: as in `session`.
        let world = unsafe { &*self.world };
        if world.broken {
            return FunctionError::CommandPanicked;
        }
        let Some(text) = text else { return FunctionError::NoMemory };
        FunctionError::Raised {
            text,
            line: u32::try_from(world.line).ok().filter(|line| *line > 0),
        }
    }

    /// Opens what the sandbox chooses from, and the compiler: what lies between the commands of a
    /// function takes a sixth less time with it.
    unsafe fn open_libraries(&mut self) {
        unsafe {
            let openers: [lua::lua_CFunction; 6] = [
                lua::luaopen_jit,
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
            self.push_closure(collect);
            let collect = lua::luaL_ref(state, lua::LUA_REGISTRYINDEX);
            self.push_closure(remember_line);
            let handler = lua::luaL_ref(state, lua::LUA_REGISTRYINDEX);
            push(state, b"err");
            let err = lua::luaL_ref(state, lua::LUA_REGISTRYINDEX);
            push(state, b"ok");
            let ok = lua::luaL_ref(state, lua::LUA_REGISTRYINDEX);
            self.anchors = Anchors { enter, collect, handler, err, ok };
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
            self.push_closure(sha1hex);
            self.run(4, 3)?;
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
            let known = compiled::find(source);
            let code = known.as_deref().unwrap_or(source.as_bytes());
            let (start, length) = (code.as_ptr().cast(), code.len());
            if lua::luaL_loadbuffer(self.state, start, length, chunk.as_ptr()) != lua::LUA_OK {
                return Err(self.error_on_top());
            }
            if known.is_none() {
                compiled::keep(self.state, source);
            }
            Ok(())
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

    /// Reads the list of `{name, callback, read_only, allowed_when_full}` at index 2.
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
                lua::lua_rawgeti_(state, entry, 4);
                let allowed_when_full = lua::lua_toboolean(state, -1) != 0;
                lua::lua_rawgeti_(state, entry, 2);
                let reference = lua::luaL_ref(state, lua::LUA_REGISTRYINDEX);
                let loaded = LoadedFunction { reference, read_only, allowed_when_full };
                self.functions.insert(name, loaded);
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
