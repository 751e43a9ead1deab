//! Cancelling and replaying all that pass a filter: a page at a time, so that each request is short
//! and what is done so far can be told.

use ff_core::contracts::{CancelMany, ManyChanged, RefusedChange, ReplayMany};
use ff_core::error::EngineError;
use ff_sdk::{Client, ListFilter, SdkError};

use super::{Options, requested_by};
use crate::failure::Failure;
use crate::progress_bar::ProgressBar;

/// How many a request changes at most.
const PAGE: u32 = 500;
/// How many refusals a person reads.
const REFUSALS_SHOWN: usize = 10;

/// What was done on all pages together.
#[derive(Default)]
struct Sum {
    found: u64,
    changed: u64,
    refused: Vec<RefusedChange>,
}

impl Sum {
    fn add(&mut self, page: ManyChanged) -> Option<String> {
        self.found += u64::from(page.found);
        self.changed += u64::from(page.changed);
        self.refused.extend(page.refused);
        page.next_cursor
    }

    fn note(&self, done: &str) -> String {
        match self.refused.len() {
            0 => format!("{} {done}", self.changed),
            refused => format!("{} {done}, {refused} refused", self.changed),
        }
    }
}

pub(super) async fn cancel(client: &Client, json: bool, options: &Options) -> Result<(), Failure> {
    let engine = client.connection().engine();
    let page = |filter, dry_run| {
        let reason = options.reason.clone();
        engine.cancel_many(CancelMany { filter, reason, dry_run, request_id: None })
    };
    let words = Words { doing: "cancelling", done: "cancelled" };
    all(client, json, options, words, page).await
}

pub(super) async fn replay(client: &Client, json: bool, options: &Options) -> Result<(), Failure> {
    if !options.selection.state.is_some_and(|state| state.is_terminal()) {
        let states = "completed, failed, cancelled, expired or skipped";
        return Err(Failure::not_understood(format!("say which to replay: --state {states}")));
    }
    let engine = client.connection().engine();
    let page = |filter, dry_run| {
        let (reason, requested_by) = (options.reason.clone(), requested_by());
        engine.replay_many(ReplayMany { filter, reason, requested_by, dry_run, request_id: None })
    };
    let words = Words { doing: "replaying", done: "replayed" };
    all(client, json, options, words, page).await
}

/// What it is called.
#[derive(Clone, Copy)]
struct Words {
    doing: &'static str,
    done: &'static str,
}

async fn all<F>(
    client: &Client,
    json: bool,
    options: &Options,
    words: Words,
    page: impl Fn(ListFilter, bool) -> F,
) -> Result<(), Failure>
where
    F: Future<Output = Result<ManyChanged, EngineError>>,
{
    let filter = options.selection.filter();
    let counted =
        walk(&filter, ProgressBar::new("looking", None, json), words, |it| page(it, true));
    let total = counted.await?.found;
    if options.dry_run {
        return tell_count(json, total, words);
    }
    let bar = ProgressBar::new(words.doing, total, json);
    let sum = walk(&filter, bar, words, |it| page(it, false)).await?;
    tell(client, json, &sum, words)
}

/// Page by page to the end.
async fn walk<F>(
    filter: &ListFilter,
    mut bar: ProgressBar,
    words: Words,
    page: impl Fn(ListFilter) -> F,
) -> Result<Sum, Failure>
where
    F: Future<Output = Result<ManyChanged, EngineError>>,
{
    let (mut sum, mut cursor) = (Sum::default(), None);
    loop {
        let asked = ListFilter { cursor, limit: Some(PAGE), ..filter.clone() };
        let told =
            page(asked).await.map_err(|error| SdkError::from(error.in_context(words.doing)))?;
        cursor = sum.add(told);
        let note =
            if sum.changed == 0 { format!("{} found", sum.found) } else { sum.note(words.done) };
        bar.set(sum.found, &note);
        if cursor.is_none() {
            return Ok(sum);
        }
    }
}

fn tell_count(json: bool, found: u64, words: Words) -> Result<(), Failure> {
    if json {
        say!("{}", serde_json::json!({ "found": found, "dry_run": true }));
    } else {
        say!("{found} would be {}", words.done);
    }
    Ok(())
}

fn tell(client: &Client, json: bool, sum: &Sum, words: Words) -> Result<(), Failure> {
    if json {
        let Sum { found, changed, refused } = sum;
        say!("{}", serde_json::json!({ "found": found, "changed": changed, "refused": refused }));
        return Ok(());
    }
    say!("{}", sum.note(words.done));
    for one in sum.refused.iter().take(REFUSALS_SHOWN) {
        let name = client.connection().shortest(one.execution_id);
        note!("{name}: {}: {}", one.code, one.detail);
    }
    Ok(())
}
