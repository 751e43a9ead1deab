//! `flowfabric quota`: how many may begin within a window, and how many may run at a time.

use std::time::Duration;

use ff_sdk::{
    Client, CreateQuota, QuotaHoldersQuery, QuotaLimits, QuotaPolicyId, QuotaQuery, QuotaRecord,
};

use crate::failure::Failure;
use crate::remote::{Remote, block_on};
use crate::table::Table;
use crate::{output, time};

/// The cells of a bar.
const BAR: u64 = 20;

/// What to do with quota policies.
#[derive(clap::Subcommand)]
pub(crate) enum Command {
    /// Make a quota policy.
    Create {
        #[command(flatten)]
        limits: Limits,
        /// Its id; a new one if absent.
        #[arg(long)]
        id: Option<QuotaPolicyId>,
    },
    /// List the quota policies.
    Ls,
    /// Show a policy, and how full a key of it is.
    Show {
        /// The policy.
        id: QuotaPolicyId,
        /// The key.
        #[arg(long, default_value = "")]
        key: String,
    },
    /// Give a policy other limits; what is not said is not limited any more.
    Set {
        /// The policy.
        id: QuotaPolicyId,
        #[command(flatten)]
        limits: Limits,
    },
    /// List who runs under a key of a policy, longest first.
    Holders {
        /// The policy.
        id: QuotaPolicyId,
        /// The key.
        #[arg(long, default_value = "")]
        key: String,
    },
    /// Remove a policy: its limits do not hold any more.
    Rm {
        /// The policy.
        id: QuotaPolicyId,
    },
}

/// The limits of every key of a policy.
#[derive(clap::Args)]
pub(crate) struct Limits {
    /// How many may run at a time.
    #[arg(long, value_name = "N")]
    concurrent: Option<u64>,
    /// How many may begin within the window.
    #[arg(long, value_name = "N", requires = "window")]
    rate: Option<u64>,
    /// How long the window is, in whole seconds.
    #[arg(long, value_name = "TIME", value_parser = window, requires = "rate")]
    window: Option<u64>,
    /// By how much the opening of a full window is scattered.
    #[arg(long, value_name = "TIME", value_parser = time::duration)]
    jitter: Option<Duration>,
}

/// The seconds of a window.
fn window(text: &str) -> Result<u64, String> {
    let window = time::duration(text)?;
    let whole = window.subsec_nanos() == 0 && !window.is_zero();
    if whole { Ok(window.as_secs()) } else { Err("must be whole seconds, 1s or more".to_owned()) }
}

impl Limits {
    /// A policy without any limit would be none.
    fn must_limit(&self) -> Result<(), Failure> {
        if self.concurrent.is_none() && self.rate.is_none() {
            let rule = "give it a limit: --concurrent N, --rate N with --window TIME, or both";
            return Err(Failure::not_understood(rule));
        }
        Ok(())
    }

    fn read(&self) -> QuotaLimits {
        QuotaLimits {
            window_seconds: self.window,
            max_requests_per_window: self.rate,
            max_concurrent: self.concurrent,
            jitter_ms: self.jitter.map(time::millis),
        }
    }
}

pub(crate) fn run(remote: &Remote, json: bool, command: &Command) -> Result<(), Failure> {
    block_on(async {
        let client = remote.client().await?;
        match command {
            Command::Create { limits, id } => {
                limits.must_limit()?;
                let quota = CreateQuota { quota_policy_id: *id, limits: limits.read() };
                let made = client.create_quota(quota).await?;
                if json {
                    say!("{}", serde_json::to_string(&made)?);
                } else {
                    say!("{}", made.quota_policy_id);
                }
                Ok(())
            }
            Command::Ls => list(&client, json).await,
            Command::Show { id, key } => {
                show(&client.describe_quota(*id, QuotaQuery::of(key)).await?, json)
            }
            Command::Set { id, limits } => {
                client.update_quota(*id, limits.read()).await?;
                show(&client.describe_quota(*id, QuotaQuery::default()).await?, json)
            }
            Command::Holders { id, key } => holders(&client, json, *id, key).await,
            Command::Rm { id } => {
                let removed = client.delete_quota(*id).await?;
                if json {
                    say!("{}", serde_json::to_string(&removed)?);
                } else {
                    say!("{}", if removed.deleted { "removed" } else { "was not there" });
                }
                Ok(())
            }
        }
    })
}

async fn list(client: &Client, json: bool) -> Result<(), Failure> {
    let quotas = client.list_quotas().await?;
    if json {
        for quota in &quotas {
            say!("{}", serde_json::to_string(quota)?);
        }
        return Ok(());
    }
    if output::is_quiet() {
        output::ids(quotas.iter().map(|quota| quota.quota_policy_id));
        return Ok(());
    }
    if quotas.is_empty() {
        note!("there is no quota");
        return Ok(());
    }
    let mut table = Table::new(&["QUOTA", "AT A TIME", "WITHIN WINDOW"]);
    for quota in quotas {
        let at_once =
            quota.limits.max_concurrent.map_or_else(|| "-".to_owned(), |it| it.to_string());
        table.row([quota.quota_policy_id.to_string(), at_once, rate_of(&quota.limits)]);
    }
    say!("{table}");
    Ok(())
}

/// As in 10 in 60 s.
fn rate_of(limits: &QuotaLimits) -> String {
    match (limits.max_requests_per_window, limits.window_seconds) {
        (Some(rate), Some(window)) => format!("{rate} in {window} s"),
        _ => "-".to_owned(),
    }
}

fn show(quota: &QuotaRecord, json: bool) -> Result<(), Failure> {
    if json {
        say!("{}", serde_json::to_string(quota)?);
        return Ok(());
    }
    say!("quota     {}", quota.quota_policy_id);
    say!("key       {}", if quota.key.is_empty() { "(the empty one)" } else { &quota.key });
    if let Some(most) = quota.limits.max_concurrent {
        say!("running   {} {} of {most}", bar(quota.running, most), quota.running);
    }
    if let Some(most) = quota.limits.max_requests_per_window {
        let rate = rate_of(&quota.limits);
        say!("begun     {} {} of {rate}", bar(quota.in_window, most), quota.in_window);
    }
    if let Some(at) = quota.opens_at {
        say!("opens     {}", time::moment(at));
    }
    let awaited = match (quota.keys_awaited, quota.partitions_waiting) {
        (0, _) => "no key".to_owned(),
        (1, 1..) => "this key".to_owned(),
        (keys, 0) => format!("{keys} other keys"),
        (keys, _) => format!("this key, and {} others", keys.saturating_sub(1)),
    };
    say!("awaited   {awaited}");
    Ok(())
}

/// How full something is.
fn bar(used: u64, most: u64) -> String {
    let full = (used.min(most) * BAR).div_ceil(most.max(1));
    (0..BAR).map(|cell| if cell < full { '#' } else { '.' }).collect()
}

async fn holders(client: &Client, json: bool, id: QuotaPolicyId, key: &str) -> Result<(), Failure> {
    let query = QuotaHoldersQuery { key: key.to_owned(), limit: Some(1000) };
    let found = client.list_quota_holders(id, query).await?;
    if json {
        say!("{}", serde_json::to_string(&found)?);
        return Ok(());
    }
    if output::is_quiet() {
        let short = |id| client.connection().shortest(id);
        output::ids(found.holders.iter().map(|holder| short(holder.execution_id)));
        return Ok(());
    }
    if found.holders.is_empty() {
        note!("nobody runs under it");
        return Ok(());
    }
    let mut table = Table::new(&["EXECUTION", "SINCE"]);
    for holder in found.holders {
        let id = client.connection().shortest(holder.execution_id).to_string();
        table.row([id, time::moment(holder.since)]);
    }
    say!("{table}");
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::bar;

    #[test]
    fn a_bar_is_full_when_the_limit_is_reached() {
        assert_eq!(bar(0, 10), "....................");
        assert_eq!(bar(1, 10), "##..................");
        assert_eq!(bar(1, 1000), "#...................", "something is seen as something");
        assert_eq!(bar(10, 10), "####################");
        assert_eq!(bar(12, 10), "####################");
    }
}
