"""What an OpenAPI document cannot say, told to the fuzzer, so that it reaches what is behind.

The first two change nothing about whether a request keeps the document; the others are for
requests that are meant to keep it.
"""

import json
import re
import uuid

import schemathesis
from schemathesis import GenerationMode

PARTITIONS = 4
WAIT_MS_MAX = 20
# Where a pause that grows begins if nothing else is said.
INITIAL_DELAY_MS = 1000
# No text has a smaller limit.
BYTES_MAX_LEAST = 64
EXECUTION_ID = re.compile(r"^\{fp:(\d+)\}:")
PAYLOADS = ("payload", "payload_text", "payload_base64")
RESULTS = ("result", "result_text", "result_base64")
DELAYS = ("delay_until", "delay_ms")
KEYED = ("idempotency_key", "debounce", "singleton")
NUMBERS = ("wait_ms", "partition")
OPAQUE = ("cursor",)
BUDGETS = ("/v1/budgets", "/v1/budgets/{budget_id}")
POLICIES = ("/v1/defaults", "/v1/kinds/{kind}")
MANY = ("/v1/executions/cancel", "/v1/executions/replay")


def at_home(text):
    """The id of an execution on a partition that this deployment has."""
    return EXECUTION_ID.sub(lambda found: "{fp:%d}:" % (int(found[1]) % PARTITIONS), text)


def plain(name, value):
    """Integers without a point, short waits, partitions that exist."""
    if isinstance(value, dict):
        return {key: plain(key, inner) for key, inner in value.items()}
    if isinstance(value, list):
        return [plain(name, inner) for inner in value]
    if isinstance(value, str) and not (name in NUMBERS and re.fullmatch("[0-9]{1,5}", value)):
        return at_home(value)
    if isinstance(value, float) and value.is_integer() and abs(value) < 2**53:
        value = int(value)
    if name in NUMBERS and not isinstance(value, (bool, float, type(None))):
        return fitting(name, int(value))
    return value


def fitting(name, value):
    if name == "wait_ms" and WAIT_MS_MAX < value <= 60_000:
        return WAIT_MS_MAX
    if name == "partition" and 0 <= value <= 65_535:
        return value % PARTITIONS
    return value


def short(value):
    """Lengths are limited in bytes, which a document says in characters: as many of either."""
    if isinstance(value, dict):
        return {short(key): short(inner) for key, inner in value.items()}
    if isinstance(value, list):
        return [short(inner) for inner in value]
    if isinstance(value, str) and len(value.encode(errors="replace")) > BYTES_MAX_LEAST:
        return value.encode(errors="replace")[: len(value)].decode(errors="ignore")
    return value


def keep_one(body, names):
    given = [name for name in names if body.get(name) is not None]
    for name in given[1:]:
        del body[name]


def grow(policy):
    """A pause that grows begins below where it ends, by a factor with few decimals; a key of a
    quota is told in one way."""
    keep_one((policy or {}).get("quota") or {}, ("key", "key_tag"))
    backoff = ((policy or {}).get("retry_policy") or {}).get("backoff") or {}
    if "max_delay_ms" in backoff:
        begins = backoff.get("initial_delay_ms", INITIAL_DELAY_MS)
        backoff["initial_delay_ms"] = min(begins, backoff["max_delay_ms"])
    if isinstance(backoff.get("multiplier"), float):
        backoff["multiplier"] = round(backoff["multiplier"], 3)


def agree(body):
    """What may be given once is given once."""
    grow(body.get("policy"))
    for names in (PAYLOADS, RESULTS, DELAYS):
        keep_one(body, names)
    keep_one(body, KEYED)
    if any(body.get(name) is not None for name in KEYED):
        # The key decides the partition, and the id must be on it.
        body.pop("execution_id", None)
    debounce = body.get("debounce")
    if debounce:
        # It is a delay, and waits at least as long as that.
        for name in DELAYS:
            body.pop(name, None)
        debounce["max_wait_ms"] = max(debounce["delay_ms"], debounce["max_wait_ms"])
    # Budgets that a policy names must be there.
    (body.get("policy") or {}).pop("budget_ids", None)
    leases = list(dict.fromkeys(body.get("lease_ids") or []))
    if leases:
        # Each lease has an id of its own.
        body["lease_ids"], body["count"] = leases, len(leases)
    else:
        # Only what named its leases can be asked for again.
        body.pop("retry", None)
    for inner in body.get("executions") or []:
        if isinstance(inner, dict):
            agree(inner)


def select(body, path):
    """What is not over is cancelled, what is over is replayed; nobody can guess a cursor."""
    selection = body["filter"]
    for name in OPAQUE:
        selection.pop(name, None)
    if path.endswith("/cancel"):
        selection.pop("state", None)
    else:
        selection["state"] = "failed"


def name_kinds(body):
    """Names of kinds are no part of what a document can say about an object."""
    kinds = body.get("kinds") or {}
    body["kinds"] = {"kind-%d" % number: policy for number, policy in enumerate(kinds.values())}
    for policy in body["kinds"].values():
        grow(policy)


def take_turns(body):
    """Only those who share a fair lane have weights and something that tells them apart."""
    if body.get("order") != "fair":
        for name in ("fair_by", "weights"):
            body.pop(name, None)


def name_waitpoint(body):
    """A signal names its waitpoint in one of two ways, or both."""
    if body.get("waitpoint_key") is None and body.get("waitpoint_id") is None:
        body["waitpoint_key"] = "fuzz"


def order(body):
    """Tasks have names of their own, and each waits for some that stand before it."""
    names = []
    for number, task in enumerate(body["tasks"]):
        if task["name"] in names:
            task["name"] = "task %d" % number
        for name in ("execution_id",) + KEYED:
            # The flow has them, or they are for what is no member of one.
            task["execution"].pop(name, None)
        agree(task["execution"])
        after = {}
        for one in task.get("after") or []:
            if names:
                one["task"] = names[len(one["task"]) % len(names)]
                after[one["task"]] = one
        task["after"] = list(after.values())
        if task.get("needs") is not None:
            task["needs"] = min(task["needs"], len(after)) or None
        for one in after.values():
            if one.get("on") == "failure_only":
                # A failure has nothing to pass.
                one.pop("pass", None)
        if (task.get("needs") or len(after)) == len(after):
            # Who needs all leaves nobody to cancel.
            task.pop("cancel_rest", None)
        names.append(task["name"])
    if body.get("key") is not None:
        # The key decides the flow's id.
        body["flow"].pop("flow_id", None)


def fit_budget(body):
    """A scope is named as what it is, and a soft limit is at most the hard one."""
    if "scope_type" in body:
        body["scope_type"], body["scope_id"] = "kind", "fuzz"
    for limits in (body.get("dimensions") or {}).values():
        if limits.get("hard") and limits.get("soft"):
            limits["soft"] = min(limits["soft"], limits["hard"])
    if "scope_type" in body and not body["dimensions"]:
        body["dimensions"] = {"tokens": {"hard": 1}}


def fit_quota(limits):
    """A rate has a window, a window has a rate, and something is limited."""
    if limits.get("window_seconds") is None or limits.get("max_requests_per_window") is None:
        for name in ("window_seconds", "max_requests_per_window"):
            limits.pop(name, None)
        limits["max_concurrent"] = limits.get("max_concurrent") or 1


def home_of(flow_id):
    """The partition of a flow: its members live there."""
    crc = 0
    for byte in uuid.UUID(flow_id).bytes:
        crc ^= byte << 8
        for _ in range(8):
            crc = (crc << 1 ^ (0x1021 if crc & 0x8000 else 0)) & 0xFFFF
    return crc % PARTITIONS


def join(body, flow_id):
    """Executions of a flow are named with the partition that it is in."""
    if body.get("dependency_kind") == "failure_only":
        # A failure has nothing to pass.
        body.pop("data_passing_ref", None)
    for name in [name for name in body if name.endswith("execution_id")]:
        if isinstance(body[name], str):
            body[name] = "{fp:%d}:%s" % (home_of(flow_id), body[name][-36:])


def is_json(text):
    try:
        return isinstance(json.loads(text), dict)
    except ValueError:
        return False


def fit_headers(case):
    """Headers describe raw bytes, and only those; two of them are JSON inside."""
    headers = case.headers
    if case.media_type == "application/json":
        for name in [name for name in headers if name.lower().startswith("flowfabric-")]:
            del headers[name]
        body = case.body if isinstance(case.body, dict) else {}
        if "idempotency-key" in headers:
            for name in ("execution_id",) + KEYED:
                body.pop(name, None)
        return
    headers.setdefault("FlowFabric-Kind", "fuzz")
    for name in ("FlowFabric-Debounce", "FlowFabric-Singleton"):
        headers.pop(name, None)
    for name in ("FlowFabric-Policy", "FlowFabric-Tags"):
        if name in headers and not is_json(headers[name]):
            del headers[name]
    if "FlowFabric-Delay-Ms" in headers:
        headers.pop("FlowFabric-Delay-Until", None)
    if "Idempotency-Key" in headers:
        headers.pop("FlowFabric-Execution-Id", None)
    if "FlowFabric-Execution-Id" in headers:
        headers["FlowFabric-Execution-Id"] = at_home(headers["FlowFabric-Execution-Id"])


def keeps_document(case):
    return case.meta is not None and case.meta.generation.mode == GenerationMode.POSITIVE


@schemathesis.hook
def before_call(context, case, kwargs):
    for name in ("query", "body", "path_parameters"):
        values = getattr(case, name)
        changed = plain(name, values)
        # By text, because 1.0 equals 1. What is set is judged anew by its text on the wire, where
        # %11 is printable, so it is only set if it has to be.
        if isinstance(values, (dict, list)) and repr(changed) != repr(values):
            setattr(case, name, changed)
    if not keeps_document(case):
        return
    for name in OPAQUE:
        if isinstance(case.query, dict):
            case.query.pop(name, None)
    if isinstance(case.body, dict):
        if repr(short(case.body)) != repr(case.body):
            case.body = short(case.body)
        agree(case.body)
    if case.operation.path.endswith("/signal") and isinstance(case.body, dict):
        name_waitpoint(case.body)
    if case.operation.path == "/v1/kinds" and isinstance(case.body, dict):
        name_kinds(case.body)
    if case.operation.path in POLICIES and isinstance(case.body, dict):
        grow(case.body.get("policy"))
    if case.operation.path == "/v1/lanes/{lane}" and isinstance(case.body, dict):
        take_turns(case.body)
    if case.operation.path in BUDGETS and isinstance(case.body, dict):
        fit_budget(case.body)
    if case.operation.path.startswith("/v1/quotas") and isinstance(case.body, dict):
        fit_quota(case.body)
    if case.operation.path in MANY and isinstance(case.body, dict):
        select(case.body, case.operation.path)
    if case.operation.path == "/v1/flows/graph" and isinstance(case.body, dict):
        order(case.body)
    if case.operation.path.startswith("/v1/flows/{flow_id}/") and isinstance(case.body, dict):
        join(case.body, case.path_parameters["flow_id"])
    if case.operation.path == "/v1/executions" and case.method == "POST":
        fit_headers(case)
