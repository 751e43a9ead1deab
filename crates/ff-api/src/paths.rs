//! Every path of the API, as templates for the server and as addresses for clients.

use std::fmt::Display;

/// Submit (POST) and list (GET) executions.
pub const EXECUTIONS: &str = "/v1/executions";
/// Submit several executions.
pub const EXECUTIONS_BULK: &str = "/v1/executions/bulk";
/// One execution.
pub const EXECUTION: &str = "/v1/executions/{execution_id}";
/// Its state in one word.
pub const EXECUTION_STATE: &str = "/v1/executions/{execution_id}/state";
/// Its result as raw bytes.
pub const EXECUTION_RESULT: &str = "/v1/executions/{execution_id}/result";
/// Its input as raw bytes.
pub const EXECUTION_PAYLOAD: &str = "/v1/executions/{execution_id}/payload";
/// Its attempts.
pub const EXECUTION_ATTEMPTS: &str = "/v1/executions/{execution_id}/attempts";
/// Its events.
pub const EXECUTION_HISTORY: &str = "/v1/executions/{execution_id}/history";
/// Cancel it.
pub const EXECUTION_CANCEL: &str = "/v1/executions/{execution_id}/cancel";
/// Run it again.
pub const EXECUTION_REPLAY: &str = "/v1/executions/{execution_id}/replay";
/// Take its lease away.
pub const EXECUTION_REVOKE_LEASE: &str = "/v1/executions/{execution_id}/revoke-lease";
/// Change its priority.
pub const EXECUTION_PRIORITY: &str = "/v1/executions/{execution_id}/priority";
/// Add or change its tags.
pub const EXECUTION_TAGS: &str = "/v1/executions/{execution_id}/tags";
/// Reserve it for a worker.
pub const EXECUTION_GRANT: &str = "/v1/executions/{execution_id}/grant";

/// Register (POST) and list (GET) workers.
pub const WORKERS: &str = "/v1/workers";
/// Extend a registration.
pub const WORKER_HEARTBEAT: &str = "/v1/workers/{worker}/heartbeat";
/// End a registration and hand its leases back.
pub const WORKER_DISCONNECT: &str = "/v1/workers/{worker}/disconnect";
/// Reserve the next execution of a lane for a worker.
pub const WORKER_CLAIM: &str = "/v1/workers/{worker}/claim";
/// Turn a reservation into a task.
pub const GRANTS_CLAIM: &str = "/v1/grants/claim";
/// Claim tasks, waiting for them if there are none.
pub const CLAIMS: &str = "/v1/claims";

/// Extend the lease of a task.
pub const TASK_RENEW: &str = "/v1/tasks/renew";
/// Say how far a task is.
pub const TASK_PROGRESS: &str = "/v1/tasks/progress";
/// End a task with a result.
pub const TASK_COMPLETE: &str = "/v1/tasks/complete";
/// End a task's attempt as failed.
pub const TASK_FAIL: &str = "/v1/tasks/fail";
/// Give a task back until a time.
pub const TASK_DELAY: &str = "/v1/tasks/delay";
/// Give a task back until its children have ended.
pub const TASK_WAIT_CHILDREN: &str = "/v1/tasks/wait-children";
/// End a task as cancelled.
pub const TASK_CANCEL: &str = "/v1/tasks/cancel";

/// The lanes and how much waits in them.
pub const LANES: &str = "/v1/lanes";
/// The event log of one partition.
pub const EVENTS: &str = "/v1/events";
/// What the server runs on.
pub const DEPLOYMENT: &str = "/v1/deployment";

/// Liveness: the process answers.
pub const HEALTHZ: &str = "/healthz";
/// Readiness: the store answers and the server is not draining.
pub const READYZ: &str = "/readyz";
/// Metrics in Prometheus' text format.
pub const METRICS: &str = "/metrics";
/// This API as an OpenAPI document.
pub const OPENAPI: &str = "/openapi.json";

/// The address of one thing: a template with its one parameter filled in, percent-encoded.
pub fn fill(template: &str, parameter: impl Display) -> String {
    let value = encode(&parameter.to_string());
    match (template.find('{'), template.find('}')) {
        (Some(start), Some(end)) => {
            format!("{}{value}{}", &template[..start], &template[end + 1..])
        }
        _ => template.to_owned(),
    }
}

/// Percent-encodes everything but the characters that never need it.
pub fn encode(text: &str) -> String {
    text.bytes().fold(String::with_capacity(text.len()), |mut encoded, byte| {
        match byte {
            b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' => {
                encoded.push(char::from(byte));
            }
            _ => encoded.push_str(&format!("%{byte:02X}")),
        }
        encoded
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_is_encoded_into_its_place() {
        let id = "{fp:7}:550e8400-e29b-41d4-a716-446655440000";
        assert_eq!(
            fill(EXECUTION_RESULT, id),
            "/v1/executions/%7Bfp%3A7%7D%3A550e8400-e29b-41d4-a716-446655440000/result"
        );
        assert_eq!(fill(WORKER_HEARTBEAT, "eu/1 é"), "/v1/workers/eu%2F1%20%C3%A9/heartbeat");
        assert_eq!(fill(EXECUTIONS, id), EXECUTIONS);
    }
}
