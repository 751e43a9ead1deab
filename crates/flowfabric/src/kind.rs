//! `flowfabric kind`: the defaults of kinds and of the deployment.

use std::time::Duration;

use ff_core::limits;
use ff_sdk::{
    Client, ExecutionKind, ExecutionPolicy, KindChanged, KindRecord, SetDefaults, SetKind,
};

use crate::failure::Failure;
use crate::lane::everywhere;
use crate::output;
use crate::policy::{PolicyFlags, as_flags};
use crate::remote::{Remote, block_on};
use crate::table::{Table, cut};

/// The widest cells: with the other columns a line has 80 columns.
const NAME_MAX: usize = 14;
const TOLD_BY_MAX: usize = 12;
const DEFAULTS_MAX: usize = 42;

#[derive(clap::Subcommand)]
pub(crate) enum Command {
    /// List the kinds that have defaults, and the deployment's.
    Ls,
    /// Show the defaults of a kind.
    Show {
        /// The kind.
        kind: ExecutionKind,
    },
    /// Set what holds for a kind where a submission says nothing. It stays, whatever workers tell.
    Set(Options),
    /// Keep the defaults of a kind as they are, whatever workers tell.
    Pin {
        /// The kind.
        kind: ExecutionKind,
    },
    /// Let workers tell the defaults of a kind again.
    Unpin {
        /// The kind.
        kind: ExecutionKind,
    },
}

/// What holds for whom.
#[derive(clap::Args)]
pub(crate) struct Options {
    /// The kind.
    #[arg(required_unless_present = "all", conflicts_with = "all")]
    kind: Option<ExecutionKind>,
    /// For all kinds that say nothing themselves.
    #[arg(long)]
    all: bool,
    #[command(flatten)]
    policy: PolicyFlags,
}

pub(crate) fn run(remote: &Remote, json: bool, command: &Command) -> Result<(), Failure> {
    block_on(async {
        let client = remote.client().await?;
        match command {
            Command::Ls => list(&client, json).await,
            Command::Show { kind } => show(&client.describe_kind(kind).await?, json),
            Command::Set(options) => told(&set(&client, options).await?, json),
            Command::Pin { kind } => told(&pin(&client, kind, true).await?, json),
            Command::Unpin { kind } => told(&pin(&client, kind, false).await?, json),
        }
    })
}

async fn set(client: &Client, options: &Options) -> Result<KindChanged, Failure> {
    let policy = options.policy.policy()?;
    Ok(match &options.kind {
        None => client.set_defaults(SetDefaults { policy }).await?,
        // What says nothing needs no pin: it is forgotten.
        Some(kind) => {
            let pinned = policy != ExecutionPolicy::default();
            let request = SetKind { policy: Some(policy), pinned: Some(pinned) };
            client.set_kind(kind, request).await?
        }
    })
}

async fn pin(client: &Client, kind: &ExecutionKind, pinned: bool) -> Result<KindChanged, Failure> {
    Ok(client.set_kind(kind, SetKind { policy: None, pinned: Some(pinned) }).await?)
}

async fn list(client: &Client, json: bool) -> Result<(), Failure> {
    let list = client.list_kinds().await?;
    if json {
        say!("{}", serde_json::to_string(&list)?);
        return Ok(());
    }
    if output::is_quiet() {
        output::ids(list.kinds.iter().filter_map(|record| record.kind.as_ref()));
        return Ok(());
    }
    let mut table = Table::new(&["kind", "pinned", "told by", "defaults"]);
    for record in &list.kinds {
        let kind = record.kind.as_ref().map_or("", ExecutionKind::as_str);
        table.row([
            cut(kind, NAME_MAX),
            if record.pinned { "yes" } else { "no" }.to_owned(),
            record.told_by.as_ref().map_or("-".to_owned(), |by| cut(by.as_str(), TOLD_BY_MAX)),
            cut(&as_flags(&record.policy)?, DEFAULTS_MAX),
        ]);
    }
    if !list.kinds.is_empty() {
        say!("{table}");
    }
    if list.defaults != ExecutionPolicy::default() {
        say!("all kinds: {}", as_flags(&list.defaults)?);
    }
    let count = match list.kinds.len() {
        1 => "1 kind has defaults".to_owned(),
        count => format!("{count} kinds have defaults"),
    };
    note!("{count}; where nobody says anything: {}", built_in());
    Ok(())
}

/// What holds where nobody says anything.
pub(crate) fn built_in() -> String {
    let days = |ms| Duration::from_millis(ms).as_secs() / 86_400;
    format!(
        "no retries, {} reclaims, {} replays, kept for {} day, {} days after a failure, an \
         idempotency key for {} day (`flowfabric kind set --all` changes that)",
        limits::RECLAIMS_DEFAULT,
        limits::REPLAYS_DEFAULT,
        days(limits::RETENTION_MS_DEFAULT),
        days(limits::FAILED_RETENTION_MS_DEFAULT),
        days(limits::DEDUP_MS_DEFAULT),
    )
}

fn show(record: &KindRecord, json: bool) -> Result<(), Failure> {
    if json {
        say!("{}", serde_json::to_string(record)?);
        return Ok(());
    }
    say!("kind      {}", record.kind.as_ref().map_or("all", ExecutionKind::as_str));
    say!("pinned    {}", if record.pinned { "yes" } else { "no" });
    if let Some(by) = &record.told_by {
        say!("told by   {by}");
    }
    say!("defaults  {}", as_flags(&record.policy)?);
    Ok(())
}

fn told(changed: &KindChanged, json: bool) -> Result<(), Failure> {
    if json {
        say!("{}", serde_json::to_string(changed)?);
    } else {
        show(&changed.record, false)?;
    }
    everywhere(&changed.failed)
}
