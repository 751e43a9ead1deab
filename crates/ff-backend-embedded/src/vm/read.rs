//! Reads values off the Lua stack. Nothing here calls a part of the API that raises. See the parent
//! module for why this is sound.

use std::ffi::c_int;

use ff_script::value::Value;
use mlua_sys::{self as lua, lua_State};

use super::Anchors;

/// Replies nested deeper than this are a bug, most likely a table that contains itself.
pub(super) const REPLY_DEPTH_MAX: c_int = 64;

/// The bytes of the string at this index. Only for strings, or, where raising does no harm, for
/// numbers, which it turns into strings.
pub(super) unsafe fn text_at<'a>(state: *mut lua_State, index: c_int) -> &'a [u8] {
    unsafe {
        let mut length = 0;
        let start = lua::lua_tolstring(state, index, &mut length);
        std::slice::from_raw_parts(start.cast(), length)
    }
}

/// The text of the error at this index.
pub(super) unsafe fn read_error(state: *mut lua_State, anchors: &Anchors, index: c_int) -> String {
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
        let text =
            (lua::lua_type(state, -1) == lua::LUA_TSTRING).then(|| text_at(state, -1).to_vec());
        lua::lua_pop(state, 1);
        text
    }
}

/// Reads what a function answered, by Valkey's rules. Calls nothing that raises.
pub(super) unsafe fn read_value(
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
