//! A flow in a file: tasks by name, with whom each waits for.

use std::collections::BTreeMap;
use std::fmt;

use ff_sdk::{
    Code, CreateExecution, CreateFlow, DependencyKind, EngineError, ExecutionKind, ExecutionPolicy,
    FailurePolicy, GraphDependency, GraphTask, LaneId, Namespace, SubmitGraph, TimestampMs,
};
use serde::de::{Error as _, MapAccess, Visitor};
use serde::{Deserialize, Deserializer};
use serde_json::value::{RawValue, Value};

use super::written;
use crate::failure::Failure;
use crate::policy::{self, PolicyFlags};
use crate::time;

/// The file.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    /// Where the schema of this file is, for editors.
    #[serde(rename = "$schema")]
    _schema: Option<String>,
    /// The kind of flow.
    flow: ExecutionKind,
    key: Option<String>,
    namespace: Option<Namespace>,
    on_failure: Option<FailurePolicy>,
    deadline_at: Option<Deadline>,
    retention: Option<Value>,
    retention_ms: Option<u64>,
    #[serde(default)]
    tags: BTreeMap<String, String>,
    #[serde(deserialize_with = "tasks_by_name")]
    tasks: BTreeMap<String, Task>,
}

/// When all of a flow expires.
#[derive(Deserialize)]
#[serde(
    untagged,
    expecting = "deadline_at must be a time like 2026-11-15 21:40:05, or milliseconds since 1970"
)]
enum Deadline {
    Millis(u64),
    Text(String),
}

impl Deadline {
    fn resolve(self) -> Result<TimestampMs, Failure> {
        match self {
            Self::Millis(millis) => Ok(TimestampMs::new(millis)),
            Self::Text(text) => time::parse_moment(&text)
                .ok_or_else(|| format!("deadline_at must be {}, got {text:?}", time::FORM).into()),
        }
    }
}

/// A task. One of which nothing is said is run by the handler of its name.
#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct Task {
    /// The handler; the task's name if absent.
    kind: Option<ExecutionKind>,
    /// The payload: a text as it is, anything else as JSON.
    input: Option<Value>,
    lane: Option<LaneId>,
    priority: Option<u16>,
    /// The most common parts of the policy, as `submit` has them as flags.
    retries: Option<u64>,
    backoff: Option<Value>,
    timeout: Option<Value>,
    deadline: Option<Value>,
    retention: Option<Value>,
    policy: Option<ExecutionPolicy>,
    #[serde(default)]
    tags: BTreeMap<String, String>,
    #[serde(default)]
    after: After,
    /// Which outcomes of those it waits for let it run.
    on: Option<On>,
    /// Whose results become inputs: names, or names with the inputs' own names.
    #[serde(default)]
    pass: Pass,
    #[serde(default)]
    optional: bool,
    /// Those of `after` that nobody needs any more are cancelled.
    #[serde(default)]
    cancel_rest: bool,
}

/// What `after` may be.
const AFTER: &str = "after must be a list, {all: […]}, {any: […]} or {count: N, of: […]}";

/// For whom a task waits.
#[derive(Deserialize)]
#[serde(
    untagged,
    expecting = "after must be a list, {all: […]}, {any: […]} or {count: N, of: […]}"
)]
enum After {
    /// For all of these.
    List(Vec<String>),
    /// For all, any or so many of them.
    Some(Join),
}

impl Default for After {
    fn default() -> Self {
        Self::List(Vec::new())
    }
}

/// How many of those a task waits for must be there.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Join {
    all: Option<Vec<String>>,
    any: Option<Vec<String>>,
    count: Option<u32>,
    of: Option<Vec<String>>,
}

#[derive(Clone, Copy, Deserialize)]
#[serde(rename_all = "snake_case")]
enum On {
    Success,
    Failure,
    Any,
}

#[derive(Deserialize)]
#[serde(untagged, expecting = "pass must be a list of tasks, or {task: input, …}")]
enum Pass {
    Names(Vec<String>),
    Renamed(BTreeMap<String, String>),
}

impl Default for Pass {
    fn default() -> Self {
        Self::Names(Vec::new())
    }
}

/// Reads a flow, in YAML or in JSON, which is YAML. What cannot run is refused here.
pub(super) fn read(bytes: &[u8]) -> Result<SubmitGraph, Failure> {
    let file: File = serde_norway::from_slice(bytes)?;
    let graph = file.into_graph()?;
    graph.check().map_err(|error| explain(&error, &String::from_utf8_lossy(bytes)))?;
    Ok(graph)
}

impl File {
    fn into_graph(self) -> Result<SubmitGraph, Failure> {
        let mut flow = CreateFlow::new(self.flow);
        (flow.namespace, flow.on_failure) = (self.namespace, self.on_failure);
        let retention = written::read("retention", self.retention.as_ref(), policy::retention)?;
        flow.retention_ms = retention.map(time::millis).or(self.retention_ms);
        flow.tags = self.tags;
        flow.deadline_at = self.deadline_at.map(Deadline::resolve).transpose()?;
        let tasks = self.tasks.into_iter().map(|(name, task)| task.into_graph(name));
        let mut graph = SubmitGraph::new(flow, tasks.collect::<Result<_, _>>()?);
        graph.key = self.key.map(|key| key.parse()).transpose()?;
        Ok(graph)
    }
}

/// What is wrong with a graph, in the words of its file, and where that is.
fn explain(error: &EngineError, text: &str) -> Failure {
    let message = match (error.code(), error.details()) {
        (Some(Code::CycleDetected), [cycle]) => {
            format!("these tasks wait for each other: {cycle} (cycle_detected)")
        }
        (Some(Code::SelfReferencingEdge), [task]) => {
            format!("tasks.{task}.after names the task itself (self_referencing_edge)")
        }
        _ => error.to_string().replace(".execution.", ".").replace(".needs ", ".after.count "),
    };
    let line = task_in(error, &message).and_then(|task| line_of(&task, text));
    match line {
        Some(line) => format!("{message} (line {line})").into(),
        None => message.into(),
    }
}

/// The task that an error is about, by its field or as the first of a cycle.
fn task_in(error: &EngineError, message: &str) -> Option<String> {
    if error.code() == Some(Code::CycleDetected) {
        return error.details().first()?.split(" -> ").next().map(str::to_owned);
    }
    let rest = message.strip_prefix("tasks.")?;
    let end = FIELDS.iter().filter_map(|field| rest.find(field)).min()?;
    Some(rest[..end].to_owned())
}

/// What may follow the name of a task that is wrong.
const FIELDS: &[&str] = &[".after", ".priority ", ".policy", ".tags", ".kind ", ".payload", " is "];

/// The only line that begins with a name as a key does.
fn line_of(name: &str, text: &str) -> Option<usize> {
    let is_key = |line: &str| {
        let line = line.trim_start().trim_start_matches('{').trim_start();
        let bare = line.trim_start_matches(['"', '\'']);
        let rest = bare.strip_prefix(name).map(|rest| rest.trim_start_matches(['"', '\'']));
        rest.is_some_and(|rest| rest.trim_start().starts_with(':'))
    };
    let mut lines = text.lines().enumerate().filter(|(_, line)| is_key(line));
    let (at, _) = lines.next()?;
    lines.next().is_none().then_some(at + 1)
}

/// The tasks of a file. Of two with one name, neither is what was meant.
fn tasks_by_name<'de, D: Deserializer<'de>>(from: D) -> Result<BTreeMap<String, Task>, D::Error> {
    struct Tasks;

    impl<'de> Visitor<'de> for Tasks {
        type Value = BTreeMap<String, Task>;

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("tasks by name")
        }

        fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
            let mut tasks = BTreeMap::new();
            while let Some((name, task)) = map.next_entry::<String, Option<Task>>()? {
                if tasks.contains_key(&name) {
                    return Err(A::Error::custom(format!("two tasks are named {name}")));
                }
                tasks.insert(name, task.unwrap_or_default());
            }
            Ok(tasks)
        }
    }

    from.deserialize_map(Tasks)
}

impl Task {
    /// What is said of the policy, in either way; nothing if nothing is.
    fn policy(&mut self, name: &str) -> Result<Option<ExecutionPolicy>, Failure> {
        if self.backoff.is_some() && self.retries.is_none() {
            return Err(format!("tasks.{name}.backoff goes with retries").into());
        }
        let field = |field: &str| format!("tasks.{name}.{field}");
        let time = |name: &str, value: &Option<Value>| {
            written::read(&field(name), value.as_ref(), time::duration)
        };
        let (backoff, retention) = (self.backoff.as_ref(), self.retention.as_ref());
        let flags = PolicyFlags {
            retries: self.retries,
            backoff: written::read(&field("backoff"), backoff, policy::backoff)?,
            timeout: time("timeout", &self.timeout)?,
            deadline: time("deadline", &self.deadline)?,
            retention: written::read(&field("retention"), retention, policy::retention)?,
            ..PolicyFlags::default()
        };
        let (said, whole) = (self.policy.is_some(), self.policy.take().unwrap_or_default());
        let whole = flags.on_top_of(whole);
        Ok(Some(whole).filter(|whole| said || *whole != ExecutionPolicy::default()))
    }

    fn into_graph(mut self, name: String) -> Result<GraphTask, Failure> {
        let policy = self.policy(&name)?;
        let kind = match self.kind {
            Some(kind) => kind,
            None => name.parse().map_err(|error| format!("task {name}: {error}"))?,
        };
        let mut execution = CreateExecution::new(kind);
        match self.input {
            Some(Value::String(text)) => execution.payload_text = Some(text),
            Some(value) => execution.payload = Some(RawValue::from_string(value.to_string())?),
            None => {}
        }
        (execution.lane, execution.priority) = (self.lane, self.priority);
        (execution.policy, execution.tags) = (policy, self.tags);
        let (waits_for, needs) = self.after.resolve(&name)?;
        let mut task = GraphTask::new(name.clone(), execution);
        (task.needs, task.optional) = (needs, self.optional);
        task.cancel_rest = self.cancel_rest;
        task.after = waits_for.into_iter().map(|task| dependency(task, self.on)).collect();
        self.pass.apply(&name, &mut task.after)?;
        Ok(task)
    }
}

fn dependency(task: String, on: Option<On>) -> GraphDependency {
    let on = on.map(|on| match on {
        On::Success => DependencyKind::SuccessOnly,
        On::Failure => DependencyKind::FailureOnly,
        On::Any => DependencyKind::AnyOutcome,
    });
    GraphDependency { task, on, pass: None }
}

impl After {
    /// The names, and how many of them are needed if not all.
    fn resolve(self, task: &str) -> Result<(Vec<String>, Option<u32>), Failure> {
        let Join { all, any, count, of } = match self {
            Self::List(names) => return Ok((names, None)),
            Self::Some(join) => join,
        };
        match (all, any, count, of) {
            (Some(names), None, None, None) => Ok((names, None)),
            (None, Some(names), None, None) => Ok((names, Some(1))),
            (None, None, Some(count), Some(names)) => Ok((names, Some(count))),
            _ => Err(format!("task {task}: {AFTER}").into()),
        }
    }
}

impl Pass {
    fn apply(self, task: &str, after: &mut [GraphDependency]) -> Result<(), Failure> {
        let pairs: Vec<(String, String)> = match self {
            Self::Names(names) => names.into_iter().map(|name| (name.clone(), name)).collect(),
            Self::Renamed(names) => names.into_iter().collect(),
        };
        for (from, input) in pairs {
            match after.iter_mut().find(|one| one.task == from) {
                Some(one) => one.pass = Some(input),
                None => {
                    return Err(
                        format!("task {task}: pass names {from}, which it is not after").into()
                    );
                }
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FILE: &str = "
flow: media
key: clip-7
on_failure: fail_fast
tasks:
  split: { input: { clip: a.mp4 } }
  left: { kind: encode, after: [split], pass: [split] }
  right: { kind: encode, after: [split], pass: { split: clip }, optional: true }
  join: { after: { any: [left, right] }, input: text }
  undo: { after: { count: 1, of: [split, left] }, on: failure }
";

    #[test]
    fn a_file_is_a_graph() {
        let graph = read(FILE.as_bytes()).unwrap_or_else(|failure| panic!("{}", failure.message));
        let task = |name: &str| {
            graph.tasks.iter().find(|task| task.name == name).expect("the task is there")
        };
        assert_eq!(graph.key.as_ref().map(|key| key.as_str()), Some("clip-7"));
        assert_eq!(graph.flow.on_failure, Some(FailurePolicy::FailFast));
        assert_eq!(task("split").execution.kind.as_str(), "split");
        let payload = task("split").execution.payload.as_ref().map(|json| json.get().to_owned());
        assert_eq!(payload.as_deref(), Some(r#"{"clip":"a.mp4"}"#));
        assert_eq!(task("left").after[0].pass.as_deref(), Some("split"));
        assert_eq!(task("right").after[0].pass.as_deref(), Some("clip"));
        assert!(task("right").optional);
        assert_eq!((task("join").needs, task("join").after.len()), (Some(1), 2));
        assert_eq!(task("join").execution.payload_text.as_deref(), Some("text"));
        assert_eq!(task("undo").after[0].on, Some(DependencyKind::FailureOnly));
    }

    #[test]
    fn a_task_says_the_common_parts_of_its_policy_as_flags_do() {
        let said = "retries: 5, backoff: 1s..5m, timeout: 30s, deadline: 2h, retention: 7d";
        let file = format!("flow: a\nretention: 30d\ntasks: {{ b: {{ {said} }}, c: }}");
        let graph = read(file.as_bytes()).unwrap_or_else(|failure| panic!("{}", failure.message));
        assert_eq!(graph.flow.retention_ms, Some(30 * 86_400_000));
        let policy = |at: usize| graph.tasks[at].execution.policy.clone();
        let flags = "--retries 5 --backoff 1s..5m --timeout 30s --deadline 2h --retention 7d";
        let told = crate::policy::as_flags(&policy(0).expect("a policy")).expect("words");
        assert_eq!((told.as_str(), policy(1)), (flags, None));
        let over = "flow: a\ntasks: { b: { timeout: 1s, policy: { retention_ms: 7 } } }";
        let graph = read(over.as_bytes()).unwrap_or_else(|failure| panic!("{}", failure.message));
        let policy = graph.tasks[0].execution.policy.clone().expect("a policy");
        assert_eq!(
            policy.to_json().expect("json"),
            r#"{"timeout_policy":{"attempt_timeout_ms":1000},"retention_ms":7}"#
        );
    }

    #[test]
    fn what_is_no_flow_is_refused_with_its_place() {
        for (text, told) in [
            ("flow: a\ntasks: { b: { after: { all: [c], any: [d] } } }", "task b: after must be"),
            ("flow: a\ntasks: { b: { pass: [c] } }", "task b: pass names c, which it is not after"),
            ("flow: a\ntask: {}", "unknown field `task`"),
            ("flow: a\ntasks:\n  b: {}\n  b: {}", "two tasks are named b"),
            ("flow: a\ntasks: { b: { after: c } }", "tasks.b: after must be a list"),
            ("flow: a\ntasks: { b: { pass: 7 } }", "pass must be a list"),
            ("flow: a\ntasks:\n  b: { aftre: [c] }", "unknown field `aftre`"),
            ("flow: a\ntasks:\n  b: { aftre: [c] }", "at line 3 column 8"),
            ("flow: a\ntasks:\n  b: { priority: x }", "tasks.b.priority: invalid type"),
            ("flow: a\ntasks: { b: { timeout: 30 } }", "tasks.b.timeout must be a time like"),
            ("flow: a\ntasks: { b: { retention: 400d } }", "must be 366d at most"),
            ("flow: a\ntasks: { b: { backoff: 1s } }", "tasks.b.backoff goes with retries"),
            ("flow: a\ndeadline_at: soon\ntasks: { b: }", "deadline_at must be a time like"),
            ("flow: a\ntasks:\n  b: { after: [c] }", "tasks.b.after names \"c\", which is no task"),
            ("flow: a\ntasks:\n  b: { after: [c] }", "(line 3)"),
            ("flow: a\ntasks:\n  b: { after: [b] }", "tasks.b.after names the task itself"),
            ("flow: a\ntasks:\n  b: { priority: 9999 }", "tasks.b.priority must be from 0 to 9000"),
            ("flow: a\ntasks:\n  b: { priority: 9999 }", "(line 3)"),
            (
                "flow: a\ntasks:\n  c:\n  b: { after: { count: 2, of: [c] } }",
                "b.after.count must be",
            ),
            ("flow: a\ntasks:\n  b: { after: [c] }\n  c: { after: [b] }", "b -> c -> b"),
            ("flow: a\ntasks:\n  b: { after: [c] }\n  c: { after: [b] }", "(line 3)"),
        ] {
            let failure = read(text.as_bytes()).map(drop).expect_err(text);
            assert!(failure.message.contains(told), "{text}: {}", failure.message);
        }
    }

    #[test]
    fn a_line_is_named_only_if_it_is_certain() {
        assert_eq!(line_of("b", "flow: a\ntasks:\n  b: {}\n  bb: {}"), Some(3));
        assert_eq!(line_of("b", "{\n\"flow\": \"a\",\n\"tasks\": {\n\"b\" : {}}}"), Some(4));
        assert_eq!(line_of("b", "flow: a\ntasks:\n  b: {}\n  c:\n    tags:\n      b: x"), None);
        assert_eq!(line_of("b", "flow: a\ntasks: { b: {} }"), None);
    }
}
