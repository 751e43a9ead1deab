//! A worker's settings, and their rules.

use ff_core::capability::CapabilitySet;
use ff_core::limits;
use ff_core::types::{LaneId, Namespace, WorkerId, WorkerInstanceId};

use crate::backend_config::BackendConfig;
use crate::error::SdkError;

/// A lease must outlast a slow answer and a renewal or two.
const LEASE_TTL_MS_MIN: u64 = 1_000;

const CONTEXT: &str = "worker_config";

/// Stands for all namespaces.
pub(crate) const ANY_NAMESPACE: &str = "*";

/// A worker's settings. Checked as a whole before anything is sent.
///
/// ```
/// use ff_sdk::{BackendConfig, WorkerConfig};
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let config = WorkerConfig {
///     backend: BackendConfig::embedded_in_memory(),
///     worker_id: "mailer".parse()?,
///     worker_instance_id: "mailer-1".parse()?,
///     namespace: "default".parse()?,
///     lanes: vec!["mail".parse()?],
///     capabilities: vec!["smtp".to_owned()],
///     lease_ttl_ms: 30_000,
///     claim_poll_interval_ms: 1_000,
///     max_concurrent_tasks: 4,
/// };
/// assert_eq!(config.renewal_interval_ms(), 10_000);
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct WorkerConfig {
    /// Where the executions live.
    pub backend: BackendConfig,
    /// The kind of worker; grants are given to it.
    pub worker_id: WorkerId,
    /// The process. Only one live process may have it.
    pub worker_instance_id: WorkerInstanceId,
    /// The namespace that this worker takes from, and in which its client submits. `*` takes from
    /// any, and submits in the default one.
    pub namespace: Namespace,
    /// The lanes to take from; at least one.
    pub lanes: Vec<LaneId>,
    /// What the worker can do: tokens without blanks, control characters and commas.
    pub capabilities: Vec<String>,
    /// How long a lease lasts without renewal; at least 1,000. 30,000 is usual.
    pub lease_ttl_ms: u64,
    /// A hint for callers of [`crate::FlowFabricWorker::claim_next`] that poll. The SDK waits for
    /// pushes and never sleeps on it. 1,000 is usual.
    pub claim_poll_interval_ms: u64,
    /// How many tasks may be held at a time; 0 counts as 1.
    pub max_concurrent_tasks: usize,
}

impl WorkerConfig {
    /// The namespaces to take from; none: any.
    pub(crate) fn namespaces(&self) -> Vec<Namespace> {
        if self.namespace.as_str() == ANY_NAMESPACE {
            return Vec::new();
        }
        vec![self.namespace.clone()]
    }

    /// The namespace of what its client submits.
    pub(crate) fn home(&self) -> Namespace {
        self.namespaces().pop().unwrap_or_default()
    }

    /// How long after a claim or a renewal the next renewal is sent.
    pub const fn renewal_interval_ms(&self) -> u64 {
        self.lease_ttl_ms / 3
    }

    /// Checks every field, and answers the capabilities as a set.
    pub(crate) fn validate(&self) -> Result<CapabilitySet, SdkError> {
        self.backend.validate()?;
        self.check_lanes()?;
        self.check_lease_ttl()?;
        if self.max_concurrent_tasks > tokio::sync::Semaphore::MAX_PERMITS {
            let message = format!("must be at most {}", tokio::sync::Semaphore::MAX_PERMITS);
            return Err(SdkError::config(CONTEXT, "max_concurrent_tasks", message));
        }
        self.check_capabilities()
    }

    fn check_lanes(&self) -> Result<(), SdkError> {
        let wrong = |message: String| Err(SdkError::config(CONTEXT, "lanes", message));
        let count = self.lanes.len() as u64;
        if count == 0 {
            return wrong("must name at least one lane".to_owned());
        }
        if count > limits::LANES_MAX {
            return wrong(format!("must name at most {} lanes, got {count}", limits::LANES_MAX));
        }
        let mut sorted: Vec<&LaneId> = self.lanes.iter().collect();
        sorted.sort_unstable();
        match sorted.windows(2).find(|pair| pair[0] == pair[1]) {
            Some(pair) => wrong(format!("must be different, got {:?} twice", pair[0].as_str())),
            None => Ok(()),
        }
    }

    fn check_lease_ttl(&self) -> Result<(), SdkError> {
        let (low, high) = (LEASE_TTL_MS_MIN, limits::LEASE_TTL_MS_MAX);
        if (low..=high).contains(&self.lease_ttl_ms) {
            return Ok(());
        }
        let message = format!("must be from {low} to {high}, got {}", self.lease_ttl_ms);
        Err(SdkError::config(CONTEXT, "lease_ttl_ms", message))
    }

    /// The store refuses ASCII blanks; here every blank and control character of Unicode is
    /// refused, since a token that looks like another one routes work nowhere.
    fn check_capabilities(&self) -> Result<CapabilitySet, SdkError> {
        let wrong = |message: String| SdkError::config(CONTEXT, "capabilities", message);
        let invisible = |letter: char| letter.is_whitespace() || letter.is_control();
        if let Some(token) = self.capabilities.iter().find(|token| token.contains(invisible)) {
            return Err(wrong(format!("{token:?} must not contain blanks or control characters")));
        }
        CapabilitySet::try_new(self.capabilities.iter().cloned())
            .map_err(|error| wrong(error.to_string()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn config() -> WorkerConfig {
        WorkerConfig {
            backend: BackendConfig::server("http://localhost:7480", None),
            worker_id: "mailer".parse().expect("valid"),
            worker_instance_id: "mailer-1".parse().expect("valid"),
            namespace: Namespace::default(),
            lanes: vec!["mail".parse().expect("valid")],
            capabilities: vec!["smtp".to_owned(), "smtp".to_owned(), "日本".to_owned()],
            lease_ttl_ms: 1_000,
            claim_poll_interval_ms: 1_000,
            max_concurrent_tasks: 0,
        }
    }

    fn refused(change: impl FnOnce(&mut WorkerConfig)) -> String {
        let mut config = config();
        change(&mut config);
        config.validate().expect_err("must be refused").to_string()
    }

    #[test]
    fn ordinary_settings_pass_and_capabilities_become_a_set() {
        assert_eq!(config().validate().expect("valid").csv(), "smtp,日本");
    }

    #[test]
    fn each_broken_rule_names_its_field() {
        let lane = |name: &str| name.parse::<LaneId>().expect("valid");
        let table = [
            (refused(|config| config.lanes.clear()), "lanes: must name at least one lane"),
            (
                refused(|config| config.lanes = vec![lane("b"), lane("a"), lane("b")]),
                "lanes: must be different, got \"b\" twice",
            ),
            (
                refused(|config| config.lease_ttl_ms = 0),
                "lease_ttl_ms: must be from 1000 to 86400000, got 0",
            ),
            (refused(|config| config.lease_ttl_ms = 999), "lease_ttl_ms: must be from 1000"),
            (refused(|config| config.capabilities = vec![String::new()]), "capabilities: "),
            (refused(|config| config.capabilities = vec!["a,b".to_owned()]), "capabilities: "),
            (
                refused(|config| config.capabilities = vec!["a\u{2003}b".to_owned()]),
                "capabilities: ",
            ),
            (
                refused(|config| config.max_concurrent_tasks = usize::MAX),
                "max_concurrent_tasks: must be at most",
            ),
        ];
        for (message, expected) in table {
            let expected = format!("config: worker_config.{expected}");
            assert!(message.starts_with(&expected), "{message}");
        }
    }

    #[test]
    fn the_limits_of_capabilities_are_the_engines() {
        let many = |count: usize| (0..count).map(|n| n.to_string()).collect::<Vec<_>>();
        assert!(refused(|config| config.capabilities = many(257)).contains("at most 256"));
        let mut config = config();
        config.capabilities = many(256);
        assert!(config.validate().is_ok());
    }
}
