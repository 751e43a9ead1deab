//! What is suspended, for those who look after it.

use ff_conformance::conformance;
use ff_core::contracts::Condition;
use ff_script::calls::waits::{ListSuspended, ListSuspendedReply};

conformance! {
    async fn what_is_suspended_is_listed_longest_first(d: &Deployment) {
        let mut ids = Vec::new();
        for number in 0..5 {
            let held = d.create_and_claim().await;
            let mut call = d.suspension(&held, &Condition::any(["go"]));
            (call.requested_by, call.timeout_ms) = (format!("r{number}"), Some(1000 + number));
            d.suspend_by(&held, call).await;
            ids.push(held.id);
            d.advance(number % 2).await;
        }
        let (mut cursor, mut seen) = (String::new(), Vec::new());
        loop {
            let ListSuspendedReply::Page { suspended, next_cursor } =
                d.call(ListSuspended { cursor, limit: 2 }).await;
            seen.extend(suspended.0);
            match next_cursor {
                Some(next) => cursor = next,
                None => break,
            }
        }
        let listed: Vec<_> = seen.iter().map(|entry| entry.execution_id).collect();
        assert_eq!(listed, ids);
        assert_eq!((seen[1].requested_by.as_str(), seen[1].reason.as_str()),
            ("r1", "waiting_for_signal"));
        assert_eq!(seen[1].timeout_at, Some(seen[1].suspended_at_ms.plus_millis(1001)));
        let wrong = d.raw("ff_list_suspended", &[b"7|x", b"2"]).await;
        assert_eq!(wrong.code(), "invalid_input");
    }

    async fn what_goes_on_is_listed_no_longer(d: &Deployment) {
        let it = d.suspend(&Condition::any(["go"])).await;
        let other = d.suspend(&Condition::any(["go"])).await;
        d.deliver(&it.on, "go").await;
        let call = ListSuspended { cursor: String::new(), limit: 10 };
        let ListSuspendedReply::Page { suspended, next_cursor } = d.call(call).await;
        let ids: Vec<_> = suspended.0.iter().map(|entry| entry.execution_id).collect();
        assert_eq!((ids, next_cursor), (vec![other.held.id], None));
    }
}
