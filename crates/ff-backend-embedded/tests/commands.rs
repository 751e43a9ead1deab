//! Every command, with the reply that Valkey gives.
#![allow(clippy::unwrap_used, reason = "in a test, a panic is the report")]

mod support;

use ff_backend_embedded::{COMMANDS, EmbeddedConfig, EmbeddedHost};
use support::{HOME, ManualClock, RUN, call, in_memory, library, outcome, run};

/// Runs lines of `command => reply` in order on one fresh store, which must be empty at first.
/// `K` stands for a key of the partition, `…` for the rest of a long reply.
async fn table(lines: &str) {
    let host = in_memory(RUN);
    for line in lines.lines().map(str::trim).filter(|line| !line.is_empty()) {
        let (command, expected) = line.split_once(" => ").expect("a line has a reply");
        let result = run(&host, &command.replace("K", "ff:{fp:7}:k")).await;
        let answered = outcome(&result);
        match expected.strip_suffix('…') {
            Some(start) => assert!(answered.starts_with(start), "{command}: {answered}"),
            None => assert_eq!(answered, expected, "{command}"),
        }
    }
}

const WRONG_TYPE: &str = "WRONGTYPE Operation against a key holding the wrong kind of value";

#[tokio::test]
async fn strings_and_keys() {
    table(
        r#"
        GET K => (nil)
        SET K one => "OK"
        GET K => "one"
        SET K  => "OK"
        GET K => ""
        STRLEN K => 0
        DEL K2 K K => 1
        STRLEN K => 0
        APPEND K one => 3
        APPEND K  => 3
        APPEND K %! => 5
        STRLEN K => 5
        GETRANGE K 1 -2 => "ne%"
        GETRANGE K -9 -8 => "o"
        GETRANGE K -8 -9 => ""
        GETRANGE K 3 99 => "%!"
        GETRANGE K 5 9 => ""
        GETRANGE K2 0 -1 => ""
        GETRANGE K a b => ERR value is not an integer or out of range
        INCRBY K 1 => ERR value is not an integer or out of range
        INCRBY K2 9007199254740993 => 9007199254740992
        GET K2 => "9007199254740993"
        INCRBY K2 -9007199254740994 => -1
        INCRBY K2 x => ERR value is not an integer or out of range
        INCRBY K2 -9223372036854775808 => ERR increment or decrement would overflow
        RENAME K K2 => "OK"
        RENAME K K2 => ERR no such key
        RENAME K2 K2 => "OK"
        RENAME K2 K => "OK"
        EXISTS K K2 => 1
        unlink K2 K K => 1
        SET K one EX 1 => ERR syntax error
        SET K => ERR Wrong number of args calling command from script
        GET K K2 => ERR Wrong number of args calling command from script
        NOSUCH K => ERR Unknown command called from script
        set K lower => "OK"
        get K => "lower"
        "#,
    )
    .await;
}

#[tokio::test]
async fn hashes() {
    table(
        r#"
        HSET K a 1 b 2 => 2
        HSET K a 3 c 4 => 1
        HGET K a => "3"
        HGET K z => (nil)
        HMGET K c z a => ["4" (nil) "3"]
        HMGET K2 a b => [(nil) (nil)]
        HGETALL K => ["a" "3" "b" "2" "c" "4"]
        HGETALL K2 => []
        HLEN K => 3
        hkeys K => ["a" "b" "c"]
        hkeys K2 => []
        HEXISTS K a => 1
        HEXISTS K z => 0
        HEXISTS K2 z => 0
        HSETNX K a 9 => 0
        HSETNX K2 a 9 => 1
        HGET K a => "3"
        HINCRBY K2 a -10 => -1
        HINCRBY K2 n 5 => 5
        HINCRBY K2 n x => ERR value is not an integer or out of range
        HINCRBY K2 n 9223372036854775807 => ERR increment or decrement would overflow
        HSET K2 n 05 => 0
        HINCRBY K2 n 1 => ERR hash value is not an integer
        HDEL K2 a n => 2
        HDEL K a z b => 2
        HDEL K2 a => 0
        HSET K t 01 => 1
        HSET K a => ERR Wrong number of args calling command from script
        HSET K a 1 b => ERR wrong number of arguments for 'hset' command
        HDEL K c n t => 2
        HLEN K => 0
        "#,
    )
    .await;
}

#[tokio::test]
async fn sorted_sets() {
    table(
        r#"
        ZADD K 3 c 1 a 2 b => 3
        ZADD K 1 a 5 b => 0
        ZRANGE K 0 -1 => ["a" "c" "b"]
        ZRANGE K 0 -1 WITHSCORES => ["a" "1" "c" "3" "b" "5"]
        ZRANGE K 0 0 REV => ["b"]
        ZRANGE K 1 1 => ["c"]
        ZRANGE K 5 9 => []
        ZRANGE K -100 1 => ["a" "c"]
        ZRANGE K (1 5 BYSCORE => ["c" "b"]
        ZRANGE K -inf (5 BYSCORE => ["a" "c"]
        ZRANGE K +inf -inf BYSCORE REV LIMIT 1 1 => ["c"]
        ZRANGE K -inf +inf BYSCORE LIMIT 0 -1 => ["a" "c" "b"]
        ZRANGE K -inf +inf BYSCORE LIMIT -1 2 => []
        ZRANGE K 0 1 LIMIT 0 1 => ERR syntax error, LIMIT is only supported in combination with …
        ZRANGE K 0 1 FOO => ERR syntax error
        ZRANGE K a b => ERR value is not an integer or out of range
        ZRANGE K a b BYSCORE => ERR min or max is not a float
        ZRANGE K2 0 -1 => []
        ZADD K NX 9 a 9 d => 1
        ZSCORE K a => "1"
        ZADD K XX 7 a 7 e => 0
        ZSCORE K a => "7"
        ZSCORE K e => (nil)
        ZADD K2 XX 1 a => 0
        ZADD K NX XX 1 a => ERR XX and NX options at the same time are not compatible
        ZADD K nan a => ERR value is not a valid float
        ZADD K 1 x y z => ERR value is not a valid float
        ZADD K 1 x y => ERR syntax error
        ZADD K 1.5 f 1e17 g -1.25e-7 h +inf i => 4
        ZSCORE K f => "1.5"
        ZSCORE K g => "100000000000000000"
        ZSCORE K h => "-1.25e-7"
        ZSCORE K i => "inf"
        ZMSCORE K f e i => ["1.5" (nil) "inf"]
        ZMSCORE K2 a => [(nil)]
        ZCOUNT K -inf +inf => 8
        ZCOUNT K (1.5 7 => 3
        ZCOUNT K 8 7 => 0
        ZCOUNT K2 1 2 => 0
        ZCOUNT K a b => ERR min or max is not a float
        ZINCRBY K -0.5 f => "1"
        ZINCRBY K2 2 n => "2"
        ZREM K2 n => 1
        ZINCRBY K -inf i => ERR resulting score is not a number (NaN)
        ZINCRBY K x f => ERR value is not a valid float
        ZCARD K => 8
        zrank K h => 0
        zrevrank K h => 7
        zrank K e => (nil)
        zrevrank K2 a => (nil)
        ZREM K a b zz => 2
        ZREM K c d f g h i => 6
        ZCARD K => 0
        "#,
    )
    .await;
}

#[tokio::test]
async fn streams() {
    table(
        r#"
        XADD K 1 a b => "1-0"
        XADD K 1-1 c d e f => "1-1"
        XADD K 1-1 a b => ERR The ID specified in XADD is equal or smaller than …
        XADD K 0-0 a b => ERR The ID specified in XADD must be greater than 0-0
        XADD K x a b => ERR Invalid stream ID specified as stream command argument
        XADD K 5 a => ERR Wrong number of args calling command from script
        XADD K 5 a b c => ERR wrong number of arguments for 'xadd' command
        XADD K 5-7 g h => "5-7"
        XRANGE K - + => [["1-0" ["a" "b"]] ["1-1" ["c" "d" "e" "f"]] ["5-7" ["g" "h"]]]
        XRANGE K (1 5 => [["1-1" ["c" "d" "e" "f"]] ["5-7" ["g" "h"]]]
        XRANGE K 1 1 => [["1-0" ["a" "b"]] ["1-1" ["c" "d" "e" "f"]]]
        XRANGE K - (1-1 => [["1-0" ["a" "b"]]]
        XRANGE K - + COUNT 1 => [["1-0" ["a" "b"]]]
        XRANGE K - + COUNT 0 => (nil)
        XRANGE K2 - + COUNT 0 => []
        XRANGE K x + => ERR Invalid stream ID specified as stream command argument
        XREVRANGE K + - COUNT 1 => [["5-7" ["g" "h"]]]
        XREVRANGE K (5-7 - => [["1-1" ["c" "d" "e" "f"]] ["1-0" ["a" "b"]]]
        XLEN K => 3
        XLEN K2 => 0
        XDEL K 1-1 2 1-1 => 1
        XDEL K 1 x => ERR Invalid stream ID specified as stream command argument
        XDEL K2 x => 0
        XRANGE K - + => [["1-0" ["a" "b"]] ["5-7" ["g" "h"]]]
        XDEL K 5-7 => 1
        XADD K 5-7 g h => ERR The ID specified in XADD is equal or smaller than …
        XADD K MAXLEN = 2 6 i j => "6-0"
        XADD K MAXLEN ~ 1000 7 k l => "7-0"
        XADD K MAXLEN ~ x * k l => ERR value is not an integer or out of range
        XADD K MAXLEN ~ -1 * k l => ERR The MAXLEN argument must be >= 0.
        XRANGE K2 - + => []
        XTRIM K MAXLEN ~ 1 => 0
        XTRIM K MINID ~ 7 => 0
        XTRIM K2 MAXLEN 1 => 0
        XTRIM K MAXLEN = 2 => 1
        XTRIM K MINID = 7 => 1
        XLEN K => 1
        XTRIM K MINID 7-0 => 0
        XTRIM K MAXLEN x => ERR value is not an integer or out of range
        XTRIM K MINID x => ERR Invalid stream ID specified as stream command argument
        XTRIM K FOO 1 => ERR syntax error
        XRANGE K - + => [["7-0" ["k" "l"]]]
        XADD K2 18446744073709551615-18446744073709551615 a b => "18446744073709551615-…
        XADD K2 * a b => ERR The stream has exhausted the last possible ID, unable to add more items
        XADD K2 1 a b => ERR The stream has exhausted the last possible ID, unable to add more items
        unlink K2 => 1
        EXISTS K K2 => 1
        "#,
    )
    .await;
}

#[tokio::test]
async fn lists() {
    table(
        r#"
        RPUSH K a b c => 3
        RPUSH K d => 4
        LRANGE K 0 -1 => ["a" "b" "c" "d"]
        LRANGE K -2 99 => ["c" "d"]
        LRANGE K 3 1 => []
        LRANGE K2 0 -1 => []
        LRANGE K a b => ERR value is not an integer or out of range
        LLEN K => 4
        LLEN K2 => 0
        LINDEX K 0 => "a"
        LINDEX K -1 => "d"
        LINDEX K 4 => (nil)
        LINDEX K -5 => (nil)
        LINDEX K x => ERR value is not an integer or out of range
        LINDEX K2 x => (nil)
        LSET K 1 B => "OK"
        LINDEX K 1 => "B"
        LSET K -3 b => "OK"
        LSET K 9 x => ERR index out of range
        LSET K x x => ERR value is not an integer or out of range
        LSET K2 0 x => ERR no such key
        RPUSH K2 v w x y z => 5
        LPOP K2 => "v"
        LPOP K2 0 => []
        LPOP K2 2 => ["w" "x"]
        LPOP K2 -1 => ERR value is out of range, must be positive
        LPOP K2 x => ERR value is out of range, must be positive
        LPOP K2 9 => ["y" "z"]
        LPOP K2 => (nil)
        LPOP K2 1 => (nil)
        LPOP K 1 1 => ERR wrong number of arguments for 'lpop' command
        LTRIM K 1 -2 => "OK"
        LRANGE K 0 -1 => ["b" "c"]
        LTRIM K2 0 1 => "OK"
        LTRIM K 5 9 => "OK"
        "#,
    )
    .await;
}

#[tokio::test]
async fn sets() {
    table(
        r#"
        SADD K b a b => 2
        SADD K a c => 1
        SISMEMBER K a => 1
        SISMEMBER K z => 0
        SISMEMBER K2 z => 0
        SMEMBERS K => ["a" "b" "c"]
        SCARD K => 3
        SCARD K2 => 0
        SREM K2 a => 0
        SREM K a z => 1
        SREM K b c => 2
        EXISTS K => 0
        SMEMBERS K2 => []
        "#,
    )
    .await;
}

#[tokio::test]
async fn a_key_of_another_type_is_refused() {
    let host = in_memory(RUN);
    run(&host, "SET ff:{fp:7}:s x ; RPUSH ff:{fp:7}:l x").await.unwrap();
    for command in [
        "GET ff:{fp:7}:l",
        "APPEND ff:{fp:7}:l a",
        "STRLEN ff:{fp:7}:l",
        "GETRANGE ff:{fp:7}:l 0 1",
        "INCRBY ff:{fp:7}:l 1",
        "HGET ff:{fp:7}:s a",
        "HMGET ff:{fp:7}:s a",
        "HGETALL ff:{fp:7}:s",
        "HSET ff:{fp:7}:s a b",
        "HDEL ff:{fp:7}:s a",
        "HLEN ff:{fp:7}:s",
        "HKEYS ff:{fp:7}:s",
        "HEXISTS ff:{fp:7}:s a",
        "HSETNX ff:{fp:7}:s a b",
        "HINCRBY ff:{fp:7}:s a 1",
        "ZADD ff:{fp:7}:s 1 a",
        "ZREM ff:{fp:7}:s a",
        "ZRANGE ff:{fp:7}:s 0 1",
        "ZSCORE ff:{fp:7}:s a",
        "ZCARD ff:{fp:7}:s",
        "ZMSCORE ff:{fp:7}:s a",
        "ZCOUNT ff:{fp:7}:s 0 1",
        "ZINCRBY ff:{fp:7}:s 1 a",
        "XADD ff:{fp:7}:s * a b",
        "XRANGE ff:{fp:7}:s - +",
        "XREVRANGE ff:{fp:7}:s + -",
        "XLEN ff:{fp:7}:s",
        "XDEL ff:{fp:7}:s 1",
        "RPUSH ff:{fp:7}:s a",
        "LRANGE ff:{fp:7}:s 0 1",
        "LTRIM ff:{fp:7}:s 0 1",
        "LPOP ff:{fp:7}:s",
        "LLEN ff:{fp:7}:s",
        "LINDEX ff:{fp:7}:s 0",
        "SADD ff:{fp:7}:s a",
        "SISMEMBER ff:{fp:7}:s a",
        "SMEMBERS ff:{fp:7}:s",
        "SREM ff:{fp:7}:s a",
        "SCARD ff:{fp:7}:s",
    ] {
        assert_eq!(outcome(&run(&host, command).await), WRONG_TYPE, "{command}");
    }
    assert_eq!(host.dump().await.unwrap().len(), 2);
}

#[tokio::test]
async fn time_stands_still_during_a_call_and_ids_never_go_back() {
    let clock = ManualClock::at_ms(1_794_768_315_577);
    let config = EmbeddedConfig { clock: clock.clone(), ..EmbeddedConfig::in_memory() };
    let host = EmbeddedHost::open(config, &library(RUN)).unwrap();
    let time = run(&host, "TIME").await;
    assert_eq!(outcome(&time), r#"["1794768315" "577000"]"#);
    let add = "XADD ff:{fp:7}:log * a b";
    assert_eq!(outcome(&run(&host, add).await), r#""1794768315577-0""#);
    clock.set_ms(5);
    assert_eq!(outcome(&run(&host, add).await), r#""1794768315577-1""#);
    clock.set_ms(1_794_768_315_578);
    assert_eq!(outcome(&run(&host, add).await), r#""1794768315578-0""#);
}

#[tokio::test]
async fn keys_of_another_partition_are_out_of_reach() {
    let host = in_memory(RUN);
    let slot = "ERR Script attempted to access keys that do not hash to the same slot";
    for command in [
        "SET ff:{fp:8}:k x",
        "SET plain x",
        "DEL ff:{fp:7}:k ff:{fp:70}:k",
        "SET {fp:70}ff:{fp:7} x",
        "SPUBLISH ff:{fp:8}:ready x",
        "GET ff:{b:7}:k",
    ] {
        assert_eq!(outcome(&run(&host, command).await), slot, "{command}");
    }
    assert_eq!(outcome(&run(&host, "SET x{fp:7}y z").await), r#""OK""#);
    assert_eq!(host.dump().await.unwrap().len(), 1);
}

#[tokio::test]
async fn a_read_only_function_cannot_write() {
    let host = in_memory(RUN);
    for command in
        [&[&b"SET"[..], b"ff:{fp:7}:k", b"x"][..], &[b"SPUBLISH", b"ff:{fp:7}:ready", b"x"]]
    {
        let refused = call(&host, "read", HOME, command).await;
        let expected = "ERR Write commands are not allowed from read-only scripts.";
        assert_eq!(outcome(&refused), expected);
    }
    assert!(host.dump().await.unwrap().is_empty());
}

#[tokio::test]
async fn the_list_of_commands_names_each_once() {
    let mut names = COMMANDS.to_vec();
    names.sort_unstable();
    names.dedup();
    assert_eq!(names.len(), COMMANDS.len());
    let host = in_memory(RUN);
    for name in COMMANDS {
        let unknown = outcome(&run(&host, name).await).contains("Unknown command");
        assert!(!unknown, "{name} is listed but not there");
    }
}
