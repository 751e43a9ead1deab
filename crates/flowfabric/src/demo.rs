//! `flowfabric demo`: a server, worker processes and a few dozen executions, told as a story whose
//! end is checked.

mod actor;
mod cast;
mod story;
mod troupe;
mod verdict;

pub(crate) use actor::{Actor, act};

use std::path::{Path, PathBuf};
use std::time::Duration;

use ff_backend_embedded::SyncMode;
use ff_sdk::{Client, ExecutionId};
use ff_server::{RunningServer, Server, ServerConfig, StoreConfig};

use crate::failure::Failure;
use crate::remote::Remote;
use crate::signals::Signals;
use actor::Deed;
use story::Story;
use troupe::Troupe;

/// Longer than the story takes on a slow machine.
const PATIENCE: Duration = Duration::from_secs(60);

/// Options of the demo.
#[derive(clap::Args)]
pub(crate) struct Options {
    /// Keep the data in this directory instead of a temporary one that is removed at the end.
    #[arg(long)]
    dir: Option<PathBuf>,
}

pub(crate) fn run(options: &Options, json: bool) -> Result<(), Failure> {
    let temporary = std::env::temp_dir().join(format!("flowfabric-demo-{}", std::process::id()));
    let dir = options.dir.as_ref().unwrap_or(&temporary);
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    // The workers are killed when the story is dropped, however it ends.
    let told = runtime.block_on(async {
        let mut signals = Signals::listen()?;
        tokio::select! {
            told = tell(dir, json) => told,
            () = signals.next() => Err(Failure::interrupted()),
        }
    });
    drop(runtime);
    if options.dir.is_none() {
        // It may not be there yet.
        let _ = std::fs::remove_dir_all(&temporary);
    } else if told.is_ok() && !json {
        say!("The data stays: flowfabric store check {}", dir.display());
    }
    told
}

async fn tell(dir: &Path, json: bool) -> Result<(), Failure> {
    let story = Story::begin(json);
    let server = serve(dir).await?;
    let url = format!("http://{}", server.local_addr());
    story.server_started(&url, dir);
    let mut troupe = Troupe::start(&url)?;
    story.workers_started(&troupe);
    let client = Remote::at(url).client().await?;
    let ids = submit(&client, &story).await?;

    let acted = tokio::time::timeout(PATIENCE, play(&client, &mut troupe, &story, &ids)).await;
    let killed = acted.map_err(|_| format!("the story did not end within {PATIENCE:?}"))??;
    let verdict = verdict::Verdict::reach(&client, &ids, &killed).await?;
    troupe.dismiss().await;
    server.shutdown(Duration::from_secs(2)).await;
    story.conclude(&verdict);
    verdict.check()
}

async fn serve(dir: &Path) -> Result<RunningServer, Failure> {
    let config = ServerConfig {
        listen: ([127, 0, 0, 1], 0).into(),
        store: StoreConfig::Embedded { dir: dir.to_owned(), sync: SyncMode::Always },
        ..ServerConfig::default()
    };
    Ok(Server::start(config).await?)
}

/// Submits everything at once; the one whose worker will be killed comes first.
async fn submit(client: &Client, story: &Story) -> Result<Vec<ExecutionId>, Failure> {
    let answers = client.submit_many(cast::submissions(client)).await;
    let mut ids = Vec::with_capacity(answers.len());
    for answer in answers {
        ids.push(answer?.execution_id());
    }
    story.submitted();
    Ok(ids)
}

/// Follows what the workers do until every execution has ended, and kills the one that takes the
/// orphan. Answers who that was.
async fn play(
    client: &Client,
    troupe: &mut Troupe,
    story: &Story,
    ids: &[ExecutionId],
) -> Result<String, Failure> {
    let mut killed = None;
    let ended = all_ended(client, ids);
    tokio::pin!(ended);
    loop {
        tokio::select! {
            ended = &mut ended => {
                ended?;
                while let Some(act) = troupe.already_heard() {
                    story.acted(&act, killed.as_deref());
                }
                return killed.ok_or_else(|| "nobody took the orphan".into());
            }
            act = troupe.next() => {
                story.acted(&act, killed.as_deref());
                if act.kind == cast::ORPHAN && act.deed == Deed::Took && killed.is_none() {
                    let pid = troupe.kill(&act.worker).await?;
                    story.killed(&act.worker, pid);
                    killed = Some(act.worker);
                }
            }
        }
    }
}

/// Waits until each has ended, one way or the other.
async fn all_ended(client: &Client, ids: &[ExecutionId]) -> Result<(), Failure> {
    for id in ids {
        // How it ended is looked at later.
        if let Err(error @ ff_sdk::AwaitError::Sdk(_)) = client.await_result_raw(id, PATIENCE).await
        {
            return Err(error.into());
        }
    }
    Ok(())
}
