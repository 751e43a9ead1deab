//! Header names of our own, in the lower case that HTTP libraries want.

/// The token of the task a request is about.
pub const TASK: &str = "flowfabric-task";
/// The kind of an execution submitted as raw bytes.
pub const KIND: &str = "flowfabric-kind";
/// What our own headers begin with. Of a submission as raw bytes each names a field.
pub const PREFIX: &str = "flowfabric-";
/// The client's own name for a submission: the same key is the same execution.
pub const IDEMPOTENCY_KEY: &str = "idempotency-key";
/// The state of the execution whose bytes are answered.
pub const STATE: &str = "flowfabric-state";

/// What a request is called, in the answer and in the log. A client may choose it.
pub const REQUEST_ID: &str = "x-request-id";

/// The number of the first frame of a stream that is written.
pub const FIRST_SEQUENCE: &str = "flowfabric-first-sequence";
/// The id of the last event that a client has seen, from which it goes on.
pub const LAST_EVENT_ID: &str = "last-event-id";

/// JSON.
pub const JSON: &str = "application/json";
/// Raw bytes.
pub const OCTET_STREAM: &str = "application/octet-stream";
/// Server-sent events.
pub const EVENT_STREAM: &str = "text/event-stream";
/// Frames, each a line of JSON.
pub const NDJSON: &str = "application/x-ndjson";
/// A problem document.
pub const PROBLEM_JSON: &str = "application/problem+json";
/// What a form of a page sends.
pub const FORM: &str = "application/x-www-form-urlencoded";
/// A page.
pub const HTML: &str = "text/html; charset=utf-8";
