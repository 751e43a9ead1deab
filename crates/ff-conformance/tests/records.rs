//! Several effects on one execution in one call add up: it is one table, written once.

use std::sync::Arc;

use ff_backend_embedded::{EmbeddedConfig, EmbeddedHost};
use ff_conformance::{capabilities, instance, lane, library, worker};
use ff_core::contracts::CreateExecution;
use ff_core::engine_backend::roles::*;
use ff_core::partition::{Partition, PartitionConfig, PartitionFamily};
use ff_core::state::PublicState;
use ff_core::types::{ExecutionId, ExecutionKind, GrantId, Namespace};
use ff_script::args::Args;
use ff_script::audit;
use ff_script::backend::ScriptBackend;
use ff_script::calls::grant::IssueClaimGrant;
use ff_script::host::{Function, Host};
use ff_script::library::Library;
use ff_script::value::Value;
use uuid::Uuid;

/// Changes an execution of which little was read, changes it again as a whole, and ends it.
const MANY_EFFECTS: &str = "
local arg = require('kernel.arg')
local define = require('kernel.define').define
local reply = require('kernel.reply')
local commit = require('model.commit')
local ending = require('model.ending')
local record = require('model.record')

local read_some = record.reader { 'lane' }

define {
  name = 'ff_test_many_effects',
  doc = 'Changes one execution in several ways.',
  flags = {},
  args = { arg.execution('execution_id') },
  gives = { OK = { 'same', 'kind', 'creator', 'progress' } },
  run = function(p, a, now, w)
    local x = read_some(p, a.execution_id)
    record.set(x, 'priority', 7)
    record.set(x, 'progress_message', 'half')
    record.drop(x, { 'progress_message' })
    commit(w, x, 'priority_changed', '0')
    local y = record.read(p, a.execution_id)
    record.set(y, 'creator', 'somebody else')
    record.set(y, 'progress_pct', '50')
    record.drop(y, { 'progress_pct' })
    record.set(y, 'progress_pct', '60')
    record.set(y, 'cancelled_by', 'operator_override')
    ending.finish(w, y, now, 'cancelled', 'test')
    return reply.ok(x == y and 1 or 0, y.kind, y.creator, y.progress_pct)
  end,
}

return true
";

const FUNCTION: Function = Function { wire_name: "ff_test_many_effects_v1", read_only: false };

/// The library with the function above in front of those about marks.
fn changed_library() -> Library {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../lua/verb/mark.lua");
    let marks = std::fs::read_to_string(path).expect("the module is there");
    let more = MANY_EFFECTS.trim_end().strip_suffix("return true").expect("it ends so");
    Library::with_modules(&[("verb/mark", &format!("do\n{more}end\n{marks}"))])
}

fn open(library: &Library) -> Arc<EmbeddedHost> {
    let config = EmbeddedConfig { shards: 1, ..EmbeddedConfig::in_memory() };
    Arc::new(EmbeddedHost::open(config, library).expect("the library loads"))
}

fn new_execution(execution_id: ExecutionId) -> CreateExecution {
    CreateExecution {
        namespace: Some(Namespace::try_new("tests").expect("a valid name")),
        lane: Some(lane("main")),
        ..CreateExecution::new(ExecutionKind::try_new("work").expect("a valid name"))
            .with_id(execution_id)
    }
}

#[tokio::test]
async fn effects_of_one_call_on_one_execution_add_up() {
    let host = open(&changed_library());
    let config = PartitionConfig::default();
    let backend = ScriptBackend::open(Arc::clone(&host), config).await.expect("a new store");
    let id = ExecutionId::from_parts(Partition::flow(3), Uuid::from_u128(7));
    backend.create(new_execution(id)).await.expect("it is new");

    let mut args = Args::with_capacity(1);
    args.push_display(&id);
    let reply = host.call(FUNCTION, id.partition(), args).await.expect("it runs");
    let text = |value: &str| Value::Bytes(value.into());
    let told = [Value::Int(1), text("OK"), Value::Int(1), text("work"), text("somebody else")];
    assert_eq!(reply, Value::Array([&told[..], &[text("60")]].concat()));

    let snapshot = backend.describe_execution(id).await.expect("a read").expect("it is there");
    assert_eq!(snapshot.public_state, PublicState::Cancelled);
    assert_eq!(snapshot.priority, 7);
    let history = backend.read_history(id).await.expect("a read");
    let names: Vec<&str> = history.events.iter().map(|event| event.kind.as_str()).collect();
    assert_eq!(names, ["created", "priority_changed", "ended"]);
    let report = audit::audit(&host.dump().await.expect("the store is open"), &config);
    assert!(report.violations.is_empty(), "{:?}", report.violations);
}

#[tokio::test]
async fn what_was_reserved_and_ends_in_one_call_leaves_no_entry_behind() {
    let host = open(&changed_library());
    let config = PartitionConfig::default();
    let backend = ScriptBackend::open(Arc::clone(&host), config).await.expect("a new store");
    let id = ExecutionId::from_parts(Partition::flow(3), Uuid::from_u128(7));
    backend.create(new_execution(id)).await.expect("it is new");
    let grant = IssueClaimGrant {
        execution_id: id,
        worker_id: worker("worker"),
        worker_instance_id: instance("worker-1"),
        capabilities: capabilities(&[]),
        grant_ttl_ms: 1000,
        grant_id: GrantId::from_uuid(Uuid::from_u128(8)),
    };
    backend.call(id.partition(), grant).await.expect("it waits");

    let mut args = Args::with_capacity(1);
    args.push_display(&id);
    host.call(FUNCTION, id.partition(), args).await.expect("it runs");
    let report = audit::audit(&host.dump().await.expect("the store is open"), &config);
    assert!(report.violations.is_empty(), "{:?}", report.violations);
}

#[tokio::test]
async fn a_function_is_refused_on_a_partition_of_another_family() {
    let host = open(&library());
    let budgets = Partition { family: PartitionFamily::Budget, index: 3 };
    let function = Function { wire_name: "ff_list_lanes_v1", read_only: true };
    let reply = host.call(function, budgets, Args::with_capacity(0)).await.expect("it runs");
    let Value::Array(parts) = reply else { panic!("a reply is a list") };
    assert_eq!(parts[..2], [Value::Int(0), Value::Bytes(b"invalid_input".to_vec())]);
}

#[tokio::test]
async fn an_execution_is_created_on_no_partition_of_another_family() {
    let host = open(&library());
    let budgets = Partition { family: PartitionFamily::Budget, index: 3 };
    let function = Function { wire_name: "ff_create_execution_v1", read_only: false };
    let mut args = Args::with_capacity(1);
    args.push(b"{b:3}:00000000-0000-0000-0000-000000000007");
    let reply = host.call(function, budgets, args).await.expect("it runs");
    let Value::Array(parts) = reply else { panic!("a reply is a list") };
    let text = Value::Bytes(b"the key must be a partition, as in ff:{fp:7}".to_vec());
    assert_eq!(parts, [Value::Int(0), Value::Bytes(b"invalid_input".to_vec()), text]);
    assert!(host.dump().await.expect("the store is open").is_empty(), "nothing was written");
}
