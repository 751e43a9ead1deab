//! A policy by flags: what most submissions want to say, without JSON.

use std::time::Duration;

use ff_core::limits::{
    DEDUP_MS_DEFAULT, FAILED_RETENTION_MS_DEFAULT, MAX_RETRIES_MAX, RETENTION_MS_DEFAULT,
    RETENTION_MS_MAX,
};
use ff_core::policy::{Backoff, ExecutionPolicy, PolicyError, RetryPolicy, TimeoutPolicy};

use crate::failure::Failure;
use crate::time;

/// The most common fields of a policy, and the whole of it as JSON. A flag wins over the JSON.
#[derive(clap::Args, Default)]
#[command(next_help_heading = "Policy")]
pub(crate) struct PolicyFlags {
    /// How many retries follow a first attempt that failed [default: none].
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(..=MAX_RETRIES_MAX))]
    pub(crate) retries: Option<u64>,
    /// The pause before the first retry, which doubles with each: 1s, or 1s..5m with the longest
    /// one [default: 1s..1m].
    #[arg(long, value_name = "TIME", value_parser = backoff, requires = "retries")]
    pub(crate) backoff: Option<Backoff>,
    /// How long one attempt may run [default: as long as its worker lives].
    #[arg(long, value_name = "TIME", value_parser = time::duration)]
    pub(crate) timeout: Option<Duration>,
    /// How long the whole may take from now, waiting and retries included [default: for ever].
    #[arg(long, value_name = "TIME", value_parser = time::duration)]
    pub(crate) deadline: Option<Duration>,
    /// How long it is kept after its end [default: 1d, 7d if it failed].
    #[arg(long, value_name = "TIME", value_parser = retention)]
    pub(crate) retention: Option<Duration>,
    /// All of the policy as JSON: further limits, categories that are retried, capabilities.
    #[arg(long, value_name = "JSON")]
    pub(crate) policy: Option<String>,
}

/// `1s`, or `1s..5m`.
pub(crate) fn backoff(text: &str) -> Result<Backoff, String> {
    let (first, longest) = text.split_once("..").unwrap_or((text, "1m"));
    let first = time::millis(time::duration(first)?);
    let longest = time::millis(time::duration(longest)?);
    let Backoff::Exponential { multiplier, jitter, .. } = Backoff::default() else {
        return Err("the usual backoff grows".to_owned());
    };
    let (initial_delay_ms, max_delay_ms) = (first, longest.max(first));
    Ok(Backoff::Exponential { initial_delay_ms, max_delay_ms, multiplier, jitter })
}

/// A time that is not too long.
pub(crate) fn retention(text: &str) -> Result<Duration, String> {
    let most = Duration::from_millis(RETENTION_MS_MAX);
    let days = most.as_secs() / 86_400;
    let time = time::duration(text)?;
    if time > most { Err(format!("must be {days}d at most")) } else { Ok(time) }
}

/// What is wrong with the JSON: that it is none, or where, unless it is the whole, and the rule.
fn in_json(text: &str, error: &PolicyError) -> String {
    if let Err(error) = serde_json::from_str::<serde::de::IgnoredAny>(text) {
        return format!("policy is no JSON: {error}");
    }
    match error.path.as_str() {
        "$" => format!("policy: {}", error.rule),
        _ => error.to_string(),
    }
}

/// A policy as the flags would say it, and what they cannot say as JSON.
pub(crate) fn as_flags(policy: &ExecutionPolicy) -> Result<String, serde_json::Error> {
    let flags = flags(policy)?;
    Ok(if flags.is_empty() { "none".to_owned() } else { flags.join(" ") })
}

fn flags(policy: &ExecutionPolicy) -> Result<Vec<String>, serde_json::Error> {
    let (mut rest, mut flags) = (policy.clone(), Vec::new());
    if let Some(said) = rest.retry_policy.as_ref().and_then(retries_as_flags) {
        flags.extend(said);
        rest.retry_policy = None;
    }
    let times = rest.timeout_policy.take().unwrap_or_default();
    let timed = [
        ("timeout", times.attempt_timeout_ms),
        ("deadline", times.execution_deadline_ms),
        ("retention", rest.retention_ms.take()),
    ];
    let timed = timed.into_iter().filter_map(|(name, ms)| Some((name, ms?)));
    flags.extend(timed.map(|(name, ms)| format!("--{name} {}", time::written(ms))));
    let times = TimeoutPolicy { attempt_timeout_ms: None, execution_deadline_ms: None, ..times };
    rest.timeout_policy = Some(times).filter(|times| *times != TimeoutPolicy::default());
    if rest != ExecutionPolicy::default() {
        flags.push(format!("--policy '{}'", serde_json::to_string(&rest)?));
    }
    Ok(flags)
}

/// The policy that holds for an execution, in flags: what differs from the built-in one, and always
/// how often it is retried and how long it is kept.
pub(crate) fn in_force(policy: ExecutionPolicy) -> Result<Vec<String>, serde_json::Error> {
    let kept = policy.retention_ms.is_some();
    let never = policy.retry_policy.as_ref().is_none_or(|retry| retry.max_retries == 0);
    let mut said = flags(&without_built_in(policy))?;
    if never {
        said.insert(0, "--retries 0".to_owned());
    }
    if !kept {
        let time = time::written;
        let (usual, failed) = (RETENTION_MS_DEFAULT, FAILED_RETENTION_MS_DEFAULT);
        said.push(format!("--retention {} ({} if it fails)", time(usual), time(failed)));
    }
    Ok(said)
}

/// What a policy says that would not hold anyway.
fn without_built_in(policy: ExecutionPolicy) -> ExecutionPolicy {
    fn unless_equal<T: PartialEq>(said: Option<T>, built_in: Option<T>) -> Option<T> {
        if said == built_in { None } else { said }
    }
    let built_in = ExecutionPolicy::built_in();
    let never = |retry: &RetryPolicy| retry.max_retries == 0;
    ExecutionPolicy {
        retry_policy: policy.retry_policy.filter(|retry| !never(retry)),
        suspension_policy: unless_equal(policy.suspension_policy, built_in.suspension_policy),
        max_signals_per_execution: unless_equal(
            policy.max_signals_per_execution,
            built_in.max_signals_per_execution,
        ),
        max_reclaim_count: unless_equal(policy.max_reclaim_count, built_in.max_reclaim_count),
        max_replay_count: unless_equal(policy.max_replay_count, built_in.max_replay_count),
        dedup_window_ms: policy.dedup_window_ms.filter(|ms| *ms != DEDUP_MS_DEFAULT),
        stream_policy: unless_equal(policy.stream_policy, built_in.stream_policy),
        ..policy
    }
}

/// `--retries 5` and `--backoff 1s..5m`; none if flags cannot say all of it.
fn retries_as_flags(policy: &RetryPolicy) -> Option<[String; 2]> {
    let Backoff::Exponential { initial_delay_ms, max_delay_ms, .. } = policy.backoff else {
        return None;
    };
    let pauses = format!("{}..{}", time::written(initial_delay_ms), time::written(max_delay_ms));
    let said = RetryPolicy {
        max_retries: policy.max_retries,
        backoff: backoff(&pauses).ok()?,
        ..RetryPolicy::default()
    };
    let flags = [format!("--retries {}", said.max_retries), format!("--backoff {pauses}")];
    (said == *policy).then_some(flags)
}

impl PolicyFlags {
    /// What was said, in one.
    pub(crate) fn policy(&self) -> Result<ExecutionPolicy, Failure> {
        let policy = match &self.policy {
            Some(text) => ExecutionPolicy::from_json(text.as_bytes())
                .map_err(|error| Failure::not_understood(format!("--{}", in_json(text, &error))))?,
            None => ExecutionPolicy::default(),
        };
        let policy = self.on_top_of(policy);
        policy.validate().map_err(|error| Failure::not_understood(error.to_string()))?;
        Ok(policy)
    }

    /// A policy in which everything that the flags say is as they say.
    pub(crate) fn on_top_of(&self, mut policy: ExecutionPolicy) -> ExecutionPolicy {
        self.add_retries(&mut policy);
        self.add_times(&mut policy);
        policy
    }

    fn add_retries(&self, policy: &mut ExecutionPolicy) {
        let Some(retries) = self.retries else { return };
        let retry = policy.retry_policy.get_or_insert_with(RetryPolicy::default);
        retry.max_retries = retries;
        if let Some(backoff) = &self.backoff {
            retry.backoff = backoff.clone();
        }
    }

    fn add_times(&self, policy: &mut ExecutionPolicy) {
        if self.timeout.is_some() || self.deadline.is_some() {
            let times = policy.timeout_policy.get_or_insert_with(TimeoutPolicy::default);
            let attempt = self.timeout.map(time::millis);
            times.attempt_timeout_ms = attempt.or(times.attempt_timeout_ms);
            let whole = self.deadline.map(time::millis);
            times.execution_deadline_ms = whole.or(times.execution_deadline_ms);
        }
        policy.retention_ms = self.retention.map(time::millis).or(policy.retention_ms);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser as _;

    #[derive(clap::Parser)]
    struct Flags {
        #[command(flatten)]
        policy: PolicyFlags,
    }

    fn said(flags: &[&str]) -> String {
        let flags = Flags::parse_from([&["submit"], flags].concat());
        flags.policy.policy().and_then(|policy| Ok(policy.to_json()?)).expect("a policy")
    }

    #[test]
    fn flags_say_what_json_says() {
        assert_eq!(said(&[]), "{}");
        let all = ["--retries", "5", "--backoff", "2s..5m", "--timeout", "30s", "--deadline", "2h"];
        assert_eq!(
            said(&[&all[..], &["--retention", "7d"]].concat()),
            concat!(
                r#"{"retry_policy":{"max_retries":5,"backoff":{"type":"exponential","#,
                r#""initial_delay_ms":2000,"max_delay_ms":300000,"multiplier":2.0,"jitter":false}},"#,
                r#""timeout_policy":{"attempt_timeout_ms":30000,"execution_deadline_ms":7200000},"#,
                r#""retention_ms":604800000}"#,
            )
        );
    }

    #[test]
    fn a_flag_wins_over_the_json_and_leaves_the_rest_of_it() {
        let json = r#"{"retention_ms":1,"max_reclaim_count":7,
            "retry_policy":{"max_retries":1,"backoff":{"type":"fixed","delay_ms":9}}}"#;
        assert_eq!(
            said(&["--policy", json, "--retries", "2", "--retention", "1s"]),
            concat!(
                r#"{"retry_policy":{"max_retries":2,"backoff":{"type":"fixed","delay_ms":9}},"#,
                r#""max_reclaim_count":7,"retention_ms":1000}"#,
            )
        );
    }

    #[test]
    fn a_policy_is_told_as_the_flags_that_say_it() {
        let told = |flags: &[&str]| {
            let flags = Flags::parse_from([&["submit"], flags].concat());
            as_flags(&flags.policy.policy().expect("a policy")).expect("words")
        };
        assert_eq!(told(&[]), "none");
        let line = "--retries 5 --backoff 1s..5m --timeout 30s --deadline 2h --retention 7d";
        assert_eq!(told(&line.split(' ').collect::<Vec<_>>()), line);
        let json = r#"{"retry_policy":{"max_retries":1,"backoff":{"type":"fixed","delay_ms":9}}}"#;
        assert_eq!(
            told(&["--policy", json, "--timeout", "90s"]),
            format!("--timeout 90s --policy '{json}'")
        );
    }

    #[test]
    fn what_holds_is_told_without_what_would_hold_anyway() {
        let told = |policy| in_force(policy).expect("words").join(" ");
        let unsaid = "--retries 0 --retention 1d (7d if it fails)";
        assert_eq!(told(ExecutionPolicy::built_in()), unsaid);
        let retry_policy = Some(RetryPolicy::default());
        let (retention_ms, max_replay_count) = (Some(5000), Some(3));
        let said = ExecutionPolicy {
            retry_policy,
            retention_ms,
            max_replay_count,
            ..ExecutionPolicy::built_in()
        };
        let flags = "--retries 3 --backoff 1s..1m --retention 5s";
        assert_eq!(told(said), format!("{flags} --policy '{{\"max_replay_count\":3}}'"));
    }

    #[test]
    fn a_first_pause_that_is_longer_than_a_minute_is_the_longest_too() {
        assert!(said(&["--retries", "1", "--backoff", "2m"]).contains(r#""max_delay_ms":120000"#));
    }
}
