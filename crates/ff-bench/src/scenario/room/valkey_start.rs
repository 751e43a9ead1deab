//! How long Valkey takes to start on a data directory.

use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use crate::Failure;
use crate::store;

/// How often it is asked whether it is ready, and for how long.
const POLL: Duration = Duration::from_millis(20);
const LIMIT: Duration = Duration::from_secs(1800);

/// Starts a server on a copy of a data directory, waits until it answers, and ends it.
pub(super) fn seconds(directory: &Path) -> Result<f64, Failure> {
    let copy = store::directory()?;
    copy_files(&directory.join("appendonlydir"), &copy.path().join("appendonlydir"))?;
    let socket = copy.path().join("socket");
    let begun = Instant::now();
    let mut server = Server(
        Command::new("valkey-server")
            .args(["--port", "0", "--save", "", "--appendonly", "yes", "--daemonize", "no"])
            .arg("--unixsocket")
            .arg(&socket)
            .arg("--dir")
            .arg(copy.path())
            .stdout(Stdio::null())
            .spawn()?,
    );
    while !answers(&socket) {
        if let Some(status) = server.0.try_wait()? {
            return Err(format!("valkey-server does not start on the directory: {status}").into());
        }
        if begun.elapsed() > LIMIT {
            return Err("valkey-server was not ready in time".into());
        }
        std::thread::sleep(POLL);
    }
    Ok(begun.elapsed().as_secs_f64())
}

struct Server(Child);

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn answers(socket: &Path) -> bool {
    let ask = || -> std::io::Result<bool> {
        let mut stream = UnixStream::connect(socket)?;
        stream.set_read_timeout(Some(Duration::from_secs(1)))?;
        stream.write_all(b"PING\r\n")?;
        let mut answer = [0; 5];
        stream.read_exact(&mut answer)?;
        Ok(answer == *b"+PONG")
    };
    ask().unwrap_or(false)
}

fn copy_files(from: &Path, to: &Path) -> Result<(), Failure> {
    std::fs::create_dir(to)?;
    for entry in from.read_dir()? {
        let entry = entry?;
        std::fs::copy(entry.path(), to.join(entry.file_name()))?;
    }
    Ok(())
}
