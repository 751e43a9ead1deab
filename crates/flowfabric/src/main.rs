//! FlowFabric in one binary.

// First, for its macro.
#[macro_use]
mod output;

mod failure;
mod input;
mod remote;
mod signals;

mod progress_bar;
mod quota;
mod screen;
mod table;
mod terminal;
mod time;

mod policy;
mod selection;
mod wait;

mod serve;
mod settings;

mod approve;
mod budget;
mod cancel_replay;
mod excerpt;
mod flow;
mod get;
mod history;
mod hold;
mod kind;
mod lane;
mod list;
mod priority;
mod result;
mod secret;
mod signal;
mod stats;
mod submit;
mod tail;
mod waits;
mod watch;
mod why;

mod worker;

mod demo;
mod store;

use std::process::ExitCode;

use clap::{CommandFactory, Parser, Subcommand};

use failure::{EXIT_CODES, Failure};
use remote::Remote;

/// Half of what the store does is allocate and free: this takes a third off a transition.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// A durable execution engine: background jobs, agent runs, approvals and flows that survive
/// crashes.
#[derive(Parser)]
#[command(name = "flowfabric", version, after_help = EXIT_CODES, arg_required_else_help = true)]
struct Cli {
    #[command(subcommand)]
    command: Command,
    #[command(flatten)]
    remote: Remote,
    /// Print JSON instead of text: one object, or one per line; errors too, on standard error.
    #[arg(long, global = true, help_heading = "Every command")]
    json: bool,
    /// Print results and errors only: no notes, no progress; of a list, the ids.
    #[arg(long, short, global = true, help_heading = "Every command")]
    quiet: bool,
}

#[derive(Subcommand)]
enum Command {
    /// Run the server.
    Serve(serve::Options),
    /// Show the settings that `serve` would use, and where each comes from.
    #[command(subcommand)]
    Config(ConfigCommand),
    /// Submit an execution, or many.
    Submit(submit::Options),
    /// Show executions.
    Get(get::Options),
    /// The attempts of an execution: when, by whom, how they ended.
    Attempts(history::Options),
    /// What happened to an execution, when and by whom.
    History(history::Options),
    /// Tell why executions do not run: what they wait for, and since when.
    Why(why::Options),
    /// List executions: the newest first, or those of a state in the order in which they go on.
    Ls(list::Filter),
    /// How many executions there are in which state, by kind and by lane.
    Stats,
    /// Change how urgent an execution is.
    Priority(priority::Options),
    /// Watch executions: a live table on a terminal, else a line for every change.
    Watch(watch::Options),
    /// Print the result of an execution.
    Result(result::Options),
    /// Follow the output of an execution until it ends.
    Tail(tail::Options),
    /// Cancel executions: by id, or all that pass a filter.
    Cancel(cancel_replay::Options),
    /// Run ended executions again: by id, or all that pass a filter.
    Replay(cancel_replay::Options),
    /// Keep executions from being claimed until they are released.
    Hold(hold::Options),
    /// Let held executions go on.
    Release(hold::ReleaseOptions),
    /// List what is held, longest first: by whom, since when, why.
    Held(hold::ListOptions),
    /// Approve what an execution asks, as one of its approvers.
    Approve(approve::Options),
    /// Reject what an execution asks, as one of its approvers.
    Reject(approve::Options),
    /// Make links by which the approvers of an execution decide. Each is a credential.
    Links(approve::LinkOptions),
    /// Tell something to an execution that waits, or will.
    Signal(signal::Options),
    /// List what waits, longest first: for what, since when, until when.
    Waits(waits::Options),
    /// Submit, show, list, cancel and replay flows: graphs of executions.
    #[command(subcommand)]
    Flow(flow::Command),
    /// List, show, pause, resume, limit and share lanes.
    #[command(subcommand)]
    Lane(lane::Command),
    /// List, show, set and pin the defaults of kinds.
    #[command(subcommand)]
    Kind(kind::Command),
    /// Make, list, show, change and reset budgets: how much may be used.
    #[command(subcommand)]
    Budget(budget::Command),
    /// Limit how many executions begin within a window, and run at a time.
    #[command(subcommand)]
    Quota(quota::Command),
    /// Change the keys that waitpoint tokens are signed with.
    #[command(subcommand)]
    Secret(secret::Command),
    /// Work on executions with any program, and see who works on what.
    #[command(subcommand)]
    Worker(WorkerCommand),
    /// See it work: a server, worker processes, retries, a flow and a killed worker, as a story.
    Demo(demo::Options),
    /// One of the demo's worker processes.
    #[command(hide = true)]
    DemoWorker(demo::DemoWorker),
    /// Copy a running store; check or export a data directory.
    #[command(subcommand)]
    Store(store::Command),
    /// Print completions for a shell, as in: source <(flowfabric completions bash)
    Completions {
        /// The shell.
        shell: clap_complete::Shell,
    },
}

#[derive(Subcommand)]
enum ConfigCommand {
    /// Print every setting, its value and where it came from.
    Show(serve::Options),
}

#[derive(Subcommand)]
enum WorkerCommand {
    /// Take executions and run a program for each: payload on stdin, result from stdout.
    Run(Box<worker::Options>),
    /// List the connected workers: what they take, how much they run, and who runs what.
    Ls(worker::list::Options),
}

fn main() -> ExitCode {
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(error) => return misunderstood(&error),
    };
    let json = cli.json;
    output::set_quiet(cli.quiet);
    match run(cli) {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            failure.report(json);
            ExitCode::from(failure.code)
        }
    }
}

/// Help and the version are no errors; whoever reads JSON gets the others as JSON, too.
fn misunderstood(error: &clap::Error) -> ExitCode {
    let words = std::env::args_os().map(|word| word.to_string_lossy().into_owned());
    let tip = wait::tip(error, words);
    if !error.use_stderr() || !std::env::args_os().any(|argument| argument == "--json") {
        let _ = error.print();
        if let Some(tip) = tip {
            eprintln!("{tip}");
        }
        return ExitCode::from(u8::try_from(error.exit_code()).unwrap_or(2));
    }
    let text = error.to_string();
    let said = text.split("\n\n").next().unwrap_or_default();
    let said = said.strip_prefix("error: ").unwrap_or(said);
    let said = tip.map_or_else(|| said.to_owned(), |tip| format!("{said}; {tip}"));
    let failure = Failure::not_understood(said);
    failure.report(true);
    ExitCode::from(failure.code)
}

fn run(Cli { command, remote, json, .. }: Cli) -> Result<(), Failure> {
    match command {
        Command::Serve(options) => serve::run(&options, json),
        Command::Config(ConfigCommand::Show(options)) => serve::show(&options, json),
        Command::Submit(options) => submit::run(&remote, json, &options),
        Command::Get(options) => get::run(&remote, json, &options),
        Command::Attempts(options) => history::attempts(&remote, json, &options),
        Command::History(options) => history::history(&remote, json, &options),
        Command::Stats => stats::run(&remote, json),
        Command::Priority(options) => priority::run(&remote, json, &options),
        Command::Why(options) => why::run(&remote, json, &options),
        Command::Ls(filter) => list::run(&remote, json, &filter),
        Command::Watch(options) => watch::run(&remote, json, &options),
        Command::Result(options) => result::run(&remote, json, &options),
        Command::Tail(options) => tail::run(&remote, json, &options),
        Command::Cancel(options) => cancel_replay::cancel(&remote, json, &options),
        Command::Replay(options) => cancel_replay::replay(&remote, json, &options),
        Command::Hold(options) => hold::hold(&remote, json, &options),
        Command::Release(options) => hold::release(&remote, json, &options),
        Command::Held(options) => hold::list(&remote, json, &options),
        Command::Approve(options) => approve::decide(&remote, json, &options, "approved"),
        Command::Reject(options) => approve::decide(&remote, json, &options, "rejected"),
        Command::Links(options) => approve::links(&remote, json, &options),
        Command::Signal(options) => signal::run(&remote, json, &options),
        Command::Waits(options) => waits::run(&remote, json, &options),
        Command::Flow(command) => flow::run(&remote, json, &command),
        Command::Lane(command) => lane::run(&remote, json, &command),
        Command::Quota(command) => quota::run(&remote, json, &command),
        Command::Kind(command) => kind::run(&remote, json, &command),
        Command::Budget(command) => budget::run(&remote, json, &command),
        Command::Secret(command) => secret::run(&remote, json, &command),
        Command::Worker(WorkerCommand::Run(options)) => worker::run(&remote, json, *options),
        Command::Worker(WorkerCommand::Ls(options)) => worker::list::run(&remote, json, &options),
        Command::Demo(options) => demo::run(&options, json),
        Command::DemoWorker(worker) => demo::run_worker(&remote, &worker),
        Command::Store(command) => store::run(&remote, json, &command),
        Command::Completions { shell } => {
            let out = &mut std::io::stdout();
            clap_complete::generate(shell, &mut Cli::command(), "flowfabric", out);
            Ok(())
        }
    }
}
