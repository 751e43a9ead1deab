//! Planted bugs: the random sequences must find each of them. A harness that cannot fail proves
//! nothing.

use std::ops::Range;
use std::path::Path;

use ff_conformance::cramped;
use ff_conformance::model::{Plan, Store, play};
use ff_script::library::Library;
use ff_test_seed::random_test;

/// Far more sequences than any of these bugs needs.
const SEEDS: u64 = 4000;
const STEPS: usize = 60;

/// A change of one module that makes the library wrong.
struct Bug {
    what: &'static str,
    module: &'static str,
    right: &'static str,
    wrong: &'static str,
}

const BUGS: &[Bug] = &[
    Bug {
        what: "the fence is not compared",
        module: "model/lease",
        right: "return x.lease_id == a.lease_id and x.lease_epoch == a.lease_epoch\n    \
                and lease.attempt_id(x) == a.attempt_id",
        wrong: "return true",
    },
    Bug {
        what: "the epoch is not compared",
        module: "model/lease",
        right: " and x.lease_epoch == a.lease_epoch",
        wrong: "",
    },
    Bug {
        what: "a lease lasts a moment too long",
        module: "model/lease",
        right: "if number.stored(x.lease_expires_at, 0) <= now then",
        wrong: "if number.stored(x.lease_expires_at, 0) < now then",
    },
    Bug {
        what: "the epoch does not grow",
        module: "model/lease",
        right: "number.one_more(x.lease_epoch)",
        wrong: "(x.lease_epoch or '1')",
    },
    Bug {
        what: "what leaves is still due",
        module: "model/index",
        right: "if before then call('ZREM', before, uuid) end",
        wrong: "",
    },
    Bug {
        what: "what leaves is still in its queue",
        module: "model/index",
        right: "if queue then call('ZREM', queue, uuid) end",
        wrong: "",
    },
    Bug {
        what: "a single write is dropped",
        module: "kernel/writes",
        right: "local i, item = 1, w[1]",
        wrong: "local i, item = 1, w[2] and w[1]",
    },
    Bug {
        what: "one reclaim too many",
        module: "model/loss",
        right: "number.stored(x.reclaim_count, 0) >=",
        wrong: "number.stored(x.reclaim_count, 0) >",
    },
    Bug {
        what: "one retry too many",
        module: "model/retry",
        right: "count >= rule.max_retries",
        wrong: "count > rule.max_retries",
    },
    Bug {
        what: "a used grant stays",
        module: "model/attempt",
        right: "'suspend_until', 'grant_id', 'grant_kind', 'grant_worker_id', \
                'grant_instance_id',\n  'grant_expires_at', 'held' }",
        wrong: "'suspend_until', 'held' }",
    },
    Bug {
        what: "a paused attempt loses its time limit",
        module: "model/attempt",
        right: "if timeout_at then record.set(",
        wrong: "if false then record.set(",
    },
    Bug {
        what: "a cancellation overwrites an outcome",
        module: "verb/cancel",
        right: "if state.ENDED[x.state] then return lease.not_active(x) end",
        wrong: "",
    },
    Bug {
        what: "an end without an event",
        module: "model/ending",
        right: "commit(w, x, 'ended', outcome .. ':' .. cause .. ':' .. (x.namespace or ''))",
        wrong: "commit(w, x)",
    },
    Bug {
        what: "an idempotency key is not looked at",
        module: "model/creation",
        right: "if not a.idempotency_key then return nil end",
        wrong: "if true then return nil end",
    },
    Bug {
        what: "a worker without the capabilities may claim",
        module: "model/queue",
        right: "and not capability.missing(x.capabilities, has)",
        wrong: "",
    },
    Bug {
        what: "timers fire early",
        module: "verb/tick",
        right: "'-inf', string.format('%.0f', now)",
        wrong: "'-inf', string.format('%.0f', now + 1)",
    },
    Bug {
        what: "a replay is not counted",
        module: "verb/replay",
        right: "number.one_more(x.replay_count))",
        wrong: "number.stored(x.replay_count, 0))",
    },
    Bug {
        what: "a changed execution stays where it was timed before",
        module: "model/index",
        right: "if before and before ~= after then call('ZREM', before, uuid) end",
        wrong: "",
    },
    Bug {
        what: "a request is not remembered",
        module: "model/request",
        right: "record.set(x, 'requests', table.concat(kept, ' '))",
        wrong: "",
    },
    Bug {
        what: "any lease may claim to have done what the one before did",
        module: "model/lease",
        right: "if not was or id ~= lease_id or epoch and was ~= epoch then return nil end",
        wrong: "if not was then return nil end",
    },
    Bug {
        what: "a repeated append is not recognised",
        module: "verb/stream",
        right: "if last <= there and lease.matches(x, a) then return reply.duplicate(last) end",
        wrong: "",
    },
    Bug {
        what: "frames that are there already are appended again",
        module: "verb/stream",
        right: "stream.append(w, x, index, held, rule, frames, skip + 1)",
        wrong: "stream.append(w, x, index, held, rule, frames, 1)",
    },
    Bug {
        what: "a gap between frames is not refused",
        module: "verb/stream",
        right: "if skip < 0 then return reply.refuse('frame_gap', there + 1) end",
        wrong: "skip = math.max(skip, 0)",
    },
    Bug {
        what: "a new attempt counts on with the frames of the old one",
        module: "model/stream",
        right: "record.drop(x, { 'frames' })",
        wrong: "",
    },
    Bug {
        what: "output is left behind",
        module: "model/purge",
        right: "local streams = stream.purge(w, x)",
        wrong: "local streams = 0",
    },
    Bug {
        what: "output is trimmed a frame too far",
        module: "model/stream",
        right: "w[#w + 1] = { 'XTRIM', key, 'MINID', first }",
        wrong: "w[#w + 1] = { 'XTRIM', key, 'MINID', first + 1 }",
    },
    Bug {
        what: "a removed member stays in a summary",
        module: "model/patch",
        right: "object.values[name] = nil",
        wrong: "",
    },
    Bug {
        what: "any token opens any waitpoint",
        module: "model/token",
        right: "if not same or not hex or not waitpoint",
        wrong: "if not hex or not waitpoint",
    },
    Bug {
        what: "a signal is applied twice",
        module: "model/signal",
        right: "if not one.count then return nil end",
        wrong: "if true then return nil end",
    },
    Bug {
        what: "a wake-up is lost",
        module: "model/suspension",
        right: "local met = condition.met(s)",
        wrong: "local met = nil",
    },
    Bug {
        what: "what is put aside takes no signals",
        module: "model/suspension",
        right: "return x.next_attempt == 'resume' and PUT_ASIDE[x.state] or false",
        wrong: "return false",
    },
    Bug {
        what: "an end leaves waitpoints open",
        module: "model/ending",
        right: "close_waitpoints(w, x, now, outcome, cause)\n  if x.state ~= 'running'",
        wrong: "if x.state ~= 'running'",
    },
    Bug {
        what: "past attempts are left behind",
        module: "model/purge",
        right: "keys.attempts(key), key }",
        wrong: "key }",
    },
];

fn library(bug: &Bug) -> Library {
    let lua = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../lua");
    let source = std::fs::read_to_string(lua.join(format!("{}.lua", bug.module)));
    let source = source.expect("the module is there");
    assert_eq!(source.matches(bug.right).count(), 1, "{}: look at {}", bug.what, bug.module);
    cramped(&Library::with_modules(&[(bug.module, &source.replace(bug.right, bug.wrong))]))
}

/// The first seed that finds the bug, and what it found.
fn found(library: &Library, mut seeds: Range<u64>) -> Option<(u64, String)> {
    let runtime = tokio::runtime::Builder::new_current_thread().build();
    let runtime = runtime.expect("a runtime can be made");
    seeds.find_map(|seed| {
        let stores = [Store::embedded(library)];
        let failure = runtime.block_on(play(&Plan::random(seed, STEPS), &stores)).err()?;
        Some((seed, failure.what))
    })
}

#[test]
fn every_planted_bug_is_found() {
    let test = random_test!();
    let (seeds, mut missed) = (test.seeds(1..SEEDS + 1), Vec::new());
    for bug in BUGS {
        match found(&library(bug), seeds.clone()) {
            Some((seed, what)) => {
                let what = what.lines().last().unwrap_or_default();
                println!("{}: {what}; {}", bug.what, test.replay(seed));
            }
            None => missed.push(bug.what),
        }
    }
    assert!(missed.is_empty(), "not found within seeds {seeds:?}: {missed:?}");
}
