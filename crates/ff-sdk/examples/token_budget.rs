//! An agent with a token budget: it stops at the limit, asks, is approved and goes on.
//!
//! `cargo run -p ff-sdk --example token_budget`

use std::error::Error;
use std::time::Duration;

use ff_sdk::{
    BackendConfig, BudgetScope, Client, Context, CreateBudget, ExecutionId, FlowFabricAdminClient,
    MakeApprovalLinks, OnHardLimit, PublicState, ReportUsageResult, TaskResult, UsageDimensions,
    Worker,
};
use ff_server::{Server, ServerConfig, StoreConfig};

const STEPS: u32 = 5;
const TOKENS_PER_STEP: u64 = 300;

/// Thinks in steps. Each is reported under its own name, so that what was paid for before a pause
/// is not paid for again.
async fn agent(context: Context, question: String) -> TaskResult<String> {
    for step in 1..=STEPS {
        let used = UsageDimensions::new().with("tokens", TOKENS_PER_STEP);
        let told = context.usage().report(used.dedup_key(format!("step-{step}"))).await?;
        if told != ReportUsageResult::AlreadyApplied {
            println!("step {step}: {TOKENS_PER_STEP} tokens");
        }
    }
    Ok(format!("{question} 42"))
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let listen = ([127, 0, 0, 1], 0).into();
    let config = ServerConfig { listen, store: StoreConfig::memory(), ..ServerConfig::default() };
    let server = Server::start(config).await?;
    let url = format!("http://{}", server.local_addr());
    let client = Client::connect(BackendConfig::server(&url, None)).await?;

    let budget = CreateBudget::new(BudgetScope::Kind, "agent")
        .hard("tokens", 1000)
        .on_hard_limit(OnHardLimit::Ask);
    let budget_id = client.create_budget(budget).await?.budget_id;

    let builder = Worker::builder("thinker").backend(BackendConfig::server(&url, None));
    let worker = builder.on("agent", agent).build()?;
    let stop = worker.shutdown_handle();
    let worker = tokio::spawn(worker.run());

    let id = client.submit("agent", "What is six times seven?").await?.execution_id();
    let question = wait_for_question(&client, id).await?;
    println!("asked: {}", question.replace(&budget_id.to_string(), "of the agents"));

    let admin = FlowFabricAdminClient::new(&url)?;
    let request = MakeApprovalLinks { approvers: vec!["mia".parse()?], ..Default::default() };
    let links = admin.approval_links(id, request).await?;
    admin.decide_by_link(&links.links[0].url, "approved").await?;
    println!("mia approves");

    let answer: String = client.await_result(&id, Duration::from_secs(30)).await?;
    println!("result: {answer}");
    let tokens = client.describe_budget(budget_id).await?.dimensions["tokens"];
    println!("{} of {} tokens are used", tokens.used, tokens.hard.unwrap_or_default());
    stop.shutdown();
    worker.await??;
    server.shutdown(Duration::from_secs(5)).await;
    Ok(())
}

/// What the execution asks, as soon as it does.
async fn wait_for_question(client: &Client, id: ExecutionId) -> Result<String, Box<dyn Error>> {
    loop {
        let snapshot = client.describe(&id).await?.ok_or("the execution is gone")?;
        if snapshot.public_state() == PublicState::Suspended {
            let asked = client.connection().engine().list_approvals(id).await?;
            let approval = asked.approvals.into_iter().next().ok_or("nothing is asked")?;
            return Ok(approval.request.question);
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}
