//! Every violation is found: a small store without any, and a table of changes that each break one
//! rule.

mod gates;
mod store;

use std::collections::BTreeSet;

use super::*;
use crate::dump::{Stored, StreamEntry};
use store::{CHILDREN, CLEAN};

fn config() -> PartitionConfig {
    PartitionConfig { num_flow_partitions: 4, num_budget_partitions: 1, num_quota_partitions: 1 }
}

fn id(letter: char) -> String {
    let run = |count: usize| letter.to_string().repeat(count);
    format!("{}-{}-{}-{}-{}", run(8), run(4), run(4), run(4), run(12))
}

fn expand(text: &str) -> String {
    ('a'..='f')
        .fold(text.to_owned(), |text, letter| text.replace(&format!("${letter}"), &id(letter)))
}

fn full_key(key: &str) -> Vec<u8> {
    if key.starts_with("ff:") { key.into() } else { format!("ff:{{fp:1}}:{key}").into_bytes() }
}

fn pair(word: &str) -> (Vec<u8>, Vec<u8>) {
    let (name, value) = word.split_once('=').expect("name=value");
    (name.into(), bytes(value))
}

/// `*300` is a string of that many bytes, `~` the end of a line.
fn bytes(word: &str) -> Vec<u8> {
    match word.strip_prefix('*') {
        Some(count) => vec![b'x'; count.parse().expect("a count")],
        None => word.replace('~', "\n").into(),
    }
}

/// `7@` in front is the entry's number.
fn entry(word: &str) -> StreamEntry {
    let (number, fields) = word.split_once('@').unwrap_or(("1", word));
    let ms = number.parse().expect("a number");
    StreamEntry { ms, seq: 0, fields: fields.split(',').map(pair).collect() }
}

fn stored(kind: &str, words: Vec<&str>) -> Stored {
    match kind {
        "string" => Stored::String(bytes(words[0])),
        "hash" => Stored::Hash(words.into_iter().map(pair).collect()),
        "zset" => Stored::SortedSet(words.into_iter().map(scored).collect()),
        "list" => Stored::List(words.into_iter().map(bytes).collect()),
        "set" => Stored::Set(words.into_iter().map(bytes).collect::<BTreeSet<_>>()),
        "stream" => Stored::Stream(words.into_iter().map(entry).collect()),
        other => panic!("unknown type {other}"),
    }
}

fn scored(word: &str) -> (Vec<u8>, f64) {
    let (member, score) = word.rsplit_once('=').expect("member=score");
    (member.into(), score.parse().expect("a score"))
}

fn put(dump: &mut Dump, line: &str) {
    let line = expand(line);
    let mut words = line.split_whitespace();
    let (key, kind) = (words.next().expect("a key"), words.next().expect("a type"));
    dump.insert(full_key(key), stored(kind, words.collect()));
}

fn clean() -> Dump {
    holding(&[CLEAN, CHILDREN])
}

fn holding(texts: &[&str]) -> Dump {
    let mut dump = Dump::new();
    let lines = texts.iter().flat_map(|text| text.lines());
    lines.filter(|line| !line.is_empty()).for_each(|line| put(&mut dump, line));
    dump
}

/// Applies one change:
///
/// * `put KEY TYPE …` puts a key;
/// * `drop KEY` removes a key;
/// * `KEY NAME=VALUE …` sets fields or scores;
/// * `KEY -NAME …` removes fields or members.
fn change(dump: &mut Dump, text: &str) {
    let text = expand(text);
    let (first, rest) = text.split_once(' ').expect("two words at least");
    match first {
        "put" => put(dump, rest),
        "drop" => drop(dump.remove(&full_key(rest)).expect("the key is there")),
        key => {
            let value = dump.get_mut(&full_key(key)).expect("the key is there");
            rest.split(' ').for_each(|word| edit(value, word));
        }
    }
}

fn edit(value: &mut Stored, word: &str) {
    match (value, word.strip_prefix('-')) {
        (Stored::Hash(hash), Some(name)) => drop(hash.remove(name.as_bytes()).expect("is there")),
        (Stored::Hash(hash), None) => hash.extend([pair(word)]),
        (Stored::SortedSet(set), Some(name)) => drop(set.remove(name.as_bytes()).expect("there")),
        (Stored::SortedSet(set), None) => set.extend([scored(word)]),
        (other, _) => panic!("{other:?} cannot be edited"),
    }
}

/// A change, the invariant that it breaks (among others, at times) and what is said about it.
const BREAKS: &[(&str, &str, &str)] = &[
    // Indexes.
    (
        "q:main:n:k:cpu,gpu -$a $b=1",
        "I1",
        "lists bbbbbbbb-bbbb-bbbb-bbbb-bbbbbbbbbbbb, which does not belong",
    ),
    ("drop q:main:n:k:cpu,gpu", "I1", "q:main:n:k:cpu,gpu: does not list aaaaaaaa"),
    ("q:main:n:k:cpu,gpu $a=1000", "I1", "at 1000 instead of -1999999999000"),
    ("leases -$b", "I1", "leases: does not list bbbbbbbb"),
    ("leases $b=5000", "I1", "at 5000 instead of 2400"),
    ("due $b=2400", "I1", "due: lists bbbbbbbb"),
    ("leases $d=3000", "I1", "leases: lists dddddddd"),
    ("due $e=9500", "I1", "at 9500 instead of 9000"),
    ("due $a=1", "I1", "due: lists aaaaaaaa"),
    ("due 99999999-9999-9999-9999-999999999999=1", "I1", "lists 99999999"),
    ("ended:success $c=2000", "I1", "at 2000 instead of 2010"),
    ("ended:cancelled $f=1700", "I1", "at 1700 instead of 86401700"),
    ("put ended:failed zset $c=2010", "I1", "ended:failed: lists cccccccc"),
    ("put q:side:n:k zset $c=1002", "I1", "q:side:n:k: lists cccccccc"),
    ("drop needs:main", "I1", "q:main:n:k:cpu,gpu: is not among the needs of its lane"),
    ("put needs:side set nonsense", "I9", "has nonsense, which is no need"),
    ("drop queued", "I1", "needs:main: is of a lane that is not among those with needs"),
    ("queued side=0", "I1", "queued: has side, a lane without needs"),
    ("put q:main zset $a=1", "I9", "q:main: no key of ours"),
    // States.
    ("x:$a -la", "I1", "lacks the field la"),
    ("x:$e -dr", "I1", "lacks the field dr"),
    ("x:$b dr=delay", "I1", "has the field dr"),
    ("x:$e dr=retry_backoff", "I1", "combination of states"),
    ("x:$d -gi", "I1", "lacks the field gi"),
    ("x:$d gk=claim", "I1", "wrong kind of claim"),
    ("x:$b gi=$d gk=claim gw=w gn=i gx=4000", "I1", "reserved although it cannot be claimed"),
    ("x:$b nx=retry", "I1", "has the field nx"),
    // Leases.
    ("x:$b -le", "I2", "lacks the field le"),
    ("x:$b -li", "I2", "lacks the field li"),
    ("x:$b -wi", "I2", "lacks the field wi"),
    ("x:$c -ep", "I2", "lacks the field ep"),
    ("x:$b ep=1", "I2", "fewer lease epochs than attempts"),
    ("x:$d le=5000", "I2", "has the field le"),
    ("x:$a ta=5000", "I2", "has the field ta"),
    // Ends.
    ("x:$c -et", "I3", "lacks the field et"),
    ("x:$a et=1", "I3", "has the field et"),
    ("x:$f -cb", "I3", "lacks the field cb"),
    ("x:$c cr=why", "I3", "has the field cr"),
    ("x:$f out=done", "I3", "has a result without having succeeded"),
    ("x:$b fr=boom", "I3", "has the field fr"),
    ("x:$c fc=transient", "I3", "has the field fc"),
    // Attempts.
    ("drop x:$b:attempts", "I4", "2 attempts, but 0 past ones are kept"),
    ("put x:$c:attempts list 0:$a:initial:ended_failure:1:2:0:w:i::0:", "I4", "1 past ones"),
    (
        "put x:$b:attempts list 1:$a:initial:ended_failure:1:2:1:w:i::0:",
        "I4",
        "attempt 1 where 0 is expected",
    ),
    (
        "put x:$b:attempts list 0:$a:initial:started:1:2:1:w:i::0:",
        "I4",
        "attempt 0 is past but started",
    ),
    (
        "put x:$b:attempts list 0:$a:initial:ended_success:1:2:1:w:i::0:",
        "I4",
        "attempt 0 is ended_success, but a retry follows",
    ),
    (
        "put x:$b:attempts list 0:$a:initial:ended_failure:1:2:3:w:i::0:",
        "I4",
        "epoch does not grow",
    ),
    ("put x:$b:attempts list 0:$a:retry:ended_failure:1:2:1:w:i::0:", "I4", "first attempt is a"),
    ("put x:$b:attempts list 0:$a:initial:ended_failure", "I4", "cannot be read"),
    ("put x:$b:attempts list 0:$a:initial:ended_failure:1:2:1:w:i::9:x", "I4", "cannot be read"),
    ("x:$c ty=retry", "I4", "the only attempt is a retry"),
    ("x:$b ax=fail ae=1", "I4", "the latest attempt ended as"),
    ("x:$d ax=revoke", "I4", "the latest attempt ended as"),
    ("x:$d -ae", "I4", "without when"),
    ("x:$b -sa", "I4", "the begin of the first attempt"),
    ("x:$b -at", "I4", "time limit does not follow the policy"),
    ("x:$b tl=5", "I4", "remaining time does not follow the policy"),
    ("x:$b rr=0:fixed:100:0:1000:0:", "I4", "1 retries, but the policy allows 0"),
    ("x:$d rl=101", "I4", "101 reclaims, but the policy allows 100"),
    ("x:$f rp=11", "I4", "11 replays, but the policy allows 10"),
    ("x:$f mp=0", "I4", "1 replays, but the policy allows 0"),
    ("x:$b -rc", "I4", "0 retries are counted, but 1 happened"),
    ("x:$c rl=1", "I4", "1 reclaims are counted, but 0 happened"),
    // Holding.
    ("x:$e st=parked", "I1", "lacks the field kr"),
    ("x:$e kr=paused_by_operator", "I1", "lacks the field kt"),
    ("x:$e kt=5", "I1", "can be claimed although it must not"),
    ("put parked zset $e=1", "I1", "parked: lists eeeeeeee"),
    // Conservation.
    ("all -$a", "I5", "all: does not list aaaaaaaa"),
    ("all 99999999-9999-9999-9999-999999999999=1", "I5", "all: lists 99999999"),
    ("all $a=1001", "I5", "at 1001 instead of 1000"),
    // Waiting.
    ("ff:{fp:2}:suspended -$b", "I1", "suspended: does not list bbbbbbbb"),
    ("ff:{fp:2}:suspended $c=1", "I1", "suspended: lists cccccccc"),
    ("ff:{fp:2}:suspended $b=1501", "I1", "at 1501 instead of 1500"),
    ("ff:{fp:2}:due $b=9001", "I1", "at 9001 instead of 9000"),
    ("ff:{fp:2}:due -p:$e", "I7", "does not list p:eeeeeeee"),
    ("ff:{fp:2}:due p:$d=1", "I7", "lists p:dddddddd"),
    ("ff:{fp:2}:x:$b -wp", "I7", "lacks the field wp"),
    ("ff:{fp:2}:x:$b -sw", "I7", "lacks the field sw"),
    ("ff:{fp:2}:x:$c sw=manual_pause", "I7", "has the field sw"),
    ("ff:{fp:2}:x:$b wp=$a", "I7", "waits on a waitpoint that is not there"),
    ("ff:{fp:2}:x:$c pw=2", "I7", "1 pending waitpoints and says otherwise"),
    ("ff:{fp:2}:x:$c -pw", "I7", "1 pending waitpoints and says otherwise"),
    ("ff:{fp:2}:x:$b:waitpoints $a=2::x", "I7", "lists the waitpoint aaaaaaaa"),
    ("ff:{fp:2}:x:$b:waitpoints $d=1:$a:other", "I7", "under another key"),
    ("drop ff:{fp:2}:x:$b:waitpoints", "I7", "is not listed by its execution"),
    ("drop ff:{fp:2}:wp:$d", "I7", "lists the waitpoint dddddddd"),
    ("drop ff:{fp:2}:wp:$d", "I9", "belongs to no waitpoint"),
    ("drop ff:{fp:2}:wp:$d:signals", "I7", "does not have as many signals"),
    ("ff:{fp:2}:wp:$d count=3", "I7", "does not have as many signals"),
    ("ff:{fp:2}:wp:$d:signals -s:$a", "I7", "has a signal twice"),
    ("ff:{fp:2}:wp:$d:signals i:once=7", "I7", "recognises a signal that is not there"),
    ("ff:{fp:2}:wp:$d satisfied=1,9", "I7", "satisfied by a signal that is not there"),
    ("ff:{fp:2}:wp:$d matched=3", "I7", "more signals than it takes"),
    ("ff:{fp:2}:wp:$d state=asleep", "I7", "is in no known state"),
    ("ff:{fp:2}:wp:$d state=closed", "I7", "is closed without a time"),
    ("ff:{fp:2}:wp:$d closed_at=7", "I7", "is open and closed"),
    ("ff:{fp:2}:wp:$e state=active", "I7", "its execution does not wait on it"),
    ("ff:{fp:2}:wp:$e -created_at", "I7", "lacks what its token is made of"),
    ("ff:{fp:2}:wp:$e execution=$a", "I7", "belongs to no execution"),
    ("ff:{fp:2}:secrets current=k2", "I9", "no key that signs"),
    ("ff:{fp:2}:secrets kid:k1=sha1::0", "I9", "a key that cannot be read"),
    ("ff:{fp:2}:secrets other=1", "I9", "a key that cannot be read"),
    // Idempotency.
    ("due i:n:key=7000", "I1", "lists i:n:key"),
    ("idem n:other=7000:$a:digest", "I8", "created under another key"),
    ("idem m:key=7000:$a:digest", "I8", "another namespace"),
    ("put idem hash n:key=7000:$a", "I8", "cannot be read"),
    ("x:$a iu=7001", "I8", "remembered for another time"),
    ("x:$a -iu", "I8", "remembered for another time"),
    (
        "idem n:key=7000:99999999-9999-9999-9999-999999999999:digest",
        "I8",
        "an execution that is not there",
    ),
    ("x:$c iu=2011", "I1", "at 2010 instead of 2011"),
    ("put idem hash n:key=soon:$a:digest", "I8", "cannot be read"),
    // Flows.
    ("ff:{fp:3}:f:$f n:waiting=2", "I6", "n:waiting is 2 and should be 1"),
    ("ff:{fp:3}:f:$f -n:blocked", "I6", "n:blocked is 0 and should be 1"),
    ("ff:{fp:3}:f:$f live=3", "I6", "live is 3 and should be 2"),
    ("ff:{fp:3}:f:$f bad=1", "I6", "bad is 1 and should be 0"),
    ("ff:{fp:3}:x:$d -op", "I6", "bad is 0 and should be 1"),
    ("ff:{fp:3}:f:$f nodes=6", "I6", "nodes is 6 and should be 5"),
    ("ff:{fp:3}:f:$f edges=2", "I6", "edges is 2 and should be 3"),
    ("ff:{fp:3}:f:$f nodes=x", "I6", "nodes is \"x\""),
    ("ff:{fp:3}:f:$f live=-1", "I6", "live is \"-1\""),
    ("ff:{fp:3}:f:$f other=1", "I6", "unknown field other"),
    ("ff:{fp:3}:f:$f n:asleep=1", "I6", "unknown field n:asleep"),
    ("ff:{fp:3}:f:$f -kind", "I6", "lacks what every flow has"),
    ("ff:{fp:3}:x:$e on=6", "I6", "its members are not numbered from 1 on"),
    ("ff:{fp:3}:f:$f:m $e=6", "I6", "lists eeeeeeee-eeee-eeee-eeee-eeeeeeeeeeee at 6 instead of 5"),
    ("ff:{fp:3}:f:$f:m -$e", "I6", "does not list eeeeeeee"),
    ("ff:{fp:3}:f:$f:m $f=6", "I6", "lists ffffffff"),
    ("ff:{fp:3}:flows -$f", "I6", "does not list ffffffff"),
    ("ff:{fp:3}:flows $a=0", "I6", "lists aaaaaaaa"),
    ("drop ff:{fp:3}:f:$f", "I6", "is a member of a flow that is not there"),
    ("drop ff:{fp:3}:f:$f", "I9", "belongs to no flow"),
    ("x:$a on=1", "I6", "is in no flow and has what members have"),
    ("x:$a pa=$b", "I6", "is in no flow and has what members have"),
    ("x:$a oc=1", "I6", "is in no flow and has what members have"),
    ("ff:{fp:0}:x:$a oc=2", "I6", "counts 2 open children and has 1"),
    ("ff:{fp:0}:x:$a -oc", "I6", "counts 0 open children and has 1"),
    ("ff:{fp:0}:x:$a -oc", "I6", "waits although it has begun"),
    ("ff:{fp:0}:x:$a pk=delay", "I6", "waits although it has begun"),
    ("ff:{fp:0}:x:$a nx=retry", "I6", "waits although it has begun"),
    ("ff:{fp:0}:x:$a st=waiting", "I6", "does not wait although some of its children"),
    ("ff:{fp:0}:x:$a ch=3", "I6", "counts 3 children and has 2"),
    ("ff:{fp:0}:x:$a ch=x", "I9", "children is"),
    ("put ff:{fp:0}:x:$a:children list $b", "I6", "lists other children than it has"),
    ("put ff:{fp:0}:x:$a:children list $b $c $c", "I6", "lists other children than it has"),
    ("drop ff:{fp:0}:x:$a:children", "I6", "lists other children than it has"),
    ("put ff:{fp:0}:x:$f:children list $b", "I9", "belongs to no execution"),
    ("ff:{fp:0}:x:$c -pa", "I6", "lists other children than it has"),
    ("ff:{fp:0}:x:$c pa=$f", "I6", "is the child of nobody of its flow"),
    ("ff:{fp:0}:x:$c rk=0", "I6", "does not stand before its parent"),
    (
        "ff:{fp:3}:f:$f ended_at=2000 retention_ms=5 kept_until=7000",
        "I6",
        "at 9000 instead of 7000",
    ),
    ("ff:{fp:3}:due -f:$f", "I6", "does not list f:ffffffff"),
    ("ff:{fp:3}:due f:$f=9001", "I6", "at 9001 instead of 9000"),
    ("ff:{fp:3}:due f:$a=9001", "I6", "lists f:aaaaaaaa"),
    ("ff:{fp:3}:f:$f -deadline_at graph=x -sealed", "I6", "at 9000 instead of 601000"),
    ("ff:{fp:3}:f:$f -deadline_at", "I6", "lists f:ffffffff"),
    ("ff:{fp:3}:f:$f ended_at=2000 retention_ms=5", "I6", "at 9000 instead of 2005"),
    ("ff:{fp:3}:f:$f ended_at=2000 state=completed", "I6", "is over although some of its members"),
    ("ff:{fp:3}:f:$f state=completed", "I6", "is \"completed\" although it is not"),
    ("ff:{fp:3}:f:$f state=asleep", "I6", "is \"asleep\" although it is not"),
    ("ff:{fp:3}:f:$f state=cancelled", "I6", "is \"cancelled\" although it is not"),
    ("ff:{fp:3}:x:$a er=1", "I6", "does not list e:aaaaaaaa"),
    ("ff:{fp:3}:x:$a er=1", "I6", "counts \":1:0:1\" where"),
    ("ff:{fp:3}:due e:$a=1", "I6", "lists e:aaaaaaaa"),
    ("ff:{fp:3}:due e:$b=1", "I6", "lists e:bbbbbbbb"),
    ("ff:{fp:3}:x:$a er=3", "I6", "told more edges than it has"),
    ("ff:{fp:3}:x:$a eo=3", "I6", "counts other edges than it lists"),
    ("put ff:{fp:3}:x:$a:out list $b:s:1:1::left", "I6", "counts other edges than it lists"),
    ("put ff:{fp:3}:x:$a:out list $b:s:1:1::left $e:f", "I6", "an edge that cannot be read"),
    ("put ff:{fp:3}:x:$b:out list $f:s:0:1:$a:", "I6", "an edge to nobody of its flow"),
    ("put ff:{fp:3}:x:$b:out list $c:s:0:0:$a:", "I6", "lists other edges than those that end"),
    ("put ff:{fp:3}:x:$b:in list $a:1:s:1:left", "I6", "lists other edges than those that end"),
    ("drop ff:{fp:3}:x:$c:in", "I6", "lists other edges than those that end at it"),
    ("ff:{fp:3}:x:$c rk=2", "I6", "has an edge that goes against the order"),
    ("ff:{fp:3}:x:$b dp=:1:0:0", "I6", "counts \":1:0:0\" where"),
    ("ff:{fp:3}:x:$b dp=:2:1:0", "I6", "counts \":2:1:0\" where"),
    ("ff:{fp:3}:x:$b dp=1:1:0", "I9", "dependencies is"),
    ("ff:{fp:3}:x:$b -dp", "I6", "has edges and does not count them"),
    ("ff:{fp:3}:x:$b dp=2:1:1:0", "I6", "does not wait although its upstreams do not allow"),
    ("ff:{fp:3}:x:$c dp=0:1:0:0", "I6", "waits although its upstreams allow it to run"),
    ("ff:{fp:3}:x:$c dp=2:1:0:0", "I6", "waits for what can never be"),
    (
        "ff:{fp:3}:x:$c ac=1 li=$c ep=1 wo=w wi=i as=1 nx=resume",
        "I6",
        "waits although it has begun",
    ),
    ("ff:{fp:3}:x:$e dp=0:1:0:1", "I6", "was skipped although it could have run"),
    ("ff:{fp:3}:x:$c hd=1", "I6", "has the field hd"),
    ("ff:{fp:3}:x:$c st=held", "I6", "lacks the field hd"),
    ("ff:{fp:3}:x:$b -ic", "I6", "counts other inputs than it has"),
    ("drop ff:{fp:3}:x:$b:inputs", "I6", "counts other inputs than it has"),
    ("put ff:{fp:3}:x:$f:inputs list $a:left", "I9", "belongs to no execution"),
    ("ff:{fp:3}:f:$f:e -$a", "I6", "does not know where the edge aaaaaaaa"),
    ("ff:{fp:3}:f:$f:e $d=$b:0", "I6", "knows an edge that is not there"),
    ("put ff:{fp:3}:f:$f:stuck zset x=1", "I6", "has a stuck member that is no execution"),
    ("put ff:{fp:3}:f:$f:stuck zset $a=1", "I6", "counts other stuck members than it lists"),
    ("ff:{fp:3}:f:$f stuck=1", "I6", "counts other stuck members than it lists"),
    ("ff:{fp:3}:f:$f walk=cancel:1", "I6", "does not list ffffffff"),
    ("put ff:{fp:3}:owing zset $f=0", "I6", "lists ffffffff"),
    ("put ff:{fp:3}:f:$f:other set x", "I9", "no key of ours"),
    ("put ff:{fp:3}:f:x hash kind=k", "I9", "no key of ours"),
    ("ff:{fp:3}:f:$f:tags teamname=blue", "I9", "a tag that could not have been set"),
    ("ff:{fp:3}:ended:success $a=86402000", "I1", "at 86402000 instead of 253402300799999"),
    // Storage.
    ("put other string x", "I9", "no key of ours"),
    ("put ff:{fp:1} string x", "I9", "no key of ours"),
    ("put ff:{b:0}:due zset x=1", "I9", "does not belong there"),
    ("put ff:{b:0}:leases zset x=1", "I9", "no key of ours"),
    ("put ff:{fp:01}:due zset x=1", "I9", "no key of ours"),
    ("put x:nonsense hash st=waiting", "I9", "no key of ours"),
    ("put x:$a:other string x", "I9", "no key of ours"),
    ("put ended:none zset $a=1", "I9", "no key of ours"),
    ("put ff:{fp:4}:due zset x=1", "I9", "under a partition that does not exist: there are 4"),
    ("put lanes set main", "I9", "belongs in the first partition alone"),
    ("put workers hash w-2=$a:w:1000:8000:~", "I9", "does not list w:w-2"),
    ("ff:{fp:0}:workers w-1=$a:w:1000:8000", "I9", "w-1 is"),
    ("ff:{fp:0}:workers w-2=$a:w:1000:8000:~", "I9", "does not list w:w-2"),
    ("ff:{fp:0}:due w:w-1=8001", "I9", "lists w:w-1 at 8001 instead of 8000"),
    ("drop ff:{fp:0}:workers", "I9", "lists w:w-1"),
    ("put log string x", "I9", "holds a string, which is the wrong type"),
    ("put x:$c:payload list x", "I9", "holds a list, which is the wrong type"),
    ("x:$a zz=1", "I9", "unknown field zz"),
    ("x:$a mt=1e3", "I9", "transition_at is \"1e3\""),
    ("x:$a mt=007", "I9", "transition_at is \"007\""),
    ("x:$a mt=", "I9", "transition_at is \"\""),
    ("x:$b ai=nonsense", "I9", "attempt_id is"),
    ("x:$e tg=yes", "I9", "tagged is"),
    ("x:$a ca=gpu,cpu", "I9", "capabilities is"),
    ("x:$a ca=cpu,,gpu", "I9", "capabilities is"),
    ("x:$a rr=1:sometimes:100:0:1000:0:", "I9", "retry_rule is"),
    ("x:$a in3=x", "I9", "payload: a piece is missing"),
    ("x:$a in2=x", "I9", "payload: the pieces are cut wrongly"),
    ("x:$a in=", "I9", "payload: the pieces are cut wrongly"),
    ("x:$c in=x", "I9", "payload: a key of its own although the record does not say so"),
    ("x:$c -in2", "I9", "payload: a key of its own although the record does not say so"),
    ("x:$c in2=x", "I9", "payload: a key of its own although the record does not say so"),
    ("drop x:$c:payload", "I9", "payload: the mark is there but not the key"),
    ("put x:$c:payload string *256", "I9", "although it fits into the record"),
    ("x:$a po2=x -po", "I9", "policy: the first piece is missing"),
    ("put x:$a:detail string *300", "I9", "detail: a key of its own"),
    ("drop x:$e:tags", "I9", "says that there are tags, but there are none"),
    ("x:$e -tg", "I9", "the record does not say that there are tags"),
    ("put x:$e:tags hash teamname=blue", "I9", "a tag that could not have been set"),
    ("put ff:{fp:2}:x:$a:tags hash team.name=blue", "I9", "belongs to no execution"),
    ("put ff:{fp:2}:x:$a:result string x", "I9", "belongs to no execution"),
    ("put ff:{fp:2}:x:$a:attempts list x", "I9", "belongs to no execution"),
    ("put log stream e=created,x=$a", "I9", "an entry that is no event"),
    ("put ff:{fp:0}:deployment hash flow=8 budget=1 quota=1 format=1", "I9", "other partition"),
    ("ff:{fp:0}:deployment format=9", "I9", "another format"),
    ("ff:{fp:0}:deployment -format", "I9", "another format"),
    // Output.
    ("drop x:$b:s:1", "I9", "what it says about its output is not there, or more is"),
    ("x:$b -fm", "I9", "what it says about its output is not there, or more is"),
    ("x:$b fm=4:3:9:9", "I9", "what it says about its output is not there, or more is"),
    ("x:$b fm=2:3:5", "I9", "frames is"),
    ("x:$b fm=0:3:5:9", "I9", "frames is"),
    ("x:$b fm=1:3:5:9", "I9", "holds other frames than the record tells"),
    ("x:$b fm=2:3:5:8", "I9", "holds other frames than the record tells"),
    ("put x:$b:s:1 stream 2@h=1:5:t:,p=ab 4@h=1:7:t:,p=cd", "I9", "a frame that does not follow"),
    ("put x:$b:s:1 stream 2@h=1:5:t:,p=ab 3@h=1:8:t:,p=cd", "I9", "a frame that does not follow"),
    ("put x:$b:s:1 stream 2@h=1:5:t,p=ab 3@h=1:7:t:,p=cd", "I9", "a frame that does not follow"),
    ("put x:$b:s:1 stream 2@p=ab,h=1:5:t: 3@h=1:7:t:,p=cd", "I9", "a frame that does not follow"),
    ("x:$b kf=2", "I9", "keeps the output of other attempts than the last few"),
    ("x:$b -kf", "I9", "is the output of an attempt that none is kept of"),
    ("put x:$b:s:2 stream h=1:0:t:,p=a", "I9", "is the output of an attempt that none is kept of"),
    ("put x:$b:s:02 stream h=1:0:t:,p=a", "I9", "no key of ours"),
    ("put x:$b:s:0 string x", "I9", "holds a string, which is the wrong type"),
    ("put x:$b:s:0:d string {}", "I9", "sums up what is not there"),
    ("put ff:{fp:2}:x:$a:s:0 stream h=1:0:t:,p=a", "I9", "belongs to no execution"),
    ("put x:$c:s:0:d string {", "I9", "is no JSON"),
    ("put x:$c:s:0:d string *65537", "I9", "longer than allowed"),
    ("x:$c sr=summary:2:1:500", "I9", "holds more than the policy allows"),
    ("x:$c sr=other:2:1000:500", "I9", "stream_rule is"),
    ("due -s:$c:0", "I9", "does not list s:cccccccc"),
    ("due s:$c:0=2400", "I9", "lists s:cccccccc-cccc-cccc-cccc-cccccccccccc:0 at 2400 instead"),
    ("due s:$b:0=2400", "I9", "lists s:bbbbbbbb-bbbb-bbbb-bbbb-bbbbbbbbbbbb:0, which does not"),
    ("x:$b sr=durable:10:100:5", "I9", "does not list s:bbbbbbbb-bbbb-bbbb-bbbb-bbbbbbbbbbbb:0"),
    ("put ff:{fp:3}:marks hash a=17:8000", "I9", "a mark that cannot be read"),
    ("put ff:{fp:3}:marks hash $a=17", "I9", "a mark that cannot be read"),
];

fn violations(changes: &str) -> Vec<Violation> {
    let mut dump = clean();
    change(&mut dump, changes);
    audit(&dump, &config()).violations
}

#[test]
fn a_store_in_order_has_no_violation() {
    let report = audit(&clean(), &config());
    assert_eq!(
        report.to_string(),
        "4 partitions, 76 keys, 16 executions: 2 blocked, 2 cancelled, 1 delayed, 1 lapsed, \
         2 running, 1 skipped, 3 completed, 1 suspended, 3 waiting\nno violation"
    );
    assert!(report.is_clean());
}

#[test]
fn every_broken_rule_is_found_by_its_name() {
    for (changes, invariant, what) in BREAKS {
        let found = violations(changes);
        let named = found.iter().any(|violation| {
            violation.invariant == *invariant && violation.to_string().contains(what)
        });
        assert!(named, "{changes}: {found:#?}");
    }
}

/// All of these changes together.
fn violations_of(changes: &[&str]) -> Vec<Violation> {
    let mut dump = clean();
    changes.iter().for_each(|text| change(&mut dump, text));
    audit(&dump, &config()).violations
}

/// The last members of the flow are over.
const ALL_OVER: &[&str] = &[
    "drop ff:{fp:3}:q:main:n:k",
    "ff:{fp:3}:ended:cancelled $b=253402300799999 $c=253402300799999",
    "ff:{fp:3}:x:$b st=cancelled cb=flow_cascade et=2000",
    "ff:{fp:3}:x:$c st=cancelled cb=flow_cascade et=2000",
    "ff:{fp:3}:f:$f live=0 bad=2 n:waiting=0 n:blocked=0 n:cancelled=3",
];

#[test]
fn a_sealed_flow_is_over_with_its_last_member() {
    let cancelled = "ff:{fp:3}:f:$f state=cancelled cancelled_at=1 cancel_policy=cancel_all";
    let found = violations_of(&[ALL_OVER, &[cancelled]].concat());
    let text = "is not over although all of its members are";
    assert_eq!(found.len(), 1, "{found:#?}");
    assert!(found[0].what.contains(text), "{found:#?}");
    let ended = ["ff:{fp:3}:f:$f ended_at=2000", "ff:{fp:3}:due f:$f=86402000"];
    let found = violations_of(&[ALL_OVER, &[cancelled], &ended].concat());
    assert_eq!(found, []);
}

#[test]
fn what_a_flow_is_about_to_do_is_no_violation() {
    for changes in [
        &["ff:{fp:3}:f:$f walk=fail:3", "ff:{fp:3}:due f:$f=1", "put ff:{fp:3}:owing zset $f=0"][..],
        &["ff:{fp:3}:f:$f walk=remove:0 nodes=900 n:waiting=7", "ff:{fp:3}:due f:$f=1"],
        // Who is told nothing any more may still be listed to be told.
        &[
            "ff:{fp:3}:f:$f expired=1",
            "ff:{fp:3}:x:$a er=1",
            "ff:{fp:3}:x:$e dp=:1:0:0",
            "ff:{fp:3}:due -f:$f e:$a=7",
        ],
    ] {
        assert_eq!(violations_of(changes), []);
    }
}

#[test]
fn an_unknown_state_is_found_and_its_index_entries_with_it() {
    let found = violations("x:$a st=asleep");
    let of = |invariant| found.iter().filter(|found| found.invariant == invariant).count();
    assert_eq!((of("I1"), of("I9")), (2, 1), "{found:#?}");
}

#[test]
fn collections_beyond_their_bounds_are_found() {
    let mut dump = clean();
    let tags = (0..65).map(|n| pair(&format!("team.t{n}=x"))).collect();
    dump.insert(full_key(&expand("x:$e:tags")), Stored::Hash(tags));
    let log = vec![entry("e=created,x=,a=,w="); 12_001];
    dump.insert(full_key("log"), Stored::Stream(log));
    let line = expand("0:$a:initial:ended_failure:1:2:1:w:i::0:");
    dump.insert(full_key(&expand("x:$b:attempts")), Stored::List(vec![line.into(); 1001]));
    let found = audit(&dump, &config()).violations;
    for what in ["more tags than allowed", "longer than the log", "more attempts than are kept"] {
        assert!(found.iter().any(|violation| violation.what.contains(what)), "{what}");
    }
}

#[test]
fn a_report_of_a_wrecked_store_stays_readable() {
    let wrecked = (0..150).map(|n| (format!("junk {n}").into_bytes(), Stored::String(vec![])));
    let text = audit(&wrecked.collect(), &config()).to_string();
    assert!(text.starts_with("0 partitions, 150 keys, 0 executions\n150 violations\nI9 junk 0: "));
    assert!(text.ends_with("\nand 50 more"), "{text}");
    assert_eq!(text.lines().count(), 103);
}
