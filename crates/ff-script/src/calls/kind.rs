//! The defaults of kinds and of the deployment.

use ff_core::types::{ExecutionKind, WorkerInstanceId};

use crate::args::Args;
use crate::call::functions;
use crate::wire::Argument;

functions! {
    /// A worker tells the defaults of a kind that it serves.
    write ff_register_kind(RegisterKind {
        kind: ExecutionKind,
        policy_json: String,
        worker_instance_id: WorkerInstanceId,
        started_ms_ago: u64,
    })
    -> RegisterKindReply {
        "OK" => Changed { revision: u64, before: u64, name: String, value: String },
        "ALREADY_SATISFIED" => Kept {
            revision: u64,
            installed: u64,
            value: String,
            why: String,
        },
    }
    refuses [FactsLimitExceeded, InvalidPolicyJson, InvalidCapabilities];

    /// Sets the defaults of a kind, or those of the deployment, or pins or frees them.
    write ff_set_kind(SetKind {
        kind: Option<ExecutionKind>,
        policy_json: String,
        pinning: Pinning,
    })
    -> SetKindReply {
        "OK" => Changed { revision: u64, before: u64, name: String, value: String },
        "ALREADY_SATISFIED" => Known { revision: u64, installed: u64, value: String },
    }
    refuses [FactsLimitExceeded, InvalidPolicyJson, InvalidCapabilities];
}

/// What becomes of the pin on defaults. A policy that is given is pinned unless this says
/// otherwise.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pinning {
    /// It stays.
    Keep,
    /// They are pinned.
    Pin,
    /// They are not.
    Free,
}

impl From<Option<bool>> for Pinning {
    fn from(pinned: Option<bool>) -> Self {
        match pinned {
            None => Self::Keep,
            Some(true) => Self::Pin,
            Some(false) => Self::Free,
        }
    }
}

impl Argument for Pinning {
    fn encode(&self, args: &mut Args) {
        let word: &str = match self {
            Self::Keep => "keep",
            Self::Pin => "pin",
            Self::Free => "free",
        };
        args.push(word.as_bytes());
    }
}
