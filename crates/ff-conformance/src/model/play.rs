//! Plays a plan, and checks the rules after every call.

use std::collections::BTreeMap;

use ff_core::limits;
use ff_core::partition::PartitionConfig;
use ff_script::audit::audit;
use ff_script::calls::deployment::{OpenDeployment, RegisterLane};
use ff_script::calls::lane::SetLane;
use ff_script::value::Value;

use super::choose::choose;
use super::create::span;
use super::dice::Dice;
use super::plan::{Op, Plan, Step};
use super::rules::{Seen, Untouched, check, check_repetition};
use super::sent::Sent;
use super::settle;
use super::store::Store;
use super::trace::Call;
use super::view::View;
use super::world::{ALL, FAIR, LANES, World};
use crate::answer::Answer;
use crate::deployment::FLOW_PARTITIONS;
use crate::dump;
use crate::waiting::{SECRET, rotation};

const HOUR: u64 = 3_600_000;

/// Where a plan failed, and how.
#[derive(Clone, Debug)]
pub struct Failure {
    /// What is wrong.
    pub what: String,
    /// Every call up to there, with its answer.
    pub trace: Vec<String>,
}

impl std::fmt::Display for Failure {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.trace.iter().try_for_each(|line| writeln!(f, "  {line}"))?;
        write!(f, "{}", self.what)
    }
}

/// How often each function gave each answer.
pub type Played = BTreeMap<(&'static str, String), u64>;

/// Plays a plan on the first store, with all checks, until everything has ended and is forgotten.
/// Further stores must give the same answers and end with the same contents.
pub async fn play(plan: &Plan, stores: &[Store]) -> Result<Played, Failure> {
    let mut game = Game::new(stores);
    let outcome = game.run(plan).await;
    for store in stores {
        store.clear().await;
    }
    let told = |trace: Vec<Call>| trace.iter().map(Call::to_string).collect();
    outcome.map(|()| game.played).map_err(|what| Failure { what, trace: told(game.trace) })
}

/// A plan that is being played.
pub(super) struct Game<'a> {
    stores: &'a [Store],
    pub(super) world: World,
    untouched: Untouched,
    trace: Vec<Call>,
    played: Played,
}

impl<'a> Game<'a> {
    fn new(stores: &'a [Store]) -> Self {
        Self {
            stores,
            world: World::new(),
            untouched: Untouched::default(),
            trace: Vec::new(),
            played: Played::new(),
        }
    }

    async fn run(&mut self, plan: &Plan) -> Result<(), String> {
        self.open().await?;
        for (number, step) in plan.steps.iter().enumerate() {
            let stepped = match self.step(step).await {
                Ok(()) => self.crash(step).await,
                failed => failed,
            };
            stepped.map_err(|what| format!("step {number} {:?}: {what}", step.op))?;
        }
        self.compare_contents().await?;
        settle::end_everything(self).await.map_err(|what| format!("at the end: {what}"))?;
        settle::forget_everything(self).await.map_err(|what| format!("at last: {what}"))?;
        self.compare_contents().await
    }

    /// What concerns the whole deployment is in the first partition.
    async fn open(&mut self) -> Result<(), String> {
        let first = self.world.partitions[0];
        let config = config();
        let open = OpenDeployment {
            format: limits::STORE_FORMAT,
            num_flow_partitions: config.num_flow_partitions,
            num_budget_partitions: config.num_budget_partitions,
            num_quota_partitions: config.num_quota_partitions,
        };
        self.send(&Sent::of(first, &open)).await?;
        for partition in self.world.partitions {
            self.send(&Sent::of(partition, &rotation("k1", SECRET, 0))).await?;
        }
        for lane in LANES {
            let lane = lane.parse().expect("a valid name");
            self.send(&Sent::of(first, &RegisterLane { lane })).await?;
        }
        let fair = SetLane {
            lane: FAIR.parse().expect("a valid name"),
            paused: None,
            waiting_max: None,
            order: Some("fair".to_owned()),
            fair_by: None,
            weights_json: String::new(),
            claim_weight: None,
        };
        self.send(&Sent::of(first, &fair)).await.map(drop)
    }

    async fn step(&mut self, step: &Step) -> Result<(), String> {
        let mut dice = Dice::new(step.seed);
        match step.op {
            Op::Advance => {
                let at = later(&mut dice, &self.world);
                self.set_time(at).await;
                return Ok(());
            }
            Op::Back => {
                let ms = dice.below(HOUR);
                self.set_time(self.world.now - ms).await;
                return Ok(());
            }
            _ => {}
        }
        self.world.admission.debts.put_down();
        let Some(sent) = choose(step.op, &mut dice, &mut self.world) else { return Ok(()) };
        self.world.history.push(sent.clone());
        let answer = self.send(&sent).await?;
        if dice.chance(15) {
            return self.lose_answer(&mut dice, &sent, &answer).await;
        }
        self.world.learn(&sent, &answer);
        Ok(())
    }

    /// Stores that can may crash: what was answered is still there, and nothing else.
    async fn crash(&mut self, step: &Step) -> Result<(), String> {
        for store in self.stores {
            let before = store.dump().await;
            if store.crash(&mut Dice::new(!step.seed)).await {
                let after = store.dump().await;
                if before != after {
                    let difference = dump::difference(&before, &after);
                    return Err(format!("a crash changed what was there:\n{difference}"));
                }
            }
        }
        Ok(())
    }

    /// The answer never arrived: the caller sends the same call again, at once or a bit later.
    async fn lose_answer(
        &mut self,
        dice: &mut Dice,
        sent: &Sent,
        first: &Answer,
    ) -> Result<(), String> {
        let later = dice.sometimes(30, span);
        if let Some(ms) = later {
            self.set_time(self.world.now + ms).await;
        }
        let before = self.world.held.clone();
        let again = sent.repeated();
        let second = self.send(&again).await?;
        self.world.learn(&again, &second);
        // A claim may recall what earlier sends with the same lease ids took.
        let fresh =
            self.world.history.iter().filter(|other| other.args() == sent.args()).count() == 1;
        if later.is_some() || !fresh {
            return Ok(());
        }
        check_repetition(&again, first, &second, before == self.world.held)
    }

    pub(super) async fn set_time(&mut self, ms: u64) {
        self.world.now = ms;
        for store in self.stores {
            store.set_time(ms).await;
        }
    }

    /// Sends a call to every store, and checks everything that can be checked.
    pub(super) async fn send(&mut self, sent: &Sent) -> Result<Answer, String> {
        let reply = self.stores[0].call(sent).await;
        let at = self.world.now;
        self.trace.push(Call { at, sent: sent.clone(), reply: reply.clone().ok() });
        let reply = reply.map_err(|error| format!("the store failed: {error}"))?;
        self.compare_answers(sent, &reply).await?;
        let answer = Answer::open(reply);
        if answer.done
            && sent.contract.args.contains(&"waitpoint_token")
            && !self.world.was_told(sent)
        {
            return Err("a token opened a waitpoint that it was not made for".to_owned());
        }
        *self.played.entry((sent.name(), answer.word.clone())).or_default() += 1;
        let after = self.stores[0].dump().await;
        let known = self.world.graphs.clone();
        self.world.graphs.learn(sent, &answer, View::new(&after, sent.partition));
        let seen = Seen {
            sent,
            answer: &answer,
            now: self.world.now,
            before: &self.world.held,
            after: &after,
            known: &known,
            graphs: &self.world.graphs,
            untouched: &self.untouched,
        };
        check(&seen)?;
        self.untouched.note(sent, &answer, &self.world.held);
        if after != self.world.held {
            let report = audit(&after, &config());
            if !report.is_clean() {
                return Err(report.to_string());
            }
            self.world.held = after;
        }
        Ok(answer)
    }

    async fn compare_answers(&self, sent: &Sent, reply: &Value) -> Result<(), String> {
        for other in &self.stores[1..] {
            let answer = other.call(sent).await.map_err(|error| error.to_string())?;
            if comparable(sent, &answer) != comparable(sent, reply) {
                let (here, there) = (self.stores[0].name(), other.name());
                return Err(format!("{here} gave {reply:?}\n{there} gave {answer:?}"));
            }
        }
        Ok(())
    }

    async fn compare_contents(&self) -> Result<(), String> {
        for other in &self.stores[1..] {
            let here = dump::portable(self.world.held.clone(), &ALL);
            let there = dump::portable(other.dump().await, &ALL);
            let (here, there) =
                (dump::common_end(here.clone(), &there), dump::common_end(there, &here));
            if here != there {
                let difference = dump::difference(&here, &there);
                let names = format!("{} and {}", self.stores[0].name(), other.name());
                return Err(format!("{names} hold different things:\n{difference}"));
            }
        }
        Ok(())
    }
}

/// A time to come: often the very moment at which something happens, or the one before.
fn later(dice: &mut Dice, world: &World) -> u64 {
    let view = View::new(&world.held, *dice.pick(&world.partitions));
    let times: Vec<u64> = view.timed().map(|(_, at)| at as u64).collect();
    let moment = times.get(dice.below(3) as usize).map(|at| at - dice.below(2));
    match moment.filter(|at| *at > world.now && dice.chance(60)) {
        Some(at) => at,
        None => {
            let top = *dice.pick(&[20, 20, 20, 2000, 2000, 60_000, HOUR, 50 * HOUR]);
            world.now + dice.below(top)
        }
    }
}

pub(super) fn config() -> PartitionConfig {
    PartitionConfig {
        num_flow_partitions: FLOW_PARTITIONS,
        num_budget_partitions: FLOW_PARTITIONS,
        num_quota_partitions: FLOW_PARTITIONS,
    }
}

/// A server names log entries by its own clock, not by the test's.
fn comparable(sent: &Sent, reply: &Value) -> Value {
    match (sent.name(), reply) {
        ("ff_read_events", Value::Array(parts)) => {
            let events = parts.iter().take(3).map(without_ids);
            Value::Array(events.collect())
        }
        // It begins where the log does, which each store trims by the age of its own entries.
        ("ff_read_flow_events", Value::Array(parts)) => Value::Array(parts[..2].to_vec()),
        _ => reply.clone(),
    }
}

fn without_ids(value: &Value) -> Value {
    let Value::Array(events) = value else { return value.clone() };
    let rest = |event: &Value| match event {
        Value::Array(fields) => Value::Array(fields[1..].to_vec()),
        other => other.clone(),
    };
    Value::Array(events.iter().map(rest).collect())
}
