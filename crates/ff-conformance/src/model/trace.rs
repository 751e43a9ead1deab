//! What was called and answered, in words for a person.

use std::fmt;

use ff_script::value::Value;

use super::sent::Sent;

/// A call that was made. Put into words only if it matters, because there are many.
pub(super) struct Call {
    pub(super) at: u64,
    pub(super) sent: Sent,
    pub(super) reply: Option<Value>,
}

impl fmt::Display for Call {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let reply = self.reply.as_ref().map_or("no answer".to_owned(), shown);
        write!(f, "{} {} -> {reply}", self.at, self.sent)
    }
}

const SHOWN_CHARACTERS: usize = 300;

/// A reply in short.
fn shown(reply: &Value) -> String {
    let mut text = String::new();
    show(reply, &mut text);
    match text.char_indices().nth(SHOWN_CHARACTERS) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text,
    }
}

fn show(value: &Value, text: &mut String) {
    match value {
        Value::Nil => text.push_str("nil"),
        Value::Int(number) => text.push_str(&number.to_string()),
        Value::Bytes(bytes) => text.push_str(&format!("'{}'", bytes.escape_ascii())),
        Value::Array(values) => {
            text.push('[');
            for (place, value) in values.iter().enumerate() {
                text.push_str(if place == 0 { "" } else { " " });
                show(value, text);
            }
            text.push(']');
        }
    }
}
