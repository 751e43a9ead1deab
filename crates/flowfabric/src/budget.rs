//! `flowfabric budget`: how much may be used, and how much was.

use std::time::Duration;

use ff_sdk::{
    BudgetId, BudgetRecord, BudgetScope, Client, CreateBudget, DimensionLimits, DimensionUsage,
    ListBudgetUsage, ListBudgets, OnHardLimit, UpdateBudget,
};

use crate::failure::Failure;
use crate::remote::{Remote, block_on};
use crate::table::{Table, cut};
use crate::{output, time};

/// A page of a server.
const PAGE: u32 = 1000;
/// The cells of a bar.
const BAR: u64 = 20;
/// The cells of a bar in a table.
const SMALL_BAR: u64 = 8;
/// The widest cells of people's own words: with the others a line has 80 columns.
const NAME_MAX: usize = 16;
const SCOPE_MAX: usize = 14;
const DIMENSION_MAX: usize = 8;

/// What to do with budgets.
#[derive(clap::Subcommand)]
pub(crate) enum Command {
    /// Make a budget: it applies to executions of its scope that are created from then on.
    Create(Create),
    /// List budgets, with bars that show how full they are.
    Ls,
    /// Show a budget: its limits, what was used, and what happened lately.
    Show {
        /// The budget.
        id: BudgetId,
    },
    /// Give a budget other limits or rules. A limit that is raised frees what was blocked by it.
    Set(Set),
    /// Begin a budget anew.
    Reset {
        /// The budget.
        id: BudgetId,
    },
    /// List who has used a budget, latest first.
    Usage {
        /// The budget.
        id: BudgetId,
        /// How many at most.
        #[arg(long, value_name = "N", default_value_t = 50)]
        limit: u32,
    },
    /// Remove a budget: its limits do not hold any more.
    Rm {
        /// The budget.
        id: BudgetId,
    },
}

/// A new budget.
#[derive(clap::Args)]
pub(crate) struct Create {
    /// What it applies to, as in namespace=shop, lane=mail, kind=agent, flow=ID or execution=ID.
    #[arg(value_parser = scope, value_name = "SCOPE")]
    scope: (BudgetScope, String),
    #[command(flatten)]
    limits: Limits,
    /// A name for people.
    #[arg(long, default_value = "")]
    name: String,
    /// Its id, if you choose it: the same again changes nothing.
    #[arg(long)]
    id: Option<BudgetId>,
    /// What happens at a hard limit: block, fail, cancel or ask.
    #[arg(long, value_name = "ACTION", default_value = "block")]
    on_hard_limit: OnHardLimit,
    /// Begin anew after this time, again and again.
    #[arg(long, value_name = "TIME", value_parser = time::duration)]
    reset_every: Option<Duration>,
}

/// Other limits or rules.
#[derive(clap::Args)]
pub(crate) struct Set {
    /// The budget.
    id: BudgetId,
    #[command(flatten)]
    limits: Limits,
    /// What happens at a hard limit: block, fail, cancel or ask.
    #[arg(long, value_name = "ACTION")]
    on_hard_limit: Option<OnHardLimit>,
    /// Begin anew after this time, again and again; 0s for never.
    #[arg(long, value_name = "TIME", value_parser = time::duration)]
    reset_every: Option<Duration>,
}

#[derive(clap::Args)]
struct Limits {
    /// A hard limit, as in tokens=100000; may be given several times.
    #[arg(long, value_name = "DIMENSION=N", value_parser = amount)]
    hard: Vec<(String, u64)>,
    /// A soft limit, as in tokens=80000; may be given several times.
    #[arg(long, value_name = "DIMENSION=N", value_parser = amount)]
    soft: Vec<(String, u64)>,
}

impl Limits {
    /// These limits, if no dimension is given twice: one of the numbers would be lost.
    fn checked(&self) -> Result<&Self, Failure> {
        for (word, list) in [("hard", &self.hard), ("soft", &self.soft)] {
            for (place, (name, _)) in list.iter().enumerate() {
                if list[..place].iter().any(|(other, _)| other == name) {
                    let twice = format!("give {name} one {word} limit, not several");
                    return Err(Failure::not_understood(twice));
                }
            }
        }
        Ok(self)
    }
}

fn scope(text: &str) -> Result<(BudgetScope, String), String> {
    let (kind, id) = text.split_once('=').ok_or(
        "a scope is written TYPE=ID, as in kind=mail; types are namespace, lane, kind, flow and \
         execution",
    )?;
    Ok((kind.parse().map_err(|error| format!("{error}"))?, id.to_owned()))
}

fn amount(text: &str) -> Result<(String, u64), String> {
    let rule = "a limit is written DIMENSION=N";
    let (name, number) = text.split_once('=').ok_or(rule)?;
    Ok((name.to_owned(), number.replace('_', "").parse().map_err(|_| rule)?))
}

pub(crate) fn run(remote: &Remote, json: bool, command: &Command) -> Result<(), Failure> {
    block_on(async {
        let client = remote.client().await?;
        match command {
            Command::Create(create) => make(&client, json, create).await,
            Command::Ls => list(&client, json).await,
            Command::Show { id } => show(json, &client.describe_budget(*id).await?),
            Command::Set(set) => change(&client, json, set).await,
            Command::Reset { id } => {
                client.reset_budget(*id).await?;
                show(json, &client.describe_budget(*id).await?)
            }
            Command::Usage { id, limit } => usage(&client, json, *id, *limit).await,
            Command::Rm { id } => {
                let deleted = client.delete_budget(*id).await?;
                if json {
                    say!("{}", serde_json::to_string(&deleted)?);
                } else if !deleted.deleted {
                    note!("there is no budget {id}");
                }
                Ok(())
            }
        }
    })
}

async fn make(client: &Client, json: bool, options: &Create) -> Result<(), Failure> {
    let limits = options.limits.checked()?;
    if limits.hard.is_empty() && limits.soft.is_empty() {
        let rule = "give it a limit: --hard DIMENSION=N, --soft DIMENSION=N, or both";
        return Err(Failure::not_understood(rule));
    }
    let (scope_type, scope_id) = options.scope.clone();
    let mut budget = CreateBudget::new(scope_type, scope_id).on_hard_limit(options.on_hard_limit);
    budget.budget_id = options.id;
    budget.name.clone_from(&options.name);
    budget.reset_interval_ms = options.reset_every.map(time::millis);
    for (name, limit) in &limits.hard {
        budget = budget.hard(name, *limit);
    }
    for (name, limit) in &limits.soft {
        budget = budget.soft(name, *limit);
    }
    let created = client.create_budget(budget).await?;
    if json {
        say!("{}", serde_json::to_string(&created)?);
    } else {
        say!("{}", created.budget_id);
    }
    for failure in &created.failed {
        note!("partition {} does not know of it yet: {}", failure.partition, failure.reason);
    }
    Ok(())
}

/// What is not said about a dimension stays as it is.
async fn change(client: &Client, json: bool, options: &Set) -> Result<(), Failure> {
    let limits = options.limits.checked()?;
    let before = client.describe_budget(options.id).await?;
    let mut update = UpdateBudget {
        on_hard_limit: options.on_hard_limit,
        reset_interval_ms: options.reset_every.map(time::millis),
        ..UpdateBudget::default()
    };
    let said = |name: &String| {
        let before = before.dimensions.get(name).copied().unwrap_or_default();
        DimensionLimits { hard: before.hard, soft: before.soft }
    };
    for (name, limit) in &limits.hard {
        update.dimensions.entry(name.clone()).or_insert_with(|| said(name)).hard = Some(*limit);
    }
    for (name, limit) in &limits.soft {
        update.dimensions.entry(name.clone()).or_insert_with(|| said(name)).soft = Some(*limit);
    }
    show(json, &client.update_budget(options.id, update).await?)
}

async fn list(client: &Client, json: bool) -> Result<(), Failure> {
    let (mut all, mut cursor) = (Vec::new(), None);
    loop {
        let query = ListBudgets { cursor, limit: Some(PAGE) };
        let page = client.list_budgets(query).await?;
        all.extend(page.budgets);
        cursor = page.next_cursor;
        if cursor.is_none() {
            break;
        }
    }
    if json {
        for budget in &all {
            say!("{}", serde_json::to_string(budget)?);
        }
        return Ok(());
    }
    if output::is_quiet() {
        output::ids(all.iter().map(|budget| budget.budget_id));
        return Ok(());
    }
    if all.is_empty() {
        note!("there is no budget");
        return Ok(());
    }
    say!("{}", table(&all));
    Ok(())
}

/// A line for each dimension of each budget, of 80 columns at most.
fn table(budgets: &[BudgetRecord]) -> Table {
    let mut table = Table::new(&["budget", "applies to", "of", "used"]);
    for budget in budgets {
        let scope = format!("{}={}", budget.scope_type, budget.scope_id);
        for (name, usage) in &budget.dimensions {
            let (bar, percent) = bar(usage, SMALL_BAR).unwrap_or_default();
            table.row([
                budget.budget_id.to_string(),
                cut(&scope, SCOPE_MAX),
                cut(name, DIMENSION_MAX),
                format!("{bar} {percent:>3} %"),
            ]);
        }
    }
    table
}

/// `[########............]  40 % 400 of 1000`.
fn filled(usage: &DimensionUsage) -> String {
    match (bar(usage, BAR), usage.hard.or(usage.soft)) {
        (Some((bar, percent)), Some(limit)) => {
            format!("{bar} {percent:>3} % {} of {limit}", usage.used)
        }
        _ => usage.used.to_string(),
    }
}

/// A bar of so many cells, and how many per cent are used; none without a limit.
fn bar(usage: &DimensionUsage, width: u64) -> Option<(String, u128)> {
    let limit = usage.hard.or(usage.soft)?;
    let cells = |amount: u64| (amount.min(limit) * width).checked_div(limit).unwrap_or(width);
    let (used, taken) = (cells(usage.used), cells(usage.used.saturating_add(usage.reserved)));
    let bar: String = (0..width)
        .map(|cell| match cell {
            cell if cell < used => '#',
            cell if cell < taken => '+',
            _ => '.',
        })
        .collect();
    let percent = u128::from(usage.used) * 100 / u128::from(limit.max(1));
    Some((format!("[{bar}]"), percent))
}

fn show(json: bool, budget: &BudgetRecord) -> Result<(), Failure> {
    if json {
        say!("{}", serde_json::to_string(budget)?);
        return Ok(());
    }
    let line = |name: &str, value: &str| say!("{name:<12} {value}");
    line("budget", &budget.budget_id.to_string());
    if !budget.name.is_empty() {
        line("name", &budget.name);
    }
    line("scope", &format!("{} {}", budget.scope_type, budget.scope_id));
    line("at a limit", budget.on_hard_limit.as_str());
    if let Some(at) = budget.next_reset_at {
        line("begins anew", &time::moment(at));
    }
    for (name, usage) in &budget.dimensions {
        line(name, &filled(usage));
        if usage.reserved > 0 {
            line("", &format!("{} more are reserved by what runs (+)", usage.reserved));
        }
    }
    if budget.partitions_waiting.unwrap_or_default() > 0 {
        line("blocked", "executions wait for it");
    }
    for event in budget.events.iter().take(10) {
        line(&time::moment(event.at), &told(event));
    }
    Ok(())
}

fn told(event: &ff_sdk::BudgetEvent) -> String {
    let of = event.dimension.as_deref().unwrap_or_default();
    match (event.usage, event.limit) {
        (Some(usage), Some(limit)) => format!("{} {of}: {usage} of {limit}", event.event),
        _ => event.event.clone(),
    }
}

async fn usage(client: &Client, json: bool, id: BudgetId, limit: u32) -> Result<(), Failure> {
    let query = ListBudgetUsage { offset: None, limit: Some(limit) };
    let page = client.list_budget_usage(id, query).await?;
    if json {
        for one in &page.usage {
            say!("{}", serde_json::to_string(one)?);
        }
        return Ok(());
    }
    let mut table = Table::new(&["execution", "at", "dimension", "used", "reserved"]);
    for one in &page.usage {
        for (name, amount) in &one.dimensions {
            table.row([
                client.connection().shortest(one.execution_id).to_string(),
                time::moment(one.at),
                cut(name, NAME_MAX),
                amount.used.to_string(),
                amount.reserved.to_string(),
            ]);
        }
    }
    if page.usage.is_empty() {
        note!("nobody has used it");
    } else {
        say!("{table}");
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bar_shows_what_is_used_and_what_is_promised() {
        let usage = DimensionUsage { hard: Some(1000), soft: None, used: 400, reserved: 100 };
        assert_eq!(filled(&usage), "[########++..........]  40 % 400 of 1000");
        let over = DimensionUsage { used: 2000, ..usage };
        assert_eq!(filled(&over), "[####################] 200 % 2000 of 1000");
        let open = DimensionUsage { hard: None, ..usage };
        assert_eq!(filled(&open), "400");
    }

    #[test]
    fn scopes_and_limits_are_read_as_people_write_them() {
        assert_eq!(scope("kind=agent"), Ok((BudgetScope::Kind, "agent".to_owned())));
        assert!(scope("agent").is_err() && scope("team=a").is_err());
        assert_eq!(amount("tokens=100_000"), Ok(("tokens".to_owned(), 100_000)));
        assert!(amount("tokens").is_err() && amount("tokens=1.5").is_err());
    }
}
