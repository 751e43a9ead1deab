//! Every bound of the system, each with its reason. The Lua side is given the same numbers from
//! [`ALL`], so that a limit is written down once.

/// Declares the limits and the list that the library is built with.
macro_rules! limits {
    ($($(#[$doc:meta])* $name:ident = $value:expr;)*) => {
        $($(#[$doc])* pub const $name: u64 = $value;)*

        /// Every limit by its snake_case name, in the order of this file.
        pub const ALL: &[(&str, u64)] = &[$(({
            const UPPER: &str = stringify!($name);
            const LOWER: [u8; UPPER.len()] = lower(UPPER);
            match std::str::from_utf8(&LOWER) {
                Ok(name) => name,
                Err(_) => panic!("constant names are ASCII"),
            }
        }, $name)),*];
    };
}

const fn lower<const N: usize>(name: &str) -> [u8; N] {
    let mut letters = [0; N];
    letters.copy_from_slice(name.as_bytes());
    letters.make_ascii_lowercase();
    letters
}

const MINUTE_MS: u64 = 60_000;
const DAY_MS: u64 = 24 * 60 * MINUTE_MS;
const KIB: u64 = 1024;
const MIB: u64 = 1024 * KIB;

limits! {
    /// Part of every function's registered name: old and new servers can share one store.
    CONTRACT_MAJOR = 1;
    /// How the store is laid out. Grows with every change that an older or newer library would
    /// misread; a store of another format is refused, or upgraded when it is opened.
    STORE_FORMAT = 2;
    /// The oldest format that is upgraded. In it a lane had one queue in each partition.
    STORE_FORMAT_OLDEST = 1;
    /// Executions that one call of an upgrade moves.
    UPGRADE_BATCH = 256;

    // Names.

    /// A lane is part of several keys, so it stays short.
    LANE_BYTES_MAX = 64;
    /// A namespace is stored with every execution and compared on every filtered read.
    NAMESPACE_BYTES_MAX = 64;
    /// Room for a host name, a pool name and a process number.
    WORKER_BYTES_MAX = 256;
    /// A kind is a handler's name, not a document.
    KIND_BYTES_MAX = 128;
    /// Room for a digest or a composed business key.
    IDEMPOTENCY_KEY_BYTES_MAX = 256;
    /// A throttle's key is part of a name that is stored in short pieces.
    THROTTLE_KEY_BYTES_MAX = 128;
    /// A dimension is a word such as tokens or cost_usd_micros.
    DIMENSION_BYTES_MAX = 64;
    /// Dimensions of one budget: more than anybody looks at.
    DIMENSIONS_MAX = 64;
    /// What one report, limit or reservation may be: a thousand of them still add up exactly.
    USAGE_MAX = 1_000_000_000_000;
    /// Reports of one execution that are told apart by their keys.
    USAGE_KEYS_MAX = 10_000;
    /// A report's own name: a step, a request.
    USAGE_KEY_BYTES_MAX = 128;
    /// Budgets that one execution may have, and those of one scope.
    BUDGETS_MAX = 16;
    /// Executions that are named as those that run under a quota or a budget, for people.
    EXPLAINED_HOLDERS_MAX = 3;
    /// Executions of a budget among which those that run are looked for.
    HOLDERS_LOOKED_AT = 20;
    /// Executions of a budget that one step of a tick looks at.
    USERS_STEP = 64;
    /// A scope is a name or an id.
    BUDGET_SCOPE_BYTES_MAX = 128;
    /// What happened to a budget lately, for people.
    BUDGET_EVENTS_MAX = 100;
    /// A name for people.
    BUDGET_NAME_BYTES_MAX = 128;
    /// How long those who run may go on after a hard limit before they are stopped.
    BUDGET_GRACE_MS = 30_000;
    /// Log positions are two numbers and a separator; more than this is not one of ours.
    EVENT_CURSOR_BYTES_MAX = 48;
    /// Keeps a record's hash in the store's compact form: longer values get a key of their own.
    INLINE_VALUE_BYTES = 64;

    // Bytes and texts.

    /// Accepts payloads of 4 MiB with room to spare, and keeps a call far below the store's cap.
    PAYLOAD_BYTES_MAX = 8 * MIB;
    /// Results travel the same way as payloads.
    RESULT_BYTES_MAX = 8 * MIB;
    /// A policy is settings; it is decoded inside the store on every failure.
    POLICY_BYTES_MAX = 16 * KIB;
    /// Nothing we accept nests deeper, and decoding a deeper text could exhaust the stack.
    JSON_DEPTH_MAX = 16;
    /// A claim answers all tags, so their number is bounded.
    TAGS_MAX = 64;
    /// All tags of one execution as JSON.
    TAGS_BYTES_MAX = 128 * KIB;
    /// Tag keys are short dotted names.
    TAG_KEY_BYTES_MAX = 128;
    /// Tag values are references and labels, not documents.
    TAG_VALUE_BYTES_MAX = KIB;
    /// A reason is a message for a person; stack traces belong in a result or a frame.
    REASON_BYTES_MAX = 4 * KIB;
    /// Room for a stack trace next to a failure's message.
    FAILURE_DETAIL_BYTES_MAX = 16 * KIB;
    /// A category is a word that retry policies list.
    CATEGORY_BYTES_MAX = 64;
    /// Progress is overwritten often, so each message stays small.
    PROGRESS_MESSAGE_BYTES_MAX = KIB;
    /// Who asked: a user, a service, a request id.
    CREATOR_BYTES_MAX = 256;

    // Claiming.

    /// Priority times 10^12 plus a time in milliseconds stays exact in a double up to here.
    PRIORITY_MAX = 9000;
    /// A lease must last at least one tick of the clock it is measured with.
    LEASE_TTL_MS_MIN = 1;
    /// A lease longer than a day is a leak: nobody would notice the worker's death.
    LEASE_TTL_MS_MAX = DAY_MS;
    /// A grant holds work back from everybody else, so it is short.
    GRANT_TTL_MS_MAX = 10 * MINUTE_MS;
    /// Bounds the time of one claim call inside the store.
    CLAIM_COUNT_MAX = 256;
    /// Queue entries one claim looks at past those the worker cannot take.
    CLAIM_SCAN_MAX = 256;
    /// How far into the leases of a partition a call may begin that hands back a worker's.
    RELEASE_SKIP_MAX = 100_000_000;
    /// What one execution may overtake another of the same priority by, between their submissions,
    /// because they lie in different partitions.
    OVERTAKE_MS = 50;
    /// Combinations of namespace, kind and capabilities that wait in one lane of a partition:
    /// whoever looks for work keeps the head of each.
    NEEDS_MAX = 1024;
    /// Queues that one listing looks at before it leaves the other lanes to the next.
    NEEDS_LISTED_MAX = 1024;
    /// A namespace, a kind and capabilities, with the colons between them.
    NEED_BYTES_MAX = NAMESPACE_BYTES_MAX + KIND_BYTES_MAX + CAPABILITIES_BYTES_MAX + 2;
    /// Namespaces one claim may name.
    NAMESPACES_MAX = 256;
    /// Kinds of work one claim may name.
    KINDS_MAX = 256;
    /// Running attempts a repeated claim looks through for its own leases.
    CLAIM_RECALL_MAX = 1000;
    /// A claim that waits holds a connection, so it comes back now and then.
    CLAIM_WAIT_MS_MAX = 60_000;
    /// Tasks that one worker process may say it runs.
    WORKER_TASKS_MAX = 1_000_000;
    /// What tells a worker's process from all others: a boot, a namespace, a number and a time.
    PROCESS_BYTES_MAX = 128;
    /// Open upstreams that are named to who asks why an execution does not run.
    EXPLAINED_UPSTREAMS_MAX = 10;
    /// Executions that a leaving worker may name.
    DISCONNECT_EXECUTIONS_MAX = 1000;
    /// Live executions one call looks at when a worker leaves.
    RELEASE_SCAN_MAX = 256;
    /// Payload bytes after which a claim stops early, over all partitions: bounds the answer's
    /// memory everywhere. One payload of any size fits.
    CLAIM_BYTES_MAX = 8 * MIB;
    /// A submission whose answer was lost is sent again for so long, at most.
    SENT_MS_AGO_MAX = 10 * MINUTE_MS;
    /// Bounds the time of one create call inside the store.
    CREATE_BATCH_MAX = 256;
    /// Completions in one call, for the same reason.
    COMPLETE_BATCH_MAX = 256;
    /// The same, where their workers take the next tasks in that call.
    FINISH_BATCH_MAX = 32;
    /// The arguments of one execution in such a call: those of now, and room for later ones.
    CREATE_WIDTH_MAX = 32;
    /// More tokens than this is a configuration mistake.
    CAPABILITIES_MAX = 256;
    /// The sorted list is passed with every claim.
    CAPABILITIES_BYTES_MAX = 4 * KIB;

    // Facts that every partition knows: settings of lanes, defaults of kinds.

    /// A word, a colon and the name of a lane or kind.
    FACT_NAME_BYTES_MAX = 160;
    /// A fact is settings; all of them are sent to every partition that missed a change.
    FACT_BYTES_MAX = 8 * KIB;
    /// Lanes and kinds with settings of their own.
    FACTS_MAX = 2000;
    /// All facts together: what one partition is sent in one call.
    FACTS_BYTES_MAX = MIB;
    /// How often the use of a lane is noted, and how long a process need not ask again.
    LANE_USE_NOTED_MS = 60 * MINUTE_MS;
    /// A lane that nobody has used for so long, and in which nothing waits, is not listed any more.
    LANE_KEPT_MS = 7 * DAY_MS;
    /// More than this is no limit.
    LANE_WAITING_MAX = 1_000_000_000;
    /// Who shares a fair lane and has a weight of its own.
    LANE_WEIGHTS_MAX = 100;
    /// How many shares one may have of a fair lane, or a lane of the claims of those who take from
    /// several.
    LANE_WEIGHT_MAX = 1000;

    // Gates and quotas.

    /// A key of a quota; it becomes part of keys and lies in every record.
    QUOTA_KEY_BYTES_MAX = 64;
    /// A letter, an id and a key.
    GATE_BYTES_MAX = 104;
    /// No score in a queue is further from zero: a priority outweighs any time.
    SCORE_MAX = 9_007_199_254_740_991;
    /// More than this within a window is no limit.
    QUOTA_RATE_MAX = 1_000_000;
    /// More than this at a time is no limit.
    QUOTA_CONCURRENT_MAX = 1_000_000;
    /// A window longer than a month wants a budget.
    QUOTA_WINDOW_SECONDS_MAX = 31 * 24 * 60 * 60;
    /// By how much the opening of a window may be scattered.
    QUOTA_JITTER_MS_MAX = 60 * MINUTE_MS;
    /// Executions that one call lets pass a gate.
    GATE_OPEN_MAX = 256;
    /// How long a place is kept free for somebody who was let pass a gate.
    OPENING_KEPT_MS = 1000;
    /// Entries that left a window and are removed by one call.
    WINDOW_TRIM_MAX = 256;
    /// Gates of a changed policy that one step of a tick looks at.
    GATES_LOOKED_AT = 64;
    /// Leases that one call releases, and what else one call settles at a time.
    RELEASES_MAX = 128;

    // Attempts.

    /// A policy that wants more retries than this wants a schedule.
    MAX_RETRIES_MAX = 1000;
    /// How often an execution may be taken over from dead workers, at most.
    MAX_RECLAIMS_MAX = 1000;
    /// How often an execution may be replayed, at most.
    MAX_REPLAYS_MAX = 1000;
    /// Survives a bad day of worker crashes, ends work that kills its workers.
    RECLAIMS_DEFAULT = 100;
    /// Replays are made by hand; ten is plenty.
    REPLAYS_DEFAULT = 10;
    /// Bounds the list a policy check walks.
    RETRYABLE_CATEGORIES_MAX = 64;
    /// Numbers of attempts have 32 bits.
    ATTEMPT_INDEX_MAX = u32::MAX as u64;
    /// Older attempts of one execution are dropped from its history.
    ATTEMPT_HISTORY_MAX = 1000;

    // Output streams.

    /// A frame is a token, a line or a small chunk; a larger output is cut by whoever writes it.
    FRAME_BYTES_MAX = 64 * KIB;
    /// A frame's type is a word that readers choose by.
    FRAME_TYPE_BYTES_MAX = 64;
    /// Room for a trace id or a message id.
    CORRELATION_ID_BYTES_MAX = 256;
    /// A frame that is told later than this was not told live.
    FRAME_AGE_MS_MAX = DAY_MS;
    /// A thousand frames a second for thirty years; plain digits in every reader.
    FRAME_SEQUENCE_MAX = 1_000_000_000_000;
    /// Bounds the time of one append inside the store.
    APPEND_FRAMES_MAX = 256;
    /// Bounds the size of one append.
    APPEND_BYTES_MAX = MIB;
    /// Frames kept of one attempt unless the policy says otherwise.
    STREAM_FRAMES_DEFAULT = 10_000;
    /// A policy that wants more frames wants a file.
    STREAM_FRAMES_MAX = 100_000;
    /// Bytes kept of one attempt unless the policy says otherwise.
    STREAM_BYTES_DEFAULT = 16 * MIB;
    /// A policy that wants more bytes wants an object store.
    STREAM_BYTES_MAX = 256 * MIB;
    /// Frames kept for readers who look away for a moment, where only the latest matter.
    BEST_EFFORT_FRAMES_DEFAULT = 100;
    /// Bytes kept for such readers.
    BEST_EFFORT_BYTES_DEFAULT = MIB;
    /// Attempts before the latest whose output is kept: enough to see what keeps going wrong.
    STREAMS_KEPT_MAX = 16;
    /// A document that sums output up is read and written with every append.
    SUMMARY_BYTES_MAX = 64 * KIB;
    /// Documents nest deeper than policies, and still far from exhausting the stack.
    SUMMARY_DEPTH_MAX = 32;
    /// Frames of one read.
    STREAM_READ_HARD_CAP = 10_000;
    /// Bytes of frames in one read: bounds the answer's memory everywhere.
    STREAM_READ_BYTES_MAX = 4 * MIB;
    /// A reader that waits holds a connection, so it comes back now and then.
    MAX_TAIL_BLOCK_MS = 30_000;

    // Waiting.

    /// Room for a composed business key; part of what a token signs.
    WAITPOINT_KEY_BYTES_MAX = 128;
    /// A signal's name is a word that conditions list.
    SIGNAL_NAME_BYTES_MAX = 128;
    /// Who sent a signal, and what it belongs to: ids of other systems.
    SIGNAL_SOURCE_BYTES_MAX = 256;
    /// A signal carries a decision or a reference, not a document.
    SIGNAL_PAYLOAD_BYTES_MAX = 256 * KIB;
    /// Signals that one waitpoint takes: more than any condition can want, and a bound for what a
    /// holder of one token can store.
    WAITPOINT_SIGNALS_MAX = 1000;
    /// Payload bytes that one waitpoint takes.
    WAITPOINT_BYTES_MAX = 4 * MIB;
    /// Signals that an execution takes unless the policy says otherwise.
    SIGNALS_DEFAULT = 10_000;
    /// Signals that a policy may allow an execution.
    SIGNALS_MAX = 1_000_000;
    /// Waitpoints of one execution that may be open before it suspends.
    PENDING_WAITPOINTS_MAX = 16;
    /// Closed waitpoints that an execution keeps: its history, and what late signals are told by.
    WAITPOINTS_KEPT = 16;
    /// What a suspension says about itself: a question, its subject, its choices.
    WAIT_DETAILS_BYTES_MAX = 16 * KIB;
    /// A question and its subject are for a person who decides in a minute.
    APPROVAL_TEXT_BYTES_MAX = 4 * KIB;
    /// A label is on a button.
    APPROVAL_LABEL_BYTES_MAX = 128;
    /// More choices are a form.
    APPROVAL_CHOICES_MAX = 16;
    /// An approver is an address or an id of another system; part of every link.
    APPROVER_BYTES_MAX = 128;
    /// Approvers of one approval: all their decisions are read at once.
    APPROVERS_MAX = 100;
    /// How long a link may be good for: as long as a suspension may last.
    LINK_TTL_MS_MAX = 400 * DAY_MS;
    /// A condition is read inside the store with every signal.
    CONDITION_BYTES_MAX = 4 * KIB;
    /// Deeper conditions are a program.
    CONDITION_DEPTH_MAX = 4;
    /// Names in all parts of one condition together: bounds the work of one signal.
    CONDITION_NAMES_MAX = 64;
    /// How many signals a condition may count.
    CONDITION_COUNT_MAX = 100;
    /// Signals that a claim brings along; what is larger is read separately.
    RESUME_SIGNALS_BYTES = 64 * KIB;
    /// Signals that one read of them brings, as soon as there are so many bytes.
    RESUME_SIGNALS_BYTES_MAX = MIB;
    /// A key id is a name for a person.
    KID_BYTES_MAX = 64;
    /// Keys of tokens that are accepted at the same time.
    KIDS_MAX = 16;
    /// A shorter secret could be guessed.
    SECRET_BYTES_MIN = 16;
    /// A longer one is no stronger.
    SECRET_BYTES_MAX = 128;
    /// A key id, a colon and 40 digits; what is longer is no token.
    TOKEN_BYTES_MAX = 128;

    // Flows.

    /// Members of one flow: they are listed, walked and purged together.
    FLOW_MEMBERS_MAX = 100_000;
    /// Edges of one flow.
    FLOW_EDGES_MAX = 500_000;
    /// A member's name is a word in a graph, and part of what its id is made from.
    MEMBER_NAME_BYTES_MAX = 128;
    /// Members, and edges, that one call of a submission in parts brings: a few milliseconds.
    GRAPH_BATCH_MAX = 128;
    /// A graph whose submission was given up is removed.
    GRAPH_ABANDONED_MS = 10 * MINUTE_MS;
    /// Edges that one call follows when executions end; the rest is followed by the next tick.
    EDGES_PER_CALL = 128;
    /// Members of a flow that one call goes over.
    WALK_BATCH = 64;
    /// Edges that are looked at when a new one goes against the order of its members.
    RANK_EDGES_MAX = 512;
    /// Children of one execution: every claim of it tells of all of them.
    CHILDREN_MAX = 1000;
    /// Inputs and results of children that a claim brings along; what is larger is read separately.
    CLAIM_INPUTS_BYTES = 64 * KIB;
    /// Inputs that one read brings; a larger one comes alone.
    INPUTS_READ_BYTES_MAX = 4 * MIB;
    /// Inputs that a claim names.
    CLAIM_INPUTS_MAX = 256;

    // Time.

    /// The last millisecond of the year 9999: exact in a double, four-digit years everywhere.
    TIMESTAMP_MS_MAX = 253_402_300_799_999;
    /// A bit more than a year: covers yearly work, catches seconds mistaken for milliseconds.
    DELAY_MS_MAX = 400 * DAY_MS;
    /// Ended executions are kept a day unless the policy says otherwise.
    RETENTION_MS_DEFAULT = DAY_MS;
    /// What failed or expired is kept a week: somebody will look into it, and may replay it.
    FAILED_RETENTION_MS_DEFAULT = 7 * DAY_MS;
    /// Keeping longer than a year is the archive's work.
    RETENTION_MS_MAX = 366 * DAY_MS;
    /// A repeated submission is recognised for a day unless the policy says otherwise.
    DEDUP_MS_DEFAULT = DAY_MS;
    /// Remembered keys cost memory, so they are not remembered for ever.
    DEDUP_MS_MAX = 30 * DAY_MS;

    // Background work and reads.

    /// Entries kept in a partition's event log, whatever the number of partitions.
    EVENT_LOG_LENGTH = 10_000;
    /// Entries kept in all event logs of a deployment together: about 25 MB.
    EVENT_LOG_TOTAL = 262_144;
    /// Older events are removed, so that the logs of a quiet deployment shrink.
    EVENT_LOG_AGE_MS_MAX = DAY_MS;
    /// How often a log is looked at for events that became too old.
    EVENT_LOG_LOOK_MS = 10 * MINUTE_MS;
    /// The outcome of an execution that is purged at once stays known this long: longer than any
    /// caller repeats a call whose answer was lost.
    PURGED_REMEMBERED_MS = MINUTE_MS;
    /// Entries of a newer version that one call looks past.
    STRANGE_SCAN_MAX = 1000;
    /// Bounds the time of one tick inside the store.
    TICK_BATCH_MAX = 1000;
    /// The engine looks at each partition this often; nearer timers are announced by a push, and
    /// what lies in queues is told again. Less than a minute, which a lost push may cost.
    TICK_SWEEP_MS = 55_000;
    /// How far ahead an engine may say that it looks at a partition again.
    TICK_LOOK_MS_MAX = DAY_MS;
    /// Queues and lanes of a partition that a sweep tells of: those who wait for work hear of all
    /// of them, from every partition.
    ANNOUNCED_MAX = 64;
    /// Queues of which a partition tells how much waits there, those with most of it: each is a
    /// row of an answer that monitoring asks of every partition every few seconds.
    NEEDS_TOLD_MAX = 100;
    /// Combinations of a lane and a need whose depth is told apart in metrics, those with most;
    /// the others are summed for each lane. Each is two time series that monitoring keeps.
    NEED_METRICS_MAX = 100;
    /// How often the next purge of a partition is looked for although it is known.
    PURGE_LOOK_MS = 10 * MINUTE_MS;
    /// An entry of an outbox: a word, ids, and the gates of an execution.
    OWED_BYTES_MAX = 16 * KIB;
    /// Who was given entries of an outbox has so long for them before somebody else is.
    OWED_CARRIED_MS = 2000;
    /// The mark of a server that has not renewed it for so long may be forgotten.
    MARK_KEPT_MS = 10 * MINUTE_MS;
    /// Marks of one shard beyond which old ones are looked for: each server has one.
    MARKS_MAX = 64;
    /// Bounds the size of one page.
    LIST_LIMIT_MAX = 1000;
    /// Entries one listing call looks at before it answers with a cursor.
    LIST_SCAN_MAX = 1000;
    /// Entries a listing reads from an index at a time.
    LIST_PAGE = 128;
    /// A listing's cursor names the last entry it looked at, in hex.
    LIST_CURSOR_BYTES_MAX = 1024;
    /// Entries that one count by kind looks at: a few milliseconds inside the store.
    COUNT_LOOK_MAX = 1024;
    /// Lanes a listing by state can walk.
    LANES_MAX = 1000;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_list_carries_every_limit_under_its_lower_case_name() {
        assert_eq!(
            ALL.iter().find(|(name, _)| *name == "priority_max"),
            Some(&("priority_max", 9000))
        );
        let names: std::collections::BTreeSet<&str> = ALL.iter().map(|(name, _)| *name).collect();
        assert_eq!(names.len(), ALL.len());
        assert!(names.iter().all(|name| !name.contains(|letter: char| letter.is_uppercase())));
    }

    #[test]
    fn every_limit_is_exact_in_a_double() {
        assert!(ALL.iter().all(|(_, value)| *value > 0 && *value < 1 << 53));
    }

    #[test]
    fn scores_built_from_the_limits_are_exact_in_a_double() {
        const { assert!(PRIORITY_MAX * 1_000_000_000_000 < 1 << 53) };
        const { assert!(PRIORITY_MAX * DELAY_MS_MAX + TIMESTAMP_MS_MAX < 1 << 53) };
    }

    #[test]
    fn a_payload_of_four_mebibytes_is_accepted() {
        const { assert!(PAYLOAD_BYTES_MAX >= 4_194_304 && RESULT_BYTES_MAX >= 4_194_304) };
    }
}
