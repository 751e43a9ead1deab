//! Tags at the edges of what they may be.

use ff_conformance::{Deployment, conformance};
use ff_core::error::{Code, EngineError};
use ff_core::limits;

/// The code and the detail that refuse tags; nothing if they are taken.
async fn refusal(d: &Deployment, tags: &str) -> Option<(Code, String)> {
    match d.try_call(d.create().tags(tags).call()).await {
        Ok(_) => None,
        Err(EngineError::Refused { code, details }) => Some((code, details.concat())),
        Err(other) => panic!("{tags}: {other}"),
    }
}

fn invalid(text: &str) -> Option<(Code, String)> {
    Some((Code::InvalidInput, text.to_owned()))
}

conformance! {
    async fn a_key_is_a_word_a_dot_and_a_name(d: &Deployment) {
        let long = format!("a.{}", "k".repeat(limits::TAG_KEY_BYTES_MAX as usize - 2));
        for key in ["a.b", "a_1.b", "a.b.c", "a.B", "a. ", "a.é", &long] {
            assert_eq!(refusal(d, &format!(r#"{{"{key}":""}}"#)).await, None, "{key}");
        }
        let longer = format!("{long}k");
        for key in ["a", "a.", "a..b", ".a", "A.b", "1.b", "é.b", "a b.c", &longer] {
            let told = key[..key.len().min(128)].to_owned();
            let refused = refusal(d, &format!(r#"{{"{key}":""}}"#)).await;
            assert_eq!(refused, Some((Code::InvalidTagKey, told)));
        }
        for escape in [r"\u0000", r"\u001f", r"\u007f"] {
            let refused = refusal(d, &format!(r#"{{"a.b{escape}":""}}"#)).await;
            assert_eq!(refused.map(|(code, _)| code), Some(Code::InvalidTagKey), "{escape}");
        }
    }

    async fn a_value_is_a_short_text_a_whole_number_or_a_boolean(d: &Deployment) {
        let value = |json: &str| format!(r#"{{"a.b":{json}}}"#);
        let text = |bytes: u64| value(&format!(r#""{}""#, "v".repeat(bytes as usize)));
        let most = limits::TAG_VALUE_BYTES_MAX;
        assert_eq!(refusal(d, &text(most)).await, None);
        assert_eq!(refusal(d, &text(most + 1)).await, invalid("tags.a.b must be at most 1024 bytes"));
        for number in ["9007199254740991", "-9007199254740991", "1.0"] {
            assert_eq!(refusal(d, &value(number)).await, None, "{number}");
        }
        for wrong in ["9007199254740992", "-9007199254740992", "0.5", "null", "{}", "[]"] {
            let refused = refusal(d, &value(wrong)).await;
            let rule = "tags.a.b must be a text, a whole number or a boolean";
            assert_eq!(refused, invalid(rule), "{wrong}");
        }
    }

    async fn only_an_object_of_a_few_is_taken(d: &Deployment) {
        for wrong in ["[]", "5", "true", "null", r#""a.b""#] {
            let refused = refusal(d, wrong).await;
            assert_eq!(refused, invalid("tags_json must be an object"), "{wrong}");
        }
        let many: Vec<String> = (0..=limits::TAGS_MAX).map(|n| format!(r#""n.{n}":1"#)).collect();
        let id = d.create().tags(&format!("{{{}}}", many[1..].join(","))).send().await;
        assert_eq!(d.describe(id).await.tags.len(), 64);
        let refused = refusal(d, &format!("{{{}}}", many.join(","))).await;
        assert_eq!(refused, invalid("tags_json must have at most 64 tags"));
    }

    async fn a_new_tag_that_is_named_twice_takes_one_place(d: &Deployment) {
        let most: Vec<String> = (1..limits::TAGS_MAX).map(|n| format!(r#""n.{n}":1"#)).collect();
        let id = d.create().tags(&format!("{{{}}}", most.join(","))).send().await;
        let text = id.to_string();
        let args: [&[u8]; 6] = [text.as_bytes(), b"", b"a.b", b"1", b"a.b", b"2"];
        assert!(d.raw("ff_set_execution_tags", &args).await.done, "one place was free");
        assert_eq!(d.describe(id).await.tags.len(), 64);
    }

    async fn tags_without_their_last_value_are_no_pairs(d: &Deployment) {
        let id = d.create_one().await.to_string();
        let args: [&[u8]; 5] = [id.as_bytes(), b"", b"a.b", b"1", b"c.d"];
        let answer = d.raw("ff_set_execution_tags", &args).await;
        assert_eq!((answer.code(), answer.text(0)), ("invalid_input", "tags must come in pairs".into()));
    }
}
