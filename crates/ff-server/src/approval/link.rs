//! Links: who may decide on what until when, under the deployment's key. What stands behind
//! `/approve/` is base64 that needs no encoding, of these bytes:
//!
//! | bytes | what |
//! |---|---|
//! | 1 | version: 1 |
//! | 1 + n | length and text of the key's id |
//! | 8 | when it expires, milliseconds since 1970, most significant byte first |
//! | 2 | the execution's partition |
//! | 16 | the execution's UUID |
//! | 16 | the waitpoint's UUID |
//! | n | the approver |
//! | 32 | HMAC-SHA-256 (RFC 2104) of `flowfabric approval link`, a zero byte, and all of that |

use ff_core::bytes::{decode_token, encode_token};
use ff_core::contracts::{LinkKey, LinkKeys};
use ff_core::partition::Partition;
use ff_core::types::{Approver, ExecutionId, TimestampMs, WaitpointId};
use ring::hmac;
use uuid::Uuid;

const VERSION: u8 = 1;
const CONTEXT: &[u8] = b"flowfabric approval link\0";
const DIGEST_BYTES: usize = 32;

/// The longest text that can be a link: what is longer is not looked at.
const TEXT_BYTES_MAX: usize = 512;

/// What a link says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Link {
    pub(crate) execution_id: ExecutionId,
    pub(crate) waitpoint_id: WaitpointId,
    pub(crate) approver: Approver,
    pub(crate) expires_at: TimestampMs,
}

/// The text of a link, under this key.
pub(crate) fn signed(link: &Link, key: &LinkKey) -> String {
    let mut bytes = vec![VERSION, u8::try_from(key.kid.len()).unwrap_or(u8::MAX)];
    bytes.extend(key.kid.as_bytes());
    bytes.extend(link.expires_at.get().to_be_bytes());
    bytes.extend(link.execution_id.partition().index.to_be_bytes());
    bytes.extend(link.execution_id.uuid().as_bytes());
    bytes.extend(link.waitpoint_id.as_uuid().as_bytes());
    bytes.extend(link.approver.as_str().as_bytes());
    let digest = hmac::sign(&key_of(&key.secret), &message(&bytes));
    bytes.extend(digest.as_ref());
    encode_token(&bytes)
}

/// What a link says, if one of these keys made it. A link under an unknown key costs the same work
/// as a wrong digest.
pub(crate) fn verified(text: &str, keys: &LinkKeys) -> Option<Link> {
    let bytes = decode_token(text).filter(|_| text.len() <= TEXT_BYTES_MAX)?;
    let (body, digest) = bytes.split_at_checked(bytes.len().checked_sub(DIGEST_BYTES)?)?;
    let mut rest = Rest(body);
    let [version, kid_bytes] = rest.take()?;
    let kid = rest.some(kid_bytes.into())?;
    let key = keys.keys.iter().find(|key| key.kid.as_bytes() == kid);
    let secret = key.map_or(&[0; DIGEST_BYTES][..], |key| &key.secret);
    hmac::verify(&key_of(secret), &message(body), digest).ok()?;
    key.filter(|_| version == VERSION)?;
    read(rest)
}

fn key_of(secret: &[u8]) -> hmac::Key {
    hmac::Key::new(hmac::HMAC_SHA256, secret)
}

/// Nothing else that the key may ever sign begins like this.
fn message(bytes: &[u8]) -> Vec<u8> {
    [CONTEXT, bytes].concat()
}

fn read(mut rest: Rest<'_>) -> Option<Link> {
    let expires_at = TimestampMs::new(u64::from_be_bytes(rest.take()?));
    let partition = Partition::flow(u16::from_be_bytes(rest.take()?));
    let execution = Uuid::from_bytes(rest.take()?);
    let waitpoint_id = WaitpointId::from_uuid(Uuid::from_bytes(rest.take()?));
    let approver = Approver::try_new(std::str::from_utf8(rest.0).ok()?).ok()?;
    let execution_id = ExecutionId::from_parts(partition, execution);
    Some(Link { execution_id, waitpoint_id, approver, expires_at })
}

/// What is left to read.
struct Rest<'a>(&'a [u8]);

impl<'a> Rest<'a> {
    fn some(&mut self, count: usize) -> Option<&'a [u8]> {
        let (some, rest) = self.0.split_at_checked(count)?;
        self.0 = rest;
        Some(some)
    }

    fn take<const N: usize>(&mut self) -> Option<[u8; N]> {
        self.some(N)?.try_into().ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(kid: &str, byte: u8) -> LinkKey {
        LinkKey { kid: kid.to_owned(), secret: vec![byte; 48] }
    }

    fn keys(keys: Vec<LinkKey>) -> LinkKeys {
        let current_kid = keys.first().map(|key| key.kid.clone());
        LinkKeys { now: TimestampMs::new(7), current_kid, keys }
    }

    fn link() -> Link {
        let id = "{fp:258}:550e8400-e29b-41d4-a716-446655440000";
        Link {
            execution_id: id.parse().expect("an id"),
            waitpoint_id: WaitpointId::from_uuid(Uuid::from_u128(3)),
            approver: Approver::new("ann@example.com"),
            expires_at: TimestampMs::new(1_800_000_000_123),
        }
    }

    #[test]
    fn a_link_says_again_what_it_was_made_of() {
        let text = signed(&link(), &key("k1", 1));
        assert_eq!(verified(&text, &keys(vec![key("k2", 2), key("k1", 1)])), Some(link()));
        assert!(text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_".contains(&byte)));
    }

    #[test]
    fn only_its_own_key_opens_it() {
        let text = signed(&link(), &key("k1", 1));
        for other in [vec![], vec![key("k2", 1)], vec![key("k1", 2)]] {
            assert_eq!(verified(&text, &keys(other)), None);
        }
        // The key in place of an unknown one opens nothing either.
        let zero = LinkKey { kid: "k9".to_owned(), secret: vec![0; DIGEST_BYTES] };
        assert_eq!(verified(&signed(&link(), &zero), &keys(vec![key("k1", 1)])), None);
    }

    #[test]
    fn every_flipped_bit_and_every_cut_is_noticed() {
        let (text, keys) = (signed(&link(), &key("k1", 1)), keys(vec![key("k1", 1)]));
        let bytes = decode_token(&text).expect("base64");
        for at in 0..bytes.len() * 8 {
            let mut changed = bytes.clone();
            changed[at / 8] ^= 1 << (at % 8);
            assert_eq!(verified(&encode_token(&changed), &keys), None, "bit {at}");
        }
        for at in 0..text.len() * 8 {
            let mut changed = text.clone().into_bytes();
            changed[at / 8] ^= 1 << (at % 8);
            let Ok(changed) = String::from_utf8(changed) else { continue };
            assert_eq!(verified(&changed, &keys), None, "bit {at} of the text");
        }
        for length in 0..text.len() {
            assert_eq!(verified(&text[..length], &keys), None, "{length} characters");
        }
        assert_eq!(verified(&format!("{text}A"), &keys), None);
        assert_eq!(verified(&"A".repeat(TEXT_BYTES_MAX + 4), &keys), None);
    }

    #[test]
    fn what_another_version_signed_is_not_read_as_this_one() {
        let mut bytes = decode_token(&signed(&link(), &key("k1", 1))).expect("base64");
        bytes.truncate(bytes.len() - DIGEST_BYTES);
        bytes[0] = 2;
        let digest = hmac::sign(&key_of(&[1; 48]), &message(&bytes));
        bytes.extend(digest.as_ref());
        assert_eq!(verified(&encode_token(&bytes), &keys(vec![key("k1", 1)])), None);
    }
}
