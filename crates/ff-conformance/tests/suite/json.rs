//! JSON as tags and policies bring it: what is read, what is refused, and where the reader stopped.

use ff_conformance::{Deployment, conformance};
use ff_core::error::Code;

/// The value of one tag, given as JSON.
async fn tag(d: &Deployment, json: &str) -> String {
    let id = d.create().tags(&format!(r#"{{"a.b":{json}}}"#)).send().await;
    d.describe(id).await.tags["a.b"].clone()
}

/// Why tags are refused.
async fn refusal(d: &Deployment, json: &str) -> String {
    let (code, details) = d.refusal(d.create().tags(json).call()).await;
    assert_eq!(code, Code::InvalidInput, "{json}");
    details.concat()
}

/// Why a policy is refused.
async fn policy_refusal(d: &Deployment, json: &str) -> String {
    let (code, details) = d.refusal(d.create().policy(json).call()).await;
    assert_eq!(code, Code::InvalidPolicyJson, "{json}");
    details.concat()
}

/// A policy whose one field is a list in a list in a list …
fn nested(depth: usize) -> String {
    format!(r#"{{"x":{}{}}}"#, "[".repeat(depth), "]".repeat(depth))
}

conformance! {
    async fn escapes_become_the_characters_they_spell(d: &Deployment) {
        for (json, text) in [
            (r#""\"\\\/\b\f\n\r\t""#, "\"\\/\u{8}\u{c}\n\r\t"),
            (r#""\u0000""#, "\0"),
            (r#""a\u0041z""#, "aAz"),
            (r#""\u007f\u0080""#, "\u{7f}\u{80}"),
            (r#""\u07ff\u0800""#, "\u{7ff}\u{800}"),
            (r#""\ud7ff\ue000\uffff""#, "\u{d7ff}\u{e000}\u{ffff}"),
            (r#""\ud800\udc00\udbff\udfff""#, "\u{10000}\u{10ffff}"),
            (r#""\uD83E\uDD80x""#, "🦀x"),
            ("\"\u{7f}é\u{7f}\"", "\u{7f}é\u{7f}"),
        ] {
            assert_eq!(tag(d, json).await, text, "{json}");
        }
    }

    async fn blanks_may_stand_between_all_parts(d: &Deployment) {
        let json = " \t\r\n{ \"a.b\"\t:\r1\n, \"c.d\" : true , \"e.f\":false} \t\r\n";
        let tags = d.describe(d.create().tags(json).send().await).await.tags;
        let tags: Vec<_> = tags.iter().map(|(name, value)| format!("{name}={value}")).collect();
        assert_eq!(tags, ["a.b=1", "c.d=true", "e.f=false"]);
        let id = d.create().tags("{ }").send().await;
        assert!(d.describe(id).await.tags.is_empty());
    }

    async fn what_is_no_json_is_refused_where_it_ends_to_be_one(d: &Deployment) {
        for (json, wrong) in [
            (r#"{"a.b":"\ud800"}"#, "half of a surrogate pair at byte 15"),
            (r#"{"a.b":"\udc00\udc00"}"#, "half of a surrogate pair at byte 15"),
            (r#"{"a.b":"\udfff"}"#, "half of a surrogate pair at byte 15"),
            (r#"{"a.b":"\ud800\n"}"#, "half of a surrogate pair at byte 15"),
            (r#"{"a.b":"\ud800\udbff"}"#, "half of a surrogate pair at byte 21"),
            (r#"{"a.b":"\ud800\ue000"}"#, "half of a surrogate pair at byte 21"),
            (r#"{"a.b":"\ud800\u12"}"#, r"a \u needs four hex digits at byte 17"),
            (r#"{"a.b":"\u12x4"}"#, r"a \u needs four hex digits at byte 11"),
            (r#"{"a.b":"\x"}"#, "unknown escape at byte 11"),
            (r#"{"a.b":"x"#, "unfinished string at byte 9"),
            ("{\"a.b\":\"x\u{1f}\"}", "control byte in a string at byte 11"),
            (r#"{"a.b":01}"#, "not a plain decimal number at byte 8"),
            (r#"{"a.b":-01}"#, "not a plain decimal number at byte 8"),
            (r#"{"a.b":1.}"#, "not a plain decimal number at byte 8"),
            (r#"{"a.b":-}"#, "not a plain decimal number at byte 8"),
            (r#"{"a.b":1e5}"#, "not a plain decimal number at byte 9"),
            (r#"{"a.b":1-1}"#, "not a plain decimal number at byte 9"),
            (r#"{"a.b":0x1}"#, "not a plain decimal number at byte 9"),
            (r#"{"a.b":1.5.5}"#, "not a plain decimal number at byte 11"),
            (r#"{"a.b":+1}"#, "unexpected character at byte 8"),
            (r#"{"a.b":nul}"#, "unexpected character at byte 11"),
            (r#"{"a.b":}"#, "unexpected character at byte 8"),
            (r#"{"a.b":1 "c.d":2}"#, "expected , or } at byte 11"),
            (r#"{"a.b":1]"#, "expected , or } at byte 10"),
            (r#"{"a.b":1,}"#, "expected a name in quotes at byte 10"),
            (r#"{a.b:1}"#, "expected a name in quotes at byte 2"),
            (r#"{"a.b" 1}"#, "expected : at byte 8"),
            (r#"{"a.b":1,"a.b":2}"#, "the same name twice at byte 15"),
            (r#"{"a.b":[1,,2]}"#, "unexpected character at byte 11"),
            (r#"{"a.b":1} x"#, "unexpected text behind the value at byte 11"),
            ("{}{}", "unexpected text behind the value at byte 3"),
            (" ", "unexpected character at byte 2"),
        ] {
            assert_eq!(refusal(d, json).await, format!("tags_json {wrong}"), "{json}");
        }
    }

    async fn numbers_have_at_most_twenty_characters(d: &Deployment) {
        let multiplier = |number: &str| {
            format!(r#"{{"retry_policy":{{"backoff":{{"type":"exponential",
                "multiplier":{number}}}}}}}"#)
        };
        d.create().policy(&multiplier("1.500000000000000000")).send().await;
        let text = policy_refusal(d, &multiplier("1.5000000000000000000")).await;
        assert!(text.contains("not a plain decimal number"), "{text}");
        assert_eq!(tag(d, "0").await, "0");
        assert_eq!(tag(d, "-7").await, "-7");
    }

    async fn values_are_nested_up_to_a_depth(d: &Deployment) {
        let deepest = nested(16);
        assert_eq!(policy_refusal(d, &deepest).await, "x: unknown field");
        let deeper = nested(17);
        assert_eq!(policy_refusal(d, &deeper).await, "malformed: nested too deep at byte 22");
        let objects = format!("{}{}", r#"{"x":"#.repeat(17), "}".repeat(17));
        assert_eq!(policy_refusal(d, &objects).await, "malformed: nested too deep at byte 86");
    }
}
