//! Capabilities at the edges of what they may be, required and offered.

use ff_conformance::{Deployment, LANE, capabilities, conformance};
use ff_core::error::EngineError;
use ff_core::limits;

/// Why requirements are refused; nothing if they are taken.
async fn required(d: &Deployment, tokens: &[String]) -> Option<String> {
    let list: Vec<String> = tokens.iter().map(|token| format!(r#""{token}""#)).collect();
    let policy =
        format!(r#"{{"routing_requirements":{{"required_capabilities":[{}]}}}}"#, list.join(","));
    match d.try_call(d.create().lane("other").policy(&policy).call()).await {
        Ok(_) => None,
        Err(EngineError::Refused { details, .. }) => Some(details.concat()),
        Err(other) => panic!("{other}"),
    }
}

/// Why what a worker offers is refused; nothing if it is taken.
async fn offered(d: &Deployment, text: &str) -> Option<String> {
    let lease = d.new_uuid().to_string();
    let args: [&[u8]; 11] = [
        LANE.as_bytes(),
        b"w",
        b"w-1",
        text.as_bytes(),
        b"1000",
        b"0",
        b"",
        b"",
        b"",
        b"",
        lease.as_bytes(),
    ];
    let answer = d.raw("ff_claim_next", &args).await;
    (!answer.done).then(|| answer.text(0))
}

/// Different tokens of two bytes.
fn short_tokens(count: u64) -> Vec<String> {
    (0..count).map(|n| format!("{:02x}", n)).collect()
}

/// As many tokens as this takes to be so many bytes, joined.
fn long_tokens(bytes: u64) -> Vec<String> {
    let half = bytes as usize / 2;
    vec!["a".repeat(half), "b".repeat(bytes as usize - half - 1)]
}

conformance! {
    async fn there_are_at_most_so_many_tokens_and_bytes(d: &Deployment) {
        let (most, bytes) = (limits::CAPABILITIES_MAX, limits::CAPABILITIES_BYTES_MAX);
        for tokens in [vec![], short_tokens(most), long_tokens(bytes)] {
            assert_eq!(required(d, &tokens).await, None, "{}", tokens.len());
            assert_eq!(offered(d, &tokens.join(",")).await, None, "{}", tokens.len());
        }
        let many: Vec<String> = (0..=most).map(|n| format!("{n:03x}")).collect();
        assert_eq!(required(d, &many).await.as_deref(), Some("required:too_many_tokens"));
        assert_eq!(offered(d, &many.join(",")).await.as_deref(), Some("worker:too_many_tokens"));
        let long = long_tokens(bytes + 1);
        assert_eq!(required(d, &long).await.as_deref(), Some("required:too_many_bytes"));
        let refused = offered(d, &long.join(",")).await;
        assert_eq!(refused.as_deref(), Some("capabilities must be at most 4096 bytes"));
    }

    async fn a_token_is_one_word(d: &Deployment) {
        for token in ["a", "!", "~", "é", "a:b", "a{b}"] {
            assert_eq!(required(d, &[token.to_owned()]).await, None, "{token}");
            assert_eq!(offered(d, token).await, None, "{token}");
        }
        for (wrong, rule) in [("", "empty_token"), ("a b", "control_or_whitespace"),
            (r"\u0000", "control_or_whitespace"), (r"\u001f", "control_or_whitespace"),
            (r"\u007f", "control_or_whitespace"), ("a,b", "comma_in_token")] {
            let refused = required(d, &["good".to_owned(), wrong.to_owned()]).await;
            assert_eq!(refused, Some(format!("required:{rule}")), "{wrong}");
        }
        for (wrong, rule) in [(",", "empty_token"), ("a,", "empty_token"), (",a", "empty_token"),
            ("a,b c", "control_or_whitespace"), ("a,\0", "control_or_whitespace"),
            ("\u{1f}", "control_or_whitespace"), ("\u{7f}", "control_or_whitespace")] {
            assert_eq!(offered(d, wrong).await, Some(format!("worker:{rule}")), "{wrong:?}");
        }
    }

    async fn what_a_worker_lacks_is_told_in_order(d: &Deployment) {
        let policy = r#"{"routing_requirements":
            {"required_capabilities":["d","b","a","c","b"]}}"#;
        let id = d.create().policy(policy).send().await;
        assert_eq!(d.describe(id).await.required_capabilities.csv(), "a,b,c,d");
        for (has, lacks) in [(vec![], "a,b,c,d"), (vec!["b", "x"], "a,c,d"),
            (vec!["a", "b", "c"], "d")] {
            let call = ff_script::calls::grant::IssueClaimGrant {
                capabilities: capabilities(&has),
                ..d.claim_grant_call(id)
            };
            let (_, details) = d.refusal(call).await;
            assert_eq!(details, [lacks]);
        }
        assert!(d.try_claim(LANE).await.is_none());
        let mut call = d.claim_call(LANE, 1);
        call.capabilities = capabilities(&["d", "c", "b", "a"]);
        assert_eq!(d.claimed(call).await[0].id, id);
    }
}
