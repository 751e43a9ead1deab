//! Output that sums up to a document: every frame is a merge patch (RFC 7396).

use ff_conformance::record::key_of;
use ff_conformance::{Deployment, Held, LANE, conformance};
use ff_core::contracts::StreamQuery;
use ff_core::error::Code;
use ff_core::limits;
use ff_core::types::{AttemptIndex, StreamCursor};

use super::stream::{held_with, read, read_all};

const SUMMARY: &str = r#""durability_mode":"summary""#;

async fn summary(d: &Deployment, held: &Held) -> String {
    read_all(d, held.id).await.summary.expect("there is one")
}

/// What is left when these patches are applied, one call each.
async fn folded(d: &Deployment, patches: &[&str]) -> String {
    let held = held_with(d, SUMMARY).await;
    for (patch, number) in patches.iter().zip(1..) {
        d.call(held.append(number, &[patch])).await;
    }
    let folded = summary(d, &held).await;
    d.call(held.complete(b"")).await;
    folded
}

/// Why a patch is refused, as the second frame of an attempt.
async fn refusal(d: &Deployment, patch: &[u8]) -> String {
    let held = held_with(d, SUMMARY).await;
    d.call(held.append(1, &[r#"{"kept":1}"#])).await;
    let (code, details) = d.refusal(held.append(2, &[patch])).await;
    assert_eq!(code, Code::InvalidInput, "{}", patch.escape_ascii());
    assert_eq!(summary(d, &held).await, r#"{"kept":1}"#);
    d.call(held.complete(b"")).await;
    details.concat()
}

conformance! {
    /// The examples of the RFC's appendix, each as original, patch and result.
    async fn the_examples_of_the_rfc_hold(d: &Deployment) {
        d.host().watch(false);
        for (original, patch, result) in [
            (r#"{"a":"b"}"#, r#"{"a":"c"}"#, r#"{"a":"c"}"#),
            (r#"{"a":"b"}"#, r#"{"b":"c"}"#, r#"{"a":"b","b":"c"}"#),
            (r#"{"a":"b"}"#, r#"{"a":null}"#, r#"{}"#),
            (r#"{"a":"b","b":"c"}"#, r#"{"a":null}"#, r#"{"b":"c"}"#),
            (r#"{"a":["b"]}"#, r#"{"a":"c"}"#, r#"{"a":"c"}"#),
            (r#"{"a":"c"}"#, r#"{"a":["b"]}"#, r#"{"a":["b"]}"#),
            (r#"{"a":{"b":"c"}}"#, r#"{"a":{"b":"d","c":null}}"#, r#"{"a":{"b":"d"}}"#),
            (r#"{"a":[{"b":"c"}]}"#, r#"{"a":[1]}"#, r#"{"a":[1]}"#),
            (r#"["a","b"]"#, r#"["c","d"]"#, r#"["c","d"]"#),
            (r#"{"a":"b"}"#, r#"["c"]"#, r#"["c"]"#),
            (r#"{"a":"foo"}"#, "null", "null"),
            (r#"{"a":"foo"}"#, r#""bar""#, r#""bar""#),
            (r#"{"e":null}"#, r#"{"a":1}"#, r#"{"a":1}"#),
            (r#"[1,2]"#, r#"{"a":"b","c":null}"#, r#"{"a":"b"}"#),
            (r#"{}"#, r#"{"a":{"bb":{"ccc":null}}}"#, r#"{"a":{"bb":{}}}"#),
        ] {
            assert_eq!(folded(d, &[original, patch]).await, result, "{original} {patch}");
        }
    }

    /// The example of the RFC's text: a title, an author and tags change, a number goes.
    async fn a_document_changes_where_a_patch_says(d: &Deployment) {
        let folded = folded(d, &[
            r#"{"title":"Goodbye!","author":{"givenName":"John","familyName":"Doe"},
                "tags":["example","sample"],"content":"This will be unchanged"}"#,
            r#"{"title":"Hello!","phoneNumber":"+01-123-456-7890",
                "author":{"familyName":null},"tags":["example"]}"#,
        ]).await;
        assert_eq!(folded, concat!(r#"{"title":"Hello!","author":{"givenName":"John"},"#,
            r#""tags":["example"],"content":"This will be unchanged","#,
            r#""phoneNumber":"+01-123-456-7890"}"#));
    }

    async fn what_is_not_touched_keeps_its_exact_text(d: &Deployment) {
        let folded = folded(d, &[
            r#"{"n":1.50e+3,"big":123456789012345678901234567890,"zero":-0.0,"list":[],"empty":{}}"#,
            r#"{"text":"\u00e9\/é 🦀","spaced":[ 1 , [ ] , {"a" : null} ]}"#,
            r#"{"\u006e2":1E-7,"q\"uote":"\"}"}"#,
            r#"{"other":true}"#,
        ]).await;
        assert_eq!(folded, concat!(
            r#"{"n":1.50e+3,"big":123456789012345678901234567890,"zero":-0.0,"list":[],"empty":{},"#,
            r#""text":"\u00e9\/é 🦀","spaced":[ 1 , [ ] , {"a" : null} ],"#,
            r#""\u006e2":1E-7,"q\"uote":"\"}","other":true}"#));
    }

    async fn names_are_the_same_however_they_are_spelled(d: &Deployment) {
        assert_eq!(folded(d, &[r#"{"a":1,"é":2}"#, r#"{"\u0061":3,"\u00e9":null}"#]).await,
            r#"{"a":3}"#);
        assert_eq!(folded(d, &[r#"{"a":1,"b":2}"#, r#"{"a":null}"#, r#"{"a":4}"#]).await,
            r#"{"b":2,"a":4}"#);
    }

    async fn several_patches_of_one_call_are_applied_in_order(d: &Deployment) {
        let held = held_with(d, SUMMARY).await;
        let patches = [r#"{"a":1}"#, r#"{"a":{"x":1}}"#, r#"{"a":"s"}"#, r#"{"a":{"y":null}}"#];
        d.call(held.append(1, &patches)).await;
        assert_eq!(summary(d, &held).await, r#"{"a":{}}"#, "an object takes the place of a text");
        d.call(held.append(3, &[r#"{"a":"lost"}"#, r#"{"a":"lost"}"#, r#"{"b":2}"#])).await;
        assert_eq!(summary(d, &held).await, r#"{"a":{},"b":2}"#, "only what is new is applied");
    }

    async fn late_readers_get_the_document_and_early_ones_the_patches(d: &Deployment) {
        d.host().watch(false);
        let held = held_with(d, r#""durability_mode":"summary","retention_maxlen":2"#).await;
        for number in 1..=4 {
            d.call(held.append(number, &[format!(r#"{{"n{number}":{number}}}"#)])).await;
        }
        let from = |sequence: u64| StreamQuery {
            from: Some(StreamCursor::at_sequence(sequence)),
            ..StreamQuery::default()
        };
        let whole = r#"{"n1":1,"n2":2,"n3":3,"n4":4}"#;
        for late in [StreamQuery::default(), from(1), from(2)] {
            let read = read(d, held.id, late).await;
            assert_eq!((read.summary.as_deref(), read.next), (Some(whole), 5));
            assert!(read.frames.is_empty());
        }
        let along = read(d, held.id, from(3)).await;
        assert_eq!((along.summary, along.frames.len(), along.next), (None, 2, 5));
        let ended = StreamQuery { to: Some(StreamCursor::at_sequence(3)), ..from(1) };
        let range = read(d, held.id, ended).await;
        assert_eq!((range.summary, range.frames.len()), (None, 1), "a range is of patches");
        d.call(held.fail("no", "transient")).await;
        d.claim(LANE).await;
        let past = StreamQuery { attempt_index: Some(AttemptIndex(0)), ..StreamQuery::default() };
        assert_eq!(read(d, held.id, past).await.summary.as_deref(), Some(whole));
        assert_eq!(read_all(d, held.id).await.summary, None);
    }

    async fn what_is_no_json_is_refused_and_changes_nothing(d: &Deployment) {
        for (patch, wrong) in [
            (&b""[..], "unexpected character at byte 1"),
            (b"{", "expected a name in quotes at byte 2"),
            (b"{\"a\":1", "expected , or } at byte 8"),
            (b"{\"a\":01}", "not a number at byte 6"),
            (b"{\"a\":1.}", "not a number at byte 7"),
            (b"{\"a\":1e}", "not a number at byte 7"),
            (b"{\"a\":.5}", "unexpected character at byte 6"),
            (b"{\"a\":+1}", "unexpected character at byte 6"),
            (b"{\"a\":-}", "not a number at byte 6"),
            (b"{\"a\":nan}", "unexpected character at byte 9"),
            (b"{\"a\":0x10}", "not a number at byte 7"),
            (b"{\"a\":1}{}", "unexpected text behind the value at byte 8"),
            (b"{\"a\":1,\"\\u0061\":2}", "the same name twice at byte 16"),
            (b"{\"a\":\"\\ud800\"}", "half of a surrogate pair at byte 13"),
            (b"{\"a\":\"\n\"}", "control byte in a string at byte 8"),
            (b"[1,]", "unexpected character at byte 4"),
            (b"{\"a\":\"\xff\"}", "not UTF-8"),
            (b"{\"a\":\"\xc0\xaf\"}", "not UTF-8"),
            (b"{\"a\":\"\xe0\x80\x80\"}", "not UTF-8"),
            (b"{\"a\":\"\xed\xa0\x80\"}", "not UTF-8"),
            (b"{\"a\":\"\xf4\x90\x80\x80\"}", "not UTF-8"),
            (b"{\"a\":\"\xc3\"}", "not UTF-8"),
            (b"{\"\x80\":1}", "not UTF-8"),
        ] {
            assert_eq!(refusal(d, patch).await, format!("frame 1 is not JSON: {wrong}"));
        }
        assert_eq!(folded(d, &["\"\u{80}\u{7ff}\u{800}\u{d7ff}\u{e000}\u{ffff}\u{10ffff}\""]).await,
            "\"\u{80}\u{7ff}\u{800}\u{d7ff}\u{e000}\u{ffff}\u{10ffff}\"");
    }

    async fn a_document_is_nested_up_to_a_depth(d: &Deployment) {
        let depth = limits::SUMMARY_DEPTH_MAX as usize;
        let lists = |depth: usize| format!("{}{}", "[".repeat(depth), "]".repeat(depth));
        let objects = |depth: usize| format!("{}1{}", r#"{"a":"#.repeat(depth), "}".repeat(depth));
        assert_eq!(folded(d, &[&lists(depth + 1)]).await, lists(depth + 1));
        assert_eq!(folded(d, &[&objects(depth)]).await, objects(depth));
        for deep in [lists(depth + 2), objects(depth + 1), lists(30_000), r#"{"a":"#.repeat(9000)] {
            let text = refusal(d, deep.as_bytes()).await;
            assert!(text.contains("nested too deep"), "{text}");
        }
    }

    async fn a_document_grows_up_to_a_size(d: &Deployment) {
        let held = held_with(d, SUMMARY).await;
        let most = limits::SUMMARY_BYTES_MAX as usize;
        let half = |name: &str| format!(r#"{{"{name}":"{}"}}"#, "x".repeat(most / 2 - 8));
        d.call(held.append(1, &[half("a")])).await;
        assert_eq!(summary(d, &held).await.len(), most / 2);
        d.call(held.append(2, &[half("b")])).await;
        assert_eq!(summary(d, &held).await.len(), most - 1);
        d.call(held.append(3, &[r#"{"b":null}"#])).await;
        let full = format!(r#"{{"b":"{}"}}"#, "x".repeat(most / 2 - 7));
        d.call(held.append(4, std::slice::from_ref(&full))).await;
        assert_eq!(summary(d, &held).await.len(), most);
        let (code, details) = d.refusal(held.append(5, &[r#"{"c":1}"#])).await;
        let expected = (Code::RetentionLimitExceeded, format!("summary {most}"));
        assert_eq!((code, details.join(" ")), expected);
        assert_eq!(d.refused(held.append(5, &[half("c"), half("d"), half("e")])).await,
            Code::PayloadTooLarge, "one call is not to read more than a document");
        d.call(held.append(5, &[r#"{"a":null}"#])).await;
        assert_eq!(summary(d, &held).await, full);
    }

    async fn a_lost_document_is_not_begun_anew(d: &Deployment) {
        d.host().watch(false);
        let held = held_with(d, SUMMARY).await;
        d.call(held.append(1, &[r#"{"a":1}"#])).await;
        let key = key_of(held.id, ":s:0:d");
        for damage in [&[&b"SET"[..], &key, b"{\"a\":"][..], &[b"DEL", &key]] {
            d.host().exec(d.home(), damage).await;
            let (code, details) = d.refusal(held.append(2, &[r#"{"b":1}"#])).await;
            assert_eq!((code, details.concat()), (Code::DataLost, "summary".to_owned()));
        }
        let read = read_all(d, held.id).await;
        assert_eq!((read.summary, read.frames.len()), (None, 1), "the patches are still there");
    }
}
