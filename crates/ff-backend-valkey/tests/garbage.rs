//! Servers that answer nonsense, or hang up in the middle of an answer.

mod fixture;

use ff_backend_valkey::ValkeyHost;
use ff_core::backend_error::{BackendErrorKind, Retry};
use ff_script::value::Value;
use fixture::*;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

const INFO: &str = "$35\r\nvalkey_version:8.0.1\r\nmaxmemory:0\r\n\r\n";
const VERSION: &str = "*4\r\n:1\r\n+OK\r\n$1\r\n3\r\n$4\r\nours\r\n";

/// A server that gets as far as a call, and answers each with the next of these.
async fn impostor(answers: &'static [&'static str]) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port is free");
    let address = listener.local_addr().expect("the port is known");
    tokio::spawn(async move {
        let mut answers = answers.iter();
        while let Ok((stream, _)) = listener.accept().await {
            serve(stream, &mut answers).await;
        }
    });
    format!("valkey://{address}/")
}

/// Serves one connection until it breaks, or until an answer was not the whole of one.
async fn serve(mut stream: TcpStream, answers: &mut std::slice::Iter<'_, &'static str>) {
    let mut request = vec![0; 65_536];
    while let Ok(length) = stream.read(&mut request).await
        && length > 0
    {
        let text = String::from_utf8_lossy(&request[..length]).into_owned();
        // Several commands may come at once; each begins with the number of its words.
        for command in text.split('*').skip(1) {
            let answer = answer_to(command).unwrap_or_else(|| answers.next().unwrap_or(&":7\r\n"));
            let whole = answer.ends_with("\r\n");
            if stream.write_all(answer.as_bytes()).await.is_err() || !whole {
                return;
            }
        }
    }
}

/// The answer to everything but a call of the test.
fn answer_to(command: &str) -> Option<&'static str> {
    let answers = [
        ("SETINFO", "+OK\r\n"),
        ("INFO", INFO),
        ("CONFIG", "*0\r\n"),
        ("ff_version", VERSION),
        ("ff_check_rights", "*3\r\n:1\r\n+OK\r\n*0\r\n"),
        ("ff_mark_shard", "*5\r\n:1\r\n+OK\r\n+9\r\n+1\r\n+1\r\n"),
    ];
    answers.iter().find(|(word, _)| command.contains(word)).map(|(_, answer)| *answer)
}

#[tokio::test]
async fn a_reply_that_makes_no_sense_may_mean_that_the_call_was_applied() {
    for answers in [
        &["!!canary garbage\r\n"] as &'static [&'static str],
        &["*2\r\n$5\r\ncana"],
        &["$-5x\r\n"],
        &[":12"],
        &["HTTP/1.1 400 Bad Request\r\n"],
    ] {
        let url = impostor(answers).await;
        let host = ValkeyHost::connect(config(&url), library(3, "ours")).await;
        let host = host.expect("it looks right so far");
        let error = call(&host, COUNT, 0, &[]).await.expect_err("that was no answer");
        let got = (error.kind, error.retry);
        assert_eq!(got, (BackendErrorKind::Transport, Retry::IfReplaySafe), "{answers:?}: {error}");
        assert!(!error.message.contains("cana"), "{error}");
        assert_eq!(call(&host, COUNT, 0, &[]).await, Ok(Value::Int(7)), "on a new connection");
    }
}
