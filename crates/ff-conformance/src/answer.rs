//! Replies as they come, for calls that no typed call can make.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::LazyLock;

use ff_script::calls;
use ff_script::host::Function;
use ff_script::value::Value;

/// A reply, taken apart.
#[derive(Clone, PartialEq, Eq)]
pub struct Answer {
    /// False if the call was refused.
    pub done: bool,
    /// The status or the code.
    pub word: String,
    /// The values or the details.
    pub values: Vec<Value>,
}

impl Answer {
    /// Takes a reply apart.
    pub fn open(reply: Value) -> Self {
        let Value::Array(parts) = reply else { panic!("a reply is a list, not {reply:?}") };
        let mut parts = parts.into_iter();
        match (parts.next(), parts.next()) {
            (Some(Value::Int(done)), Some(Value::Bytes(word))) => Self {
                done: done == 1,
                word: String::from_utf8(word).expect("outcomes are ASCII"),
                values: parts.collect(),
            },
            other => panic!("a reply begins with a number and a word, not {other:?}"),
        }
    }

    /// The code of a refusal.
    #[track_caller]
    pub fn code(&self) -> &str {
        assert!(!self.done, "must be refused, and gave {self:?}");
        &self.word
    }

    /// One value as text.
    #[track_caller]
    pub fn text(&self, position: usize) -> String {
        match self.values.get(position) {
            Some(Value::Bytes(bytes)) => String::from_utf8_lossy(bytes).into_owned(),
            Some(Value::Int(number)) => number.to_string(),
            other => panic!("value {position} of {self:?} is {other:?}"),
        }
    }
}

impl fmt::Debug for Answer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.word)?;
        self.values.iter().try_for_each(|value| write!(f, " {}", show(value)))
    }
}

/// A value in short, for a person.
pub fn show(value: &Value) -> String {
    match value {
        Value::Nil => "nil".to_owned(),
        Value::Int(number) => number.to_string(),
        Value::Bytes(bytes) => {
            format!("\"{}\"", bytes[..bytes.len().min(200)].escape_ascii())
        }
        Value::Array(values) => {
            format!("[{}]", values.iter().map(show).collect::<Vec<_>>().join(" "))
        }
    }
}

/// A function of the library by its public name.
pub fn function(name: &str) -> Function {
    static FUNCTIONS: LazyLock<BTreeMap<&'static str, Function>> = LazyLock::new(|| {
        let declared = calls::contracts().map(|contract| (contract.name, contract.read_only));
        let named = |(name, read_only)| {
            let wire_name: &'static str = Box::leak(format!("{name}_v1").into_boxed_str());
            (name, Function { wire_name, read_only })
        };
        declared.chain([("ff_describe_library", true)]).map(named).collect()
    });
    *FUNCTIONS.get(name).unwrap_or_else(|| panic!("there is no function {name}"))
}
