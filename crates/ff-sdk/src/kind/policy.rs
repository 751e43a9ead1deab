//! What a kind says about retries, time and keeping, as constants that the compiler checks.

use ff_core::duration;
use ff_core::limits;
use ff_core::policy::{Backoff, ExecutionPolicy, RetryPolicy, TimeoutPolicy};

use super::Kind;

/// What was said of a kind; the rest has the defaults of the deployment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Said {
    retries: Option<u64>,
    /// The first and the longest pause before a retry.
    backoff_ms: Option<(u64, u64)>,
    timeout_ms: Option<u64>,
    deadline_ms: Option<u64>,
    retention_ms: Option<u64>,
}

impl Said {
    pub(super) const NOTHING: Self = Self {
        retries: None,
        backoff_ms: None,
        timeout_ms: None,
        deadline_ms: None,
        retention_ms: None,
    };
}

/// The policy of a kind goes with every submission of it. A time is written as people write it,
/// `500ms`, `30s`, `1h30m`, `7d`; in a constant, one that is none does not compile:
///
/// ```compile_fail,E0080
/// # use ff_sdk::Kind;
/// const CHARGE: Kind<u64, ()> = Kind::new("charge").timeout("30");
/// # let _ = CHARGE.name();
/// ```
impl<I, O> Kind<I, O> {
    /// How many retries follow a first attempt that failed.
    ///
    /// # Panics
    ///
    /// If they are more than a thousand: in a constant, when the program is compiled. The same for
    /// all that follow.
    pub const fn retries(mut self, count: u64) -> Self {
        assert!(count <= limits::MAX_RETRIES_MAX, "there are at most 1000 retries");
        self.said.retries = Some(count);
        self
    }

    /// The pause before the first retry, which doubles with each, and the longest one; a second and
    /// a minute if not said. To be said after [`retries`](Self::retries).
    pub const fn backoff(mut self, first: &str, longest: &str) -> Self {
        assert!(self.said.retries.is_some(), "how many retries there are comes before the pauses");
        let (first, longest) = (millis(first), millis(longest));
        assert!(first <= longest, "the longest pause is not shorter than the first");
        self.said.backoff_ms = Some((first, longest));
        self
    }

    /// How long one attempt may run.
    pub const fn timeout(mut self, time: &str) -> Self {
        self.said.timeout_ms = Some(some_millis(time));
        self
    }

    /// How long the whole execution may take, waiting and retries included.
    pub const fn deadline(mut self, time: &str) -> Self {
        self.said.deadline_ms = Some(some_millis(time));
        self
    }

    /// How long it is kept after its end.
    pub const fn retention(mut self, time: &str) -> Self {
        let time = millis(time);
        assert!(time <= limits::RETENTION_MS_MAX, "nothing is kept longer than a year");
        self.said.retention_ms = Some(time);
        self
    }

    /// What was said, as it travels; none if nothing was.
    pub fn policy(&self) -> Option<ExecutionPolicy> {
        (self.said != Said::NOTHING).then(|| self.said.policy())
    }
}

impl Said {
    fn policy(&self) -> ExecutionPolicy {
        let timeouts = TimeoutPolicy {
            attempt_timeout_ms: self.timeout_ms,
            execution_deadline_ms: self.deadline_ms,
            max_reclaim_count: None,
        };
        ExecutionPolicy {
            retry_policy: self.retries.map(|count| self.retry_policy(count)),
            timeout_policy: (timeouts != TimeoutPolicy::default()).then_some(timeouts),
            retention_ms: self.retention_ms,
            ..ExecutionPolicy::default()
        }
    }

    fn retry_policy(&self, max_retries: u64) -> RetryPolicy {
        let mut retry = RetryPolicy { max_retries, ..RetryPolicy::default() };
        let pauses = self.backoff_ms;
        if let (
            Some((first, longest)),
            Backoff::Exponential { initial_delay_ms, max_delay_ms, .. },
        ) = (pauses, &mut retry.backoff)
        {
            (*initial_delay_ms, *max_delay_ms) = (first, longest);
        }
        retry
    }
}

const fn millis(time: &str) -> u64 {
    let Some(millis) = duration::parse_ms(time) else { panic!("{}", duration::FORM) };
    assert!(millis <= limits::DELAY_MS_MAX, "no time is longer than 400 days");
    millis
}

const fn some_millis(time: &str) -> u64 {
    let millis = millis(time);
    assert!(millis > 0, "it takes some time");
    millis
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_kind_says_is_a_policy_and_nothing_else() {
        const FULL: Kind<(), ()> = Kind::new("full")
            .retries(5)
            .backoff("500ms", "2m")
            .timeout("30s")
            .deadline("2h")
            .retention("7d");
        let json = FULL.policy().expect("something was said").to_json();
        assert_eq!(
            json.as_deref(),
            Ok(concat!(
                r#"{"retry_policy":{"max_retries":5,"backoff":{"type":"exponential","#,
                r#""initial_delay_ms":500,"max_delay_ms":120000,"multiplier":2.0,"#,
                r#""jitter":false}},"timeout_policy":{"attempt_timeout_ms":30000,"#,
                r#""execution_deadline_ms":7200000},"retention_ms":604800000}"#,
            ))
        );
        const LATE: Kind<(), ()> = Kind::new("late").retention("0");
        let json = LATE.policy().expect("something was said").to_json();
        assert_eq!(json.as_deref(), Ok(r#"{"retention_ms":0}"#));
        assert_eq!(Kind::<(), ()>::new("plain").policy(), None);
    }

    #[test]
    fn what_a_policy_cannot_say_is_refused_where_it_is_written() {
        type Plain = Kind<(), ()>;
        let wrong: [fn(Plain) -> Plain; 7] = [
            |kind| kind.retries(1001),
            |kind| kind.backoff("1s", "2s"),
            |kind| kind.retries(1).backoff("2s", "1s"),
            |kind| kind.timeout("0"),
            |kind| kind.deadline("soon"),
            |kind| kind.deadline("401d"),
            |kind| kind.retention("367d"),
        ];
        for (number, wrong) in wrong.into_iter().enumerate() {
            assert!(std::panic::catch_unwind(|| wrong(Plain::new("plain"))).is_err(), "{number}");
        }
    }
}
