#!/bin/sh
# A worker of nothing but curl. It takes a task, asks, and gives the task back; when somebody has
# decided it takes the task again, with the decision, and ends it.
set -eu
field() { sed -n "s/.*\"$1\":\"\([^\"]*\)\".*/\1/p"; }
claim() {
    curl -fsS --json '{"worker_id":"gate","worker_instance_id":"gate-1","lanes":["default"],
        "lease_ttl_ms":30000,"wait_ms":20000}' "$FLOWFABRIC_URL/v1/claims"
}

task=$(claim)
what=$(printf '%s' "$task" | field payload_base64 | base64 -d)
curl -fsS -o /dev/null --json "{
    \"task_token\": \"$(printf '%s' "$task" | field task_token)\",
    \"suspension\": {
        \"reason\": \"waiting_for_approval\",
        \"condition\": {\"type\": \"any\", \"signals\": [\"approved\", \"rejected\"],
            \"source_type\": \"approver\"},
        \"approval\": {\"question\": \"Deploy $what?\", \"approvers\": [\"ann\", \"bob\"]}
    }}" "$FLOWFABRIC_URL/v1/tasks/suspend"

task=$(claim)
case $(printf '%s' "$task" | field signal_name) in
    approved) outcome="deployed $what" ;;
    *) outcome="left $what alone" ;;
esac
printf '%s, as %s decided\n' "$outcome" "$(printf '%s' "$task" | field source_identity)" |
    curl -fsS -H "FlowFabric-Task: $(printf '%s' "$task" | field task_token)" \
        -H 'Content-Type: application/octet-stream' --data-binary @- \
        "$FLOWFABRIC_URL/v1/tasks/complete"
