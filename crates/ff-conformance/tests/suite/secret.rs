//! The keys of waitpoint tokens: digests, rotation, grace.

use ff_conformance::{Answer, Deployment, SECRET, conformance, rotation};
use ff_core::contracts::Condition;
use ff_core::error::Code;
use ff_core::limits;
use ff_core::types::WaitpointToken;
use ff_script::args::Args;
use ff_script::calls::secret::{
    Kid, ListWaitpointHmacKids, ListWaitpointHmacKidsReply, RotateWaitpointHmacSecretReply,
};
use ff_script::host::{Function, Host};

const OTHER: &str = "ffeeddccbbaa99887766554433221100";

const HMAC: Function = Function { wire_name: "ff_test_hmac_v1", read_only: false };

/// The digest that the library makes of a message under a key.
async fn hmac(d: &Deployment, key: &[u8], message: &[u8]) -> String {
    let hex: String = key.iter().map(|byte| format!("{byte:02x}")).collect();
    let args: Args = [hex.as_bytes(), message].into_iter().collect();
    let reply = d.host().call(HMAC, d.home(), args).await.expect("the library has an answer");
    Answer::open(reply).text(0)
}

/// Parts behind their lengths.
fn packed(parts: &[&str]) -> Vec<u8> {
    parts.iter().map(|part| format!("{}:{part}", part.len())).collect::<String>().into_bytes()
}

async fn kids(d: &Deployment) -> (Option<String>, u64, Vec<(String, Option<u64>)>) {
    let ListWaitpointHmacKidsReply::Kids { current_kid, revision, kids } =
        d.call(ListWaitpointHmacKids {}).await;
    let kids = kids.into_iter().map(|Kid { kid, accepted_until }| (kid, accepted_until)).collect();
    (current_kid, revision, kids)
}

conformance! {
    async fn digests_are_those_of_rfc_2202(d: &Deployment) {
        let long = [0xaa; 80];
        let numbers: Vec<u8> = (1..=25).collect();
        let cases: [(&[u8], &[u8], &str); 7] = [
            (&[0x0b; 20], b"Hi There", "b617318655057264e28bc0b6fb378c8ef146be00"),
            (b"Jefe", b"what do ya want for nothing?", "effcdf6ae5eb2fa2d27416d5f184df9c259a7c79"),
            (&[0xaa; 20], &[0xdd; 50], "125d7342b9ac11cd91a39af48aa17b4f63f175d3"),
            (&numbers, &[0xcd; 50], "4c9007f4026250c6bc8414f9bf50c86c2d7235da"),
            (&[0x0c; 20], b"Test With Truncation", "4c1a03424b55e07fe7f27be1d58bb9324a9a5a04"),
            (&long, b"Test Using Larger Than Block-Size Key - Hash Key First",
                "aa4ae5e15272d00e95705637ce8a3b55ed402112"),
            (&long, b"Test Using Larger Than Block-Size Key and Larger Than One Block-Size Data",
                "e8e99d0f45237d786d6bbaa7965c7808bbff1a91"),
        ];
        for (key, message, digest) in cases {
            assert_eq!(hmac(d, key, message).await, digest, "{}", message.escape_ascii());
        }
    }

    async fn a_token_signs_what_the_documents_say_byte_by_byte(d: &Deployment) {
        let it = d.suspend(&Condition::any(["go"])).await;
        let id = it.on.execution_id.to_string();
        let (waitpoint, at) = (it.on.waitpoint_id.to_string(), d.now().to_string());
        let mut message = packed(&["1", &id, "0", &waitpoint, &it.on.key, &at]);
        message.resize(256, 0);
        let key: Vec<u8> = (0..32).collect();
        let digest = hmac(d, &key, &message).await;
        assert_eq!(it.on.token.as_str(), format!("k1:{digest}"));
    }

    async fn a_key_is_replaced_with_grace_and_can_be_asked_for(d: &Deployment) {
        assert_eq!(kids(d).await, (None, 0, Vec::new()));
        let first = d.call(rotation("a", SECRET, 0)).await;
        assert_eq!(first, RotateWaitpointHmacSecretReply::Rotated {
            previous_kid: None, current_kid: "a".to_owned(), collected: 0 });
        let again = d.call(rotation("a", SECRET, 7)).await;
        assert_eq!(again, RotateWaitpointHmacSecretReply::RotatedBefore {
            current_kid: "a".to_owned() });
        let second = d.call(rotation("b", OTHER, 1000)).await;
        assert_eq!(second, RotateWaitpointHmacSecretReply::Rotated {
            previous_kid: Some("a".to_owned()), current_kid: "b".to_owned(), collected: 0 });
        let until = d.now().plus_millis(1000).get();
        let both = vec![("a".to_owned(), Some(until)), ("b".to_owned(), None)];
        assert_eq!(kids(d).await, (Some("b".to_owned()), 2, both));
        d.set_time(until + 1).await;
        assert_eq!(kids(d).await.2, [("b".to_owned(), None)]);
        let third = d.call(rotation("c", &OTHER.repeat(2), 0)).await;
        assert_eq!(third, RotateWaitpointHmacSecretReply::Rotated {
            previous_kid: Some("b".to_owned()), current_kid: "c".to_owned(), collected: 1 });
    }

    async fn w31_a_lax_secret_is_refused(d: &Deployment) {
        for secret in ["", "00", " f".repeat(16).as_str(), "+f".repeat(16).as_str(),
            "0g".repeat(16).as_str(), &SECRET[1..], &"00".repeat(15), &"00".repeat(129)] {
            let code = d.refused(rotation("a", secret, 0)).await;
            assert_eq!(code, Code::InvalidSecretHex, "{secret:?}");
        }
        for kid in ["", "a:b", "a b", "é", &"k".repeat(65)] {
            assert_eq!(d.refused(rotation(kid, SECRET, 0)).await, Code::InvalidKid, "{kid:?}");
        }
        for grace in [&b"-1"[..], b"1.5", b"x", b"9007199254740993"] {
            let args: [&[u8]; 3] = [b"a", SECRET.as_bytes(), grace];
            let answer = d.raw("ff_rotate_waitpoint_hmac_secret", &args).await;
            assert_eq!(answer.code(), "invalid_grace_ms");
        }
        d.rotate("a", &"00".repeat(16), 0).await;
        d.rotate("b", &"AB".repeat(128), 0).await;
    }

    async fn w32_a_retired_key_can_come_back_and_stays(d: &Deployment) {
        d.rotate("a", SECRET, 0).await;
        let it = d.suspend(&Condition::any(["go"])).await;
        d.rotate("b", OTHER, 1000).await;
        assert_eq!(d.refused(rotation("a", OTHER, 0)).await, Code::RotationConflict);
        assert_eq!(d.refused(rotation("b", SECRET, 0)).await, Code::RotationConflict);
        d.rotate("a", SECRET, 1000).await;
        d.advance(5000).await;
        d.rotate("c", &OTHER.repeat(2), 1000).await;
        assert_eq!(d.deliver(&it.on, "go").await, "resume_condition_satisfied");
    }

    async fn many_keys_are_accepted_at_once_and_not_more(d: &Deployment) {
        let secret = |number: u64| format!("{number:032x}");
        for number in 0..limits::KIDS_MAX {
            d.rotate(&format!("k{number}"), &secret(number), 60_000).await;
        }
        assert_eq!(d.refused(rotation("more", &secret(99), 0)).await, Code::KidLimitExceeded);
        d.rotate("k0", &secret(0), 60_000).await;
        d.advance(60_001).await;
        d.rotate("more", &secret(99), 0).await;
        assert_eq!(kids(d).await.2.len(), 2);
    }

    async fn a_first_key_is_installed_once(d: &Deployment) {
        d.install_secret().await;
        let mut other = rotation("k9", OTHER, 0);
        other.only_first = true;
        let current_kid = "k1".to_owned();
        let kept = RotateWaitpointHmacSecretReply::RotatedBefore { current_kid };
        assert_eq!(d.call(other).await, kept);
    }

    async fn a_token_outlives_rotation_for_its_grace_and_not_longer(d: &Deployment) {
        let first = d.suspend(&Condition::all(["a", "b", "c"])).await;
        d.rotate("k2", OTHER, 1000).await;
        assert_eq!(d.deliver(&first.on, "a").await, "appended_to_waitpoint");
        d.advance(1000).await;
        assert_eq!(d.deliver(&first.on, "b").await, "appended_to_waitpoint", "the last moment");
        d.advance(1).await;
        assert_eq!(d.refused(d.signal(&first.on, "c")).await, Code::TokenExpired);
        let wrong = WaitpointToken::new(format!("k1:{}", "0".repeat(40)));
        let forged = ff_conformance::Waiting { token: wrong, ..first.on.clone() };
        assert_eq!(d.refused(d.signal(&forged, "c")).await, Code::InvalidToken);
    }

    async fn without_a_key_nobody_can_wait_for_signals(d: &Deployment) {
        let held = d.create_and_claim().await;
        let code = d.refused(d.suspension(&held, &Condition::any(["go"]))).await;
        assert_eq!(code, Code::HmacSecretNotInitialized);
        assert_eq!(d.refused(d.opening(&held, "k", 10)).await, Code::HmacSecretNotInitialized);
        d.call(held.complete(b"")).await;
    }

    async fn a_damaged_key_is_told_as_such(d: &Deployment) {
        let it = d.suspend(&Condition::any(["go"])).await;
        let held = d.create_and_claim().await;
        let key = format!("{}:secrets", d.home().key());
        d.host().exec(d.home(), &[b"HSET", key.as_bytes(), b"kid:k1", b"sha1::0"]).await;
        assert_eq!(d.refused(d.signal(&it.on, "go")).await, Code::InvalidSecret);
        let code = d.refused(d.suspension(&held, &Condition::any(["go"]))).await;
        assert_eq!(code, Code::InvalidSecret);
        assert_eq!(d.refused(d.opening(&held, "k", 10)).await, Code::InvalidSecret);
        d.rotate("k2", OTHER, 0).await;
        d.suspend_held(&held, &Condition::any(["go"])).await;
    }
}
