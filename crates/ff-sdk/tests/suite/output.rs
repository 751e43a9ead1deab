//! The output of attempts: written by workers, read and followed by anybody.

use std::time::Duration;

use ff_sdk::{
    AttemptIndex, Backoff, ClaimedTask, Client, Code, Context, EngineError, ExecutionId,
    ExecutionPolicy, Follow, Frame, FrameKind, Output, OutputCursor, RetryPolicy, SdkError,
    StreamCursor, TaskError, read_stream, tail_stream,
};

use crate::site::{LANE, LONG, Site, claim};

async fn next(follow: &mut Follow) -> Option<Output> {
    let next = tokio::time::timeout(LONG, follow.next()).await.expect("something comes");
    next.map(|piece| piece.expect("no trouble"))
}

/// Everything up to the end, in short: `@0` is an attempt, `+3` frames that do not come, `.` the
/// end, and all else the text of a frame.
async fn rest(follow: &mut Follow) -> String {
    let mut words = Vec::new();
    while let Some(piece) = next(follow).await {
        words.push(word(&piece));
    }
    words.join(" ")
}

fn word(piece: &Output) -> String {
    match piece {
        Output::Attempt { attempt_index } => format!("@{attempt_index}"),
        Output::Skipped { sequence, .. } => format!("+{sequence}"),
        Output::Frame { frame, .. } => String::from_utf8_lossy(&frame.payload()).into_owned(),
        Output::Summary { document, .. } => document.clone(),
        Output::End { closed_reason, .. } => {
            format!(".{}", closed_reason.as_deref().unwrap_or_default())
        }
        other => panic!("{other:?}"),
    }
}

async fn write(task: &ClaimedTask, words: &[&str]) {
    for word in words {
        task.append_frame("token", word.as_bytes(), None).await.expect("appended");
    }
}

fn code(error: &SdkError) -> Option<Code> {
    error.engine().and_then(EngineError::code)
}

async fn started(site: &Site) -> (ExecutionId, ClaimedTask) {
    let id = site.submit("x").await;
    let worker = site.worker("w-1", 4).await;
    (id, claim(&worker).await)
}

pub(crate) async fn output_is_followed_from_the_first_frame_to_the_end(site: Site) {
    let (id, task) = started(&site).await;
    write(&task, &["a", "b"]).await;
    let mut first = site.client.follow(&id).await.expect("follows");
    let seen = [next(&mut first).await, next(&mut first).await, next(&mut first).await];
    assert_eq!(seen.map(|piece| word(&piece.expect("there"))), ["@0", "a", "b"]);
    let mut second = site.client.follow(&id).await.expect("follows");
    for letter in ["c", "d", "e"] {
        task.frames().text("token", letter).await.expect("written");
    }
    task.complete(None).await.expect("completed");
    assert_eq!(rest(&mut first).await, "c d e .attempt_success");
    assert_eq!(rest(&mut second).await, "@0 a b c d e .attempt_success");
    let mut late = site.client.follow(&id).await.expect("follows");
    assert_eq!(rest(&mut late).await, "@0 a b c d e .attempt_success");
}

pub(crate) async fn a_new_attempt_replaces_the_output_of_the_old_one(site: Site) {
    let retry = RetryPolicy { max_retries: 1, ..RetryPolicy::default() };
    let retry = RetryPolicy { backoff: Backoff::Fixed { delay_ms: 1 }, ..retry };
    let submission = site.client.submit_raw("test", "x").lane(LANE).retry(retry);
    let id = submission.await.expect("submitted").execution_id();
    let mut early = site.client.follow(&id).await.expect("follows");
    let worker = site.worker("w-1", 1).await;
    let task = claim(&worker).await;
    write(&task, &["lost", "words"]).await;
    task.fail("broken", "transient").await.expect("failed");
    let task = claim(&worker).await;
    write(&task, &["all", "of", "it"]).await;
    task.complete(None).await.expect("completed");
    assert_eq!(rest(&mut early).await, "@0 lost words @1 all of it .attempt_success");
    let mut late = site.client.follow(&id).await.expect("follows");
    assert_eq!(rest(&mut late).await, "@1 all of it .attempt_success");
}

pub(crate) async fn an_execution_without_output_ends_for_those_who_follow_it(site: Site) {
    let id = site.submit("x").await;
    let mut follow = site.client.follow(&id).await.expect("follows");
    let worker = site.worker("w-1", 1).await;
    claim(&worker).await.complete(None).await.expect("completed");
    assert_eq!(rest(&mut follow).await, "@0 .attempt_success");
    let never = site.submit("x").await;
    let mut follow = site.client.follow(&never).await.expect("follows");
    site.client.cancel(&never, "nobody wants it").await.expect("cancelled");
    assert_eq!(rest(&mut follow).await, ".");
}

pub(crate) async fn whoever_takes_over_goes_on_where_the_other_was(site: Site) {
    let (id, task) = started(&site).await;
    write(&task, &["a", "b", "c"]).await;
    let mut first = site.client.follow(&id).await.expect("follows");
    for expected in ["@0", "a", "b"] {
        assert_eq!(word(&next(&mut first).await.expect("there")), expected);
    }
    assert_eq!(first.cursor().to_string(), "0-2");
    let mut second = site.client.follow_from(&id, first.cursor()).await.expect("follows");
    let mut new = site.client.follow_from(&id, OutputCursor::End).await.expect("follows");
    write(&task, &["d"]).await;
    task.complete(None).await.expect("completed");
    assert_eq!(rest(&mut second).await, "c d .attempt_success");
    assert_eq!(rest(&mut new).await, "+3 d .attempt_success");
    let ahead: OutputCursor = "0-9".parse().expect("a position");
    let mut ahead = site.client.follow_from(&id, ahead).await.expect("follows");
    assert_eq!(rest(&mut ahead).await, "@0 a b c d .attempt_success");
}

pub(crate) async fn an_attempt_is_read_and_waited_for(site: Site) {
    let (id, task) = started(&site).await;
    let (engine, first) = (site.connection.engine().as_ref(), AttemptIndex(0));
    let start = StreamCursor::from_beginning;
    let empty = task.tail_stream(start(), 0, 10).await.expect("read");
    assert!(empty.frames.is_empty() && !empty.is_closed());
    let outcome = task.append_frame("token", b"\xff\x00", Some("c-1")).await.expect("appended");
    assert_eq!((outcome.stream_id, outcome.frame_count), (format!("{id}:0"), 1));
    let (from, to) = (StreamCursor::Start, StreamCursor::End);
    let read = task.read_stream(from.clone(), to.clone(), 10).await.expect("read");
    assert_eq!((read.count, read.frames[0].frame_type()), (1, "token"));
    assert_eq!(read.frames[0].payload().as_ref(), b"\xff\x00");
    assert_eq!(read.frames[0].correlation_id(), Some("c-1"));
    let behind = StreamCursor::at_sequence(1);
    let waiting = tail_stream(engine, &id, first, behind.clone(), 20_000, 10);
    let (tailed, ()) = tokio::join!(waiting, write(&task, &["more"]));
    let tailed = tailed.expect("woken");
    assert_eq!((tailed.frames[0].payload().as_ref(), tailed.next), (&b"more"[..], 3));
    let last = StreamCursor::at_sequence(2);
    let waiting = tail_stream(engine, &id, first, last.clone(), 30_000, 10);
    let (closed, ended) = tokio::join!(waiting, task.complete(None));
    ended.expect("completed");
    let closed = closed.expect("woken");
    assert_eq!(closed.closed_reason.as_deref(), Some("attempt_success"));
    let read = read_stream(engine, &id, first, behind, to, 1).await.expect("read");
    assert!(read.has_more() && read.frames[0].sequence() == Some(1));
}

/// What it has, it keeps; what it has not when the execution goes, it is told of.
pub(crate) async fn a_follower_of_an_execution_that_goes_at_its_end_is_told_so(site: Site) {
    let policy = ExecutionPolicy { retention_ms: Some(0), ..ExecutionPolicy::default() };
    let submission = site.client.submit_raw("test", "x").lane(LANE).policy(policy);
    let id = submission.await.expect("submitted").execution_id();
    let worker = site.worker("w-1", 1).await;
    let task = claim(&worker).await;
    let mut follow = site.client.follow(&id).await.expect("follows");
    write(&task, &["a"]).await;
    let seen = [next(&mut follow).await, next(&mut follow).await];
    assert_eq!(seen.map(|piece| word(&piece.expect("there"))), ["@0", "a"]);
    write(&task, &["b"]).await;
    task.complete(None).await.expect("completed");
    let mut words = Vec::new();
    loop {
        let piece = tokio::time::timeout(LONG, follow.next()).await.expect("something comes");
        match piece {
            Some(Ok(piece)) => words.push(word(&piece)),
            Some(Err(error)) => {
                assert_eq!(code(&error), Some(Code::ExecutionNotFound), "{error}");
                words.push("gone".to_owned());
                break;
            }
            None => break,
        }
    }
    let words = words.join(" ");
    let allowed = ["b .attempt_success", "b gone", "gone"];
    assert!(allowed.contains(&words.as_str()), "{words}");
    let late = site.client.follow(&id).await;
    if let Err(error) = late {
        assert_eq!(code(&error), Some(Code::ExecutionNotFound), "{error}");
    }
}

/// The first goes alone, the others together: their order is the one in which they were asked for.
pub(crate) async fn frames_that_travel_together_are_each_told_their_own_number(site: Site) {
    let (_, task) = started(&site).await;
    let append = |text: &'static str| task.append_frame("token", text.as_bytes(), None);
    let (a, b, c, d, e) =
        tokio::join!(append("a"), append("b"), append("c"), append("d"), append("e"));
    let counts = [a, b, c, d, e].map(|outcome| outcome.expect("appended").frame_count);
    assert_eq!(counts, [1, 2, 3, 4, 5]);
    task.complete(None).await.expect("completed");
}

pub(crate) async fn a_wrong_read_is_refused_before_anything_is_sent(site: Site) {
    let (_, task) = started(&site).await;
    let config = |error: SdkError| match error {
        SdkError::Config { context, field, .. } => (context, field.unwrap_or_default()),
        other => panic!("{other}"),
    };
    let at = StreamCursor::from_beginning;
    let wrong = task.tail_stream(StreamCursor::End, 30_001, 0).await.expect_err("too long");
    assert_eq!(config(wrong), ("tail_stream".to_owned(), "block_ms".to_owned()));
    let wrong = task.tail_stream(StreamCursor::End, 0, 0).await.expect_err("too few");
    assert_eq!(config(wrong), ("read_stream_frames".to_owned(), "count_limit".to_owned()));
    let wrong = task.tail_stream(StreamCursor::End, 0, 1).await.expect_err("nowhere");
    assert_eq!(config(wrong), ("tail_stream".to_owned(), "after".to_owned()));
    let wrong = task.read_stream(at(), at(), 10_001).await.expect_err("too many");
    assert_eq!(config(wrong), ("read_stream_frames".to_owned(), "count_limit".to_owned()));
}

pub(crate) async fn an_unknown_execution_cannot_be_followed(site: Site) {
    let unknown = "{fp:1}:550e8400-e29b-41d4-a716-446655440000";
    let unknown = ExecutionId::parse(unknown).expect("an id");
    let error = site.client.follow(&unknown).await.expect_err("there is none");
    assert_eq!(code(&error), Some(Code::ExecutionNotFound), "{error}");
    let engine = site.connection.engine().as_ref();
    let at = StreamCursor::from_beginning();
    let error = tail_stream(engine, &unknown, AttemptIndex(0), at, 30_000, 1).await;
    assert_eq!(code(&error.expect_err("there is none")), Some(Code::ExecutionNotFound));
}

pub(crate) async fn a_resumed_attempt_goes_on_counting(site: Site) {
    let (id, task) = started(&site).await;
    write(&task, &["a", "b"]).await;
    task.delay_for(Duration::ZERO).await.expect("put aside");
    let worker = site.worker("w-2", 1).await;
    let task = claim(&worker).await;
    let outcome = task.append_frame("token", b"c", None).await.expect("appended");
    assert_eq!(outcome.frame_count, 3);
    task.complete(None).await.expect("completed");
    let mut follow = site.client.follow(&id).await.expect("follows");
    assert_eq!(rest(&mut follow).await, "@0 a b c .attempt_success");
}

const MANY: u32 = 700;

async fn count(context: Context, _: ()) -> Result<u32, TaskError> {
    for number in 1..=MANY {
        context.frames().text("number", number.to_string()).await?;
    }
    Ok(MANY)
}

/// The numbers that came as frames, each once and in order.
async fn counted(client: &Client, id: &ExecutionId) -> u32 {
    let (mut follow, mut counted) = (client.follow(id).await.expect("follows"), 0);
    while let Some(piece) = next(&mut follow).await {
        if let Some(frame) = piece.frame() {
            counted += 1;
            assert_eq!(frame.payload().as_ref(), counted.to_string().as_bytes());
        }
    }
    counted
}

pub(crate) async fn a_handler_s_output_is_there_before_its_result(site: Site) {
    let worker = site.handlers().on("count", count).build().expect("valid");
    let (stop, running) = (worker.shutdown_handle(), tokio::spawn(worker.run()));
    let submission = site.client.submit("count", &()).lane(LANE);
    let id = submission.await.expect("submitted").execution_id();
    let along = counted(&site.client, &id);
    let result = site.client.await_result::<u32>(&id, LONG);
    let (along, result) = tokio::join!(along, result);
    assert_eq!((along, result.expect("a result")), (MANY, MANY));
    assert_eq!(counted(&site.client, &id).await, MANY);
    stop.shutdown();
    running.await.expect("no panic").expect("it could go on");
}

pub(crate) async fn a_frame_that_is_refused_does_not_cost_the_others(site: Site) {
    let (id, task) = started(&site).await;
    let frames = task.frames();
    let bad = Frame::new(FrameKind::Event, "x").with_type("no\ncontrol");
    frames.text("token", "a").await.expect("written");
    frames.write(bad).await.expect("not known yet");
    frames.text("token", "b").await.expect("written");
    let error = frames.flush().await.expect_err("one was refused");
    assert_eq!(code(&error), Some(Code::InvalidFrameType), "{error}");
    let large = Frame::new(FrameKind::Blob, vec![0; (64 << 10) + 1]);
    let error = frames.write(large).await.expect_err("too large");
    assert_eq!(code(&error), Some(Code::FrameTooLarge), "{error}");
    task.complete(None).await.expect("completed");
    let mut follow = site.client.follow(&id).await.expect("follows");
    assert_eq!(rest(&mut follow).await, "@0 a b .attempt_success");
}

pub(crate) async fn a_reader_that_falls_behind_misses_nothing(site: Site) {
    let (id, task) = started(&site).await;
    let mut slow = site.client.follow(&id).await.expect("follows");
    let frames = task.frames();
    for number in 1..=3_000 {
        frames.text("number", format!("{number:01000}")).await.expect("written");
    }
    task.complete(None).await.expect("completed");
    let mut expected = 0;
    while let Some(piece) = next(&mut slow).await {
        if let Some(frame) = piece.frame() {
            expected += 1;
            assert_eq!(frame.sequence(), Some(expected));
        }
    }
    assert_eq!(expected, 3_000);
}
