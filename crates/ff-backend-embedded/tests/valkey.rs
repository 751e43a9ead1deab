//! The embedded host against a real Valkey: same replies, same state, and a data directory that
//! either can start from.
#![allow(clippy::unwrap_used, reason = "in a test, a panic is the report")]

mod support;

use std::path::Path;
use std::process::{Command, Stdio};

use ff_backend_embedded::{CompactionConfig, EmbeddedConfig, EmbeddedHost, SyncMode, store};
use ff_core::partition::Partition;
use ff_script::dump::{Dump, Stored, StreamEntry};
use support::valkey::{Client, Resp, Valkey};
use support::{HOME, RUN, Random, call, in_directory, in_memory, library, on_disk, outcome};

/// Everything that a server holds.
fn server_dump(client: &mut Client) -> Dump {
    let Resp::Array(keys) = client.words("KEYS *") else { panic!("KEYS answers a list") };
    keys.iter()
        .map(|key| {
            let key = bytes(key);
            let stored = stored(client, &key);
            (key, stored)
        })
        .collect()
}

fn stored(client: &mut Client, key: &[u8]) -> Stored {
    match client.call(&[b"TYPE", key]).show().as_str() {
        "\"string\"" => Stored::String(bytes(&client.call(&[b"GET", key]))),
        "\"hash\"" => Stored::Hash(pairs(&client.call(&[b"HGETALL", key])).into_iter().collect()),
        "\"list\"" => Stored::List(list(&client.call(&[b"LRANGE", key, b"0", b"-1"]))),
        "\"set\"" => Stored::Set(list(&client.call(&[b"SMEMBERS", key])).into_iter().collect()),
        "\"zset\"" => {
            let members = pairs(&client.call(&[b"ZRANGE", key, b"0", b"-1", b"WITHSCORES"]));
            let score = |text: Vec<u8>| String::from_utf8(text).unwrap().parse().unwrap();
            Stored::SortedSet(members.into_iter().map(|(m, text)| (m, score(text))).collect())
        }
        "\"stream\"" => Stored::Stream(entries(&client.call(&[b"XRANGE", key, b"-", b"+"]))),
        other => panic!("unexpected type {other}"),
    }
}

fn bytes(reply: &Resp) -> Vec<u8> {
    match reply {
        Resp::Bytes(bytes) => bytes.clone(),
        other => panic!("bytes expected, not {other:?}"),
    }
}

fn items(reply: &Resp) -> &[Resp] {
    match reply {
        Resp::Array(items) => items,
        other => panic!("a list expected, not {other:?}"),
    }
}

fn list(reply: &Resp) -> Vec<Vec<u8>> {
    items(reply).iter().map(bytes).collect()
}

fn pairs(reply: &Resp) -> Vec<(Vec<u8>, Vec<u8>)> {
    list(reply).chunks(2).map(|pair| (pair[0].clone(), pair[1].clone())).collect()
}

fn entries(reply: &Resp) -> Vec<StreamEntry> {
    let entry = |entry: &Resp| {
        let id = String::from_utf8(bytes(&items(entry)[0])).unwrap();
        let (ms, seq) = id.split_once('-').unwrap();
        let fields = pairs(&items(entry)[1]);
        StreamEntry { ms: ms.parse().unwrap(), seq: seq.parse().unwrap(), fields }
    };
    items(reply).iter().map(entry).collect()
}

fn word(random: &mut Random) -> &'static str {
    random.pick(&["a", "b", "c", "d", "e", "", "\r\n", "10"])
}

fn number(random: &mut Random) -> &'static str {
    random.pick(&["0", "1", "-1", "2", "-3", "5", "100", "x", "1.5", "01", "9007199254740993"])
}

fn score(random: &mut Random) -> &'static str {
    random.pick(&["1", "2", "-1.5", "1e3", "inf", "-inf", "nan", "0.1", "x", "1e17", "1e309"])
}

fn bound(random: &mut Random) -> &'static str {
    random.pick(&["-inf", "+inf", "0", "(1", "2", "(2", "1e3", "x", "-1.5", "(0.1"])
}

fn id(random: &mut Random) -> &'static str {
    random.pick(&["1", "1-1", "2-0", "3", "5-5", "9-1", "0-0", "x", "12", "20-1", "31"])
}

/// The greatest id there is.
const LAST: &str = "18446744073709551615-18446744073709551615";

fn edge(random: &mut Random) -> &'static str {
    random.pick(&["-", "+", "1", "(1-1", "5", "(9", "x", "30"])
}

/// A random command on a few keys, so that types clash and collections empty.
fn random_command(random: &mut Random) -> Vec<Vec<u8>> {
    let key = format!("ff:{{fp:7}}:{}", random.below(6));
    let r = random;
    let text = match r.below(5) {
        0 => random_key_command(r, &key),
        1 => random_hash_command(r, &key),
        2 => random_sorted_set_command(r, &key),
        3 => random_stream_command(r, &key),
        _ => random_list_or_set_command(r, &key),
    };
    text.split(' ').map(|word| word.as_bytes().to_vec()).collect()
}

fn random_key_command(r: &mut Random, key: &str) -> String {
    match r.below(14) {
        0 => format!("GET {key}"),
        1 => format!("SET {key} {}", word(r)),
        2..=4 => format!("DEL {key}"),
        5 => format!("HGETALL {key}"),
        6 => format!("UNLINK {key}"),
        7 => format!("RENAME {key} ff:{{fp:7}}:{}", r.below(6)),
        8 => format!("APPEND {key} {}", word(r)),
        9 => format!("GETRANGE {key} {} {}", number(r), number(r)),
        10 => format!("INCRBY {key} {}", number(r)),
        11 => format!("SET {key} {}", number(r)),
        _ => format!("{} {key}", r.pick(&["SMEMBERS", "ZCARD", "HLEN", "NOSUCH", "STRLEN"])),
    }
}

fn random_hash_command(r: &mut Random, key: &str) -> String {
    match r.below(10) {
        0..=2 => format!("HSET {key} {} {} {} {}", word(r), word(r), word(r), number(r)),
        3 => format!("HGET {key} {}", word(r)),
        4 => format!("HMGET {key} {} {} {}", word(r), word(r), word(r)),
        5 => format!("HGETALL {key}"),
        6 => format!("HDEL {key} {} {}", word(r), word(r)),
        7 => format!("HSETNX {key} {} {}", word(r), number(r)),
        8 => format!("HINCRBY {key} {} {}", word(r), number(r)),
        _ => format!("{} {key} {}", r.pick(&["HEXISTS", "HKEYS"]), word(r)),
    }
}

fn random_sorted_set_command(r: &mut Random, key: &str) -> String {
    match r.below(14) {
        0..=2 => format!("ZADD {key} {} {} {} {}", score(r), word(r), score(r), word(r)),
        3 => format!("ZADD {key} NX {} {}", score(r), word(r)),
        4 => format!("ZADD {key} XX {} {}", score(r), word(r)),
        5 => format!("ZREM {key} {} {}", word(r), word(r)),
        6 => format!("ZRANGE {key} {} {} WITHSCORES", number(r), number(r)),
        7 => format!("ZRANGE {key} {} {} REV", number(r), number(r)),
        8 => format!("ZRANGE {key} {} {} BYSCORE", bound(r), bound(r)),
        9 => {
            let (first, last, offset, count) = (bound(r), bound(r), number(r), number(r));
            format!("ZRANGE {key} {first} {last} BYSCORE REV LIMIT {offset} {count} WITHSCORES")
        }
        10 => format!("ZSCORE {key} {}", word(r)),
        11 => format!("ZCOUNT {key} {} {}", bound(r), bound(r)),
        12 => format!("ZMSCORE {key} {} {}", word(r), word(r)),
        _ => format!("ZINCRBY {key} {} {}", score(r), word(r)),
    }
}

fn random_stream_command(r: &mut Random, key: &str) -> String {
    match r.below(10) {
        0..=2 => format!("XADD {key} {} {} {}", id(r), word(r), word(r)),
        3 => format!("XADD {key} MAXLEN = {} {} f v", number(r), id(r)),
        4 => format!("XRANGE {key} {} {}", edge(r), edge(r)),
        5 => format!("XREVRANGE {key} {} {} COUNT {}", edge(r), edge(r), number(r)),
        6 => format!("XDEL {key} {} {}", id(r), id(r)),
        7 => format!("XTRIM {key} MAXLEN {}", number(r)),
        8 => format!("XTRIM {key} MINID = {}", id(r)),
        // Rarely: nothing can be added after it.
        9 if r.below(8) == 0 => format!("XADD {key} {LAST} f v"),
        _ => format!("XLEN {key}"),
    }
}

fn random_list_or_set_command(r: &mut Random, key: &str) -> String {
    match r.below(13) {
        0..=1 => format!("RPUSH {key} {} {}", word(r), word(r)),
        2 => format!("LRANGE {key} {} {}", number(r), number(r)),
        3 => format!("LTRIM {key} {} {}", number(r), number(r)),
        4 => format!("LRANGE {key} 0 -1"),
        5 => format!("SADD {key} {} {}", word(r), word(r)),
        6 => format!("SISMEMBER {key} {}", word(r)),
        7 => format!("SREM {key} {} {}", word(r), word(r)),
        8 => format!("LPOP {key}"),
        9 => format!("LPOP {key} {}", number(r)),
        10 => format!("LINDEX {key} {}", number(r)),
        11 => format!("LLEN {key}"),
        _ => format!("SCARD {key}"),
    }
}

/// Lists whose order nobody promises are compared in one order.
fn comparable(command: &[Vec<u8>], reply: String) -> String {
    if !matches!(&*command[0], b"SMEMBERS" | b"HGETALL" | b"HKEYS") {
        return reply;
    }
    let mut words: Vec<&str> = reply.trim_matches(['[', ']']).split(' ').collect();
    words.sort_unstable();
    words.join(" ")
}

#[tokio::test]
async fn random_commands_get_the_same_replies_and_leave_the_same_state() {
    let directory = tempfile::tempdir().unwrap();
    let mut server = Valkey::start(directory.path(), &[]);
    let mut client = server.connect();
    assert_eq!(client.call(&[b"FUNCTION", b"LOAD", RUN.as_bytes()]).show(), "\"run\"");
    let host = in_memory(RUN);
    let seed = ff_test_seed::random_test!().seed();
    let mut random = Random::new(seed);
    for step in 0..6000 {
        let command = random_command(&mut random);
        let words: Vec<&[u8]> = command.iter().map(|word| &**word).collect();
        let ours = outcome(&call(&host, "run", HOME, &words).await);
        let fcall = [&[&b"FCALL"[..], b"run", b"1", b"ff:{fp:7}"], &words[..]].concat();
        let theirs = client.call(&fcall).show();
        let shown: Vec<_> = command.iter().map(|word| word.escape_ascii().to_string()).collect();
        assert_eq!(
            comparable(&command, ours),
            comparable(&command, theirs),
            "step {step} of seed {seed}: {shown:?}"
        );
    }
    assert_eq!(host.dump().await.unwrap(), server_dump(&mut client));
}

/// Fills a store with values of every type in several partitions.
async fn fill(host: &EmbeddedHost) {
    let every: Vec<u8> = (0..=255).collect();
    for index in [0u16, 7, 8] {
        let partition = Partition::flow(index);
        let key = |name: &str| format!("{}:{name}", partition.key()).into_bytes();
        for n in 0..150u32 {
            let (text, id) = (n.to_string().into_bytes(), format!("{}-1", n + 1).into_bytes());
            let calls: [&[&[u8]]; 6] = [
                &[b"HSET", &key("h"), &text, &every],
                &[b"ZADD", &key("z"), &text, &text, b"0.1", b"", b"-inf", &every],
                &[b"XADD", &key("x"), b"MAXLEN", b"~", b"20", &id, b"n", &text],
                &[b"RPUSH", &key("l"), &text, b""],
                &[b"SADD", &key("s"), &text, &every],
                &[b"HSET", &key("c"), b"n", &text],
            ];
            for words in calls {
                call(host, "run", partition, words).await.unwrap();
            }
        }
        call(host, "run", partition, &[b"SET", &key("t"), &every]).await.unwrap();
        call(host, "run", partition, &[b"LTRIM", &key("l"), b"5", b"-5"]).await.unwrap();
        let emptied = [&b"XADD"[..], &key("e"), b"MAXLEN", b"=", b"0", b"5-5", b"a", b"b"];
        call(host, "run", partition, &emptied).await.unwrap();
        change(host, partition).await;
    }
}

/// Runs what depends on what is there: numbers that are added to, elements that are taken out.
async fn change(host: &EmbeddedHost, partition: Partition) {
    for command in [
        "HINCRBY $:c n 5",
        "HSETNX $:c n 7",
        "HSETNX $:c m 7",
        "ZINCRBY $:z 0.25 3",
        "XADD $:d 1-0 a b",
        "XADD $:d 2-0 c d",
        "XADD $:d 3-0 e f",
        "XDEL $:d 1 3",
        "XADD $:f 4-0 a b",
        "XDEL $:f 4-0",
        "APPEND $:t more",
        "INCRBY $:i 9007199254740993",
        "LPOP $:l 3",
        "LPOP $:l",
        "SREM $:s 3 4 5",
        "SADD $:u a",
        "UNLINK $:u",
        "RPUSH $:r a",
        "RENAME $:r $:v",
    ] {
        let command = command.replace('$', &partition.key());
        let words: Vec<&[u8]> = command.split(' ').map(str::as_bytes).collect();
        call(host, "run", partition, &words).await.unwrap();
    }
}

/// A directory whose journal was rewritten at least once and has a part that was not.
async fn filled_directory(root: &Path) -> Dump {
    let compaction = CompactionConfig { min_bytes: 20_000, growth: 1, piece_bytes: 1 };
    let config = EmbeddedConfig { compaction, ..on_disk(root, SyncMode::Off) };
    let host = EmbeddedHost::open(config, &library(RUN)).unwrap();
    fill(&host).await;
    while host.stats().compactions == 0 {
        call(&host, "run", HOME, &[b"SET", b"ff:{fp:7}:more", &[7; 3000]]).await.unwrap();
    }
    change(&host, Partition::flow(9)).await;
    let dump = host.dump().await.unwrap();
    host.close().await;
    dump
}

/// Ids whose entries are gone, in what was rewritten and in what was not.
const USED_IDS: [&str; 5] = [
    "XADD ff:{fp:7}:e 5-5 a b",
    "XADD ff:{fp:7}:d 3-0 a b",
    "XADD ff:{fp:7}:f 4-0 a b",
    "XADD ff:{fp:9}:d 3-0 a b",
    "XADD ff:{fp:9}:f 4-0 a b",
];

#[tokio::test]
async fn an_id_stays_used_when_its_entry_is_gone_and_the_store_was_reopened() {
    let root = tempfile::tempdir().unwrap();
    filled_directory(root.path()).await;
    let host = in_directory(root.path());
    for add in USED_IDS {
        let partition = if add.contains("fp:9") { Partition::flow(9) } else { HOME };
        let words: Vec<&[u8]> = add.split(' ').map(str::as_bytes).collect();
        let refused = outcome(&call(&host, "run", partition, &words).await);
        assert!(refused.contains("equal or smaller"), "{add}: {refused}");
    }
}

/// What functions may compute with beside Lua itself.
const COMPUTE: &str = "#!lua name=compute
redis.register_function('compute', function(keys, args)
  local text = {}
  for n = 1, 300 do
    text[n] = string.char((n * 7 + #args[1]) % 256)
  end
  local long, pad = table.concat(text), {}
  for n = 1, 64 do
    pad[n] = string.char(bit.bxor(string.byte(long, n), 0x36))
  end
  local digests = {}
  for n = 0, 300 do
    digests[#digests + 1] = redis.sha1hex(string.sub(long, 1, n))
  end
  return {redis.sha1hex(args[1]), redis.sha1hex(''), redis.sha1hex('abc'), redis.sha1hex(1.5),
    redis.sha1hex(nil), redis.sha1hex({}), redis.sha1hex(2 ^ 53), redis.sha1hex(true),
    redis.sha1hex(table.concat(pad)), redis.sha1hex(table.concat(digests)),
    bit.bxor(0xffffffff, 1), bit.band(0x1ff, 255), bit.bor(256, 1), bit.lshift(1, 31),
    bit.rshift(-1, 28), bit.bnot(0), bit.tohex(48879, 4)}
end)
redis.register_function('nothing', function() return redis.sha1hex() end)
redis.register_function('two', function() return redis.sha1hex('a', 'b') end)
";

#[tokio::test]
async fn digests_and_bits_are_computed_as_valkey_computes_them() {
    let directory = tempfile::tempdir().unwrap();
    let mut server = Valkey::start(directory.path(), &[]);
    let mut client = server.connect();
    client.call(&[b"FUNCTION", b"LOAD", COMPUTE.as_bytes()]);
    let host = in_memory(COMPUTE);
    for (function, argument) in [
        ("compute", &b"\x00\xff\r\n"[..]),
        ("compute", &[b'a'; 1000]),
        ("nothing", b""),
        ("two", b""),
    ] {
        let ours = outcome(&call(&host, function, HOME, &[argument]).await);
        let theirs = client.call(&[b"FCALL", function.as_bytes(), b"1", b"ff:{fp:7}", argument]);
        assert_eq!(ours, theirs.show());
    }
    let known = outcome(&call(&host, "compute", HOME, &[b""]).await);
    assert!(known.contains("a9993e364706816aba3e25717850c26c9cd0d89d"), "{known}");
}

#[tokio::test]
async fn valkey_starts_from_an_embedded_data_directory_as_it_is() {
    let root = tempfile::tempdir().unwrap();
    let before = filled_directory(root.path()).await;
    let mut server = Valkey::start(root.path(), &["--appendonly", "yes"]);
    let mut client = server.connect();
    assert_eq!(server_dump(&mut client), before);
    for add in USED_IDS {
        assert!(client.words(add).show().contains("equal or smaller"), "{add}");
    }

    // Valkey goes on in the same file; that is then Valkey's, and we say so.
    client.words("SET ff:{fp:7}:valkey was-here");
    drop(server);
    let error = store::check(root.path()).unwrap_err().to_string();
    assert!(error.contains("Valkey has appended"), "{error}");
}

#[tokio::test]
async fn an_export_loads_into_valkey_through_a_pipe() {
    let root = tempfile::tempdir().unwrap();
    let before = filled_directory(root.path()).await;
    let export = root.path().join("export.resp");
    let mut file = std::fs::File::create(&export).unwrap();
    let report = store::export(root.path(), &mut file).unwrap();
    assert_eq!(report.keys as usize, before.len());
    let elsewhere = tempfile::tempdir().unwrap();
    let mut server = Valkey::start(elsewhere.path(), &[]);
    let mut client = server.connect();
    let output = Command::new("valkey-cli")
        .args(["-p", &server.port.to_string(), "--pipe"])
        .stdin(std::fs::File::open(&export).unwrap())
        .stdout(Stdio::piped())
        .output()
        .expect("valkey-cli must be installed");
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(said.contains("errors: 0"), "{said}");
    assert_eq!(server_dump(&mut client), before);
}

#[tokio::test]
async fn a_check_counts_what_is_there_and_changes_nothing() {
    let root = tempfile::tempdir().unwrap();
    let before = filled_directory(root.path()).await;
    let report = store::check(root.path()).unwrap();
    assert_eq!(report.dump, before);
    assert_eq!(report.recovery.keys as usize, before.len());
    assert_eq!(report.recovery.torn, None);
    assert_eq!(in_directory(root.path()).dump().await.unwrap(), before);
}
