//! One run of the program.

use std::path::Path;
use std::process::{ExitStatus, Stdio};

use ff_core::limits;
use ff_sdk::{Context, TaskError};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWriteExt};
use tokio::process::{Child, Command};

use super::Job;
use crate::failure::Failure;

/// Of what a program complains about, the end is kept: it says what went wrong.
const SAID_BYTES_MAX: usize = limits::REASON_BYTES_MAX as usize / 2;

/// A program that is not there is found out before work is taken for it.
pub(super) fn check(program: &str) -> Result<(), Failure> {
    let found = match program.contains('/') {
        true => Path::new(program).is_file(),
        false => {
            let path = std::env::var_os("PATH").unwrap_or_default();
            std::env::split_paths(&path).any(|directory| directory.join(program).is_file())
        }
    };
    if found { Ok(()) } else { Err(format!("there is no program {program:?}").into()) }
}

/// Runs the program. When the lease is lost this is dropped, and the program is killed with it:
/// whoever has the lease now runs it again.
pub(super) async fn run(context: &Context<Job>, payload: Vec<u8>) -> Result<Vec<u8>, TaskError> {
    let child = start(context).map_err(TaskError::retry)?;
    let mut group = Group(child);
    converse(&mut group.0, payload).await
}

/// A program and what it has started, for as long as the program itself has not ended.
struct Group(Child);

impl Drop for Group {
    fn drop(&mut self) {
        // None once it was waited for: the number may be somebody else's then.
        let Some(leader) = self.0.id() else { return };
        let line = format!("kill -s KILL -- -{leader}");
        // The program itself is killed in any case.
        let _ = std::process::Command::new("sh").args(["-c", &line]).status();
    }
}

fn start(context: &Context<Job>) -> std::io::Result<Child> {
    let command = &context.state().command;
    Command::new(&command[0])
        .args(&command[1..])
        .env("FLOWFABRIC_EXECUTION_ID", context.execution_id().to_string())
        .env("FLOWFABRIC_KIND", context.kind())
        .env("FLOWFABRIC_ATTEMPT", context.attempt().to_string())
        .env("FLOWFABRIC_FENCE", context.fence_header_value())
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        // Ctrl-C at the terminal is for the worker, which lets the program finish.
        .process_group(0)
        .kill_on_drop(true)
        .spawn()
}

/// Feeds the program and listens to it at the same time, so that neither waits for the other.
async fn converse(child: &mut Child, payload: Vec<u8>) -> Result<Vec<u8>, TaskError> {
    let (stdin, stdout, stderr) = (child.stdin.take(), child.stdout.take(), child.stderr.take());
    let feed = async {
        if let Some(mut stdin) = stdin {
            // A program that does not read all of its input is no failure.
            let _ = stdin.write_all(&payload).await;
        }
        Ok(())
    };
    let listen = all_of(stdout.expect("piped"));
    let complain = async { tail(stderr.expect("piped")).await.map_err(TaskError::retry) };
    let ((), result, said) = tokio::try_join!(feed, listen, complain)?;
    let status = child.wait().await.map_err(TaskError::retry)?;
    if status.success() { Ok(result) } else { Err(TaskError::retry(reason(&said, status))) }
}

/// A result, if it is not too long.
async fn all_of(stream: impl AsyncRead + Unpin) -> Result<Vec<u8>, TaskError> {
    let most = limits::RESULT_BYTES_MAX;
    let mut result = Vec::new();
    stream.take(most + 1).read_to_end(&mut result).await.map_err(TaskError::retry)?;
    if result.len() as u64 > most {
        return Err(TaskError::fail(format!("the program wrote more than {most} bytes")));
    }
    Ok(result)
}

/// The last bytes of a stream, however long it is.
async fn tail(mut stream: impl AsyncRead + Unpin) -> std::io::Result<Vec<u8>> {
    let mut kept = Vec::new();
    let mut buffer = [0; 4096];
    loop {
        let count = stream.read(&mut buffer).await?;
        if count == 0 {
            kept.drain(..kept.len().saturating_sub(SAID_BYTES_MAX));
            return Ok(kept);
        }
        kept.extend_from_slice(&buffer[..count]);
        if kept.len() > 16 * SAID_BYTES_MAX {
            kept.drain(..kept.len() - SAID_BYTES_MAX);
        }
    }
}

/// What the program complained about; how it ended if it said nothing.
fn reason(said: &[u8], status: ExitStatus) -> String {
    let text = String::from_utf8_lossy(said).trim().to_owned();
    if text.is_empty() { format!("the program ended with {status}") } else { text }
}
