//! Many at once: submitted in batches, and waited for together.

use std::collections::VecDeque;
use std::io::{BufWriter, Write};

use ff_api::create::BULK_MAX;
use ff_sdk::{Created, ExecutionId, ExecutionRef, SdkError};
use tokio::task::JoinHandle;
use tokio::time::Instant;

use super::Template;
use super::inputs::Inputs;
use crate::failure::Failure;
use crate::output;
use crate::progress_bar::ProgressBar;
use crate::result::{self, Outcome};
use crate::signals::Signals;

/// How many results are asked for at the same time.
const AHEAD: usize = 16;

type Out = BufWriter<output::Out>;

pub(super) async fn submit(
    template: &Template<'_>,
    inputs: &Inputs,
    json: bool,
) -> Result<(), Failure> {
    if inputs.len() == 0 {
        note!("there is no line to submit");
    }
    let mut out = BufWriter::new(output::Out::new());
    let submitted = submit_all(template, inputs, json, &mut out).await?;
    if template.options.wait.is_wanted() {
        wait_for_all(template, &submitted.ids, json, &mut out).await?;
    }
    out.flush()?;
    match submitted.refused {
        0 => Ok(()),
        refused => Err(format!("{refused} of {} were not submitted", inputs.len()).into()),
    }
}

#[derive(Default)]
struct Submitted {
    ids: Vec<ExecutionId>,
    refused: usize,
}

/// Submits batch after batch. An input that is refused is told of and does not stop the others;
/// a batch of which nothing was taken does.
async fn submit_all(
    template: &Template<'_>,
    inputs: &Inputs,
    json: bool,
    out: &mut Out,
) -> Result<Submitted, Failure> {
    let mut submitted = Submitted::default();
    let mut bar = ProgressBar::new("submitting", inputs.len() as u64, json);
    for first in (0..inputs.len()).step_by(BULK_MAX) {
        let numbers = first..inputs.len().min(first + BULK_MAX);
        let batch = numbers.clone().map(|index| {
            let key = template.options.idempotency_key.as_ref();
            let key = key.map(|key| format!("{key}-{}", index + 1));
            template.submission(inputs.get(index), key)
        });
        let answers = template.client.submit_many(batch).await;
        let none = answers.iter().all(Result::is_err);
        for (index, answer) in numbers.zip(answers) {
            take(template, index, answer, json, &mut submitted, out, none)?;
        }
        out.flush()?;
        let done = submitted.ids.len() as u64;
        bar.set(done, &format!("{done} of {}", inputs.len()));
    }
    Ok(submitted)
}

fn take(
    template: &Template<'_>,
    index: usize,
    answer: Result<Created, SdkError>,
    json: bool,
    submitted: &mut Submitted,
    out: &mut Out,
    none: bool,
) -> Result<(), Failure> {
    let created = match answer {
        Ok(created) => created,
        Err(error) if none => {
            let before = submitted.ids.len();
            return Err(format!("number {}: {error}; {before} were submitted", index + 1).into());
        }
        Err(error) => {
            eprintln!("flowfabric: number {}: {error}", index + 1);
            submitted.refused += 1;
            return Ok(());
        }
    };
    let id = created.execution_id();
    submitted.ids.push(id);
    if !template.options.wait.is_wanted() {
        match json {
            true => {
                serde_json::to_writer(&mut *out, &created)?;
                writeln!(out)?;
            }
            false => writeln!(out, "{}", template.client.connection().shortest(id))?,
        }
    }
    Ok(())
}

/// Prints the outcomes in the order of submission, each as soon as those before are known.
async fn wait_for_all(
    template: &Template<'_>,
    ids: &[ExecutionId],
    json: bool,
    out: &mut Out,
) -> Result<(), Failure> {
    let deadline = Instant::now() + template.options.wait.limit();
    let mut bar = ProgressBar::new("waiting", ids.len() as u64, json);
    let mut signals = Signals::listen()?;
    let mut asked = VecDeque::new();
    let mut left = ids.iter();
    let (mut not_completed, mut not_ended) = (0, 0);
    let mut told = false;
    for (index, id) in ids.iter().enumerate() {
        asked.extend(left.by_ref().take(AHEAD - asked.len()).map(|id| {
            let (client, name) = (template.client.clone(), ExecutionRef::from(id));
            let limit = deadline.saturating_duration_since(Instant::now());
            tokio::spawn(async move { Outcome::await_end(&client, name, limit).await })
        }));
        let Some(asked) = asked.pop_front() else { break };
        let outcome = tokio::select! {
            outcome = end_of(template, *id, asked, &mut told, &mut bar) => outcome?,
            () = signals.next() => {
                out.flush()?;
                drop(bar);
                return Err(left_alone(template, &ids[index..]));
            }
        };
        match outcome {
            Outcome::Completed(_) => {}
            Outcome::Ended(..) => not_completed += 1,
            Outcome::NotEnded => not_ended += 1,
        }
        print(template, *id, &outcome, json, out)?;
        bar.set(index as u64 + 1, &format!("{} of {}", index + 1, ids.len()));
    }
    out.flush()?;
    drop(bar);
    match (not_completed, not_ended) {
        (0, 0) => Ok(()),
        (0, count) => Err(Failure::not_yet(format!("{count} of {} have not ended", ids.len()))),
        (count, _) => {
            let all = ids.len();
            Err(Failure::not_completed(format!("{count} of {all} ended, but were not completed")))
        }
    }
}

/// How one ended. What keeps it from going on is told once for all of them.
async fn end_of(
    template: &Template<'_>,
    id: ExecutionId,
    mut asked: JoinHandle<Result<Outcome, Failure>>,
    told: &mut bool,
    bar: &mut ProgressBar,
) -> Result<Outcome, Failure> {
    tokio::select! {
        outcome = &mut asked => return outcome?,
        trouble = result::stuck(&template.client, ExecutionRef::from(id)), if !*told => {
            if let Some(trouble) = trouble {
                *told = true;
                bar.wipe();
                note!("{trouble}; still waiting");
            }
        }
    }
    asked.await?
}

/// How many ids are told to somebody who stops waiting.
const TOLD_MAX: usize = 20;

/// Who stops waiting may come back: the executions go on without them.
fn left_alone(template: &Template<'_>, rest: &[ExecutionId]) -> Failure {
    let told = rest.iter().take(TOLD_MAX).map(|id| template.client.connection().shortest(*id));
    let told = told.map(|name| format!("\n{name}")).collect::<String>();
    let more = match rest.len().saturating_sub(TOLD_MAX) {
        0 => String::new(),
        more => format!("\nand {more} more: see `flowfabric ls --kind {}`", template.options.kind),
    };
    Failure::interrupted_with(format!("{} were not waited for and go on:{told}{more}", rest.len()))
}

fn print(
    template: &Template<'_>,
    id: ExecutionId,
    outcome: &Outcome,
    json: bool,
    out: &mut Out,
) -> Result<(), Failure> {
    match (outcome, outcome.failure(template.client.connection().shortest(id))) {
        _ if json => writeln!(out, "{}", outcome.json(id)?)?,
        (Outcome::Completed(bytes), _) => {
            out.write_all(bytes)?;
            if !bytes.ends_with(b"\n") {
                writeln!(out)?;
            }
        }
        (_, Some(failure)) => eprintln!("flowfabric: {}", failure.message),
        (_, None) => {}
    }
    Ok(())
}
