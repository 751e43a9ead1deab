//! The output of attempts: who may write it, what is kept of it, and what readers are told.

use ff_conformance::record::{events_of, key_of};
use ff_conformance::{Deployment, Held, LANE, LEASE_MS, conformance};
use ff_core::backend::{Frame, FrameKind};
use ff_core::contracts::{STREAM_READ_HARD_CAP, StreamFrames, StreamQuery};
use ff_core::engine_backend::roles::*;
use ff_core::error::{Code, EngineError};
use ff_core::limits;
use ff_core::types::{AttemptId, AttemptIndex, ExecutionId, StreamCursor};
use ff_script::calls::cancel::CancelExecution;
use ff_script::calls::lease::RevokeLease;
use ff_script::calls::stream::{AppendFrame, AppendFrameReply};

use super::cancel::outside;
use super::scenario::encode;

/// Retries at once, as often as tests need.
const RETRY: &str = r#""retry_policy":{"max_retries":99,"backoff":{"type":"fixed","delay_ms":0}}"#;

/// A policy for streams and nothing else but retries.
pub(crate) fn policy(stream: &str) -> String {
    format!(r#"{{{RETRY},"stream_policy":{{{stream}}}}}"#)
}

/// An execution with this stream policy, in the hands of a worker.
pub(crate) async fn held_with(d: &Deployment, stream: &str) -> Held {
    d.create().policy(&policy(stream)).send().await;
    d.claim(LANE).await
}

pub(crate) async fn read(d: &Deployment, id: ExecutionId, query: StreamQuery) -> StreamFrames {
    d.backend.read_stream(id, query).await.expect("it can be read")
}

pub(crate) async fn read_all(d: &Deployment, id: ExecutionId) -> StreamFrames {
    read(d, id, StreamQuery { limit: Some(STREAM_READ_HARD_CAP), ..Default::default() }).await
}

pub(crate) fn of_attempt(index: u32) -> StreamQuery {
    StreamQuery { attempt_index: Some(AttemptIndex(index)), ..StreamQuery::default() }
}

/// Numbers and bytes of what was read, as `1:a 2:b`.
pub(crate) fn shown(read: &StreamFrames) -> String {
    let one = |frame: &ff_core::contracts::StreamFrame| {
        let number = frame.sequence().expect("a number");
        format!("{number}:{}", String::from_utf8_lossy(&frame.payload()))
    };
    read.frames.iter().map(one).collect::<Vec<_>>().join(" ")
}

pub(crate) fn letters(count: u64) -> Vec<String> {
    (0..count).map(|n| char::from(b'a' + (n % 26) as u8).to_string()).collect()
}

pub(crate) fn appended(last_sequence: u64) -> AppendFrameReply {
    AppendFrameReply::Appended { last_sequence }
}

pub(crate) fn before(last_sequence: u64) -> AppendFrameReply {
    AppendFrameReply::AppendedBefore { last_sequence }
}

pub(crate) async fn fail_and_claim(d: &Deployment, held: &Held) -> Held {
    d.call(held.fail("no", "transient")).await;
    d.claim(LANE).await
}

fn revoke(id: ExecutionId) -> RevokeLease {
    let (expected_lease_id, reason, request_id) = (None, String::new(), None);
    RevokeLease { execution_id: id, expected_lease_id, reason, request_id }
}

/// Everything that belongs to an execution's output.
pub(crate) async fn stream_keys(d: &Deployment, id: ExecutionId) -> Vec<String> {
    let prefix = key_of(id, ":s:");
    let name = |key: &Vec<u8>| key.strip_prefix(prefix.as_slice()).map(<[u8]>::to_vec);
    let names = d.dump().await.keys().filter_map(name).collect::<Vec<_>>();
    names.into_iter().map(|name| String::from_utf8(name).expect("ASCII")).collect()
}

async fn refused_reason(d: &Deployment, call: AppendFrame, code: Code) -> String {
    let (found, details) = d.refusal(call).await;
    assert_eq!(found, code);
    details.concat()
}

conformance! {
    async fn frames_are_read_as_they_were_written(d: &Deployment) {
        let held = d.create_and_claim().await;
        let all: Vec<u8> = (0..=255).collect();
        let mut late = Frame::new(FrameKind::Stderr, "late").with_correlation_id("trace:7");
        late.age_ms = 250;
        let frames = vec![
            Frame::new(FrameKind::Blob, all.clone()),
            late,
            Frame::new(FrameKind::Event, "").with_type("tool.call"),
        ];
        assert_eq!(d.call(held.append_frames(1, frames)).await, appended(3));
        let read = read_all(d, held.id).await;
        let now = d.now();
        let types: Vec<&str> = read.frames.iter().map(|frame| frame.frame_type()).collect();
        assert_eq!(types, ["blob", "stderr", "tool.call"]);
        assert_eq!(read.frames[0].payload(), all);
        assert_eq!(read.frames[1].at().map(|at| at.get()), Some(now.get() - 250));
        assert_eq!(read.frames[1].correlation_id(), Some("trace:7"));
        assert_eq!(read.frames[2].at(), Some(now));
        assert_eq!((read.frames[2].id.as_str(), &*read.frames[2].payload()), ("3-0", &b""[..]));
        assert_eq!((read.first_sequence, read.last_sequence, read.next), (1, 3, 4));
        assert!(!read.is_closed() && !read.execution_ended && !read.has_more());
    }

    async fn t1_a_retried_append_does_not_double_frames(d: &Deployment) {
        let held = d.create_and_claim().await;
        assert_eq!(d.call(held.append(1, &["a", "b"])).await, appended(2));
        assert_eq!(d.call(held.append(1, &["a", "b"])).await, before(2));
        assert_eq!(d.call(held.append(2, &["b"])).await, before(2));
        assert_eq!(d.call(held.append(3, &["c"])).await, appended(3));
        assert_eq!(d.call(held.append(1, &["a", "b"])).await, before(2));
        assert_eq!(shown(&read_all(d, held.id).await), "1:a 2:b 3:c");
    }

    async fn a_lost_answer_to_an_append_is_asked_for_again(d: &Deployment) {
        d.create_one().await;
        let claimed = d.backend.claim_next(d.home(), claim_request(d)).await.expect("claims").claimed;
        d.host().lose_replies(2);
        let frames = vec![Frame::new(FrameKind::Event, "once").with_seq(claimed[0].next_frame)];
        let outcome = d.backend.append_frames(&claimed[0].handle, frames).await.expect("appends");
        assert_eq!((d.host().replies_to_lose(), outcome.frame_count), (0, 1));
        let id = claimed[0].handle.execution_id;
        assert_eq!(outcome.stream_id, format!("{id}:0"));
        assert_eq!(shown(&read_all(d, id).await), "1:once");
    }

    async fn a_partly_repeated_batch_adds_the_rest(d: &Deployment) {
        let held = d.create_and_claim().await;
        d.call(held.append(1, &["a", "b"])).await;
        assert_eq!(d.call(held.append(2, &["b", "c", "d"])).await, appended(4));
        assert_eq!(shown(&read_all(d, held.id).await), "1:a 2:b 3:c 4:d");
    }

    async fn a_gap_is_refused_with_the_number_that_is_expected(d: &Deployment) {
        let held = d.create_and_claim().await;
        let gap = Code::FrameGap;
        assert_eq!(refused_reason(d, held.append(2, &["b"]), gap).await, "1");
        d.call(held.append(1, &["a"])).await;
        assert_eq!(refused_reason(d, held.append(3, &["c", "d"]), gap).await, "2");
        assert_eq!(shown(&read_all(d, held.id).await), "1:a");
    }

    async fn t3_a_read_has_a_byte_budget_and_a_continuation(d: &Deployment) {
        d.host().watch(false);
        let held = d.create_and_claim().await;
        let large = vec![b'x'; 40_000];
        for number in 1..=10 {
            d.call(held.append(number, &[&large])).await;
        }
        let (mut query, mut pages, mut numbers) = (StreamQuery::default(), 0, Vec::new());
        query.bytes_max = Some(100_000);
        loop {
            let read = read(d, held.id, query.clone()).await;
            numbers.extend(read.frames.iter().filter_map(|frame| frame.sequence()));
            pages += 1;
            if !read.has_more() {
                break;
            }
            query.from = Some(read.next_cursor());
        }
        assert_eq!((pages, numbers), (5, (1..=10).collect::<Vec<u64>>()));
        query.from = None;
        query.bytes_max = Some(1);
        let one = read(d, held.id, query).await;
        assert_eq!((one.frames.len(), one.next), (1, 2), "one frame always fits");
    }

    async fn a_range_is_inclusive_and_a_tail_begins_behind_its_cursor(d: &Deployment) {
        d.host().watch(false);
        let held = d.create_and_claim().await;
        d.call(held.append(1, &letters(6))).await;
        let at = |text: &str| -> StreamCursor { text.parse().expect("a cursor") };
        for (from, to, right) in [
            ("start", "end", "1:a 2:b 3:c 4:d 5:e 6:f"),
            ("2", "4-0", "2:b 3:c 4:d"),
            ("2-1", "4-7", "3:c 4:d"),
            ("5-0", "end", "5:e 6:f"),
            ("7", "end", ""),
            ("end", "end", ""),
            ("4", "3", ""),
            ("start", "start", ""),
        ] {
            let query = StreamQuery::range(AttemptIndex(0), at(from), at(to), 100);
            assert_eq!(shown(&read(d, held.id, query).await), right, "{from} {to}");
        }
        for (after, limit, right) in
            [("0-0", 2, "1:a 2:b"), ("4", 9, "5:e 6:f"), ("5-9", 9, "6:f"), ("6-0", 9, "")] {
            let query = StreamQuery::behind(AttemptIndex(0), at(after), limit);
            assert_eq!(shown(&read(d, held.id, query).await), right, "{after}");
        }
    }

    async fn a_read_of_more_than_a_page_is_whole(d: &Deployment) {
        d.host().watch(false);
        let held = d.create_and_claim().await;
        for first in [1, 101, 201] {
            d.call(held.append(first, &letters(100))).await;
        }
        for (limit, next) in [(63, 64), (64, 65), (65, 66), (128, 129), (300, 301), (301, 301)] {
            let read = read(d, held.id, StreamQuery { limit: Some(limit), ..of_attempt(0) }).await;
            let numbers: Vec<u64> = read.frames.iter().filter_map(|it| it.sequence()).collect();
            assert_eq!(numbers, (1..next).collect::<Vec<u64>>(), "{limit}");
            assert_eq!((read.next, read.has_more()), (next, next < 301));
        }
    }

    async fn t4_every_refusal_has_its_own_code(d: &Deployment) {
        let held = d.create_and_claim().await;
        let nowhere = AppendFrame { execution_id: d.new_id(), ..held.append(1, &["a"]) };
        assert_eq!(d.refused(nowhere).await, Code::ExecutionNotFound);
        let large = vec![0; limits::FRAME_BYTES_MAX as usize + 1];
        let (code, details) = d.refusal(held.append(1, &[b"small".to_vec(), large])).await;
        assert_eq!((code, details.join(" ")), (Code::FrameTooLarge, "2 65536".to_owned()));
        let largest = vec![0; limits::FRAME_BYTES_MAX as usize];
        let many = vec![largest.clone(); 17];
        assert_eq!(d.refused(held.append(1, &many)).await, Code::PayloadTooLarge);
        d.call(held.append(1, &many[..16])).await;
        for wrong in ["", "a:b", "a{b", " a", "a ", "é", &"x".repeat(65)] {
            let mut args = encode(&held.append(17, &["a", "b"]));
            args[9] = wrong.as_bytes().to_vec();
            let args: Vec<&[u8]> = args.iter().map(Vec::as_slice).collect();
            assert_eq!(d.raw("ff_append_frame", &args).await.word, "invalid_frame_type", "{wrong}");
        }
        for (place, value, rule) in [
            (6, "c".repeat(256), None),
            (6, "c".repeat(257), Some("frame 1 correlation_id must be at most 256 bytes")),
            (7, "86400000".to_owned(), None),
            (7, "86400001".to_owned(),
                Some("frame 1 age_ms must be a whole number from 0 to 86400000")),
        ] {
            let mut args = encode(&held.append(17, &["a"]));
            args[place] = value.into_bytes();
            let args: Vec<&[u8]> = args.iter().map(Vec::as_slice).collect();
            let answer = d.raw("ff_append_frame", &args).await;
            assert_eq!(rule, (!answer.done).then(|| answer.text(0)).as_deref());
        }
        let args = encode(&held.append(17, &["a", "b"]));
        let cut: Vec<&[u8]> = args[..args.len() - 1].iter().map(Vec::as_slice).collect();
        let answer = d.raw("ff_append_frame", &cut).await;
        assert_eq!(answer.text(0), "frames must come in groups of 4");
        let attempt_id = AttemptId::from_uuid(d.new_uuid());
        let other = AppendFrame { attempt_id, ..held.append(17, &["a"]) };
        let stale = refused_reason(d, other, Code::StaleOwnerCannotAppend).await;
        assert_eq!(stale, "stale_lease");
    }

    async fn a_frame_that_the_stream_would_not_keep_is_refused(d: &Deployment) {
        let held = held_with(d, r#""retention_bytes":4"#).await;
        d.call(held.append(1, &["four"])).await;
        let (code, details) = d.refusal(held.append(2, &["a", "fives"])).await;
        assert_eq!((code, details.join(" ")), (Code::RetentionLimitExceeded, "frame 4".to_owned()));
        assert_eq!(d.call(held.append(1, &["four"])).await, before(1));
    }

    async fn only_the_holder_of_the_lease_writes(d: &Deployment) {
        let held = d.create_and_claim().await;
        let stale = Code::StaleOwnerCannotAppend;
        for (left_out, code) in [(1..4, "fence_required"), (2..3, "partial_fence_triple")] {
            let mut args = encode(&held.append(1, &["a"]));
            args[left_out].iter_mut().for_each(Vec::clear);
            let args: Vec<&[u8]> = args.iter().map(Vec::as_slice).collect();
            assert_eq!(d.raw("ff_append_frame", &args).await.word, code);
        }
        d.call(held.append(1, &["a"])).await;
        d.advance(LEASE_MS).await;
        assert_eq!(refused_reason(d, held.append(2, &["b"]), stale).await, "lease_expired");
        d.tick().await;
        assert_eq!(refused_reason(d, held.append(2, &["b"]), stale).await, "lease_expired");
        assert_eq!(d.call(held.append(1, &["a"])).await, before(1), "it was there in time");
        let next = d.claim(LANE).await;
        assert_eq!(refused_reason(d, held.append(2, &["b"]), stale).await, "stale_lease");
        d.call(revoke(next.id)).await;
        assert_eq!(refused_reason(d, next.append(1, &["b"]), stale).await, "lease_revoked");
    }

    async fn t5_an_attempt_closes_its_own_stream_and_no_other(d: &Deployment) {
        let held = held_with(d, "").await;
        d.call(held.append(1, &["a"])).await;
        let next = fail_and_claim(d, &held).await;
        let failed_at = d.now();
        d.call(next.append(1, &["b"])).await;
        d.advance(10).await;
        d.call(outside(held.id, "operator_override")).await;
        let first = read(d, held.id, of_attempt(0)).await;
        assert_eq!((first.closed_at, shown(&first)), (Some(failed_at), "1:a".to_owned()));
        assert_eq!(first.closed_reason.as_deref(), Some("attempt_failure"));
        let second = read(d, held.id, of_attempt(1)).await;
        assert_eq!((second.closed_at, shown(&second)), (Some(d.now()), "1:b".to_owned()));
        assert_eq!(second.closed_reason.as_deref(), Some("attempt_cancelled"));
        assert!(first.is_replaced() && !second.is_replaced() && second.execution_ended);
    }

    async fn a_closed_stream_says_why(d: &Deployment) {
        for (end, reason) in [("complete", "attempt_success"), ("fail", "attempt_failure"),
            ("cancel", "attempt_cancelled"), ("retry", "attempt_failure"),
            ("timeout", "attempt_failure"), ("revoke", "attempt_interrupted")] {
            let policy = match end {
                "retry" => format!("{{{RETRY}}}"),
                "timeout" => r#"{"timeout_policy":{"attempt_timeout_ms":10}}"#.to_owned(),
                _ => "{}".to_owned(),
            };
            d.create().policy(&policy).send().await;
            let held = d.claim(LANE).await;
            d.call(held.append(1, &["a"])).await;
            d.advance(10).await;
            match end {
                "complete" => {
                    d.call(held.complete(b"")).await;
                }
                "fail" | "retry" => drop(d.call(held.fail("no", "x")).await),
                "cancel" => drop(d.call::<CancelExecution>(held.cancel("no")).await),
                "timeout" => drop(d.tick().await),
                _ => drop(d.call(revoke(held.id)).await),
            }
            let read = read_all(d, held.id).await;
            let closed = (read.closed_at, read.closed_reason.as_deref());
            assert_eq!(closed, (Some(d.now()), Some(reason)), "{end}");
            assert_eq!(read.execution_ended, !matches!(end, "retry" | "revoke"), "{end}");
            if end != "revoke" {
                let refused = refused_reason(d, held.append(2, &["b"]), Code::StreamClosed).await;
                assert_eq!(refused, reason, "{end}");
            }
            if let Some(next) = d.try_claim(LANE).await {
                d.call(next.complete(b"")).await;
            }
        }
    }

    async fn ending_writes_nothing_to_the_stream(d: &Deployment) {
        let held = d.create_and_claim().await;
        d.call(held.append(1, &["a"])).await;
        let key = key_of(held.id, ":s:0");
        let before = d.dump().await[&key].clone();
        d.call(held.complete(b"")).await;
        assert_eq!(d.dump().await[&key], before);
    }

    async fn an_append_says_nothing_in_the_log_and_changes_two_keys(d: &Deployment) {
        let held = d.create_and_claim().await;
        d.call(held.append(1, &["a"])).await;
        let before = d.dump().await;
        d.call(held.append(2, &["b"])).await;
        let after = d.dump().await;
        assert_eq!(events_of(&before, held.id), events_of(&after, held.id));
        let changed = before.iter().filter(|(key, stored)| after.get(*key) != Some(stored)).count();
        assert_eq!(changed, 2, "only the record and the stream change");
    }

    async fn a_resumed_claim_tells_the_next_number(d: &Deployment) {
        let held = d.create_and_claim().await;
        assert_eq!(held.row.next_frame, 1);
        d.call(held.append(1, &["a", "b"])).await;
        d.call(held.wait_for_children()).await;
        let paused = read_all(d, held.id).await;
        assert!(!paused.is_closed(), "a paused attempt goes on");
        let stale = Code::StaleOwnerCannotAppend;
        assert_eq!(refused_reason(d, held.append(3, &["c"]), stale).await, "stale_lease");
        let resumed = d.claim(LANE).await;
        assert_eq!((resumed.row.attempt_index, resumed.row.next_frame), (AttemptIndex(0), 3));
        d.call(resumed.append(3, &["c"])).await;
        assert_eq!(shown(&read_all(d, held.id).await), "1:a 2:b 3:c");
    }

    async fn a_new_attempt_begins_its_own_stream(d: &Deployment) {
        let held = held_with(d, "").await;
        d.call(held.append(1, &["a", "b"])).await;
        let next = fail_and_claim(d, &held).await;
        assert_eq!(next.row.next_frame, 1);
        let empty = read_all(d, held.id).await;
        assert_eq!((empty.attempt_index, empty.last_sequence), (AttemptIndex(1), 0));
        d.call(next.append(1, &["c"])).await;
        assert_eq!(shown(&read_all(d, held.id).await), "1:c");
        let past = read(d, held.id, of_attempt(0)).await;
        assert_eq!((shown(&past), past.latest_attempt), ("1:a 2:b".into(), Some(AttemptIndex(1))));
        assert_eq!((past.first_sequence, past.last_sequence), (1, 2));
    }

    async fn what_was_never_written_is_open_and_empty(d: &Deployment) {
        let id = d.create_one().await;
        let read_before = read_all(d, id).await;
        let mut empty = StreamFrames::empty_open();
        assert_eq!(read_before, empty);
        d.claim(LANE).await;
        let ahead = read(d, id, of_attempt(4)).await;
        (empty.attempt_index, empty.latest_attempt) = (AttemptIndex(4), Some(AttemptIndex(0)));
        assert_eq!(ahead, empty);
        let unknown = d.backend.read_stream(d.new_id(), StreamQuery::default()).await;
        assert_eq!(unknown.map_err(|error| error.code()), Err(Some(Code::ExecutionNotFound)));
    }

    async fn a_wrong_query_is_refused_before_anything_is_read(d: &Deployment) {
        let id = d.create_one().await;
        for query in [
            StreamQuery { limit: Some(0), ..Default::default() },
            StreamQuery { limit: Some(10_001), ..Default::default() },
            StreamQuery {
                bytes_max: Some(limits::STREAM_READ_BYTES_MAX + 1),
                ..Default::default()
            },
            StreamQuery { after: Some(StreamCursor::End), ..Default::default() },
        ] {
            let refused = d.backend.read_stream(id, query).await;
            assert!(matches!(refused, Err(EngineError::InvalidArgument { .. })), "{refused:?}");
        }
    }

    async fn the_correlation_id_of_a_frame_is_text(d: &Deployment) {
        let held = d.create_and_claim().await;
        let mut args = encode(&held.append(1, &["a"]));
        for wrong in [&b"\xff"[..], b"a\xc3", b"\xed\xa0\x80"] {
            args[6] = wrong.to_vec();
            let args: Vec<&[u8]> = args.iter().map(Vec::as_slice).collect();
            assert_eq!(d.raw("ff_append_frame", &args).await.code(), "invalid_input", "{wrong:?}");
        }
        args[6] = "Ünï".into();
        let args: Vec<&[u8]> = args.iter().map(Vec::as_slice).collect();
        d.raw("ff_append_frame", &args).await;
        assert_eq!(read_all(d, held.id).await.frames[0].correlation_id(), Some("Ünï"));
    }
}

fn claim_request(d: &Deployment) -> ff_core::contracts::ClaimRequest {
    let call = d.claim_call(LANE, 1);
    ff_core::contracts::ClaimRequest {
        lane: call.lane,
        worker_id: call.worker_id,
        worker_instance_id: call.worker_instance_id,
        capabilities: call.capabilities,
        kinds: Vec::new(),
        namespaces: Vec::new(),
        from: Default::default(),
        lease_ttl_ms: call.lease_ttl_ms,
        lease_ids: call.lease_ids.0,
        retry: false,
    }
}
