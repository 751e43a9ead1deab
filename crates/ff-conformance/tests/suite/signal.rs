//! Signals: who may send them, what they do, and what is told to whom.

use ff_conformance::record::{events_of, record};
use ff_conformance::{Deployment, LANE, SECRET, Waiting, conformance};
use ff_core::contracts::Condition;
use ff_core::error::Code;
use ff_core::limits;
use ff_core::types::{SignalId, WaitpointId, WaitpointToken};
use ff_script::calls::signal::{BufferSignal, DeliverSignal, DeliverSignalReply};

fn with_token(on: &Waiting, token: &str) -> Waiting {
    Waiting { token: WaitpointToken::new(token), ..on.clone() }
}

/// Both names of the function refuse alike.
async fn refused(d: &Deployment, call: DeliverSignal) -> Code {
    let code = d.refused(call.clone()).await;
    assert_eq!(d.refused(BufferSignal(call)).await, code);
    code
}

conformance! {
    async fn every_effect_is_told(d: &Deployment) {
        let held = d.create_and_claim().await;
        let early = d.open_waitpoint(&held, "early", 1000).await;
        let buffered = BufferSignal(d.signal(&early, "x"));
        let DeliverSignalReply::Delivered { signal_id, effect } = d.call(buffered.clone()).await
        else {
            panic!("it is new");
        };
        assert_eq!((signal_id, effect.as_str()),
            (buffered.0.signal_id, "buffered_for_pending_waitpoint"));
        let signal_id = signal_id.to_string();
        assert_eq!(d.call(buffered).await, DeliverSignalReply::DeliveredBefore { signal_id });
        let it = d.suspend_held(&held, &Condition::all(["a", "b"])).await;
        assert_eq!(d.deliver(&it.on, "other").await, "no_op");
        assert_eq!(d.deliver(&it.on, "a").await, "appended_to_waitpoint");
        assert_eq!(d.deliver(&it.on, "b").await, "resume_condition_satisfied");
        let stored = record(&d.dump().await, held.id);
        assert_eq!(stored["sc"], "4");
        let events = events_of(&d.dump().await, held.id);
        assert!(events.contains(&"signalled 0 no_op:other".to_owned()), "{events:?}");
        assert!(events.contains(&"signalled 0 appended_to_waitpoint:a".to_owned()), "{events:?}");
    }

    async fn everything_about_a_signal_reaches_the_worker(d: &Deployment) {
        let it = d.suspend(&Condition::any(["go"])).await;
        let mut call = d.signal(&it.on, "go");
        call.signal_category = "decision".to_owned();
        call.source_type = "webhook".to_owned();
        call.source_identity = "ci:7".to_owned();
        call.correlation_id = "build\n7".to_owned();
        call.payload_encoding = "raw".to_owned();
        call.payload = (0..=255).collect();
        d.effect(call.clone()).await;
        let held = d.claim_resumed(&it.held).await;
        let resume = held.row.resume.clone().expect("it was suspended");
        assert!(resume.complete);
        let signal = &resume.signals[0];
        assert_eq!((signal.signal_id, signal.accepted_at), (call.signal_id, d.now()));
        assert_eq!((&signal.signal_category, &signal.source_type), (&call.signal_category,
            &call.source_type));
        assert_eq!((&signal.source_identity, &signal.correlation_id), (&call.source_identity,
            &call.correlation_id));
        assert_eq!((&signal.payload_encoding, signal.payload.as_ref()), (&call.payload_encoding,
            Some(&call.payload)));
    }

    async fn a_waitpoint_is_found_by_its_key(d: &Deployment) {
        let held = d.create_and_claim().await;
        let mut call = d.suspension(&held, &Condition::all(["a", "b"]));
        call.waitpoint_key = Some("order:7/{x}".to_owned());
        let it = d.suspend_by(&held, call).await;
        let by_key = |name: &str| DeliverSignal {
            waitpoint_id: None,
            waitpoint_key: Some("order:7/{x}".to_owned()),
            ..d.signal(&it.on, name)
        };
        assert_eq!(d.effect(by_key("a")).await, "appended_to_waitpoint");
        let wrong = DeliverSignal { waitpoint_key: Some("order".to_owned()), ..by_key("b") };
        assert_eq!(refused(d, wrong).await, Code::InvalidToken);
        let mut both = by_key("b");
        both.waitpoint_id = Some(it.on.waitpoint_id);
        assert_eq!(d.effect(both.clone()).await, "resume_condition_satisfied");
        both.waitpoint_key = Some("other".to_owned());
        assert_eq!(refused(d, both).await, Code::InvalidToken);
        let neither = DeliverSignal { waitpoint_id: None, ..d.signal(&it.on, "b") };
        assert_eq!(refused(d, neither).await, Code::InvalidToken);
    }

    async fn a_token_opens_nothing_when_a_bit_of_it_is_flipped(d: &Deployment) {
        let it = d.suspend(&Condition::any(["go"])).await;
        d.host().watch(false);
        let text = it.on.token.as_str();
        for place in 0..text.len() {
            for bit in 0..7 {
                let mut bytes = text.as_bytes().to_vec();
                bytes[place] ^= 1 << bit;
                let forged = String::from_utf8(bytes).expect("ASCII stays ASCII");
                let code = d.refused(d.signal(&with_token(&it.on, &forged), "go")).await;
                assert_eq!(code, Code::InvalidToken, "{place} {bit}");
            }
        }
        d.host().watch(true);
        for length in 1..text.len() {
            let cut = with_token(&it.on, &text[..length]);
            assert_eq!(d.refused(d.signal(&cut, "go")).await, Code::InvalidToken, "{length}");
        }
        for wrong in [format!("{text}0"), text.to_uppercase(), format!(" {text}"), "k1".to_owned(),
            ":".to_owned(), text.replace("k1:", "k2:"), text.replace("k1:", "")] {
            let forged = with_token(&it.on, &wrong);
            assert_eq!(refused(d, d.signal(&forged, "go")).await, Code::InvalidToken, "{wrong}");
        }
        assert_eq!(refused(d, d.signal(&with_token(&it.on, ""), "go")).await, Code::MissingToken);
        assert_eq!(d.deliver(&it.on, "go").await, "resume_condition_satisfied");
    }

    async fn a_token_opens_its_own_waitpoint_alone(d: &Deployment) {
        let held = d.create_and_claim().await;
        let first = d.open_waitpoint(&held, "first", 1000).await;
        let second = d.open_waitpoint(&held, "second", 1000).await;
        let other = d.suspend(&Condition::any(["go"])).await;
        for (of, to) in [(&first, &second), (&second, &first), (&first, &other.on),
            (&other.on, &first)] {
            let mixed = with_token(to, of.token.as_str());
            assert_eq!(refused(d, d.signal(&mixed, "go")).await, Code::InvalidToken);
            let foreign = Waiting { execution_id: to.execution_id, ..of.clone() };
            if of.execution_id != to.execution_id {
                assert_eq!(refused(d, d.signal(&foreign, "go")).await, Code::InvalidToken);
            }
        }
    }

    async fn what_does_not_exist_is_refused_like_a_wrong_token(d: &Deployment) {
        let it = d.suspend(&Condition::any(["go"])).await;
        let nowhere = Waiting { execution_id: d.new_id(), ..it.on.clone() };
        assert_eq!(refused(d, d.signal(&nowhere, "go")).await, Code::InvalidToken);
        let waitpoint_id = WaitpointId::from_uuid(d.new_uuid());
        let nothing = Waiting { waitpoint_id, ..it.on.clone() };
        assert_eq!(refused(d, d.signal(&nothing, "go")).await, Code::InvalidToken);
        let empty = d.partitions[1];
        let elsewhere = ff_core::types::ExecutionId::from_parts(empty, d.new_uuid());
        let call = DeliverSignal { execution_id: elsewhere, ..d.signal(&it.on, "go") };
        let refused = d.backend.call(empty, call).await.expect_err("there is no key");
        assert_eq!(refused.code(), Some(Code::HmacSecretNotInitialized));
    }

    async fn a_repetition_is_recognised_by_id_or_key_whatever_happened_since(d: &Deployment) {
        let it = d.suspend(&Condition::any(["go"])).await;
        let mut call = d.signal(&it.on, "go");
        call.idempotency_key = "once".to_owned();
        d.effect(call.clone()).await;
        let signal_id = call.signal_id.to_string();
        let before = DeliverSignalReply::DeliveredBefore { signal_id };
        assert_eq!(d.call(call.clone()).await, before);
        let mut other_id = call.clone();
        other_id.signal_id = SignalId::from_uuid(d.new_uuid());
        assert_eq!(d.call(other_id.clone()).await, before);
        d.claim_resumed(&it.held).await;
        assert_eq!(d.call(other_id).await, before);
    }

    async fn a_waitpoint_takes_only_so_much(d: &Deployment) {
        let it = d.suspend(&Condition::any(["go"])).await;
        let mut call = d.signal(&it.on, "x");
        call.payload = vec![0; limits::SIGNAL_PAYLOAD_BYTES_MAX as usize];
        d.host().watch(false);
        for _ in 0..limits::WAITPOINT_BYTES_MAX / limits::SIGNAL_PAYLOAD_BYTES_MAX {
            call.signal_id = SignalId::from_uuid(d.new_uuid());
            d.effect(call.clone()).await;
        }
        call.signal_id = SignalId::from_uuid(d.new_uuid());
        assert_eq!(refused(d, call.clone()).await, Code::SignalLimitExceeded);
        call.payload.push(0);
        assert_eq!(refused(d, call.clone()).await, Code::PayloadTooLarge);
        for _ in 0..limits::WAITPOINT_SIGNALS_MAX - 16 {
            d.deliver(&it.on, "x").await;
        }
        assert_eq!(d.refused(d.signal(&it.on, "go")).await, Code::SignalLimitExceeded);
        d.call(d.resumption(it.held.id)).await;
    }

    async fn an_execution_takes_as_many_signals_as_its_policy_says(d: &Deployment) {
        d.create().policy(r#"{"max_signals_per_execution":2}"#).send().await;
        let held = d.claim(LANE).await;
        let first = d.open_waitpoint(&held, "first", 1000).await;
        let second = d.open_waitpoint(&held, "second", 1000).await;
        d.deliver(&first, "a").await;
        d.deliver(&second, "a").await;
        assert_eq!(refused(d, d.signal(&second, "b")).await, Code::SignalLimitExceeded);
    }

    async fn the_older_name_refuses_alike(d: &Deployment) {
        let held = d.create_and_claim().await;
        let pending = d.open_waitpoint(&held, "k", 10).await;
        d.advance(10).await;
        assert_eq!(refused(d, d.signal(&pending, "go")).await, Code::WaitpointClosed);
        d.call(held.complete(b"")).await;
        d.create().deadline_in(50).send().await;
        let held = d.claim(LANE).await;
        let late = d.open_waitpoint(&held, "k", 1000).await;
        d.advance(50).await;
        assert_eq!(refused(d, d.signal(&late, "go")).await, Code::TargetNotSignalable);
        d.tick().await;
        let it = d.suspend(&Condition::any(["go"])).await;
        d.rotate("k2", &SECRET[2..], 0).await;
        d.advance(1).await;
        assert_eq!(refused(d, d.signal(&it.on, "go")).await, Code::TokenExpired);
        let key = format!("{}:secrets", d.home().key());
        d.host().exec(d.home(), &[b"HSET", key.as_bytes(), b"kid:k1", b"x"]).await;
        assert_eq!(refused(d, d.signal(&it.on, "go")).await, Code::InvalidSecret);
        d.host().exec(d.home(), &[b"DEL", key.as_bytes()]).await;
        assert_eq!(refused(d, d.signal(&it.on, "go")).await, Code::HmacSecretNotInitialized);
    }

    async fn nobody_outside_signs_as_the_engine(d: &Deployment) {
        let it = d.suspend(&Condition::any(["go"])).await;
        for source_type in ["approver", "system"] {
            let mut call = d.signal(&it.on, "go");
            call.source_type = source_type.to_owned();
            assert_eq!(refused(d, call).await, Code::InvalidInput, "{source_type}");
        }
    }

    async fn a_text_of_a_signal_is_text(d: &Deployment) {
        let it = d.suspend(&Condition::any(["go"])).await;
        let args = super::scenario::encode(&d.signal(&it.on, "go"));
        for place in [5, 6, 7, 9, 10, 11] {
            for wrong in [&b"\xff"[..], b"a\xc3", b"\xed\xa0\x80", b"\xc0\xaf", b"\xf5\x80\x80\x80",
                b"\xe4\xbd", b"\x80"] {
                let mut args: Vec<&[u8]> = args.iter().map(Vec::as_slice).collect();
                args[place] = wrong;
                let code = d.raw("ff_deliver_signal", &args).await;
                assert_eq!(code.code(), "invalid_input", "{place} {wrong:?}");
            }
        }
        let mut call = d.signal(&it.on, "go");
        call.source_identity = "\u{7f}Ünï\u{800}\u{ffff}\u{10000}\u{10ffff}".to_owned();
        assert_eq!(d.effect(call.clone()).await, "resume_condition_satisfied");
        let resume = d.claim_resumed(&it.held).await.row.resume.expect("it was suspended");
        assert_eq!(resume.signals[0].source_identity, call.source_identity);
    }
}
