//! What partitions owe to each other, as ticks hand it out: carried out late, twice, in any order
//! or not at all, by whoever comes across it.

use ff_core::partition::Partition;
use ff_core::types::ExecutionId;
use ff_script::calls::gate::OpenGate;
use ff_script::calls::quota::{ForgetAdmission, ReleaseAdmission};
use ff_script::calls::stop::NoteBudgetsReached;
use ff_script::calls::usage::{ForgetUsage, ReleaseBudget};
use ff_script::calls::waiting::{AwaitGates, SettleOpenings};
use ff_script::dump::Dump;
use ff_script::value::Value;
use ff_script::wire::Rest;

use super::choose::on;
use super::dice::Dice;
use super::sent::Sent;
use super::view::View;
use super::world::{BUDGETS, QUOTAS};
use crate::answer::Answer;

/// What was handed out.
#[derive(Default)]
pub(super) struct Debts {
    all: Vec<Debt>,
    /// What the latest call carries out: debts, and which of their calls.
    carried: Vec<(usize, usize)>,
}

/// One entry of an outbox, with the calls that carry it out.
#[derive(Clone, Debug)]
struct Debt {
    from: Partition,
    entry: String,
    calls: Vec<Sent>,
    done: Vec<bool>,
    /// It was acknowledged to where it was written.
    settled: bool,
}

impl Debt {
    fn is_open(&self) -> bool {
        self.done.contains(&false)
    }

    /// Who is gone is forgotten a minute after its end: its leases are known to be over then.
    fn comes_later(&self, held: &Dump) -> bool {
        let Some(rest) = self.entry.strip_prefix("forget:") else { return false };
        let release = format!("release:{}", &rest[..37]);
        let outbox = View::new(held, self.from).ranked("outbox");
        outbox.iter().any(|(entry, _)| entry.starts_with(&release))
    }
}

impl Debts {
    /// A call that carries out something that was handed out, often together with others for the
    /// same receiver.
    pub(super) fn choose(&mut self, dice: &mut Dice, held: &Dump) -> Option<Sent> {
        let places: Vec<(usize, usize)> = self.places(held, |_, _| true);
        let open = |(debt, call): &(usize, usize)| !self.all[*debt].done[*call];
        let first = *dice.likely(&places, open)?;
        let mut sent = self.call(first);
        self.carried = vec![first];
        for other in self.places(held, |debt, call| !debt.done[call]) {
            let call = self.call(other);
            let same = call.name() == sent.name() && call.partition == sent.partition;
            if same && other != first && call.is_list() && dice.chance(50) {
                sent = sent.joined(&call);
                self.carried.push(other);
            }
        }
        Some(sent)
    }

    /// The next call that is still to be made; none if nothing is left.
    pub(super) fn next(&mut self, held: &Dump) -> Option<Sent> {
        let first = *self.places(held, |debt, call| !debt.done[call]).first()?;
        self.carried = vec![first];
        Some(self.call(first))
    }

    /// Another call follows: what it is answered has nothing to do with debts.
    pub(super) fn put_down(&mut self) {
        self.carried.clear();
    }

    /// The entries of a partition that were carried out, as far as the dice say so.
    pub(super) fn settled(&self, from: Partition, dice: &mut Dice) -> Vec<Vec<u8>> {
        let mut entries = self.finished(from);
        entries.retain(|_| dice.chance(80));
        entries
    }

    /// All entries of a partition that were carried out and are still to be acknowledged. An
    /// opening is acknowledged by what came of it.
    pub(super) fn finished(&self, from: Partition) -> Vec<Vec<u8>> {
        let over = self.all.iter().filter(|debt| {
            debt.from == from
                && !debt.settled
                && !debt.is_open()
                && !debt.entry.starts_with("open:")
        });
        over.map(|debt| debt.entry.clone().into_bytes()).collect()
    }

    fn places(&self, held: &Dump, fits: impl Fn(&Debt, usize) -> bool) -> Vec<(usize, usize)> {
        let calls = |(place, debt): (usize, &Debt)| {
            let fitting = (0..debt.calls.len()).filter(|call| fits(debt, *call));
            fitting.map(|call| (place, call)).collect::<Vec<_>>()
        };
        let all = self.all.iter().enumerate().filter(|(_, debt)| !debt.comes_later(held));
        all.flat_map(calls).collect()
    }

    fn call(&self, (debt, call): (usize, usize)) -> Sent {
        self.all[debt].calls[call].clone()
    }

    pub(super) fn learn(&mut self, sent: &Sent, answer: &Answer) {
        if !answer.done {
            return;
        }
        for (debt, call) in self.carried.clone() {
            // What is carried out a second time was done already.
            if self.all[debt].calls[call].name() == sent.name() {
                self.all[debt].done[call] = true;
                self.opened(debt, sent, answer);
            }
        }
        if sent.name() == "ff_tick" {
            let own = self.all.iter_mut().filter(|debt| debt.from == sent.partition);
            for debt in own {
                let named = sent.rest().iter().any(|it| it.as_slice() == debt.entry.as_bytes());
                debt.settled |= named;
            }
        }
        for (entry, told) in handed_out(sent, answer) {
            self.add(sent.partition, &entry, &told);
        }
    }

    /// What came of an opening is told to where it was written.
    fn opened(&mut self, place: usize, sent: &Sent, answer: &Answer) {
        let debt = &mut self.all[place];
        if sent.name() != "ff_open_gate" || debt.calls.len() > 1 {
            return;
        }
        let told = answer.values.iter().map(super::quotas::shown);
        let items = [sent.text("gate").to_owned(), debt.entry.clone()].into_iter().chain(told);
        let call = SettleOpenings { items: Rest(items.collect()) };
        debt.calls.push(Sent::of(debt.from, &call));
        debt.done.push(false);
    }

    fn add(&mut self, from: Partition, entry: &str, told: &str) {
        let calls = calls(from, entry, told);
        match self.all.iter_mut().find(|debt| debt.from == from && debt.entry == entry) {
            // Who waits is told with the score as it is now.
            Some(debt) if debt.is_open() && entry.starts_with("wait:") => debt.calls = calls,
            Some(_) => {}
            None => {
                let done = vec![false; calls.len()];
                self.all.push(Debt { from, entry: entry.to_owned(), calls, done, settled: false });
            }
        }
    }
}

/// The entries that an answer hands out, each with what is to be told with it.
fn handed_out(sent: &Sent, answer: &Answer) -> Vec<(String, String)> {
    let Some(Value::Array(values)) = answer.values.last() else { return Vec::new() };
    let texts: Vec<String> = values.iter().map(super::quotas::shown).collect();
    match sent.name() {
        "ff_tick" => texts.chunks(2).map(|pair| (pair[0].clone(), pair[1].clone())).collect(),
        "ff_release_admission"
        | "ff_release_budget"
        | "ff_forget_usage"
        | "ff_await_gates"
        | "ff_settle_openings" => texts.into_iter().map(|entry| (entry, String::new())).collect(),
        _ => Vec::new(),
    }
}

/// The calls that carry out an entry, one for each receiver.
fn calls(from: Partition, entry: &str, told: &str) -> Vec<Sent> {
    let parts: Vec<&str> = entry.splitn(5, ':').collect();
    let id = |uuid: &str| {
        ExecutionId::from_parts(from, uuid.parse().expect("an entry names a uuid")).to_string()
    };
    match parts[0] {
        "release" => {
            let (id, epoch, used) = (id(parts[1]), parts[2].to_owned(), parts[3].to_owned());
            let release = |gate: &[String]| release(gate, &id, &epoch, &used);
            unpacked(parts[4]).chunks(3).map(release).collect()
        }
        "forget" => {
            let id = id(parts[1]);
            let packed = entry.splitn(3, ':').nth(2).expect("an entry names gates");
            unpacked(packed).chunks(3).map(|gate| forget(gate, &id)).collect()
        }
        "wait" => {
            let home = if parts[4].starts_with('q') { QUOTAS } else { BUDGETS };
            let items = [parts[4].to_owned(), from.index.to_string(), told.to_owned()];
            vec![Sent::of(home, &AwaitGates { items: Rest(items.to_vec()) })]
        }
        "open" => {
            let partition = Partition::flow(parts[2].parse().expect("an entry names a partition"));
            let count = parts[3].parse().expect("an entry has a count");
            vec![Sent::of(partition, &OpenGate { gate: parts[4].to_owned(), count })]
        }
        "reached" => vec![reached(parts[1], parts[2], parts[3], parts[4])],
        other => panic!("nobody owes {other}"),
    }
}

fn release(gate: &[String], id: &str, epoch: &str, used: &str) -> Sent {
    let [letter, own, key] = gate else { panic!("a gate has three parts") };
    let texts = |texts: &[&str]| Rest(texts.iter().map(|text| (*text).to_owned()).collect());
    match letter.as_str() {
        "q" => Sent::of(QUOTAS, &ReleaseAdmission { items: texts(&[own, key, id, epoch, used]) }),
        _ => Sent::of(BUDGETS, &ReleaseBudget { items: texts(&[own, id, epoch]) }),
    }
}

fn forget(gate: &[String], id: &str) -> Sent {
    let [letter, own, key] = gate else { panic!("a gate has three parts") };
    let texts = |texts: &[&str]| Rest(texts.iter().map(|text| (*text).to_owned()).collect());
    match letter.as_str() {
        "q" => Sent::of(QUOTAS, &ForgetAdmission { items: texts(&[own, key, id]) }),
        _ => Sent::of(BUDGETS, &ForgetUsage { items: texts(&[own, id]) }),
    }
}

/// How hard limits stand is told to who runs; behind the epoch come the budget and the execution.
fn reached(is_reached: &str, order: &str, epoch: &str, rest: &str) -> Sent {
    let (budget, id) = rest.split_once(':').expect("an entry names a budget and an execution");
    let items = [id, epoch, budget, order, is_reached].map(str::to_owned);
    let id: ExecutionId = id.parse().expect("an entry names an execution");
    on(id, &NoteBudgetsReached { items: Rest(items.to_vec()) })
}

/// Texts that stand each behind its length.
fn unpacked(packed: &str) -> Vec<String> {
    let (mut rest, mut texts) = (packed, Vec::new());
    while let Some((length, behind)) = rest.split_once(':') {
        let (text, behind) = behind.split_at(length.parse().expect("a text has its length"));
        texts.push(text.to_owned());
        rest = behind;
    }
    texts
}
