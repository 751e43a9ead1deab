//! What was compiled once in this process is not compiled again: each shard has a machine of its
//! own, and reading the library's source takes longer than all else that it begins with.

use std::ffi::{c_int, c_void};
use std::slice;
use std::sync::{Arc, Mutex, PoisonError};

use mlua_sys::{self as lua, lua_State};

/// The sandbox and the library, and another library during tests.
const KEPT_MAX: usize = 4;

/// A source and what the compiler made of it.
type Compiled = (Arc<str>, Arc<[u8]>);

static KEPT: Mutex<Vec<Compiled>> = Mutex::new(Vec::new());

/// What the compiler made of this very source before.
pub(super) fn find(source: &str) -> Option<Arc<[u8]>> {
    let kept = KEPT.lock().unwrap_or_else(PoisonError::into_inner);
    kept.iter().find(|(known, _)| **known == *source).map(|(_, code)| Arc::clone(code))
}

/// Keeps what the compiler made of a source: the function on top of the stack. What cannot be
/// written down for want of memory is compiled again.
pub(super) unsafe fn keep(state: *mut lua_State, source: &str) {
    let mut code: Vec<u8> = Vec::new();
    // SAFETY: the writer is called during this call alone, with this very vector.
    let status = unsafe { lua::lua_dump(state, append, (&raw mut code).cast(), 0) };
    if status != lua::LUA_OK {
        return;
    }
    let mut kept = KEPT.lock().unwrap_or_else(PoisonError::into_inner);
    if kept.iter().any(|(known, _)| **known == *source) {
        return;
    }
    if kept.len() == KEPT_MAX {
        kept.remove(0);
    }
    kept.push((source.into(), code.into()));
}

/// What Lua calls with each piece.
unsafe extern "C-unwind" fn append(
    _: *mut lua_State,
    piece: *const c_void,
    length: usize,
    code: *mut c_void,
) -> c_int {
    // SAFETY: `keep` gave the vector; the piece is Lua's, and lasts as long as this call.
    unsafe {
        (*code.cast::<Vec<u8>>()).extend_from_slice(slice::from_raw_parts(piece.cast(), length))
    };
    0
}
