//! Arguments at the edges of what they may be, by the text that a refusal tells.

use ff_conformance::{Deployment, LANE, conformance};
use ff_core::limits;
use ff_script::call::Call;

/// The arguments of a creation with one of them replaced.
fn create_args(d: &Deployment, position: usize, text: &[u8]) -> Vec<Vec<u8>> {
    let mut args: Vec<Vec<u8>> = d.create().call().encode().iter().map(<[u8]>::to_vec).collect();
    args[position] = text.to_vec();
    args
}

/// Why a creation is refused with this argument; nothing if it is done.
async fn refusal(d: &Deployment, position: usize, text: &[u8]) -> Option<String> {
    let args = create_args(d, position, text);
    let args: Vec<&[u8]> = args.iter().map(Vec::as_slice).collect();
    let answer = d.raw("ff_create_execution", &args).await;
    (!answer.done).then(|| answer.text(0))
}

/// Claims for these kinds; gives why that is refused.
async fn kinds_refusal(d: &Deployment, kinds: &str) -> Option<String> {
    let lease = d.new_uuid().to_string();
    let args: [&[u8]; 11] = [
        LANE.as_bytes(),
        b"w",
        b"w-1",
        b"",
        b"1000",
        b"0",
        b"",
        b"",
        kinds.as_bytes(),
        b"",
        lease.as_bytes(),
    ];
    let answer = d.raw("ff_claim_next", &args).await;
    (!answer.done).then(|| answer.text(0))
}

conformance! {
    async fn an_id_is_the_partition_and_a_lower_case_uuid(d: &Deployment) {
        let good = d.new_id().to_string();
        let begin = good[..good.len() - 36].to_owned();
        let elsewhere = format!("{{fp:1}}:{}", d.new_uuid());
        for wrong in [good[..good.len() - 1].to_owned(), format!("{good}0"), elsewhere,
            String::new()] {
            let text = refusal(d, 0, wrong.as_bytes()).await;
            assert_eq!(text, Some(format!("execution_id must be {begin} and a uuid")), "{wrong}");
        }
        for wrong in [good.to_uppercase().replace("FP", "fp"), good.replace('-', "0"),
            format!("{begin}{}", "g".repeat(36))] {
            let text = refusal(d, 0, wrong.as_bytes()).await;
            assert_eq!(text.as_deref(), Some("execution_id must end in a lower-case uuid"));
        }
    }

    async fn a_name_is_short_and_printable(d: &Deployment) {
        let longest = "l".repeat(limits::LANE_BYTES_MAX as usize);
        for name in ["a", "!", "~", "|", "9", ";", "a b", &longest] {
            assert_eq!(refusal(d, 2, name.as_bytes()).await, None, "{name}");
        }
        let longer = format!("{longest}l");
        for name in ["", " a", "a ", " ", "a:b", ":", "{", "a}", "a\0", "a\u{7f}", "é", &longer] {
            let text = refusal(d, 2, name.as_bytes()).await;
            assert_eq!(text.as_deref(), Some("lane must be 1 to 64 printable ASCII characters \
                without { } : and without blanks at the ends"), "{name:?}");
        }
    }

    async fn several_names_are_joined_by_colons(d: &Deployment) {
        let kind = |n: u64| format!("kind-{n}");
        let many: Vec<String> = (0..=limits::KINDS_MAX).map(kind).collect();
        let longest = "k".repeat(limits::KIND_BYTES_MAX as usize);
        for kinds in ["a", "a:b", &longest, &many[1..].join(":")] {
            assert_eq!(kinds_refusal(d, kinds).await, None, "{}", kinds.len());
        }
        let all = vec![longest.clone(); limits::KINDS_MAX as usize].join(":");
        assert_eq!(kinds_refusal(d, &all).await, None, "as long as it may be");
        let few = Some("kinds must be at most 256 names".to_owned());
        assert_eq!(kinds_refusal(d, &many.join(":")).await, few);
        let longer = vec![longest.clone(); limits::KINDS_MAX as usize + 1].join(":");
        assert_eq!(kinds_refusal(d, &longer).await, few);
        let one_too_long = format!("{}k", vec![longest.clone(); limits::KINDS_MAX as usize].join(":"));
        for wrong in [":", "a:", ":a", "a::b", "a: b", &one_too_long] {
            let text = kinds_refusal(d, wrong).await.expect("it is refused");
            assert!(text.starts_with("kinds must be 1 to 128 printable"), "{wrong}: {text}");
        }
    }

    async fn a_moment_is_absolute_or_from_now(d: &Deployment) {
        let (now, last) = (d.now().get(), limits::TIMESTAMP_MS_MAX);
        for text in ["0".to_owned(), "1".to_owned(), "+0".to_owned(), last.to_string(),
            format!("+{}", last - now)] {
            assert_eq!(refusal(d, 8, text.as_bytes()).await, None, "{text}");
        }
        for text in [(last + 1).to_string(), format!("+{}", last - now + 1),
            "9007199254740991".to_owned()] {
            let refused = refusal(d, 8, text.as_bytes()).await;
            let rule = "delay_until must lie before the year 10000";
            assert_eq!(refused.as_deref(), Some(rule), "{text}");
        }
        for text in ["-1", "+-1", "++1", "+", "1+", "01", "+01", "9007199254740992",
            "9007199254740993", "99999999999999999"] {
            let refused = refusal(d, 8, text.as_bytes()).await;
            let rule = "delay_until must be milliseconds since 1970, or + and milliseconds from now";
            assert_eq!(refused.as_deref(), Some(rule), "{text}");
        }
    }

    async fn a_number_has_its_first_and_its_last(d: &Deployment) {
        for text in ["0", "1", "9000"] {
            assert_eq!(refusal(d, 4, text.as_bytes()).await, None, "{text}");
        }
        for text in ["", "-1", "9001", "00", "1.0", " 1", "1 ", "+1", "0x1", "1e1", "nan", "-0"] {
            let refused = refusal(d, 4, text.as_bytes()).await;
            let rule = "priority must be a whole number from 0 to 9000";
            assert_eq!(refused.as_deref(), Some(rule), "{text}");
        }
    }

    async fn a_choice_names_all_that_can_be_chosen(d: &Deployment) {
        let id = d.create_one().await.to_string();
        for wrong in ["", "attempt", "attempt_timeout "] {
            let answer = d.raw("ff_expire_execution", &[id.as_bytes(), wrong.as_bytes()]).await;
            assert_eq!((answer.code(), answer.text(0)), ("invalid_input",
                "expire_reason must be one of attempt_timeout execution_deadline".to_owned()));
        }
    }

    async fn only_what_carries_bytes_is_a_payload_that_is_too_large(d: &Deployment) {
        let held = d.create_and_claim().await;
        let long = "x".repeat(65);
        let [id, lease, epoch, attempt] = held.fence();
        let args = [id.as_bytes(), long.as_bytes(), epoch.as_bytes(), attempt.as_bytes(), b"1000"];
        let answer = d.raw("ff_renew_lease", &args).await;
        assert_eq!((answer.code(), answer.text(0)),
            ("invalid_input", "lease_id must be at most 64 bytes".to_owned()));
        let result = vec![0; limits::RESULT_BYTES_MAX as usize + 1];
        let args = [id.as_bytes(), lease.as_bytes(), epoch.as_bytes(), attempt.as_bytes(), &result];
        let answer = d.raw("ff_complete_execution", &args).await;
        assert_eq!((answer.code(), answer.text(0)),
            ("payload_too_large", "result must be at most 8388608 bytes".to_owned()));
    }

    /// What was parsed before is known, and forgotten when there is too much of it.
    async fn more_values_than_are_remembered_are_read_right(d: &Deployment) {
        d.host().watch(false);
        for round in 0..2 {
            for n in 0..600_u16 {
                let lane = format!("lane-{n}");
                let id = d.create().lane(&lane).priority(n).kind(&format!("k{n}")).send().await;
                let described = d.describe(id).await;
                assert_eq!(described.lane.as_str(), lane, "round {round}");
                assert_eq!(described.priority, n);
            }
            assert_eq!(refusal(d, 4, b"9001").await.as_deref(),
                Some("priority must be a whole number from 0 to 9000"));
        }
    }

    async fn too_many_and_too_few_arguments_are_counted(d: &Deployment) {
        let id = d.create_one().await.to_string();
        let answer = d.raw("ff_read_payload", &[id.as_bytes(), b"x"]).await;
        assert_eq!((answer.code(), answer.text(0)),
            ("invalid_input", "arguments must be at most 1, not 2".to_owned()));
        let uuid = d.new_uuid().to_string();
        let claim: [&[u8]; 10] =
            [LANE.as_bytes(), b"w", b"w-1", b"", b"1000", b"0", b"", b"", b"", b""];
        let answer = d.raw("ff_claim_next", &claim).await;
        assert_eq!((answer.code(), answer.text(0)),
            ("invalid_input", "lease_ids must be given 1 to 256 times, not 0".to_owned()));
        let mut many = claim.to_vec();
        many.extend(vec![uuid.as_bytes(); limits::CLAIM_COUNT_MAX as usize]);
        assert!(d.raw("ff_claim_next", &many).await.done);
        many.push(uuid.as_bytes());
        let answer = d.raw("ff_claim_next", &many).await;
        assert_eq!((answer.code(), answer.text(0)),
            ("invalid_input", "lease_ids must be given 1 to 256 times, not 257".to_owned()));
        many[10] = b"no uuid";
        let answer = d.raw("ff_claim_next", &many[..11]).await;
        assert_eq!((answer.code(), answer.text(0)),
            ("invalid_input", "lease_ids must be a lower-case hyphenated uuid".to_owned()));
    }
}
