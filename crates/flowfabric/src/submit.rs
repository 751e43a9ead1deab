//! `flowfabric submit`: one execution, or many.

mod inputs;
mod many;

use std::time::Duration;

use ff_core::contracts::{Tags, check_tags};
use ff_core::limits;
use ff_sdk::{Client, ExecutionPolicy, IfTaken, Submission};

use crate::failure::{EXIT_CODES, Failure};
use crate::input;
use crate::policy::PolicyFlags;
use crate::remote::{Remote, block_on};
use crate::wait::Wait;
use crate::{result, selection, time};
use inputs::Inputs;

/// What to submit.
#[derive(clap::Args)]
#[command(after_help = format!("{AFTER_HELP}\n\n{EXIT_CODES}"))]
pub(crate) struct Options {
    /// The kind of execution: which handler runs it.
    kind: String,
    /// The input: a text, @file, or - for standard input [default: nothing; - with --lines].
    #[arg(long, short)]
    input: Option<String>,
    /// Submit one for each line of the input. Empty lines are left out.
    #[arg(long, conflicts_with = "count")]
    lines: bool,
    /// Submit so many, all with the same input.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=10_000_000))]
    count: Option<u64>,
    /// The lane to wait in.
    #[arg(long, default_value = "default")]
    lane: String,
    /// The namespace it belongs to.
    #[arg(long, default_value = "default")]
    namespace: String,
    /// 0 to 9000; higher runs first.
    #[arg(long, default_value_t = 0, value_parser = priority)]
    priority: u16,
    /// Submitting the same key again answers the same execution. With --lines or --count the keys
    /// are KEY-1, KEY-2 and so on, so that a submission that was cut off can be repeated.
    #[arg(long, value_name = "KEY")]
    idempotency_key: Option<String>,
    /// Wait for a pause in the submissions under this key; each replaces the input.
    #[arg(long, value_name = "KEY", requires_all = ["debounce_delay", "debounce_max_wait"],
        conflicts_with_all = ["delay", "singleton", "idempotency_key"])]
    debounce: Option<String>,
    /// How long the pause must be.
    #[arg(long, value_name = "TIME", value_parser = time::duration, requires = "debounce")]
    debounce_delay: Option<Duration>,
    /// How long after the first submission it runs at the latest.
    #[arg(long, value_name = "TIME", value_parser = time::duration, requires = "debounce")]
    debounce_max_wait: Option<Duration>,
    /// One at a time under this key: while there is one, the answer is that one.
    #[arg(long, value_name = "KEY", conflicts_with = "idempotency_key")]
    singleton: Option<String>,
    /// Wait behind those under the same --singleton key instead.
    #[arg(long, requires = "singleton")]
    queue: bool,
    /// Not before so long from now.
    #[arg(long, value_name = "TIME", value_parser = time::duration)]
    delay: Option<Duration>,
    /// A tag, as in team.name=search; may be given several times.
    #[arg(long = "tag", value_name = "NAME=VALUE", value_parser = parse_tag)]
    tags: Vec<(String, String)>,
    #[command(flatten)]
    wait: Wait,
    #[command(flatten)]
    policy: PolicyFlags,
}

/// A priority in its range.
pub(crate) fn priority(text: &str) -> Result<u16, String> {
    let most = limits::PRIORITY_MAX;
    let number = text.parse::<u16>().ok().filter(|number| u64::from(*number) <= most);
    number.ok_or_else(|| format!("must be a number from 0 to {most}"))
}

const AFTER_HELP: &str = "\
Times are written 500ms, 30s, 10m, 2h, 1h30m or 7d. Of many, the results come one per line, in the \
order of the input.";

fn parse_tag(text: &str) -> Result<(String, String), String> {
    let (name, value) = text.split_once('=').ok_or("a tag is written NAME=VALUE")?;
    let tag = (name.to_owned(), value.to_owned());
    check_tags(&Tags::from([tag.clone()])).map_err(|error| selection::tag_refused(&error))?;
    Ok(tag)
}

pub(crate) fn run(remote: &Remote, json: bool, options: &Options) -> Result<(), Failure> {
    let nothing_said = if options.lines { "-" } else { "" };
    let bytes = input::read("--input", options.input.as_deref().unwrap_or(nothing_said))?;
    block_on(async {
        let template =
            Template { options, client: remote.client().await?, policy: options.policy.policy()? };
        match (options.lines, options.count) {
            (true, _) => many::submit(&template, &Inputs::lines(bytes), json).await,
            (false, Some(count)) => {
                many::submit(&template, &Inputs::repeated(bytes, count), json).await
            }
            (false, None) => submit_one(&template, bytes, json).await,
        }
    })
}

/// What all executions of a submission have in common.
struct Template<'a> {
    options: &'a Options,
    client: Client,
    policy: ExecutionPolicy,
}

impl Template<'_> {
    fn submission(&self, payload: Vec<u8>, idempotency_key: Option<String>) -> Submission {
        let options = self.options;
        let mut submission = self
            .client
            .submit_raw(&options.kind, payload)
            .lane(&options.lane)
            .namespace(&options.namespace)
            .priority(options.priority)
            .policy(self.policy.clone())
            .creator("cli");
        if let Some(key) = idempotency_key {
            submission = submission.idempotency_key(key);
        }
        if let Some(key) = &options.debounce {
            let delay = options.debounce_delay.unwrap_or_default();
            let max_wait = options.debounce_max_wait.unwrap_or_default();
            submission = submission.debounce(key, delay, max_wait);
        }
        if let Some(key) = &options.singleton {
            let if_taken = if options.queue { IfTaken::Queue } else { IfTaken::Skip };
            submission = submission.singleton(key, if_taken);
        }
        if let Some(delay) = options.delay {
            submission = submission.delay(delay);
        }
        for (name, value) in &options.tags {
            submission = submission.tag(name, value);
        }
        submission
    }
}

async fn submit_one(template: &Template<'_>, payload: Vec<u8>, json: bool) -> Result<(), Failure> {
    let options = template.options;
    let created = template.submission(payload, options.idempotency_key.clone()).send().await?;
    let id = created.execution_id();
    if options.wait.is_wanted() {
        return result::print(&template.client, id.into(), options.wait.limit(), json).await;
    }
    if json {
        say!("{}", serde_json::to_string(&created)?);
    } else {
        say!("{}", template.client.connection().shortest(id));
    }
    Ok(())
}
