//! Measures FlowFabric: one subcommand per scenario, one report format for all of them.
//!
//! `cargo run --release -p ff-bench -- lifecycle --host embedded --executions 100000 --json`

mod arguments;
mod scenario;

mod report;

mod caller;
mod fill;
mod http_client;
mod server;
mod store;
mod worker;

mod machine_speed;
mod metering;
mod noop;
mod slow_log;
mod threads;

mod ids;
mod progress;
mod statistics;

use std::error::Error;
use std::process::ExitCode;

use clap::Parser;

use arguments::{Arguments, Scenario};

/// As in the `flowfabric` binary, which is what is measured.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// What can go wrong: it is printed and ends the run.
type Failure = Box<dyn Error + Send + Sync>;

fn main() -> ExitCode {
    match run(&Arguments::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            eprintln!("ff-bench: {failure}");
            ExitCode::FAILURE
        }
    }
}

fn run(arguments: &Arguments) -> Result<(), Failure> {
    let runtime = client_runtime(arguments.client_threads)?;
    let report = match &arguments.scenario {
        Scenario::Lifecycle(options) => {
            options.check();
            runtime.block_on(scenario::lifecycle::run(options))?
        }
        Scenario::Http(options) => runtime.block_on(scenario::http::run(options))?,
        Scenario::Sdk(options) => runtime.block_on(scenario::sdk::run(options))?,
        Scenario::Claim(options) => runtime.block_on(scenario::claim::run(options))?,
        Scenario::Idle(options) => runtime.block_on(scenario::idle::run(options))?,
        Scenario::Stream(options) => runtime.block_on(scenario::stream::run(options))?,
        Scenario::Suspend(options) => runtime.block_on(scenario::suspend::run(options))?,
        Scenario::Flow(options) => runtime.block_on(scenario::flow::run(options))?,
        Scenario::Room(options) => runtime.block_on(scenario::room::run(options))?,
        Scenario::Routing(options) => runtime.block_on(scenario::routing::run(options))?,
        Scenario::Crowded(options) => runtime.block_on(scenario::crowded::run(options))?,
        Scenario::Fairness(options) => runtime.block_on(scenario::fairness::run(options))?,
        Scenario::Admission(options) => runtime.block_on(scenario::admission::run(options))?,
        Scenario::Order(options) => runtime.block_on(scenario::order::run(options))?,
        Scenario::Bullmq(options) => runtime.block_on(scenario::bullmq::run(options))?,
        Scenario::Full(options) => scenario::full::run(options)?,
        Scenario::FullPart(options) => return runtime.block_on(scenario::full::part::run(options)),
        Scenario::RoomPart(options) => return runtime.block_on(scenario::room::part::run(options)),
        Scenario::Serve(options) => return server::serve(options),
    };
    report.field("client_threads", arguments.client_threads).print(arguments.json);
    Ok(())
}

/// The threads of the callers, apart from those of the store.
fn client_runtime(threads: usize) -> Result<tokio::runtime::Runtime, Failure> {
    let mut builder = match threads {
        0 => tokio::runtime::Builder::new_current_thread(),
        _ => tokio::runtime::Builder::new_multi_thread(),
    };
    Ok(builder.worker_threads(threads.max(1)).thread_name("bench-client").enable_all().build()?)
}
