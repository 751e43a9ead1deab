//! `flowfabric signal`: tells something to an execution that waits, or will.

use ff_core::bytes::Base64;
use ff_script::ids::{IdSource, SystemIds};
use ff_sdk::{
    Code, DeliverSignal, EngineError, ExecutionRef, OpenWaitpoint, SdkError, SignalId,
    SignalOutcome, WaitpointState, WaitpointToken,
};

use crate::failure::Failure;
use crate::get::missing;
use crate::input;
use crate::remote::{Remote, block_on};

const AFTER_HELP: &str = "\
Without --token-file, the waitpoint's token is asked from the server, which takes the right to do so
(--token, FLOWFABRIC_TOKEN).";

/// Whom to tell what.
#[derive(clap::Args)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct Options {
    /// The execution.
    #[arg(value_name = "ID")]
    id: ExecutionRef,
    /// What to say: the name of the signal.
    #[arg(value_name = "NAME")]
    name: String,
    /// The waitpoint, by its id or its key [default: the one that the execution waits on].
    #[arg(long, value_name = "WAITPOINT")]
    waitpoint: Option<String>,
    /// A file with the waitpoint's token, or - for standard input.
    #[arg(long, value_name = "FILE", requires = "waitpoint")]
    token_file: Option<String>,
    /// What to send along: a text, @file, or - for standard input.
    #[arg(long, short)]
    payload: Option<String>,
    /// Who says so.
    #[arg(long, value_name = "NAME", default_value = "")]
    from: String,
    /// A second signal of the same key has no effect.
    #[arg(long, value_name = "KEY", default_value = "")]
    idempotency_key: String,
}

pub(crate) fn run(remote: &Remote, json: bool, options: &Options) -> Result<(), Failure> {
    block_on(async {
        let (at, awaited) = match &options.token_file {
            Some(file) => (addressed(options, file)?, Vec::new()),
            None => waited_on(remote, options.id, options.waitpoint.as_deref()).await?,
        };
        send(remote, json, options.id, fill(options, at)?, &awaited).await
    })
}

/// What the signal says.
fn fill(options: &Options, mut signal: DeliverSignal) -> Result<DeliverSignal, Failure> {
    signal.signal_name = options.name.clone();
    signal.source_type = "cli".to_owned();
    signal.source_identity = options.from.clone();
    signal.idempotency_key = options.idempotency_key.clone();
    if let Some(payload) = &options.payload {
        signal.payload_base64 = Some(Base64(input::read("--payload", payload)?));
    }
    Ok(signal)
}

/// Sends a signal and says what it did, and if nothing, which ones would have. Whoever has its
/// token needs no other.
pub(crate) async fn send(
    remote: &Remote,
    json: bool,
    name: ExecutionRef,
    mut signal: DeliverSignal,
    awaited: &[String],
) -> Result<(), Failure> {
    let told = signal.signal_name.clone();
    signal.signal_id = Some(SignalId::from_uuid(SystemIds.random()));
    let sent = remote.admin()?.deliver_signal(name, signal).await;
    let outcome = sent.map_err(|error| explain(name, &error))?;
    if json {
        say!("{}", serde_json::to_string(&outcome)?);
        return Ok(());
    }
    let effect = match &outcome {
        SignalOutcome::TriggeredResume { .. } => "it goes on",
        SignalOutcome::Buffered { .. } => "kept until it waits",
        SignalOutcome::Duplicate { .. } => "it was told so before",
        SignalOutcome::Accepted { effect, .. } if effect == "no_op" => "it does not wait for that",
        SignalOutcome::Accepted { .. } => "it waits for more",
    };
    let is_awaited = awaited.is_empty() || awaited.iter().any(|one| *one == told || one == "*");
    let but = if is_awaited { String::new() } else { format!(", but for {}", awaited.join(", ")) };
    say!("{name} was told {told}: {effect}{but}");
    Ok(())
}

/// A signal without content: the waitpoint and the right to signal it.
fn addressed(options: &Options, token_file: &str) -> Result<DeliverSignal, Failure> {
    let text = input::read("--token-file", &input::of_file(token_file))?;
    let text = String::from_utf8(text).map_err(|_| "--token-file: this is no token")?;
    let waitpoint = options.waitpoint.clone().unwrap_or_default();
    let waitpoint_id = waitpoint.parse().ok();
    Ok(DeliverSignal {
        waitpoint_key: Some(waitpoint).filter(|_| waitpoint_id.is_none()),
        waitpoint_id,
        waitpoint_token: WaitpointToken::new(text.trim()),
        ..DeliverSignal::default()
    })
}

/// The same for the waitpoint of this name, or the only one that can be meant, and which signals it
/// waits for.
pub(crate) async fn waited_on(
    remote: &Remote,
    name: ExecutionRef,
    waitpoint: Option<&str>,
) -> Result<(DeliverSignal, Vec<String>), Failure> {
    let client = remote.client().await?;
    let open = client.pending_waitpoints(name).await.map_err(|error| explain(name, &error))?;
    let one = choose(name, open, waitpoint)?;
    let signal = DeliverSignal {
        waitpoint_id: Some(one.waitpoint_id),
        waitpoint_token: one.waitpoint_token,
        ..DeliverSignal::default()
    };
    Ok((signal, one.required_signal_names))
}

fn choose(
    name: ExecutionRef,
    mut open: Vec<OpenWaitpoint>,
    waitpoint: Option<&str>,
) -> Result<OpenWaitpoint, Failure> {
    let is_meant = |one: &OpenWaitpoint, wanted: &str| {
        one.waitpoint_key == wanted || one.waitpoint_id.to_string() == wanted
    };
    let at = match waitpoint {
        Some(wanted) => open.iter().position(|one| is_meant(one, wanted)),
        None if open.len() == 1 => Some(0),
        None => open.iter().position(|one| one.state == WaitpointState::Active),
    };
    if let Some(at) = at {
        return Ok(open.swap_remove(at));
    }
    let keys: Vec<&str> = open.iter().map(|one| one.waitpoint_key.as_str()).collect();
    Err(match keys.as_slice() {
        [] => format!("{name} waits for nothing").into(),
        keys => format!("say which waitpoint, with --waitpoint: {}", keys.join(", ")).into(),
    })
}

/// The refusals that people meet, in words that help them.
fn explain(name: ExecutionRef, error: &SdkError) -> Failure {
    let code = match error {
        SdkError::AdminApi { kind, .. } => kind.as_deref().and_then(|kind| Code::parse(kind).ok()),
        _ => error.engine().and_then(EngineError::code),
    };
    match code {
        Some(Code::ExecutionNotFound) => missing(name),
        Some(Code::InvalidToken) => {
            Failure::from(format!("{name}: the token is wrong, or there is no such waitpoint"))
        }
        _ => Failure::of(error),
    }
}
