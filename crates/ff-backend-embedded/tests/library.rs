//! How libraries are loaded and run: the sandbox, errors, and that LuaJIT does what Valkey's Lua
//! does where it matters.
#![allow(clippy::unwrap_used, reason = "in a test, a panic is the report")]

mod support;

use ff_backend_embedded::{EmbeddedConfig, EmbeddedHost};
use ff_core::backend_error::{BackendErrorKind, Retry};
use ff_script::host::{Host, Topic, Wake};
use ff_script::value::Value;
use support::{HOME, RUN, call, in_memory, library, outcome, show};

fn refusal(source: &str) -> String {
    match EmbeddedHost::open(EmbeddedConfig::in_memory(), &library(source)) {
        Ok(_) => panic!("{source} must not load"),
        Err(error) => error.to_string(),
    }
}

/// The value of an expression inside a function.
async fn eval(expression: &str) -> String {
    let body =
        format!("redis.register_function('f', function(keys, args) return {expression} end)");
    let host = in_memory(&format!("#!lua name=t\n{body}"));
    outcome(&call(&host, "f", HOME, &[b"first", b"\x00\xff"]).await)
}

#[test]
fn a_library_that_valkey_would_refuse_is_refused() {
    for (source, expected) in [
        ("redis.register_function('f', print)", "must start with a line"),
        ("#!lua name=t\nlocal x = 1", "No functions registered"),
        ("#!lua name=t\nx = 1", "Attempt to modify a readonly table"),
        ("#!lua name=t\nlocal x = string", "nonexistent global variable 'string'"),
        ("#!lua name=t\nlocal x = pairs", "nonexistent global variable 'pairs'"),
        ("#!lua name=t\nlocal x = redis.call", "nonexistent global variable 'call'"),
        ("#!lua name=t\nredis.call('TIME')", "nonexistent global variable 'call'"),
        ("#!lua name=t\nredis.register_function('a b', function() end)", "Library names can only"),
        (
            "#!lua name=t\nlocal f = function() end redis.register_function('a', f) \
             redis.register_function('a', f)",
            "Function already exists in the library",
        ),
        (
            "#!lua name=t\nredis.register_function{function_name='a', callback=function() end, \
             flags={'bogus'}}",
            "unknown flag given",
        ),
        ("#!lua name=t\nredis.register_function('a', 1)", "must be a function"),
        ("#!lua name=t\nthis is no Lua", "user_function:2:"),
    ] {
        let refused = refusal(source);
        assert!(refused.contains(expected), "{source}: {refused}");
    }
}

#[tokio::test]
async fn only_what_valkey_offers_and_we_use_is_there() {
    for name in [
        "string",
        "table",
        "math",
        "bit",
        "redis",
        "server",
        "tonumber",
        "tostring",
        "pairs",
        "ipairs",
        "next",
        "type",
        "select",
        "unpack",
        "error",
        "assert",
        "pcall",
        "xpcall",
        "rawget",
        "rawset",
        "rawequal",
        "setmetatable",
        "getmetatable",
        "_G",
        "_VERSION",
    ] {
        let kind = eval(&format!("type({name})")).await;
        assert!(kind != "\"nil\"" && !kind.contains("nonexistent"), "{name}: {kind}");
    }
    for name in [
        "os",
        "io",
        "debug",
        "require",
        "package",
        "module",
        "load",
        "loadstring",
        "loadfile",
        "dofile",
        "print",
        "collectgarbage",
        "gcinfo",
        "newproxy",
        "getfenv",
        "setfenv",
        "ffi",
        "jit",
        "coroutine",
        "cjson",
        "cmsgpack",
        "struct",
    ] {
        let answer = eval(name).await;
        assert!(answer.contains("nonexistent global variable"), "{name}: {answer}");
    }
    for name in ["string.dump", "math.random", "math.randomseed", "table.move", "redis.setresp"] {
        assert_eq!(eval(&format!("type({name})")).await, "\"nil\"", "{name}");
    }
    assert_eq!(eval("type(('').dump)").await, "\"nil\"");
}

#[tokio::test]
async fn nothing_outlives_a_call_in_a_global() {
    for change in [
        "x = 1",
        "string = nil",
        "string.format = nil",
        "redis.call = nil",
        "_G.x = 1",
        "rawset(_G, 'x', 1)",
        "rawset(string, 'x', 1)",
    ] {
        let answer = eval(&format!("(function() {change} end)()")).await;
        assert!(answer.contains("Attempt to modify a readonly table"), "{change}: {answer}");
    }
    assert!(eval("setmetatable(_G, {})").await.contains("protected metatable"));
    assert_eq!(eval("getmetatable('')").await, "(nil)");
}

#[tokio::test]
async fn a_function_gets_its_partition_and_its_arguments() {
    assert_eq!(
        eval("{#keys, keys[1], #args, args[1], args[2]}").await,
        r#"[1 "ff:{fp:7}" 2 "first" "\x00\xff"]"#
    );
}

#[tokio::test]
async fn replies_are_converted_as_valkey_converts_them() {
    for (expression, expected) in [
        ("nil", "(nil)"),
        ("false", "(nil)"),
        ("true", "1"),
        ("3.99", "3"),
        ("-3.99", "-3"),
        ("2^53", "9007199254740992"),
        ("1e300", "-9223372036854775808"),
        ("0/0", "-9223372036854775808"),
        ("'a\\0b'", r#""a\x00b""#),
        ("{1, 'two', {3}, false, true}", r#"[1 "two" [3] (nil) 1]"#),
        ("{1, nil, 3}", "[1]"),
        ("{ok = 'fine'}", r#""fine""#),
        ("{a = 1}", "[]"),
        ("redis.status_reply('hello')", r#""hello""#),
        ("redis.error_reply('MYCODE it broke')", "MYCODE it broke"),
        ("redis.error_reply('broke')", "ERR broke"),
        ("{err = 'x y'}", "x y"),
        ("(function() end)()", "(nil)"),
    ] {
        assert_eq!(eval(expression).await, expected, "{expression}");
    }
}

#[tokio::test]
async fn a_reply_that_contains_itself_is_an_error() {
    let answer = eval("(function() local t = {} t[1] = t return t end)()").await;
    assert_eq!(answer, "the reply is nested too deeply");
}

#[tokio::test]
async fn errors_of_commands_can_be_caught() {
    for (expression, expected) in [
        ("redis.pcall('NOSUCH').err", "\"ERR Unknown command called from script\""),
        ("{pcall(redis.call, 'NOSUCH')}", "[(nil) \"ERR Unknown command called from script\"]"),
        ("{pcall(error, {err = 'X y'})}", "[(nil) \"X y\"]"),
        ("{pcall(error, 'plain')}", "[(nil) \"plain\"]"),
        ("{pcall(function() return 1, 2 end)}", "[1 1 2]"),
        ("redis.call()", "ERR Please specify at least one argument for this call"),
        ("redis.call('SET', 'a', true)", "ERR Command arguments must be strings or integers"),
        ("redis.call('SET', 'a', nil)", "ERR Command arguments must be strings or integers"),
        ("redis.call({})", "ERR Command arguments must be strings or integers"),
    ] {
        assert_eq!(eval(expression).await, expected, "{expression}");
    }
}

#[tokio::test]
async fn an_error_says_where_it_was_raised() {
    let host = in_memory(RUN);
    let error = call(&host, "run", HOME, &[b"GET"]).await.unwrap_err();
    assert_eq!((error.kind, error.retry), (BackendErrorKind::Protocol, Retry::Never));
    assert!(error.message.ends_with("(line 12)"), "{error}");
    let error = call(&host, "nosuch", HOME, &[]).await.unwrap_err();
    assert_eq!(error.kind, BackendErrorKind::ScriptNotLoaded);
}

#[tokio::test]
async fn numbers_read_and_print_as_in_lua_5_1() {
    for (expression, expected) in [
        ("tostring(1794768315577123)", "1.7947683155771e+15"),
        ("tostring(2^53)", "9.007199254741e+15"),
        ("tostring(100000000000000)", "1e+14"),
        ("tostring(99999999999999)", "99999999999999"),
        ("tostring(0.1)", "0.1"),
        ("tostring(-0.00001)", "-1e-05"),
        ("tostring(1e15)", "1e+15"),
        ("tostring(3.0)", "3"),
        ("tostring(1/0)", "inf"),
        ("'' .. 2^31", "2147483648"),
        ("string.format('%.0f', 1794768315577123)", "1794768315577123"),
        ("string.format('%.0f', 2^53)", "9007199254740992"),
        ("string.format('%.0f', 0.5)", "0"),
        ("string.format('%.0f', 1.5)", "2"),
        ("string.format('%d', 2^53)", "9007199254740992"),
        ("string.format('%d', 3.7)", "3"),
        ("string.format('%5.1f|%-5s|%05d|%x', 3.14159, 'ab', 42, 255)", "  3.1|ab   |00042|ff"),
        ("string.format('%.14g', 0.1 + 0.2)", "0.3"),
        ("string.format('%.17g', 0.1 + 0.2)", "0.30000000000000004"),
        ("string.format('%.0f', 9007199254740991 + 1)", "9007199254740992"),
        ("string.format('%.0f', 9007199254740992 - 1)", "9007199254740991"),
        ("string.format('%.0f', 94906265 * 94906265)", "9007199136250225"),
        ("string.format('%.0f', 9007199254740991 % 1000)", "991"),
        ("string.format('%.0f', math.floor(1794768315577123 / 1000))", "1794768315577"),
        ("tostring(-7 % 3)", "2"),
        ("tostring(tonumber('0x10'))", "16"),
        ("tostring(tonumber('1e3'))", "1000"),
        ("tostring(tonumber(' 12 '))", "12"),
        ("tostring(tonumber('12x'))", "nil"),
        ("tostring(tonumber(''))", "nil"),
        ("tostring(tonumber('z', 36))", "35"),
        ("tostring(tonumber('9007199254740993') == 2^53)", "true"),
        ("tostring(bit.band(0xffffffff, 0xff00))", "65280"),
        ("tostring(bit.lshift(1, 31))", "-2147483648"),
        ("bit.tohex(255)", "000000ff"),
    ] {
        let answer = eval(expression).await;
        assert_eq!(answer, show(&Value::Bytes(expected.into())), "{expression}");
    }
}

#[tokio::test]
async fn numbers_reach_commands_exactly() {
    for (number, expected) in [
        ("1794768315577123", "1794768315577123"),
        ("2^53", "9007199254740992"),
        ("-5", "-5"),
        ("1.5", "1.5"),
        ("1e19", "1e+19"),
        ("0.00001234", "1.234e-5"),
        ("-1/0", "-inf"),
    ] {
        let set = format!("redis.call('SET', keys[1], {number}) and redis.call('GET', keys[1])");
        assert_eq!(eval(&set).await, format!("\"{expected}\""), "{number}");
    }
}

#[tokio::test]
async fn unpack_takes_as_many_values_as_in_valkey() {
    let count = |n: u32| {
        format!(
            "(function() local t = {{}} for i = 1, {n} do t[i] = 'x' end \
             return select('#', unpack(t)) end)()"
        )
    };
    assert_eq!(eval(&count(7900)).await, "7900");
    assert!(eval(&count(8001)).await.contains("too many results to unpack"));
    let push = "(function() local t = {'RPUSH', keys[1]} for i = 3, 7900 do t[i] = i end \
                return redis.call(unpack(t)) end)()";
    assert_eq!(eval(push).await, "7898");
}

#[tokio::test]
async fn patterns_sorting_and_joining_work_on_all_bytes() {
    for (expression, expected) in [
        ("('a\\0b\\0c'):find('\\0c', 1, true)", "4"),
        ("('\\200\\201x'):match('^[\\128-\\255]+')", r#""\xc8\xc9""#),
        ("('caf\\195\\169'):upper()", r#""CAF\xc3\xa9""#),
        ("('caf\\195\\169'):find('%a+$') == nil", "1"),
        ("('k=v;x=y'):gsub('(%w)=(%w)', '%2=%1')", "\"v=k;y=x\""),
        ("('a,b,,c'):gsub('[^,]*', '') ", "\",,,\""),
        ("('x'):rep(3)", "\"xxx\""),
        ("('%bxy'):len()", "4"),
        ("(';a;b;'):match(';(.-);')", "\"a\""),
        ("#('a\\0b')", "3"),
        ("('a\\0b'):byte(2)", "0"),
        ("string.char(0, 255)", r#""\x00\xff""#),
        ("('abc') < ('abd')", "1"),
        ("('a\\0a') < ('a\\0b')", "1"),
        ("('\\127') < ('\\128')", "1"),
        ("table.concat({'a', 1, 2.5, '\\0'}, '-')", r#""a-1-2.5-\x00""#),
        ("(function() local t = {3, 1, 2} table.sort(t) return t end)()", "[1 2 3]"),
        (
            "(function() local t = {'b', 'a', 'B', '\\0'} table.sort(t, function(x, y) \
             return x > y end) return t end)()",
            r#"["b" "a" "B" "\x00"]"#,
        ),
        (
            "(function() local t = {1, 2} table.insert(t, 1, 0) \
             return {table.remove(t), #t} end)()",
            "[2 2]",
        ),
    ] {
        assert_eq!(eval(expression).await, expected, "{expression}");
    }
}

#[tokio::test]
async fn wake_ups_reach_subscribers_with_their_partition() {
    let host = in_memory(RUN);
    let mut ready = host.subscribe(Topic::Ready).await.unwrap();
    let publish: &[&[u8]] =
        &[b"SPUBLISH", b"ff:{fp:7}:nobody", b"x", b";", b"SPUBLISH", b"ff:{fp:7}:ready", b"lane"];
    assert_eq!(outcome(&call(&host, "run", HOME, publish).await), "0");
    let wake = ready.next().await;
    assert_eq!(wake, Some(Wake::Message { partition: HOME, message: b"lane".to_vec() }));
    host.close().await;
    assert_eq!(ready.next().await, None);
    let closed = call(&host, "run", HOME, publish).await.unwrap_err();
    assert_eq!(closed.kind, BackendErrorKind::Closed);
    assert!(host.subscribe(Topic::Ready).await.is_err());
}

#[tokio::test]
async fn values_of_any_bytes_and_size_come_back_unchanged() {
    let host = in_memory(RUN);
    let every: Vec<u8> = (0..=255).collect();
    let large = vec![0xabu8; 4 << 20];
    for value in [&b""[..], &every, &large] {
        call(&host, "run", HOME, &[b"HSET", b"ff:{fp:7}:h", b"f", value]).await.unwrap();
        let back = call(&host, "read", HOME, &[b"HGET", b"ff:{fp:7}:h", b"f"]).await.unwrap();
        assert_eq!(back.as_bytes(), Some(value));
    }
}
