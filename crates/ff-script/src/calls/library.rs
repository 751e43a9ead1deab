//! The library about itself.

use crate::call::functions;
use crate::value::Value;
use crate::wire::{List, Reading};

functions! {
    /// Tells the version and the content hash of the installed library.
    read ff_version(Version {})
    -> VersionReply { "OK" => Installed { version: u64, hash: String } }
    refuses [];

    /// Lists the commands of the library, each with a key or channel, that the user of the
    /// connection may not run.
    read ff_check_rights(CheckRights {})
    -> CheckRightsReply { "OK" => Rights { missing: List<String> } }
    refuses [];
}

/// The library's own description of one function.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Description {
    /// The public name.
    pub name: String,
    /// One sentence.
    pub doc: String,
    /// Registration flags, comma-joined.
    pub flags: String,
    /// Argument names, in order.
    pub args: Vec<String>,
    /// `OUTCOME(value,value)`, sorted.
    pub outcomes: Vec<String>,
}

impl Description {
    /// Reads the reply of `ff_describe_library`, which has one value per function.
    pub fn read_all(reply: Value) -> Option<Vec<Self>> {
        let Value::Array(elements) = reply else { return None };
        elements.into_iter().skip(2).map(Self::read).collect()
    }
}

impl Reading for Description {
    fn read(value: Value) -> Option<Self> {
        let Value::Array(parts) = value else { return None };
        let [name, doc, flags, args, outcomes] = <[Value; 5]>::try_from(parts).ok()?;
        Some(Self {
            name: String::read(name)?,
            doc: String::read(doc)?,
            flags: String::read(flags)?,
            args: List::read(args)?.0,
            outcomes: List::read(outcomes)?.0,
        })
    }
}
