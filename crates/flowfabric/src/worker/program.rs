//! One run of the program.

use std::fs::File;
use std::io::{ErrorKind, Read};
use std::os::fd::OwnedFd;
use std::path::Path;
use std::process::{ExitStatus, Stdio};

use ff_core::limits;
use ff_sdk::{Context, Frame, FrameKind, Frames, TaskError};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::unix::pipe::Receiver;
use tokio::process::{Child, ChildStdin, Command};
use tokio::sync::watch;

use super::Job;
use super::files::Files;
use crate::failure::Failure;

/// Of what a program complains about, the end is kept: it says what went wrong.
const SAID_BYTES_MAX: usize = limits::REASON_BYTES_MAX as usize / 2;

/// How a program ends that waits for signals.
const SUSPENDED: i32 = 80;

/// How a program ends that would fail every time.
const FAILED_FOR_GOOD: i32 = 81;

/// How much is read at a time.
const READ_BYTES: usize = 64 << 10;
/// As much as a pipe holds.
const PIPE_BYTES_MAX: usize = 1 << 20;

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
    let files = Files::new(context).await?;
    let child = start(context, &files).map_err(TaskError::retry)?;
    let mut group = Group(child);
    let ended = converse(&mut group.0, payload, context.frames()).await;
    match group.0.try_wait().ok().flatten().and_then(|status| status.code()) {
        Some(SUSPENDED) => ended.map_err(|error| files.suspension().unwrap_or(error)),
        _ => ended,
    }
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

fn start(context: &Context<Job>, files: &Files) -> std::io::Result<Child> {
    let command = &context.state().command;
    Command::new(&command[0])
        .args(&command[1..])
        .env("FLOWFABRIC_EXECUTION_ID", Job::name(context).to_string())
        .env("FLOWFABRIC_KIND", context.kind())
        .env("FLOWFABRIC_ATTEMPT", context.attempt().to_string())
        .env("FLOWFABRIC_FENCE", context.fence_header_value())
        .envs(files.variables())
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        // Ctrl-C at the terminal is for the worker, which lets the program finish.
        .process_group(0)
        .kill_on_drop(true)
        .spawn()
}

/// Feeds the program and listens to it at the same time, so that neither waits for the other. What
/// it leaves running may keep its pipes open for ever: the run is over when the program is.
async fn converse(
    child: &mut Child,
    payload: Vec<u8>,
    frames: Frames,
) -> Result<Vec<u8>, TaskError> {
    let (stdin, stdout, stderr) = (child.stdin.take(), child.stdout.take(), child.stderr.take());
    let stdout = stdout.expect("piped").into_owned_fd().map_err(TaskError::retry)?;
    let stderr = stderr.expect("piped").into_owned_fd().map_err(TaskError::retry)?;
    let (tell, ended) = watch::channel(false);
    let mut result = Written::default();
    let mut said = Said { tail: Vec::new(), frames: Some(frames) };
    let wait = async {
        let status = child.wait().await.map_err(TaskError::retry);
        tell.send_replace(true);
        status
    };
    let feed = async {
        tokio::select! {
            () = feed(stdin.expect("piped"), &payload) => {}
            () = told(ended.clone()) => {}
        }
        Ok(())
    };
    let (status, (), (), ()) = tokio::try_join!(
        wait,
        feed,
        listen(stdout, ended.clone(), &mut result),
        listen(stderr, ended.clone(), &mut said),
    )?;
    match status.code() {
        Some(0) => Ok(result.0),
        Some(FAILED_FOR_GOOD) => Err(TaskError::fail(said.reason(status))),
        _ => Err(TaskError::retry(said.reason(status))),
    }
}

/// A program that does not read all of its input is no failure.
async fn feed(mut stdin: ChildStdin, payload: &[u8]) {
    let _ = stdin.write_all(payload).await;
}

/// Returns when the program has ended.
async fn told(mut ended: watch::Receiver<bool>) {
    if ended.wait_for(|ended| *ended).await.is_err() {
        std::future::pending().await
    }
}

/// Hears what is written to a pipe until its end, or the program's.
async fn listen(
    pipe: OwnedFd,
    ended: watch::Receiver<bool>,
    to: &mut impl Hear,
) -> Result<(), TaskError> {
    let mut pipe = Receiver::from_owned_fd(pipe).map_err(TaskError::retry)?;
    let mut buffer = vec![0; READ_BYTES];
    loop {
        let count = tokio::select! {
            count = pipe.read(&mut buffer) => count.map_err(TaskError::retry)?,
            () = told(ended.clone()) => return hear_rest(pipe, to).await,
        };
        match count {
            0 => return Ok(()),
            _ => to.hear(&buffer[..count]).await?,
        }
    }
}

/// Hears what is in the pipe, without waiting for more. It holds no more than a few reads' worth:
/// whatever comes beyond is of those that the program left behind.
async fn hear_rest(pipe: Receiver, to: &mut impl Hear) -> Result<(), TaskError> {
    let mut pipe = File::from(pipe.into_nonblocking_fd().map_err(TaskError::retry)?);
    let mut buffer = vec![0; READ_BYTES];
    for _ in 0..PIPE_BYTES_MAX / READ_BYTES {
        match pipe.read(&mut buffer) {
            Ok(0) => break,
            Ok(count) => to.hear(&buffer[..count]).await?,
            Err(error) if error.kind() == ErrorKind::WouldBlock => break,
            Err(error) => return Err(TaskError::retry(error)),
        }
    }
    Ok(())
}

/// What becomes of what a program writes.
trait Hear: Send {
    fn hear(&mut self, part: &[u8]) -> impl Future<Output = Result<(), TaskError>> + Send;
}

/// A result, if it is not too long.
#[derive(Default)]
struct Written(Vec<u8>);

impl Hear for Written {
    async fn hear(&mut self, part: &[u8]) -> Result<(), TaskError> {
        let most = limits::RESULT_BYTES_MAX;
        self.0.extend_from_slice(part);
        if self.0.len() as u64 > most {
            return Err(TaskError::fail(format!("the program wrote more than {most} bytes")));
        }
        Ok(())
    }
}

/// What the program complains about: shown to those who follow the execution, and its last bytes
/// kept.
struct Said {
    tail: Vec<u8>,
    /// None once it was refused: the program goes on without.
    frames: Option<Frames>,
}

impl Hear for Said {
    async fn hear(&mut self, part: &[u8]) -> Result<(), TaskError> {
        self.tail.extend_from_slice(part);
        self.tail.drain(..self.tail.len().saturating_sub(SAID_BYTES_MAX));
        for piece in part.chunks(limits::FRAME_BYTES_MAX as usize) {
            let Some(frames) = &self.frames else { break };
            // The log says why.
            if frames.write(Frame::new(FrameKind::Stderr, piece)).await.is_err() {
                self.frames = None;
            }
        }
        Ok(())
    }
}

impl Said {
    /// How the program ended if it said nothing.
    fn reason(&self, status: ExitStatus) -> String {
        let text = String::from_utf8_lossy(&self.tail).trim().to_owned();
        // Short, for the tables of attempts: `exit status 1`, `signal 9 (SIGKILL)`.
        if text.is_empty() { status.to_string().replace(": ", " ") } else { text }
    }
}
