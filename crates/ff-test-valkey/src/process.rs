//! Child processes that die with this one, and signals to them.

use std::io;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::{OnceLock, mpsc};
use std::thread;

type Request = (Command, mpsc::Sender<io::Result<Child>>);

/// Starts `program` so that the kernel kills it when this process ends, however it ends.
pub(crate) fn start(program: &str, arguments: &[String]) -> io::Result<Child> {
    let mut command = Command::new(find("setpriv")?);
    command.args(["--pdeathsig", "KILL", "--"]).arg(find(program)?).args(arguments);
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    spawn(command)
}

/// The parent-death signal follows the thread that forked, not the process. Test threads come and
/// go, so one thread that never ends does all the forking.
fn spawn(command: Command) -> io::Result<Child> {
    static SPAWNER: OnceLock<mpsc::Sender<Request>> = OnceLock::new();
    let spawner = SPAWNER.get_or_init(|| {
        let (sender, requests) = mpsc::channel::<Request>();
        thread::spawn(move || {
            for (mut command, answer) in requests {
                // The asker waits for the answer, so it is there to take it.
                let _ = answer.send(command.spawn());
            }
        });
        sender
    });
    let (answer, started) = mpsc::channel();
    let gone = |_| io::Error::other("the thread that starts processes has ended");
    spawner.send((command, answer)).map_err(|_| gone(mpsc::RecvError))?;
    started.recv().map_err(gone)?
}

/// Sends a signal by name. The shell's `kill` is always there and needs no unsafe call.
pub(crate) fn signal(child: &Child, name: &str) -> io::Result<()> {
    let line = format!("kill -{name} {}", child.id());
    let status = Command::new("sh").args(["-c", &line]).status()?;
    if status.success() { Ok(()) } else { Err(io::Error::other(format!("`{line}` failed"))) }
}

/// Where a program is, or an error that says how to get it.
pub(crate) fn find(program: &str) -> io::Result<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let found = std::env::split_paths(&path).map(|folder| folder.join(program));
    found.into_iter().find(|file| file.is_file()).ok_or_else(|| {
        let advice = "run the project's test command, ./test, which installs what the tests need";
        io::Error::new(io::ErrorKind::NotFound, format!("{program} is not installed: {advice}"))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_missing_program_is_an_error_with_advice() {
        let error = find("no-such-valkey-server").expect_err("there is no such program");
        assert!(error.to_string().contains("./test"), "{error}");
    }

    #[test]
    fn a_child_outlives_the_thread_that_asked_for_it() {
        let mut child = thread::spawn(|| start("sleep", &["60".to_owned()]))
            .join()
            .expect("the thread does not panic")
            .expect("sleep starts");
        assert!(child.try_wait().expect("the child can be asked").is_none());
        child.kill().expect("the child can be killed");
        child.wait().expect("the child can be awaited");
    }
}
