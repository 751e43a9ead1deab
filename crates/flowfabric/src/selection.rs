//! Which executions a command is about: by state, lane, kind, namespace, tag and time.

use clap::builder::{PossibleValuesParser, TypedValueParser};
use ff_core::contracts::TagFilter;
use ff_sdk::{Code, EngineError, ListFilter, PublicState, TimestampMs};

use crate::time;

/// What an execution must be like.
#[derive(clap::Args, Clone, Default)]
pub(crate) struct Selection {
    /// Only this state.
    #[arg(long, value_parser = state())]
    pub(crate) state: Option<PublicState>,
    /// Only this lane.
    #[arg(long)]
    lane: Option<ff_sdk::LaneId>,
    /// Only this kind.
    #[arg(long)]
    pub(crate) kind: Option<ff_sdk::ExecutionKind>,
    /// Only this namespace.
    #[arg(long)]
    namespace: Option<ff_sdk::Namespace>,
    /// Only what has this tag, as in team.name=search, or team.name with any value.
    #[arg(long, value_name = "NAME[=VALUE]", value_parser = tag)]
    tag: Option<TagFilter>,
    /// Only what was submitted since: an age like 10m, 2h, 7d, or a time like 2026-11-15 (UTC).
    #[arg(long, value_name = "TIME", value_parser = time::parse)]
    since: Option<TimestampMs>,
    /// Only what was submitted before: an age or a time.
    #[arg(long, value_name = "TIME", value_parser = time::parse)]
    until: Option<TimestampMs>,
}

/// A state by its word, which help and completions list.
fn state() -> impl TypedValueParser<Value = PublicState> {
    PossibleValuesParser::new(PublicState::WORDS).try_map(|word| word.parse())
}

fn tag(text: &str) -> Result<TagFilter, String> {
    text.parse().map_err(|error| tag_refused(&error))
}

/// What is wrong with a tag, for somebody who sees it in the same line.
pub(crate) fn tag_refused(error: &EngineError) -> String {
    let sentence = error.code().filter(|code| *code == Code::InvalidTagKey).map(Code::sentence);
    sentence.map_or_else(|| error.to_string(), str::to_owned)
}

impl Selection {
    pub(crate) fn filter(&self) -> ListFilter {
        ListFilter {
            state: self.state,
            lane: self.lane.clone(),
            kind: self.kind.clone(),
            namespace: self.namespace.clone(),
            tag: self.tag.clone(),
            from: self.since,
            to: self.until,
            ..ListFilter::default()
        }
    }

    /// Whether it says nothing.
    pub(crate) fn is_empty(&self) -> bool {
        self.filter() == ListFilter::default()
    }
}
