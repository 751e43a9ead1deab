//! Calls about budgets: few of them, with limits so small that they are reached.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use ff_core::contracts::{BudgetScope, OnHardLimit};
use ff_core::types::{BudgetId, ExecutionId, RequestId};
use ff_script::calls::attachment::NoteBudget;
use ff_script::calls::budget::{
    CreateBudget, DeleteBudget, DescribeBudget, ListBudgetUsage, ListBudgets, RaiseBudget,
    ResetBudget, UpdateBudget,
};
use ff_script::calls::usage::{ReportUsageAndCheck, ReserveUsage};
use ff_script::dump::Stored;
use ff_script::wire::Rest;

use super::dice::Dice;
use super::plan::Op;
use super::quotas::at_home;
use super::sent::Sent;
use super::view::View;
use super::world::{BUDGETS, KINDS, Lease, World};

/// Two budgets, which live in one partition.
pub(super) static IDS: LazyLock<[BudgetId; 2]> =
    LazyLock::new(|| [11, 12].map(|number| BudgetId::from_uuid(at_home(number))));

pub(super) const DIMENSIONS: [&str; 2] = ["calls", "tokens"];
const SECOND: u64 = 1000;
const HOUR: u64 = 3_600_000;

fn is_there(id: BudgetId, world: &World) -> bool {
    let budget = View::new(&world.held, BUDGETS).hash(&format!("budget:{id}"));
    budget.is_some_and(|budget| budget.bytes("created_at").is_some())
}

/// The budgets that the policy of a new execution names, once there are some, and what it reserves.
pub(super) fn named(dice: &mut Dice, world: &World) -> (Vec<BudgetId>, BTreeMap<String, u64>) {
    let there: Vec<BudgetId> = IDS.iter().copied().filter(|id| is_there(*id, world)).collect();
    if there.is_empty() || dice.chance(40) {
        return Default::default();
    }
    let ids = there.into_iter().filter(|_| dice.chance(70)).collect();
    let reserves = dice.sometimes(60, |dice| {
        let name = (*dice.pick(&DIMENSIONS)).to_owned();
        BTreeMap::from([(name, dice.below(4))])
    });
    (ids, reserves.unwrap_or_default())
}

/// The budgets of an execution, and what a lease of it reserves of each.
pub(super) fn of(view: View<'_>, uuid: &str) -> Option<(Vec<String>, String)> {
    let Some(Stored::String(text)) = view.stored(&format!("x:{uuid}:budgets")) else { return None };
    let (ids, reserves) = std::str::from_utf8(text).ok()?.split_once(';')?;
    Some((ids.split(',').map(str::to_owned).collect(), reserves.to_owned()))
}

/// Names and numbers in turn.
pub(super) fn words(reserves: &str) -> Rest<String> {
    let words = reserves.split(['=', ',']).filter(|word| !word.is_empty());
    Rest(words.map(str::to_owned).collect())
}

pub(super) fn choose(op: Op, dice: &mut Dice, world: &World) -> Option<Sent> {
    match op {
        Op::UseBudget => use_one(dice, world),
        Op::ReadBudget => Some(read(dice)),
        _ => Some(change(dice, world)),
    }
}

fn read(dice: &mut Dice) -> Sent {
    let budget_id = *dice.pick(&*IDS);
    match dice.below(3) {
        0 => Sent::of(BUDGETS, &DescribeBudget { budget_id }),
        1 => Sent::of(BUDGETS, &ListBudgets { cursor: String::new(), limit: 10 }),
        _ => Sent::of(BUDGETS, &ListBudgetUsage { budget_id, offset: None, limit: 10 }),
    }
}

/// Makes a budget, gives it other limits or rules, begins it anew, removes it, or makes it apply to
/// a kind.
fn change(dice: &mut Dice, world: &World) -> Sent {
    let budget_id = *dice.pick(&*IDS);
    if !is_there(budget_id, world) || dice.chance(20) {
        return Sent::of(BUDGETS, &create(budget_id, dice));
    }
    match dice.below(10) {
        0 => Sent::of(BUDGETS, &DeleteBudget { budget_id }),
        1..3 => {
            let request_id = dice.sometimes(50, |dice| RequestId::from_uuid(dice.uuid()));
            let due_only = dice.chance(20);
            Sent::of(BUDGETS, &ResetBudget { budget_id, due_only, request_id })
        }
        3 => Sent::of(BUDGETS, &RaiseBudget { budget_id, ask: 1 + dice.below(5) }),
        4 => note(budget_id, dice, world),
        _ => {
            let call = UpdateBudget {
                budget_id,
                on_hard_limit: None,
                reset_interval_ms: dice.sometimes(20, interval),
                dimensions: dimensions(dice),
            };
            Sent::of(BUDGETS, &call)
        }
    }
}

fn create(budget_id: BudgetId, dice: &mut Dice) -> CreateBudget {
    CreateBudget {
        budget_id,
        scope_type: BudgetScope::Lane,
        scope_id: "elsewhere".to_owned(),
        // What runs is stopped, and people are asked, in the suite.
        on_hard_limit: OnHardLimit::Block,
        reset_interval_ms: dice.sometimes(20, interval),
        name: String::new(),
        dimensions: dimensions(dice),
    }
}

fn interval(dice: &mut Dice) -> u64 {
    *dice.pick(&[0, 5 * SECOND, HOUR])
}

/// One dimension, or both: as many as two executions use, or a few more.
fn dimensions(dice: &mut Dice) -> Rest<String> {
    let from = dice.below(3) as usize;
    let names = if from == 2 { &DIMENSIONS[..] } else { &DIMENSIONS[from..=from] };
    let limits = names.iter().flat_map(|name| {
        let hard = 1 + dice.below(8);
        let soft = dice.sometimes(40, |dice| (1 + dice.below(hard)).to_string());
        [(*name).to_owned(), hard.to_string(), soft.unwrap_or_default()]
    });
    Rest(limits.collect())
}

fn note(budget_id: BudgetId, dice: &mut Dice, world: &World) -> Sent {
    let call = NoteBudget {
        scope_type: BudgetScope::Kind,
        scope_id: (*dice.pick(&KINDS)).to_owned(),
        budget_id,
        attached: dice.chance(60),
    };
    Sent::of(*dice.pick(&world.partitions), &call)
}

fn has_passed(budget_id: &str, lease: &Lease, world: &World) -> bool {
    let key = format!("budget:{budget_id}:of:{}", lease.execution_id);
    let user = View::new(&world.held, BUDGETS).hash(&key);
    user.is_some_and(|user| user.number("admitted") == Some(lease.lease_epoch.get()))
}

/// A worker reports what it used, or wants to use more: most often under a lease that passed.
fn use_one(dice: &mut Dice, world: &World) -> Option<Sent> {
    let budgets = |lease: &&Lease| {
        let id = lease.execution_id;
        of(View::new(&world.held, id.partition()), &id.uuid().to_string())
    };
    let claims = world.admission.claims.iter().map(|claim| &claim.lease);
    let leases: Vec<&Lease> = claims.filter(|lease| budgets(lease).is_some()).collect();
    let passed = |lease: &&Lease| {
        let ids = budgets(lease).map_or_else(Vec::new, |(ids, _)| ids);
        ids.iter().any(|id| has_passed(id, lease, world))
    };
    let lease = *dice.likely(&leases, passed)?;
    let (ids, _) = budgets(&lease)?;
    let budget_id = dice.pick(&ids).parse().ok()?;
    let (execution_id, lease_epoch): (ExecutionId, _) = (lease.execution_id, lease.lease_epoch);
    let dedup_key = dice.sometimes(40, |dice| format!("r{}", dice.below(3))).unwrap_or_default();
    let name = (*dice.pick(&DIMENSIONS)).to_owned();
    let amounts = Rest(vec![name, dice.below(4).to_string()]);
    Some(if dice.chance(70) {
        let call = ReportUsageAndCheck { budget_id, execution_id, lease_epoch, dedup_key, amounts };
        Sent::of(BUDGETS, &call)
    } else {
        let call = ReserveUsage { budget_id, execution_id, lease_epoch, dedup_key, amounts };
        Sent::of(BUDGETS, &call)
    })
}
