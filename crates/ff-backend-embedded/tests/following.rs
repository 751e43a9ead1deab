//! Following one subject: heard by those who follow it and nobody else.
#![allow(clippy::unwrap_used, reason = "in a test, a panic is the report")]

mod support;

use std::time::Duration;

use ff_backend_embedded::EmbeddedHost;
use ff_core::types::ExecutionId;
use ff_script::host::{Host, Subject, Subscription, Wake};
use support::{RUN, call, in_directory, in_memory};
use tokio::time::timeout;

const LIMIT: Duration = Duration::from_secs(30);

fn execution(partition: u16, n: u64) -> ExecutionId {
    format!("{{fp:{partition}}}:00000000-0000-0000-0000-{n:012x}").parse().unwrap()
}

async fn publish(host: &EmbeddedHost, subject: Subject, text: &[u8]) {
    let channel = subject.channel();
    let command = [&b"SPUBLISH"[..], channel.as_bytes(), text];
    call(host, "run", subject.partition(), &command).await.unwrap();
}

async fn next(follower: &mut Subscription) -> Option<Wake> {
    timeout(LIMIT, follower.next()).await.expect("a wake-up arrives in time")
}

fn message(subject: Subject, text: &[u8]) -> Option<Wake> {
    Some(Wake::Message { partition: subject.partition(), message: text.to_vec() })
}

#[tokio::test]
async fn a_follower_hears_of_its_subject_and_of_nothing_else() {
    let root = tempfile::tempdir().unwrap();
    for host in [in_memory(RUN), in_directory(root.path())] {
        let subjects = [
            Subject::Frames(execution(7, 1)),
            Subject::Frames(execution(7, 3)),
            Subject::Frames(execution(7, 2)),
            Subject::Frames(execution(8, 1)),
        ];
        let mut followers = Vec::new();
        for subject in subjects {
            followers
                .push([host.follow(subject).await.unwrap(), host.follow(subject).await.unwrap()]);
        }
        for (subject, text) in subjects.iter().zip([b"0:1", b"0:2", b"\0:3", b"0:4"]) {
            publish(&host, *subject, text).await;
        }
        for (index, text) in [b"0:1", b"0:2", b"\0:3", b"0:4"].into_iter().enumerate() {
            for follower in &mut followers[index] {
                assert_eq!(next(follower).await, message(subjects[index], text));
            }
        }
        // Delivered before the call is answered: what was not heard by now is not on its way.
        for follower in followers.iter_mut().flatten() {
            assert!(timeout(Duration::ZERO, follower.next()).await.is_err());
        }
    }
}

#[tokio::test]
async fn who_comes_after_the_last_one_left_misses_nothing() {
    let host = in_memory(RUN);
    let subject = Subject::Frames(execution(7, 1));
    let mut follower = host.follow(subject).await.unwrap();
    for round in 0..300u32 {
        drop(follower);
        publish(&host, subject, b"nobody listens").await;
        follower = host.follow(subject).await.unwrap();
        publish(&host, subject, &round.to_be_bytes()).await;
        assert_eq!(next(&mut follower).await, message(subject, &round.to_be_bytes()));
    }
}

#[tokio::test]
async fn a_follower_that_does_not_read_is_told_that_it_missed_something() {
    let host = in_memory(RUN);
    let subject = Subject::Frames(execution(7, 1));
    let mut slow = host.follow(subject).await.unwrap();
    for n in 0..100u8 {
        publish(&host, subject, n.to_string().as_bytes()).await;
    }
    assert_eq!(next(&mut slow).await, Some(Wake::Missed));
    assert_eq!(next(&mut slow).await, message(subject, b"84"), "the latest are kept");
}

#[tokio::test]
async fn a_call_that_fails_wakes_nobody() {
    let host = in_memory(RUN);
    let subject = Subject::Frames(execution(7, 1));
    let mut follower = host.follow(subject).await.unwrap();
    let channel = subject.channel();
    let words = [&b"SPUBLISH"[..], channel.as_bytes(), b"early", b";", b"NOSUCH"];
    assert!(call(&host, "run", subject.partition(), &words).await.is_err());
    publish(&host, subject, b"late").await;
    assert_eq!(next(&mut follower).await, message(subject, b"late"));
}

#[tokio::test]
async fn following_ends_with_the_store() {
    let host = in_memory(RUN);
    let subject = Subject::Frames(execution(7, 1));
    let mut follower = host.follow(subject).await.unwrap();
    assert!(host.close().await);
    assert_eq!(next(&mut follower).await, None);
    assert!(host.follow(subject).await.is_err());
}
