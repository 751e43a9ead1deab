//! `flow show`: a flow and its tasks, once or live until it has ended.

use std::io::IsTerminal;
use std::time::Duration;

use clap::ValueEnum;
use ff_sdk::{BackendErrorKind, Client, FlowId, FlowSnapshot, FlowState};
use tokio::time::{Instant, sleep};

use super::graph::Graph;
use super::{attended, languages, missing, svg, tree};
use crate::failure::{EXIT_CODES, Failure};
use crate::remote::Remote;
use crate::screen::Screen;
use crate::signals::Signals;
use crate::terminal;

/// How often a live picture is drawn.
const REDRAW: Duration = Duration::from_millis(300);
/// A large flow takes longer to read. What follows is a pause of so many times as long.
const SHARE: u32 = 4;
/// Nobody looks at a picture for longer that does not move.
const PAUSE_MAX: Duration = Duration::from_secs(3);
/// How long a wait for a flow may last: the person ends it.
const FOR_EVER: Duration = Duration::MAX;

const AFTER_HELP: &str = "\
On a terminal the tree is drawn again and again until the flow has ended; Ctrl-C leaves it. With \
--wait the exit code says whether it completed.";

/// Which flow to show.
#[derive(clap::Args)]
#[command(after_help = format!("{AFTER_HELP}\n\n{EXIT_CODES}"))]
pub(crate) struct Options {
    /// The flow.
    #[arg(value_name = "ID")]
    id: FlowId,
    /// Wait until it has ended.
    #[arg(long)]
    wait: bool,
    /// Show it as it stands, also on a terminal.
    #[arg(long, conflicts_with = "wait")]
    once: bool,
    /// How to draw it.
    #[arg(long, value_enum, default_value_t = Format::Tree)]
    format: Format,
}

/// How a flow is drawn.
#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Format {
    /// As a tree of tasks, each under the first that it waits for.
    Tree,
    /// As a picture for a browser.
    Svg,
    /// In the language of Graphviz.
    Dot,
    /// In the language of Mermaid.
    Mermaid,
    /// Everything, for programs; the same as --json.
    Json,
}

impl Format {
    fn print(self, graph: &Graph) {
        match self {
            Self::Tree => say!("{}", tree::picture(graph)),
            Self::Svg => say!("{}", svg::svg(graph)),
            Self::Dot => say!("{}", languages::dot(graph)),
            Self::Mermaid => say!("{}", languages::mermaid(graph)),
            Self::Json => say!("{}", graph.json()),
        }
    }
}

pub(super) async fn run(
    remote: &Remote,
    client: &Client,
    json: bool,
    options: &Options,
) -> Result<(), Failure> {
    let format = if json { Format::Json } else { options.format };
    if options.wait {
        return until_ended(remote, client, &options.id, format).await;
    }
    let graph = read(client, &options.id).await?;
    if options.once || graph.is_over() || !is_live(format) {
        format.print(&graph);
        return Ok(());
    }
    let seen = follow(remote, client, graph).await?;
    format.print(&seen);
    Ok(())
}

/// Waits for the end of a flow, shows it, and says by the exit code how it ended.
pub(super) async fn until_ended(
    remote: &Remote,
    client: &Client,
    id: &FlowId,
    format: Format,
) -> Result<(), Failure> {
    let graph = if is_live(format) {
        follow(remote, client, read(client, id).await?).await?
    } else {
        attended::wait(client, id).await?;
        read(client, id).await?
    };
    format.print(&graph);
    match graph.flow.public_flow_state {
        _ if !graph.is_over() => Err(Failure::interrupted()),
        FlowState::Completed => Ok(()),
        other => Err(Failure::not_completed(format!("the flow is {other}"))),
    }
}

/// Waits until the last member of a flow has ended. A server that is away is waited for.
pub(super) async fn await_end(client: &Client, id: &FlowId) -> Result<FlowSnapshot, Failure> {
    let mut told = false;
    loop {
        match client.await_flow(id, FOR_EVER).await {
            Ok(flow) => return flow.ok_or_else(|| missing(id)),
            Err(error) if is_away(error.backend_kind()) => {
                if !std::mem::replace(&mut told, true) {
                    note!("the server is away; waiting for it");
                }
                sleep(REDRAW).await;
            }
            Err(error) => return Err(error.into()),
        }
    }
}

fn is_away(kind: Option<BackendErrorKind>) -> bool {
    matches!(kind, Some(BackendErrorKind::Transport | BackendErrorKind::Timeout))
}

async fn read(client: &Client, id: &FlowId) -> Result<Graph, Failure> {
    Graph::read(client, id).await?.ok_or_else(|| missing(id))
}

/// Pictures for other programs are drawn once.
fn is_live(format: Format) -> bool {
    format == Format::Tree && std::io::stdout().is_terminal()
}

/// Draws a flow until it has ended or the person leaves. Answers how it was seen last.
async fn follow(remote: &Remote, client: &Client, mut seen: Graph) -> Result<Graph, Failure> {
    let mut signals = Signals::listen()?;
    let (screen, mut pause) = (Screen::enter(), REDRAW);
    while !seen.is_over() {
        let lines = terminal::size().0.saturating_sub(3);
        let picture = tree::picture_within(&seen, lines);
        screen.draw(picture.lines().chain(["", "Ctrl-C to leave"]))?;
        let look = async {
            sleep(pause).await;
            answered(remote, client, &screen, &seen.flow.flow_id).await
        };
        tokio::select! {
            () = signals.next() => break,
            look = look => {
                let (graph, took) = look?;
                (seen, pause) = (graph, (took * SHARE).clamp(REDRAW, PAUSE_MAX));
            }
        }
    }
    Ok(seen)
}

/// How the flow stands, as soon as the server answers, and how long reading it took. Until then the
/// picture says that it does not.
async fn answered(
    remote: &Remote,
    client: &Client,
    screen: &Screen,
    id: &FlowId,
) -> Result<(Graph, Duration), Failure> {
    loop {
        let begun = Instant::now();
        match Graph::read(client, id).await {
            Ok(graph) => return Ok((graph.ok_or_else(|| missing(id))?, begun.elapsed())),
            Err(error) if is_away(error.backend_kind()) => {
                screen.complain(&format!("no answer from {}", remote.url()))?;
                sleep(REDRAW).await;
            }
            Err(error) => return Err(error.into()),
        }
    }
}
