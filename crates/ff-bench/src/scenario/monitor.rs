//! Counts the calls that a Valkey gets, by function: the server tells them one by one to whoever
//! asks for it.

use std::collections::BTreeMap;

use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::net::TcpStream;
use tokio::task::JoinHandle;

use crate::Failure;

/// Calls by the name of their function.
pub(super) type Calls = BTreeMap<String, u64>;

/// A count under way.
pub(super) struct Monitor {
    /// Where the end of the count is said.
    control: TcpStream,
    counting: JoinHandle<Result<Calls, Failure>>,
}

/// Comes to whoever listens when the count is to end, after everything that came before.
const END: &str = "ff-bench-end-of-count";

impl Monitor {
    /// Begins to count on the server of this URL.
    pub(super) async fn start(url: &str) -> Result<Self, Failure> {
        let address = url.trim_start_matches("valkey://").trim_end_matches('/');
        let mut listening = BufReader::new(TcpStream::connect(address).await?);
        listening.get_mut().write_all(b"MONITOR\r\n").await?;
        let mut line = String::new();
        listening.read_line(&mut line).await?;
        let counting = tokio::spawn(count(listening));
        Ok(Self { control: TcpStream::connect(address).await?, counting })
    }

    /// Everything until now.
    pub(super) async fn stop(mut self) -> Result<Calls, Failure> {
        self.control.write_all(format!("ECHO {END}\r\n").as_bytes()).await?;
        self.counting.await?
    }
}

async fn count(listening: BufReader<TcpStream>) -> Result<Calls, Failure> {
    let mut calls = Calls::new();
    // What is sent may hold bytes of any kind, which the server escapes.
    let mut lines = listening.lines();
    while let Some(line) = lines.next_line().await? {
        if line.ends_with(&format!("\"{END}\"")) {
            return Ok(calls);
        }
        if let Some(name) = function_of(&line) {
            *calls.entry(name.to_owned()).or_default() += 1;
        }
    }
    Err("the server ended the count".into())
}

/// The function of a line like `1.5 [0 127.0.0.1:7] "FCALL" "ff_claim_next_v1" "1" …`.
fn function_of(line: &str) -> Option<&str> {
    let mut words = line.split('"');
    let command = words.nth(1)?;
    let name = words.nth(1)?;
    ["FCALL", "FCALL_RO"].contains(&command.to_uppercase().as_str()).then_some(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_call_is_told_by_its_function() {
        let line = r#"17.5 [0 127.0.0.1:7] "FCALL" "ff_claim_next_v1" "1" "{fp:3}""#;
        assert_eq!(function_of(line), Some("ff_claim_next_v1"));
        assert_eq!(function_of(r#"17.5 [0 lua] "HGET" "ff:{fp:3}:x" "a""#), None);
        assert_eq!(function_of("OK"), None);
    }
}
