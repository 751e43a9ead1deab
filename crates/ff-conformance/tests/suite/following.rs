//! Following one subject: the same on every host.

use std::time::Duration;

use ff_conformance::{Deployment, LANE, LEASE_MS, conformance};
use ff_script::host::{Host, Subject, Subscription, Wake};

use super::stream::held_with;

/// Far longer than a wake-up takes: only a missing one waits this long.
const LIMIT: Duration = Duration::from_secs(60);

async fn follow(d: &Deployment, subject: Subject) -> Subscription {
    d.host().follow(subject).await.expect("subjects can be followed")
}

async fn publish(d: &Deployment, subject: Subject, message: &[u8]) {
    let channel = subject.channel();
    d.host().exec(subject.partition(), &[b"SPUBLISH", channel.as_bytes(), message]).await;
}

async fn next(follower: &mut Subscription) -> Option<Wake> {
    let wake = tokio::time::timeout(LIMIT, follower.next()).await;
    wake.expect("a wake-up arrives in time")
}

fn message(subject: Subject, message: &[u8]) -> Option<Wake> {
    Some(Wake::Message { partition: subject.partition(), message: message.to_vec() })
}

conformance! {
    async fn who_follows_a_subject_hears_of_it_and_of_nothing_else(d: &Deployment) {
        let (one, two) = (d.create().send().await, d.create().send().await);
        let subjects = [Subject::Frames(one), Subject::Frames(two)];
        let mut followers = Vec::new();
        for subject in subjects {
            followers.push([follow(d, subject).await, follow(d, subject).await]);
        }
        for subject in subjects {
            publish(d, subject, b"0:1").await;
            publish(d, subject, b"\0\xff\r\n").await;
        }
        for (subject, all) in subjects.into_iter().zip(&mut followers) {
            for follower in all {
                assert_eq!(next(follower).await, message(subject, b"0:1"));
                assert_eq!(next(follower).await, message(subject, b"\0\xff\r\n"));
            }
        }
    }

    async fn who_reads_along_is_told_of_every_append_and_of_every_end(d: &Deployment) {
        let mut held = held_with(d, "").await;
        let subject = Subject::Frames(held.id);
        let mut follower = follow(d, subject).await;
        d.call(held.append(1, &["a", "b"])).await;
        assert_eq!(next(&mut follower).await, message(subject, b"0:2"));
        d.call(held.append(1, &["a", "b"])).await;
        d.call(held.append(3, &["c"])).await;
        assert_eq!(next(&mut follower).await, message(subject, b"0:3"));
        d.call(held.fail("no", "transient")).await;
        assert_eq!(next(&mut follower).await, message(subject, b"0:3:closed"), "the attempt is over");
        held = d.claim(LANE).await;
        assert_eq!(next(&mut follower).await, message(subject, b"1:0"), "another attempt");
        d.call(held.append(1, &["d"])).await;
        assert_eq!(next(&mut follower).await, message(subject, b"1:1"));
        d.advance(LEASE_MS).await;
        d.tick().await;
        assert_eq!(next(&mut follower).await, message(subject, b"1:1:closed"), "the lease is over");
        held = d.claim(LANE).await;
        assert_eq!(next(&mut follower).await, message(subject, b"2:0"));
        d.call(held.append(1, &["e"])).await;
        assert_eq!(next(&mut follower).await, message(subject, b"2:1"));
        d.call(held.complete(b"")).await;
        assert_eq!(next(&mut follower).await, message(subject, b"2:1:closed"), "all is over");
    }

    async fn a_subject_that_was_given_up_can_be_followed_again(d: &Deployment) {
        let subject = Subject::Frames(d.create().send().await);
        for round in 0..50u8 {
            let mut follower = follow(d, subject).await;
            publish(d, subject, &[round]).await;
            // What came before is a wake-up too many, if it was still on its way.
            while next(&mut follower).await != message(subject, &[round]) {}
            drop(follower);
            publish(d, subject, b"nobody listens").await;
        }
    }

    async fn who_reads_along_is_told_of_attempts_that_write_nothing(d: &Deployment) {
        let held = held_with(d, "").await;
        let subject = Subject::Frames(held.id);
        let mut follower = follow(d, subject).await;
        d.call(held.fail("no", "transient")).await;
        assert_eq!(next(&mut follower).await, message(subject, b"0:0:closed"));
        d.claim(LANE).await;
        assert_eq!(next(&mut follower).await, message(subject, b"1:0"), "another attempt");
        d.advance(LEASE_MS).await;
        d.tick().await;
        assert_eq!(next(&mut follower).await, message(subject, b"1:0:closed"));
        d.claim(LANE).await;
        assert_eq!(next(&mut follower).await, message(subject, b"2:0"));
    }
}
