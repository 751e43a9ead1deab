//! Planted bugs: the random sequences must find each of them. A harness that cannot fail proves
//! nothing.

use std::path::Path;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use ff_conformance::cramped;
use ff_conformance::model::{Plan, Store, Theme, play};
use ff_script::library::Library;
use ff_test_seed::{RandomTest, random_test};

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
        right: "if name then call('ZREM', p.queue .. name, uuid) end",
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
                'grant_instance_id',\n  'grant_expires_at', 'held', 'waits_again', 'passes' }",
        wrong: "'suspend_until', 'held', 'waits_again', 'passes' }",
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
        right: "commit(w, x, 'ended', x.flow_id and why .. ':' .. x.flow_id or why)",
        wrong: "commit(w, x)",
    },
    Bug {
        what: "an idempotency key is not looked at",
        module: "model/creation",
        right: "if not a.idempotency_key then return nil end",
        wrong: "if true then return nil end",
    },
    Bug {
        what: "a claim takes what is behind its bound",
        module: "model/queue",
        right: "and (not most or q.score <= most)",
        wrong: "",
    },
    Bug {
        what: "those who share a fair lane are not told apart",
        module: "model/fair",
        right: "if by == 'namespace' then return x.namespace or '' end",
        wrong: "if by == 'namespace' then return '' end",
    },
    Bug {
        what: "all of one tenant have the same turn",
        module: "model/fair",
        right: "math.max(first, latest + cost(settings, key))",
        wrong: "math.max(first, latest)",
    },
    Bug {
        what: "a claim takes of any namespace",
        module: "model/need",
        right: "(not a.namespaces or a.namespaces[namespace])",
        wrong: "true",
    },
    Bug {
        what: "a worker without the capabilities may claim",
        module: "model/need",
        right: "and not capability.missing(required, has)",
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
        right: " keys.attempts(key),\n",
        wrong: "\n",
    },
];

/// The same in what flows are about, which every other sequence plays.
const FLOW_BUGS: &[Bug] = &[
    Bug {
        what: "the end of an upstream is not counted",
        module: "model/edge",
        right: "    satisfied = satisfied + 1\n",
        wrong: "",
    },
    Bug {
        what: "an edge is told twice",
        module: "model/edge",
        right: "record.set(x, 'edges_resolved', from + most)",
        wrong: "record.set(x, 'edges_resolved', math.max(from + most - 1, 0))",
    },
    Bug {
        what: "who can never run is freed",
        module: "model/edge",
        right: "if satisfied >= least then return 'free' end",
        wrong: "if satisfied + impossible >= least then return 'free' end",
    },
    Bug {
        what: "the second of two effects on a member is lost",
        module: "model/record",
        right: "if kept(p, uuid) then return record.read(p, uuid) end",
        wrong: "if kept(p, uuid) and kept(p, uuid).whole then return record.read(p, uuid) end",
    },
    Bug {
        what: "a cancel frees somebody",
        module: "model/flow",
        right: " or f.state == 'cancelled' and f.cancel_policy ~= 'flow_only'",
        wrong: "",
    },
    Bug {
        what: "a member runs before its graph is whole",
        module: "verb/graph",
        right: "local hold = f or a.seal == 0",
        wrong: "local hold = f",
    },
    Bug {
        what: "a skip reaches nobody behind it",
        module: "model/edge",
        right: "list[#list + 1] = x\n    return\n  end\n  list = { x }",
        wrong: "return\n  end\n  list = { x }",
    },
    Bug {
        what: "what is left to be told is forgotten",
        module: "model/edge",
        right: "w[#w + 1] = { 'ZADD', w.p.due, w.now, edge.PREFIX .. x.uuid }",
        wrong: "",
    },
    Bug {
        what: "an upstream's result is not passed on",
        module: "model/edge",
        right: "w[#w + 1] = { 'RPUSH', keys.inputs(x.key), up.uuid .. ':' .. one.name }",
        wrong: "record.drop(x, { 'inputs' })",
    },
    Bug {
        what: "an edge to an upstream that is over is not told",
        module: "model/edge",
        right: "  if is_told then\n    settle(w, down, up, one, now, finish)\n  else",
        wrong: "  if false then\n  else",
    },
    Bug {
        what: "the failure of an optional member counts",
        module: "model/flow",
        right: "  if x.optional then return end\n",
        wrong: "",
    },
    Bug {
        what: "a member's time begins before it is freed",
        module: "model/edge",
        right: "    arm_deadline(x, now)\n    put_freed",
        wrong: "    put_freed",
    },
    Bug {
        what: "what is done to all members ends after some",
        module: "model/walk",
        right: "local on = what and visit_some(w, f, what, tonumber(from), now)",
        wrong: "visit_some(w, f, what or 'release', tonumber(from), now)\n  local on = nil",
    },
    Bug {
        what: "what makes up for a failure is ended with the others",
        module: "model/edge",
        right: "if f and f.on_failure and not x.kept then record.set(x, 'kept', '1') end",
        wrong: "",
    },
    Bug {
        what: "a failure ends nobody",
        module: "model/edge",
        right: "    flow.fail(w, f, x)\n",
        wrong: "",
    },
    Bug {
        what: "a flow is over before its last member",
        module: "model/flow",
        right: "if f.ended_at or f.walk or flow.number(f, 'live') > 0 then return end",
        wrong: "if f.ended_at or f.walk or flow.number(f, 'live') > 1 then return end",
    },
    Bug {
        what: "a replay leaves those behind it as they are",
        module: "model/reopening",
        right: "seen[down.uuid], ups[#ups + 1] = true, down",
        wrong: "seen[down.uuid] = true",
    },
    Bug {
        what: "what a replay takes back is still counted",
        module: "model/reopening",
        right: "  edge.untell(down, one, up.state)\n",
        wrong: "",
    },
    Bug {
        what: "a member of a cancelled flow is claimed",
        module: "verb/claim",
        right: "  if flow.stopped(p, x) then return reply.refuse('flow_cancelled') end\n",
        wrong: "",
    },
    Bug {
        what: "a member comes back from its removal",
        module: "model/purge",
        right: "    record.remove(x)\n",
        wrong: "",
    },
    Bug {
        what: "those that were not released are forgotten",
        module: "model/flow",
        right: "      flow.begin_walk(w, f, 'release')\n",
        wrong: "      flow.drop(w, f, { 'walk' })\n",
    },
    Bug {
        what: "a cycle is not seen",
        module: "model/rank",
        right: "      if ups[uuid] then return nil, 'cycle_detected' end\n",
        wrong: "",
    },
];

/// The same in what admission is about, which every fourth sequence plays.
const ADMISSION_BUGS: &[Bug] = &[
    Bug {
        what: "a place is given after its release",
        module: "model/quota",
        right: "if a.lease_epoch <= math.max(released, held) then return 'stale_lease' end",
        wrong: "if a.lease_epoch <= held then return 'stale_lease' end",
    },
    Bug {
        what: "a suspension owes no release",
        module: "model/index",
        right: "if was == 'running' and x.state ~= was and (x.quota_id or x.budgets) then",
        wrong: "if was == 'running' and x.state ~= was and x.state ~= 'suspended'\n      \
                and (x.quota_id or x.budgets) then",
    },
    Bug {
        what: "one runs too many",
        module: "model/quota",
        right: "if held == 0 and places_free(p, policy, gate) <= 0 then",
        wrong: "if held == 0 and places_free(p, policy, gate) < 0 then",
    },
    Bug {
        what: "one begins too many",
        module: "model/quota",
        right: "if free <= 0 then return 'RATE_EXCEEDED', again_at end",
        wrong: "if free < 0 then return 'RATE_EXCEEDED', again_at end",
    },
    Bug {
        what: "a claim that was undone counts as an attempt",
        module: "model/undo",
        right: "local FIELDS = { 'attempt_count', 'attempt_id',",
        wrong: "local FIELDS = { 'attempt_id',",
    },
    Bug {
        what: "a freed place is told to nobody",
        module: "verb/quota",
        right: "      batch.note(gates, name)\n",
        wrong: "",
    },
    Bug {
        what: "a partition that waits on is forgotten",
        module: "model/waiting",
        right: "if left > 0 then",
        wrong: "if left < 0 then",
    },
    Bug {
        what: "a closed gate waits for nobody",
        module: "model/gate",
        right: "if redis.call('HEXISTS', p.closed, name) == 0 then",
        wrong: "if false then",
    },
    Bug {
        what: "a budget lets pass after the release",
        module: "model/usage",
        right: "if epoch <= math.max(u.released, u.admitted) then return 'stale_lease' end",
        wrong: "if epoch <= u.admitted then return 'stale_lease' end",
    },
    Bug {
        what: "more is promised than a hard limit allows",
        module: "model/budget",
        right: "if most and (taken + more > most or taken >= most) then",
        wrong: "if most and taken >= most then",
    },
    Bug {
        what: "what was promised does not go back",
        module: "model/usage",
        right: "  return true, give_back(w, b, u)\n",
        wrong: "  return true, false\n",
    },
    Bug {
        what: "a lease that is over may report",
        module: "model/usage",
        right: "if u.admitted == epoch then return nil end",
        wrong: "if u.admitted > 0 then return nil end",
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
fn found(library: &Library, mut seeds: impl Iterator<Item = u64>) -> Option<(u64, String)> {
    let runtime = tokio::runtime::Builder::new_current_thread().build();
    let runtime = runtime.expect("a runtime can be made");
    seeds.find_map(|seed| {
        let stores = [Store::embedded(library)];
        let failure = runtime.block_on(play(&Plan::random(seed, STEPS), &stores)).err()?;
        Some((seed, failure.what))
    })
}

/// Looks for bugs on all cores, in the seeds that play what they are about. Gives those that were
/// not found.
fn missed(test: &RandomTest, bugs: &[Bug], theme: Theme) -> Vec<&'static str> {
    let seeds = test.seeds(1..SEEDS + 1);
    let (next, missed) = (AtomicUsize::new(0), Mutex::new(Vec::new()));
    let finder = || {
        while let Some(bug) = bugs.get(next.fetch_add(1, Ordering::SeqCst)) {
            let fitting = seeds.clone().filter(|seed| Theme::of(*seed) == theme);
            match found(&library(bug), fitting) {
                Some((seed, what)) => {
                    let what = what.lines().last().unwrap_or_default();
                    println!("{}: {what}; {}", bug.what, test.replay(seed));
                }
                None => missed.lock().expect("nobody panics").push(bug.what),
            }
        }
    };
    let finders = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    std::thread::scope(|scope| {
        for _ in 0..finders {
            scope.spawn(finder);
        }
    });
    missed.into_inner().expect("nobody panics")
}

#[test]
fn every_planted_bug_is_found() {
    let missed = missed(&random_test!(), BUGS, Theme::Executions);
    assert!(missed.is_empty(), "not found: {missed:?}");
}

#[test]
fn every_planted_bug_of_flows_is_found() {
    let missed = missed(&random_test!(), FLOW_BUGS, Theme::Flows);
    assert!(missed.is_empty(), "not found: {missed:?}");
}

#[test]
fn every_planted_bug_of_admission_is_found() {
    let missed = missed(&random_test!(), ADMISSION_BUGS, Theme::Admission);
    assert!(missed.is_empty(), "not found: {missed:?}");
}
