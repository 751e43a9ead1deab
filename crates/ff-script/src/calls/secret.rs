//! The keys that waitpoint tokens and approval links are signed with.

use std::fmt;

use ff_core::contracts::LinkKey;
use ff_core::types::TimestampMs;

use crate::args::Args;
use crate::call::functions;
use crate::value::Value;
use crate::wire::{Argument, Reading, row};

functions! {
    /// Makes a key the one that signs tokens; the one before is accepted for a grace period.
    write ff_rotate_waitpoint_hmac_secret(RotateWaitpointHmacSecret {
        new_kid: String,
        new_secret_hex: SecretHex,
        grace_ms: u64,
        only_first: bool,
    })
    -> RotateWaitpointHmacSecretReply {
        "OK" => Rotated { previous_kid: Option<String>, current_kid: String, collected: u32 },
        "ALREADY_SATISFIED" => RotatedBefore { current_kid: String },
    }
    refuses [InvalidKid, InvalidSecretHex, InvalidGraceMs, RotationConflict, KidLimitExceeded];

    /// Lists the key ids that tokens are accepted under, each with until when.
    read ff_list_waitpoint_hmac_kids(ListWaitpointHmacKids {})
    -> ListWaitpointHmacKidsReply {
        "OK" => Kids { current_kid: Option<String>, revision: u64, kids: Vec<Kid> },
    }
    refuses [];

    /// Makes a key the one that signs approval links; the one before is accepted for a while.
    write ff_rotate_link_secret(RotateLinkSecret = RotateWaitpointHmacSecret)
    refuses [InvalidKid, InvalidSecretHex, InvalidGraceMs, RotationConflict, KidLimitExceeded];

    /// Reads the keys that approval links are accepted under, for the servers that check them.
    read ff_read_link_secrets(ReadLinkSecrets {})
    -> ReadLinkSecretsReply {
        "OK" => Keys { now: TimestampMs, current_kid: Option<String>, keys: LinkKeys },
    }
    refuses [];
}

/// A secret in hex digits, which is never shown.
#[derive(Clone, PartialEq, Eq)]
pub struct SecretHex(pub String);

impl fmt::Debug for SecretHex {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SecretHex({} digits)", self.0.len())
    }
}

impl Argument for SecretHex {
    fn encode(&self, args: &mut Args) {
        args.push(self.0.as_bytes());
    }
}

/// The keys that links are accepted under.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LinkKeys(pub Vec<LinkKey>);

/// A key id that tokens are accepted under.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Kid {
    /// The id.
    pub kid: String,
    /// Until when; none for the current one.
    pub accepted_until: Option<u64>,
}

row!(Kid { kid, accepted_until });

/// Ids and hex digits in turn. A damaged key is left out: nothing is accepted under it.
impl Reading for LinkKeys {
    fn read(value: Value) -> Option<Self> {
        let keys = Vec::<(String, String)>::read(value)?.into_iter();
        let read = |(kid, hex): (String, String)| Some(LinkKey { kid, secret: bytes_of(&hex)? });
        Some(Self(keys.filter_map(read).collect()))
    }
}

fn bytes_of(hex: &str) -> Option<Vec<u8>> {
    let digits = hex.as_bytes();
    let pairs = digits.chunks(2).map(|pair| {
        let text = std::str::from_utf8(pair).ok().filter(|text| text.len() == 2)?;
        u8::from_str_radix(text, 16).ok()
    });
    pairs.collect::<Option<Vec<u8>>>().filter(|bytes| !bytes.is_empty())
}
