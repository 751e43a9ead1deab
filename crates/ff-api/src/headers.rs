//! Header names of our own, in the lower case that HTTP libraries want.

/// The token of the task a request is about.
pub const TASK: &str = "flowfabric-task";
/// The kind of an execution submitted as raw bytes.
pub const KIND: &str = "flowfabric-kind";
/// Its lane.
pub const LANE: &str = "flowfabric-lane";
/// Its namespace.
pub const NAMESPACE: &str = "flowfabric-namespace";
/// Its priority.
pub const PRIORITY: &str = "flowfabric-priority";
/// Its policy, as JSON.
pub const POLICY: &str = "flowfabric-policy";
/// Its tags, as a JSON object.
pub const TAGS: &str = "flowfabric-tags";
/// Not to be claimed before this time, in milliseconds since the Unix epoch.
pub const DELAY_UNTIL: &str = "flowfabric-delay-until";
/// Not to be claimed for this many milliseconds.
pub const DELAY_MS: &str = "flowfabric-delay-ms";
/// Expires at this time, in milliseconds since the Unix epoch.
pub const DEADLINE_AT: &str = "flowfabric-deadline-at";
/// Who submits it.
pub const CREATOR: &str = "flowfabric-creator";
/// Its id, if the client chooses it.
pub const EXECUTION_ID: &str = "flowfabric-execution-id";
/// The headers that describe an execution submitted as raw bytes, and mean nothing with JSON.
pub const OF_RAW: [&str; 11] = [
    KIND,
    LANE,
    NAMESPACE,
    PRIORITY,
    POLICY,
    TAGS,
    DELAY_UNTIL,
    DELAY_MS,
    DEADLINE_AT,
    CREATOR,
    EXECUTION_ID,
];
/// The client's own name for a submission: the same key is the same execution.
pub const IDEMPOTENCY_KEY: &str = "idempotency-key";
/// The state of the execution whose bytes are answered.
pub const STATE: &str = "flowfabric-state";

/// JSON.
pub const JSON: &str = "application/json";
/// Raw bytes.
pub const OCTET_STREAM: &str = "application/octet-stream";
/// A problem document.
pub const PROBLEM_JSON: &str = "application/problem+json";
