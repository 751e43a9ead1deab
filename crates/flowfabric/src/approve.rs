//! `flowfabric approve`, `flowfabric reject` and `flowfabric links`.

use std::io::{IsTerminal as _, Write as _};
use std::time::Duration;

use ff_sdk::{
    Approval, ApprovalChoice, ApprovalDecision, Approver, Code, DeliverSignal, ExecutionId,
    ExecutionRef, FlowFabricAdminClient, LinkView, MakeApprovalLinks, SdkError, WaitpointState,
};

use crate::failure::Failure;
use crate::get::missing;
use crate::output;
use crate::remote::{Remote, block_on};
use crate::signal;
use crate::table::Table;
use crate::time::{self, moment};

/// Who decides what.
#[derive(clap::Args)]
pub(crate) struct Options {
    /// The execution that asks.
    #[arg(value_name = "ID")]
    id: ExecutionRef,
    /// As which approver; may be left out if the execution asks just one.
    #[arg(long = "as", value_name = "APPROVER")]
    approver: Option<Approver>,
    /// The signal of the choice, where the choices are others than approved and rejected.
    #[arg(long, value_name = "SIGNAL")]
    choice: Option<String>,
}

/// For whom links are made.
#[derive(clap::Args)]
pub(crate) struct LinkOptions {
    /// The execution that asks.
    #[arg(value_name = "ID")]
    id: ExecutionRef,
    /// For this approver, and no other; may be repeated [default: all whom the execution names].
    #[arg(long = "for", value_name = "APPROVER")]
    approvers: Vec<Approver>,
    /// How long they are good for, as in 2h.
    #[arg(long, value_name = "TIME", value_parser = time::duration)]
    expires_in: Option<Duration>,
}

/// Decides as one of those who are asked, or, where a suspension names nobody, just says so.
/// `usual` is the signal that the command stands for.
pub(crate) fn decide(
    remote: &Remote,
    json: bool,
    options: &Options,
    usual: &str,
) -> Result<(), Failure> {
    block_on(async {
        let (id, latest) = latest_approval(remote, options.id).await?;
        let approval = match latest {
            Some(approval) if approval.open => approval,
            over => return say_so(remote, json, options, usual, over.as_ref()).await,
        };
        let approver = approver(options, &approval)?;
        let choice = choice(options, &approval, usual)?;
        let admin = remote.admin()?;
        let request = MakeApprovalLinks {
            waitpoint_id: Some(approval.waitpoint_id),
            approvers: vec![approver],
            expires_in_ms: None,
        };
        let made = admin.approval_links(id, request).await.map_err(|error| Failure::of(&error))?;
        let link = made.links.first().ok_or("the server made no link")?;
        tell(json, &decided(&admin, &link.url, &choice).await?);
        Ok(())
    })
}

/// Prints a link for each approver.
pub(crate) fn links(remote: &Remote, json: bool, options: &LinkOptions) -> Result<(), Failure> {
    block_on(async {
        let id = remote.connect().await?.resolve(options.id)?;
        let request = MakeApprovalLinks {
            waitpoint_id: None,
            approvers: options.approvers.clone(),
            expires_in_ms: options.expires_in.map(time::millis),
        };
        let made = remote.admin()?.approval_links(id, request).await;
        let made = made.map_err(|error| Failure::of(&error))?;
        if json {
            made.links.iter().for_each(|link| say!("{}", serde_json::json!(link)));
            return Ok(());
        }
        if output::is_quiet() {
            output::ids(made.links.iter().map(|link| &link.url));
            return Ok(());
        }
        let mut table = Table::new(&["approver", "link"]);
        made.links.iter().for_each(|link| table.row([link.approver.to_string(), link.url.clone()]));
        say!("{table}");
        Ok(())
    })
}

/// The latest approval of an execution, over or not.
async fn latest_approval(
    remote: &Remote,
    name: ExecutionRef,
) -> Result<(ExecutionId, Option<Approval>), Failure> {
    let connection = remote.connect().await?;
    let id = connection.resolve(name)?;
    let listed = connection.engine().list_approvals(id).await;
    let listed = listed.map_err(|error| match error.code() {
        Some(Code::ExecutionNotFound) => missing(name),
        _ => Failure::of(&SdkError::from(error.in_context("list_approvals"))),
    })?;
    Ok((id, listed.approvals.into_iter().next_back()))
}

/// Signals an execution that waits for this decision without asking anybody by name. If it does
/// not, what was decided before may be the reason.
async fn say_so(
    remote: &Remote,
    json: bool,
    options: &Options,
    usual: &str,
    over: Option<&Approval>,
) -> Result<(), Failure> {
    let name = options.id;
    let wanted = options.choice.as_deref().unwrap_or(usual);
    let open = remote.client().await?.pending_waitpoints(name).await?;
    let mut active = open.into_iter().filter(|one| one.state == WaitpointState::Active);
    let one = match active.next() {
        Some(one) if one.required_signal_names.iter().any(|it| it == wanted) => one,
        Some(one) => return Err(other_signals(name, &one.required_signal_names)),
        None => return Err(nobody_is_asked(name, over)),
    };
    let signal = DeliverSignal {
        waitpoint_id: Some(one.waitpoint_id),
        waitpoint_token: one.waitpoint_token,
        signal_name: wanted.to_owned(),
        source_type: "cli".to_owned(),
        source_identity: options.approver.as_ref().map(ToString::to_string).unwrap_or_default(),
        ..DeliverSignal::default()
    };
    signal::send(remote, json, name, signal, &one.required_signal_names).await
}

fn other_signals(name: ExecutionRef, awaited: &[String]) -> Failure {
    let awaited = awaited.join(", ");
    Failure::from(format!(
        "{name} asks nobody for an approval now; it waits for {awaited}: `flowfabric signal` tells it"
    ))
}

fn nobody_is_asked(name: ExecutionRef, over: Option<&Approval>) -> Failure {
    let decided = over.map(|over| over.decisions.iter().map(in_words).collect::<Vec<_>>());
    let decided = decided.filter(|all| !all.is_empty()).map(|all| format!(": {}", all.join("; ")));
    let decided = decided.unwrap_or_default();
    Failure::from(format!("{name} asks nobody for an approval now{decided}"))
}

fn in_words(made: &ApprovalDecision) -> String {
    format!("{} decided {} at {}", made.approver, made.signal, moment(made.decided_at))
}

fn approver(options: &Options, approval: &Approval) -> Result<Approver, Failure> {
    if let Some(approver) = &options.approver {
        return Ok(approver.clone());
    }
    match approval.request.approvers.as_slice() {
        [only] => Ok(only.clone()),
        [] => Err(Failure::not_understood("say as whom: --as APPROVER")),
        several => {
            let names: Vec<&str> = several.iter().map(Approver::as_str).collect();
            let names = names.join(", ");
            Err(Failure::not_understood(format!("say as whom, with --as: {names}")))
        }
    }
}

/// The choice that was named, the one that the command stands for, or the one that a person picks.
fn choice(options: &Options, approval: &Approval, usual: &str) -> Result<String, Failure> {
    let offered = approval.request.offered();
    let wanted = options.choice.as_deref().unwrap_or(usual);
    if offered.iter().any(|choice| choice.signal == wanted) {
        return Ok(wanted.to_owned());
    }
    if options.choice.is_none() && std::io::stdin().is_terminal() {
        return pick(approval, &offered);
    }
    let names: Vec<&str> = offered.iter().map(|choice| choice.signal.as_str()).collect();
    let names = names.join(", ");
    let said = format!("{wanted} is no choice; with --choice one can choose: {names}");
    Err(Failure::not_understood(said))
}

fn pick(approval: &Approval, offered: &[ApprovalChoice]) -> Result<String, Failure> {
    eprintln!("{}", printable(&approval.request.question));
    for (number, choice) in offered.iter().enumerate() {
        eprintln!("  {}  {}", number + 1, printable(choice.shown()));
    }
    eprint!("Which one? ");
    std::io::stderr().flush()?;
    let mut line = String::new();
    std::io::stdin().read_line(&mut line)?;
    let picked = line.trim().parse::<usize>().ok().and_then(|number| number.checked_sub(1));
    let picked = picked.and_then(|number| offered.get(number));
    picked.map(|choice| choice.signal.clone()).ok_or_else(|| "nothing was decided".into())
}

/// What somebody wrote, without what would move the cursor.
fn printable(text: &str) -> String {
    text.chars().filter(|letter| !letter.is_control() || *letter == '\n').collect()
}

async fn decided(
    admin: &FlowFabricAdminClient,
    url: &str,
    choice: &str,
) -> Result<LinkView, Failure> {
    admin.decide_by_link(url, choice).await.map_err(|error| Failure::of(&error))
}

fn tell(json: bool, view: &LinkView) {
    let Some(made) = &view.decision else { return };
    if json {
        say!("{}", serde_json::json!(made));
        return;
    }
    let more = if view.open { "others have still to decide" } else { "nobody else is waited for" };
    say!("{}; {more}", in_words(made));
}
