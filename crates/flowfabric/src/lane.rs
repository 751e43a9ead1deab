//! `flowfabric lane`: the lanes, how much waits in them, and their settings.

use std::collections::BTreeMap;

use ff_sdk::{
    Client, LaneChanged, LaneDepth, LaneId, LaneOrder, LaneQuery, LaneSettings, PartitionFailure,
    SetLane, TimestampMs,
};

use crate::failure::Failure;
use crate::remote::{Remote, block_on};
use crate::table::{Table, cut};
use crate::{output, time};

/// A page of a server.
const PAGE: u32 = 1000;

/// The widest name: with the other columns a line has 80 columns.
const NAME_MAX: usize = 30;

#[derive(clap::Subcommand)]
pub(crate) enum Command {
    /// List the lanes in use or with settings.
    Ls,
    /// Show one lane.
    Show {
        /// The lane.
        lane: LaneId,
    },
    /// Hand nothing of a lane out any more; what runs goes on, and may finish.
    Pause {
        /// The lane.
        lane: LaneId,
    },
    /// Hand a paused lane's executions out again.
    Resume {
        /// The lane.
        lane: LaneId,
    },
    /// Change settings of a lane; what is not said stays as it is.
    Set(Options),
}

/// The settings.
#[derive(clap::Args)]
pub(crate) struct Options {
    /// The lane. It need not have been used.
    lane: LaneId,
    /// How many executions may wait in it, or none for any number; more are refused.
    #[arg(long, value_name = "N", value_parser = limit)]
    limit: Option<u64>,
    /// Share the lane fairly: by namespace, or by the tag of this name.
    #[arg(long, value_name = "KEY", conflicts_with = "in_order")]
    fair: Option<Option<String>>,
    /// Serve the highest priority first, then the oldest.
    #[arg(long)]
    in_order: bool,
    /// Of a fair lane: who gets more than one share, as in --weight gold=3. Replaces all weights;
    /// --weight none removes them.
    #[arg(long = "weight", value_name = "KEY=N", value_parser = weight)]
    weights: Vec<Weight>,
    /// How many claims of workers that take from several lanes this one gets, for each one of
    /// another lane; 1 unless it was set.
    #[arg(long, value_name = "N")]
    claim_weight: Option<u32>,
}

/// A number, or none.
fn limit(text: &str) -> Result<u64, String> {
    if text == "none" {
        return Ok(0);
    }
    text.parse().ok().filter(|limit| *limit > 0).ok_or_else(|| "must be a number or none".into())
}

/// Who has a weight, and which; nothing for the word none.
type Weight = Option<(String, u32)>;

fn weight(text: &str) -> Result<Weight, String> {
    if text == "none" {
        return Ok(None);
    }
    let read = text
        .rsplit_once('=')
        .and_then(|(key, number)| number.parse().ok().map(|number| (key.to_owned(), number)));
    read.map(Some).ok_or_else(|| "must be a key, = and a number".into())
}

impl Options {
    fn request(&self) -> SetLane {
        let order = match (&self.fair, self.in_order) {
            (Some(_), _) => Some(LaneOrder::Fair),
            (None, true) => Some(LaneOrder::InOrder),
            (None, false) => None,
        };
        let weights: BTreeMap<String, u32> = self.weights.iter().flatten().cloned().collect();
        SetLane {
            paused: None,
            waiting_max: self.limit,
            order,
            fair_by: self.fair.clone().flatten(),
            weights: (!self.weights.is_empty()).then_some(weights),
            claim_weight: self.claim_weight,
        }
    }
}

pub(crate) fn run(remote: &Remote, json: bool, command: &Command) -> Result<(), Failure> {
    block_on(async {
        let client = remote.client().await?;
        match command {
            Command::Ls => list(&client, json).await,
            Command::Show { lane } => show(&client.describe_lane(lane).await?, json),
            Command::Pause { lane } => change(&client, json, lane, SetLane::paused(true)).await,
            Command::Resume { lane } => change(&client, json, lane, SetLane::paused(false)).await,
            Command::Set(options) => change(&client, json, &options.lane, options.request()).await,
        }
    })
}

async fn list(client: &Client, json: bool) -> Result<(), Failure> {
    let lanes = fetch(client).await?;
    if json {
        for lane in &lanes {
            say!("{}", serde_json::to_string(lane)?);
        }
        return Ok(());
    }
    if output::is_quiet() {
        output::ids(lanes.iter().map(|lane| &lane.lane));
        return Ok(());
    }
    let now = time::now();
    let mut table = Table::new(&["lane", "waiting", "oldest", "state", "order", "limit"]);
    for lane in &lanes {
        let settings = lane.settings.clone().unwrap_or_default();
        table.row([
            cut(lane.lane.as_str(), NAME_MAX),
            lane.waiting.to_string(),
            age(lane, now),
            state(&settings).to_owned(),
            order(&settings),
            settings.waiting_max.map_or("-".to_owned(), |limit| limit.to_string()),
        ]);
    }
    if !lanes.is_empty() {
        say!("{table}");
    }
    note!("{} lane{}", lanes.len(), if lanes.len() == 1 { "" } else { "s" });
    Ok(())
}

async fn fetch(client: &Client) -> Result<Vec<LaneDepth>, Failure> {
    let (mut lanes, mut cursor) = (Vec::new(), None);
    loop {
        let query = LaneQuery { cursor, limit: Some(PAGE), partition: None };
        let page = client.list_lanes(query).await?;
        lanes.extend(page.lanes);
        cursor = page.next_cursor;
        if cursor.is_none() {
            return Ok(lanes);
        }
    }
}

fn show(lane: &LaneDepth, json: bool) -> Result<(), Failure> {
    if json {
        say!("{}", serde_json::to_string(lane)?);
        return Ok(());
    }
    say!("lane     {}", lane.lane);
    say!("waiting  {}", lane.waiting);
    say!("oldest   {}", age(lane, time::now()));
    say_settings(&lane.settings.clone().unwrap_or_default());
    Ok(())
}

fn say_settings(settings: &LaneSettings) {
    match settings.paused_at {
        Some(at) => say!("state    paused since {}", time::moment(at)),
        None => say!("state    open"),
    }
    say!("order    {}", order(settings));
    for (key, weight) in &settings.weights {
        say!("weight   {key}={weight}");
    }
    if let Some(weight) = settings.claim_weight {
        say!("claims   {weight} for one of another lane");
    }
    match settings.waiting_max {
        Some(limit) => say!("limit    {limit}"),
        None => say!("limit    none"),
    }
}

fn age(lane: &LaneDepth, now: TimestampMs) -> String {
    lane.head_created_at.map_or("-".to_owned(), |at| time::span(at, now))
}

fn state(settings: &LaneSettings) -> &'static str {
    if settings.paused_at.is_some() { "paused" } else { "open" }
}

fn order(settings: &LaneSettings) -> String {
    match settings.order {
        LaneOrder::InOrder => "in order".to_owned(),
        LaneOrder::Fair => {
            format!("fair by {}", settings.fair_by.as_deref().unwrap_or("namespace"))
        }
    }
}

async fn change(
    client: &Client,
    json: bool,
    lane: &LaneId,
    request: SetLane,
) -> Result<(), Failure> {
    let LaneChanged { lane, settings, failed } = client.set_lane(lane, request).await?;
    if json {
        let changed = LaneChanged { lane, settings, failed: failed.clone() };
        say!("{}", serde_json::to_string(&changed)?);
    } else {
        say!("lane     {lane}");
        say_settings(&settings);
    }
    everywhere(&failed)
}

/// A failure if partitions do not know of a change yet.
pub(crate) fn everywhere(failed: &[PartitionFailure]) -> Result<(), Failure> {
    for failure in failed {
        eprintln!("partition {}: {}", failure.partition, failure.reason);
    }
    match failed.len() {
        0 => Ok(()),
        count => Err(format!(
            "{count} partitions do not know of it yet: the servers tell them, or do it again"
        )
        .into()),
    }
}
