//! The record of an execution: its fields by name, and the form of each.

use ff_core::state::TerminalOutcome;

use super::contents::Hash;
use super::keys::is_uuid;
use super::{Findings, flows, shown, streams};

/// A field's name in the store.
pub(super) type Field = &'static [u8];

/// What a field's value looks like.
enum Form {
    /// Plain digits, one spelling per number.
    Number,
    /// An id.
    Uuid,
    /// One of these words.
    Word(&'static [&'static str]),
    /// Capability tokens, sorted and joined by commas.
    Tokens,
    /// A compiled retry policy.
    Rule,
    /// A compiled stream policy.
    StreamRule,
    /// `first:last:start:stop`, what a stream holds.
    Frames,
    /// `epoch:how it ended:until when:lease id`.
    Lease,
    /// `needed:edges:satisfied:impossible`, how far its upstreams are.
    Dependencies,
    /// `epoch:place=order,…`, which budgets told a lease of their hard limits.
    Reached,
    /// Anything.
    Text,
}

/// Declares the fields: `NAME b"stored name" Form;`
macro_rules! fields {
    ($($name:ident $stored:literal $form:expr;)*) => {
        /// The fields by name.
        #[allow(dead_code, reason = "the table is complete, whatever the checks use")]
        pub(super) mod field {
            $(pub(in super::super) const $name: super::Field = $stored;)*
        }

        fn form_of(stored: &[u8]) -> Option<(&'static str, Form)> {
            match stored {
                $($stored => Some((stringify!($name), $form)),)*
                _ => None,
            }
        }
    };
}

fields! {
    STATE b"st" Form::Word(&["held", "blocked", "waiting", "delayed", "parked", "running",
        "suspended", "lapsed", "revoked", "success", "failed", "cancelled", "expired", "skipped"]);
    LANE b"la" Form::Text;
    KIND b"ki" Form::Text;
    NAMESPACE b"ns" Form::Text;
    CREATED_AT b"ct" Form::Number;
    PRIORITY b"pr" Form::Number;
    AGEING_MS b"ag" Form::Number;
    FAIR_RANK b"fq" Form::Number;
    CREATOR b"by" Form::Text;
    CORRELATION_ID b"co" Form::Text;
    CAPABILITIES b"ca" Form::Tokens;
    MARKED b"xm" Form::Word(&["1"]);
    TAGGED b"tg" Form::Word(&["1"]);
    TRANSITION_AT b"mt" Form::Number;
    MUTATION_AT b"lm" Form::Number;
    NEXT_ATTEMPT b"nx" Form::Word(&["retry", "replay", "resume"]);
    PARK_REASON b"kr" Form::Word(&["paused_by_operator", "paused_by_policy", "waiting_for_budget",
        "waiting_for_capable_worker", "waiting_for_quota"]);
    PARKED_AT b"kt" Form::Number;
    PARKED_BY b"kb" Form::Text;
    PARK_NOTE b"kn" Form::Text;
    QUOTA_ID b"qi" Form::Uuid;
    QUOTA_KEY b"qk" Form::Text;
    PASSES b"ps" Form::Word(&["1"]);
    DELAY_UNTIL b"du" Form::Number;
    DELAY_REASON b"dr" Form::Word(&["delay", "retry_backoff", "resume"]);
    DEADLINE_AT b"dl" Form::Number;
    DEADLINE_MS b"dm" Form::Number;
    DEADLINE_GIVEN b"dg" Form::Number;
    REMEMBERED_UNTIL b"iu" Form::Number;
    ATTEMPT_TIMEOUT_MS b"at" Form::Number;
    TIMEOUT_AT b"ta" Form::Number;
    TIMEOUT_LEFT_MS b"tl" Form::Number;
    RETRY_RULE b"rr" Form::Rule;
    RECLAIMS_MAX b"mc" Form::Number;
    REPLAYS_MAX b"mp" Form::Number;
    RETENTION_MS b"re" Form::Number;
    BUDGETS b"bg" Form::Number;
    BUDGET_AWAITED b"ba" Form::Uuid;
    BUDGETS_REACHED b"br" Form::Reached;
    DEBOUNCE_UNTIL b"db" Form::Number;
    AWAITS_TURN b"aw" Form::Word(&["1"]);
    ATTEMPT_COUNT b"ac" Form::Number;
    ATTEMPT_ID b"ai" Form::Uuid;
    ATTEMPT_TYPE b"ty" Form::Word(&["retry", "reclaim", "replay"]);
    ATTEMPT_CAUSE b"ay" Form::Text;
    ATTEMPT_STARTED_AT b"as" Form::Number;
    ATTEMPT_ENDED_AT b"ae" Form::Number;
    ATTEMPT_END b"ax" Form::Word(&["fail", "timeout", "lapse", "revoke", "done", "final",
        "cancel"]);
    PAUSE_KIND b"pk" Form::Word(&["delay", "children", "suspend", "release"]);
    PREVIOUS_LEASE b"pl" Form::Lease;
    REQUESTS b"rq" Form::Text;
    WAITPOINT_ID b"wp" Form::Uuid;
    SUSPEND_REASON b"sw" Form::Text;
    SUSPEND_UNTIL b"su" Form::Number;
    SUSPEND_TIMEOUT_MS b"sm" Form::Number;
    SUSPEND_BEHAVIOR b"sb" Form::Word(&["fail", "cancel", "expire", "escalate",
        "auto_resume_with_timeout_signal"]);
    WAITPOINT_COUNT b"wn" Form::Number;
    PENDING_WAITPOINTS b"pw" Form::Number;
    SIGNAL_COUNT b"sc" Form::Number;
    SIGNALS_MAX b"sx" Form::Number;
    GONE b"go" Form::Text;
    LEASE_ID b"li" Form::Uuid;
    LEASE_EPOCH b"ep" Form::Number;
    LEASE_EXPIRES_AT b"le" Form::Number;
    RENEWED_AT b"lr" Form::Number;
    RESUMED_AT b"ra" Form::Number;
    WORKER_ID b"wo" Form::Text;
    WORKER_INSTANCE_ID b"wi" Form::Text;
    GRANT_ID b"gi" Form::Uuid;
    GRANT_KIND b"gk" Form::Word(&["claim", "reclaim"]);
    GRANT_WORKER_ID b"gw" Form::Text;
    GRANT_INSTANCE_ID b"gn" Form::Text;
    GRANT_EXPIRES_AT b"gx" Form::Number;
    STARTED_AT b"sa" Form::Number;
    ENDED_AT b"et" Form::Number;
    RETRY_COUNT b"rc" Form::Number;
    RECLAIM_COUNT b"rl" Form::Number;
    REPLAY_COUNT b"rp" Form::Number;
    FAILURE_REASON b"fr" Form::Text;
    FAILURE_CATEGORY b"fc" Form::Text;
    CANCEL_REASON b"cr" Form::Text;
    CANCELLED_BY b"cb" Form::Text;
    REVOKE_REASON b"vr" Form::Text;
    REPLAY_REASON b"py" Form::Text;
    REPLAY_REQUESTED_BY b"pb" Form::Text;
    PROGRESS_PCT b"pp" Form::Number;
    PROGRESS_MESSAGE b"pm" Form::Text;
    PROGRESS_AT b"pt" Form::Number;
    FLOW_ID b"fl" Form::Uuid;
    MEMBER_NAME b"nm" Form::Text;
    ORDINAL b"on" Form::Number;
    OPTIONAL b"op" Form::Word(&["1"]);
    HELD b"hd" Form::Word(&["1"]);
    DEPENDENCIES b"dp" Form::Dependencies;
    RANK b"rk" Form::Number;
    EDGES_OUT b"eo" Form::Number;
    EDGES_RESOLVED b"er" Form::Number;
    INPUTS b"ic" Form::Number;
    PARENT b"pa" Form::Uuid;
    CONTENT b"cd" Form::Text;
    CHILDREN b"ch" Form::Number;
    OPEN_CHILDREN b"oc" Form::Number;
    WAITS_AGAIN b"wg" Form::Word(&["1"]);
    CANCEL_REST b"cx" Form::Word(&["1"]);
    REST_FROM b"rf" Form::Number;
    KEPT b"kp" Form::Word(&["1"]);
    STREAM_RULE b"sr" Form::StreamRule;
    FRAMES b"fm" Form::Frames;
    KEPT_FROM b"kf" Form::Number;
    PAYLOAD b"in" Form::Text;
    PAYLOAD2 b"in2" Form::Text;
    PAYLOAD3 b"in3" Form::Text;
    PAYLOAD4 b"in4" Form::Text;
    RESULT b"out" Form::Text;
    RESULT2 b"out2" Form::Text;
    RESULT3 b"out3" Form::Text;
    RESULT4 b"out4" Form::Text;
    DETAIL b"de" Form::Text;
    DETAIL2 b"de2" Form::Text;
    DETAIL3 b"de3" Form::Text;
    DETAIL4 b"de4" Form::Text;
    POLICY b"po" Form::Text;
    POLICY2 b"po2" Form::Text;
    POLICY3 b"po3" Form::Text;
    POLICY4 b"po4" Form::Text;
    THROTTLE b"th" Form::Text;
    THROTTLE2 b"th2" Form::Text;
    THROTTLE3 b"th3" Form::Text;
    THROTTLE4 b"th4" Form::Text;
    IDEMPOTENCY b"id" Form::Text;
    IDEMPOTENCY2 b"id2" Form::Text;
    IDEMPOTENCY3 b"id3" Form::Text;
    IDEMPOTENCY4 b"id4" Form::Text;
}

/// An execution as it is stored.
pub(super) struct Record<'a> {
    pub(super) key: &'a [u8],
    pub(super) uuid: &'a str,
    fields: &'a Hash,
    names: Names,
}

/// Which fields there may be: one bit for all names that look alike. Most that are asked for are
/// not there, and the audit asks for nearly all of every record.
struct Names(u128);

impl Names {
    fn of(fields: &Hash) -> Self {
        Self(fields.keys().fold(0, |bits, name| bits | Self::bit(name)))
    }

    fn bit(name: &[u8]) -> u128 {
        1 << name.iter().fold(0, |look, byte| (look * 31 + u32::from(*byte)) % u128::BITS)
    }

    fn may_have(&self, name: &[u8]) -> bool {
        self.0 & Self::bit(name) != 0
    }
}

/// The one stored word that says where an execution stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum State {
    Held,
    Blocked,
    Waiting,
    Delayed,
    Parked,
    Running,
    Suspended,
    Lapsed,
    Revoked,
    Ended(TerminalOutcome),
}

impl State {
    pub(super) fn is_ended(self) -> bool {
        matches!(self, Self::Ended(_))
    }

    pub(super) fn is_lost(self) -> bool {
        matches!(self, Self::Lapsed | Self::Revoked)
    }

    /// May it be claimed, if nobody reserved it?
    pub(super) fn is_claimable(self) -> bool {
        matches!(self, Self::Waiting | Self::Lapsed | Self::Revoked)
    }
}

impl<'a> Record<'a> {
    pub(super) fn new(key: &'a [u8], uuid: &'a str, fields: &'a Hash) -> Self {
        Self { key, uuid, fields, names: Names::of(fields) }
    }

    pub(super) fn has(&self, field: Field) -> bool {
        self.bytes(field).is_some()
    }

    pub(super) fn bytes(&self, field: Field) -> Option<&'a [u8]> {
        self.names.may_have(field).then(|| self.fields.get(field))?.map(Vec::as_slice)
    }

    /// A text, or the empty one if there is none that can be read.
    pub(super) fn text(&self, field: Field) -> &'a str {
        self.bytes(field).and_then(|bytes| std::str::from_utf8(bytes).ok()).unwrap_or("")
    }

    /// Is this what is left of an execution that was purged a moment ago?
    pub(super) fn is_remnant(&self) -> bool {
        self.has(field::GONE) && !self.has(field::STATE)
    }

    /// The outcome that a remnant tells of: `outcome:how the last attempt ended`.
    pub(super) fn gone_as(&self) -> Option<TerminalOutcome> {
        self.text(field::GONE).split_once(':')?.0.parse().ok()
    }

    /// A number; nothing if it is absent or no number, which the check of forms reports.
    pub(super) fn number(&self, field: Field) -> Option<i64> {
        self.bytes(field).and_then(number)
    }

    /// A counter: absent means none yet.
    pub(super) fn count(&self, field: Field) -> i64 {
        self.number(field).unwrap_or(0)
    }

    /// The idempotency key it was created under; empty if there is none.
    pub(super) fn idempotency_key(&self) -> Vec<u8> {
        let pieces =
            [field::IDEMPOTENCY, field::IDEMPOTENCY2, field::IDEMPOTENCY3, field::IDEMPOTENCY4];
        self.joined(pieces)
    }

    /// How it is throttled: a letter, a colon and the key; empty if it is not.
    pub(super) fn throttle(&self) -> Vec<u8> {
        self.joined([field::THROTTLE, field::THROTTLE2, field::THROTTLE3, field::THROTTLE4])
    }

    fn joined(&self, pieces: [Field; 4]) -> Vec<u8> {
        pieces.into_iter().filter_map(|piece| self.bytes(piece)).flatten().copied().collect()
    }

    pub(super) fn state_word(&self) -> &'a str {
        self.text(field::STATE)
    }

    /// The state, if the stored word is one.
    pub(super) fn state(&self) -> Option<State> {
        Some(match self.state_word() {
            "held" => State::Held,
            "blocked" => State::Blocked,
            "waiting" => State::Waiting,
            "delayed" => State::Delayed,
            "parked" => State::Parked,
            "running" => State::Running,
            "suspended" => State::Suspended,
            "lapsed" => State::Lapsed,
            "revoked" => State::Revoked,
            "success" => State::Ended(TerminalOutcome::Success),
            "failed" => State::Ended(TerminalOutcome::Failed),
            "cancelled" => State::Ended(TerminalOutcome::Cancelled),
            "expired" => State::Ended(TerminalOutcome::Expired),
            "skipped" => State::Ended(TerminalOutcome::Skipped),
            _ => return None,
        })
    }

    /// The record's key, for a person.
    pub(super) fn name(&self) -> String {
        shown(self.key)
    }
}

/// The whole number that plain digits spell: no sign but a leading minus, no leading zeros.
pub(super) fn number(digits: &[u8]) -> Option<i64> {
    let plain = match digits {
        b"0" => true,
        [b'-', rest @ ..] => is_plain(rest),
        _ => is_plain(digits),
    };
    plain.then(|| std::str::from_utf8(digits).ok()?.parse().ok()).flatten()
}

fn is_plain(digits: &[u8]) -> bool {
    digits.first().is_some_and(|first| *first != b'0') && digits.iter().all(u8::is_ascii_digit)
}

/// I9: every field is a known one and has its form.
pub(super) fn check_fields(record: &Record<'_>, found: &mut Findings) {
    for (stored, value) in record.fields {
        match form_of(stored) {
            None => found.add("I9", record.name(), format!("unknown field {}", shown(stored))),
            Some((name, form)) => {
                if !form.fits(value) {
                    let name = name.to_lowercase();
                    found.add("I9", record.name(), format!("{name} is {:?}", shown(value)));
                }
            }
        }
    }
}

impl Form {
    fn fits(&self, value: &[u8]) -> bool {
        match self {
            Self::Number => number(value).is_some(),
            Self::Uuid => is_uuid(value),
            Self::Word(words) => words.iter().any(|word| word.as_bytes() == value),
            Self::Tokens => are_tokens(value),
            Self::Rule => max_retries(value).is_some(),
            Self::StreamRule => streams::Rule::parse(value).is_some(),
            Self::Frames => streams::Held::parse(value).is_some(),
            Self::Lease => is_past_lease(value),
            Self::Dependencies => flows::Dependencies::parse(value).is_some(),
            Self::Reached => is_reached(value),
            Self::Text => true,
        }
    }
}

fn is_reached(value: &[u8]) -> bool {
    let Some((epoch, list)) = std::str::from_utf8(value).ok().and_then(|text| text.split_once(':'))
    else {
        return false;
    };
    let is_told = |told: &str| {
        told.split_once('=').is_some_and(|(place, order)| {
            let order = order.strip_prefix('-').unwrap_or(order);
            number(place.as_bytes()).is_some() && number(order.as_bytes()).is_some()
        })
    };
    number(epoch.as_bytes()).is_some() && list.split(',').all(is_told)
}

fn are_tokens(value: &[u8]) -> bool {
    let tokens: Vec<&[u8]> = value.split(|byte| *byte == b',').collect();
    tokens.iter().all(|token| !token.is_empty()) && tokens.is_sorted_by(|left, right| left < right)
}

fn is_past_lease(value: &[u8]) -> bool {
    let parts: Vec<&[u8]> = value.split(|byte| *byte == b':').collect();
    let [epoch, how, until, lease_id] = parts[..] else { return false };
    let word = !how.is_empty() && how.iter().all(u8::is_ascii_lowercase);
    number(epoch).is_some()
        && word
        && (until.is_empty() || number(until).is_some())
        && is_uuid(lease_id)
}

/// How many retries a compiled retry policy allows:
/// `max:type:first_ms:max_ms:multiplier in thousandths:jitter:categories`.
pub(super) fn max_retries(rule: &[u8]) -> Option<i64> {
    let parts: Vec<&[u8]> = rule.split(|byte| *byte == b':').collect();
    let [max, kind, first_ms, max_ms, multiplier, jitter, _categories] = parts[..] else {
        return None;
    };
    let known = matches!(kind, b"fixed" | b"exponential") && matches!(jitter, b"0" | b"1");
    let numbers = [first_ms, max_ms, multiplier].iter().all(|text| number(text).is_some());
    if known && numbers { number(max) } else { None }
}
