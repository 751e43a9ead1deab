//! I8: same idempotency key, same id, same answer.

use ff_script::dump::Stored;
use ff_script::value::Value;

use super::super::sent::uuid_of;
use super::{Checked, Seen, rule};

pub(super) fn check(seen: &Seen<'_>) -> Checked {
    let key = seen.sent.text("idempotency_key");
    if seen.sent.name() != "ff_create_execution" || key.is_empty() {
        return Ok(());
    }
    let Some((uuid, digest)) = remembered(seen, key) else { return Ok(()) };
    let word = seen.answer.word.as_str();
    // What is refused for another reason is refused before the key is looked at.
    if matches!(word, "invalid_policy_json" | "invalid_tag_key" | "quota_policy_not_found") {
        return Ok(());
    }
    if digest != seen.sent.text("content_digest") {
        return rule(word == "idempotency_conflict", || {
            format!("another content under the same key gave {word}")
        });
    }
    let told = match seen.answer.values.first() {
        Some(Value::Bytes(id)) => std::str::from_utf8(id).ok().and_then(uuid_of),
        _ => None,
    };
    rule(word == "DUPLICATE" && told == Some(uuid), || {
        format!("the key stands for {uuid}, and the answer was {word} {told:?}")
    })
}

/// The execution and the digest that a key stands for, while its window lasts.
fn remembered<'a>(seen: &Seen<'a>, key: &str) -> Option<(&'a str, &'a str)> {
    let Some(Stored::Hash(entries)) = seen.before().stored("idem") else { return None };
    let name = format!("{}:{key}", seen.sent.text("namespace"));
    let text = std::str::from_utf8(entries.get(name.as_bytes())?).ok()?;
    let mut parts = text.splitn(3, ':');
    let until: u64 = parts.next()?.parse().ok()?;
    let entry = (parts.next()?, parts.next()?);
    (until > seen.now).then_some(entry)
}
