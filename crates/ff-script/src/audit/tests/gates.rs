//! Quotas and budgets: a small store in which every rule holds, and what each change breaks.

use super::*;

/// One execution runs under a quota and a budget, and two wait, one for each.
const GATES: &str = "
ff:{fp:0}:deployment hash flow=4 budget=1 quota=1 format=2
ff:{fp:0}:lanes set main
ff:{fp:0}:all zset $a=1000 $b=1001 $c=1002
ff:{fp:0}:leases zset $a=5000
ff:{fp:0}:closed hash q:$e:k=7000 b:$f=
ff:{fp:0}:gate:q:$e:k zset $b=1001
ff:{fp:0}:gate:b:$f zset $c=1002
ff:{fp:0}:outbox zset wait:$c:1:1500:b:$f=1500
ff:{fp:0}:x:$a hash st=running la=main ki=k ns=n xm=1 ct=1000 ac=1 li=$a ep=2 le=5000 wo=w wi=i \
    as=1200 qi=$e qk=k bg=1
ff:{fp:0}:x:$a:undo string x
ff:{fp:0}:x:$a:budgets string $f;tokens=10
ff:{fp:0}:x:$b hash st=parked la=main ki=k ns=n xm=1 ct=1001 qi=$e qk=k kr=waiting_for_quota
ff:{fp:0}:x:$c hash st=parked la=main ki=k ns=n xm=1 ct=1002 bg=1 ba=$f kr=waiting_for_budget
ff:{fp:0}:x:$c:budgets string $f;tokens=10
ff:{q:0}:policy:$e hash max_concurrent=1 created_at=1000
ff:{q:0}:policy:$e:awaited zset q:$e:k=1
ff:{q:0}:holders:q:$e:k zset {fp:0}:$a=5000
ff:{q:0}:admitted:q:$e:k hash {fp:0}:$a=1:2
ff:{q:0}:waiting:q:$e:k zset 0=1001
ff:{q:0}:openings:q:$e:k hash number=7
ff:{q:0}:due zset g:q:$e:k=7000
ff:{q:0}:outbox zset open:7:0:1:q:$e:k=1000
ff:{b:0}:budgets zset $f=0
ff:{b:0}:budget:$f hash created_at=1000 period=1000 hard:tokens=100 used:tokens=30 \
    other:tokens=5 reserved:tokens=10 next_reset_at=9000
ff:{b:0}:budget:$f:users zset {fp:0}:$a=1500
ff:{b:0}:budget:$f:events list 1500:reset:
ff:{b:0}:budget:$f:of:{fp:0}:$a hash admitted=2 period=1000 u:tokens=25 r:tokens=10
ff:{b:0}:budget:$f:of:{fp:0}:$a:reports hash step-1=x
ff:{b:0}:due zset b:$f=9000
";

/// A change, the invariant that it breaks and what is said about it.
const BREAKS: &[(&str, &str, &str)] = &[
    ("ff:{fp:0}:closed -q:$e:k", "I9", "has somebody waiting although it is open"),
    ("ff:{fp:0}:closed q:$e:k=soon", "I9", "a gate that cannot be read"),
    ("ff:{fp:0}:closed x:$e=", "I9", "a gate that cannot be read"),
    ("ff:{fp:0}:gate:q:$e:k -$b $c=1002", "I1", "does not list bbbbbbbb"),
    ("put ff:{fp:0}:gate:b:$e zset $c=1002", "I1", "lists cccccccc"),
    ("ff:{fp:0}:gate:b:$f $c=1000", "I1", "at 1000 instead of 1002"),
    ("ff:{fp:0}:outbox release:$a=1", "I9", "owes something that cannot be read"),
    ("drop ff:{fp:0}:x:$a:undo", "I9", "has gates, and its claim cannot be undone"),
    ("put ff:{fp:0}:x:$b:undo string x", "I9", "belongs to no running execution with gates"),
    ("put ff:{fp:0}:x:$b:budgets string $f;", "I9", "is no list of its budgets"),
    ("put ff:{fp:0}:x:$c:budgets string $f,$e;", "I9", "is no list of its budgets"),
    ("put ff:{fp:0}:x:$d:budgets string $f;", "I9", "belongs to no execution"),
    ("put ff:{fp:0}:attached hash lane:main=$f", "I9", "cannot be read"),
    ("put ff:{fp:0}:attached hash flow:$d=x", "I9", "cannot be read"),
    ("ff:{q:0}:policy:$e -max_concurrent", "I9", "is no policy"),
    ("ff:{q:0}:policy:$e max_concurrent=some", "I9", "is no policy"),
    ("ff:{q:0}:holders:q:$e:k {fp:0}:$b=5000", "I5", "without having been admitted"),
    ("drop ff:{q:0}:holders:q:$e:k", "I5", "is said to hold a place and does not"),
    ("ff:{q:0}:admitted:q:$e:k {fp:0}:$a=2:2", "I5", "a lease that is over holds a place"),
    ("ff:{q:0}:admitted:q:$e:k {fp:0}:$a=2:", "I5", "or the other way round"),
    ("ff:{q:0}:admitted:q:$e:k {fp:0}:$a=2", "I5", "an epoch is unreadable"),
    ("drop ff:{q:0}:policy:$e:awaited", "I9", "is not among the gates of its policy"),
    ("drop ff:{q:0}:waiting:q:$e:k", "I9", "has a gate that nobody waits for"),
    ("ff:{q:0}:outbox open:7:0=1", "I9", "owes something that cannot be read"),
    ("put ff:{q:0}:budgets zset $f=0", "I9", "no key of ours"),
    ("put ff:{q:0}:budget:$f hash created_at=1000", "I9", "no key of ours"),
    ("put ff:{b:0}:policy:$e hash max_concurrent=1 created_at=1", "I9", "no key of ours"),
    ("put ff:{q:1}:due zset g:q:$e:k=1", "I9", "under a partition that does not exist"),
    ("put ff:{b:1}:due zset b:$f=1", "I9", "under a partition that does not exist"),
    ("ff:{b:0}:budgets $e=0", "I9", "lists a budget that is not there"),
    ("ff:{b:0}:budget:$f -created_at", "I5", "is no budget"),
    ("ff:{b:0}:budget:$f used:tokens=31", "I5", "counts something else than its executions used"),
    ("ff:{b:0}:budget:$f -other:tokens", "I5", "counts something else than its executions used"),
    ("ff:{b:0}:budget:$f period=2000", "I5", "counts something else than its executions used"),
    ("ff:{b:0}:budget:$f reserved:tokens=11", "I5", "has promised something else"),
    ("ff:{b:0}:budget:$f:of:{fp:0}:$a -r:tokens", "I5", "has promised something else"),
    ("ff:{b:0}:budget:$f:users -{fp:0}:$a", "I9", "is not listed among those who used the budget"),
    ("drop ff:{b:0}:budget:$f:of:{fp:0}:$a", "I9", "belongs to nobody who used the budget"),
    ("put ff:{b:0}:budget:$f:of:$a hash u:tokens=1", "I9", "no key of ours"),
];

#[test]
fn a_store_with_gates_in_order_has_no_violation() {
    let report = audit(&holding(&[GATES]), &config());
    assert!(report.is_clean(), "{report}");
}

#[test]
fn every_broken_rule_of_gates_is_found_by_its_name() {
    for (changes, invariant, what) in BREAKS {
        let mut dump = holding(&[GATES]);
        change(&mut dump, changes);
        let found = audit(&dump, &config()).violations;
        let named = found.iter().any(|violation| {
            violation.invariant == *invariant && violation.to_string().contains(what)
        });
        assert!(named, "{changes}: {found:#?}");
    }
}
