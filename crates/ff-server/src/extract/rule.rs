//! What is wrong with a part of a request, in words that follow the name of the part.

use super::shorten;

/// The field that a message of serde is about, which may name it although the path ends before it;
/// `whole` if it is about all of it.
pub(super) fn field(message: &str, path: String, whole: &str) -> String {
    match (named_in(message), path) {
        (Some(name), path) if path.is_empty() || path == "." || path == "?" => name,
        (Some(name), path) if !path.ends_with(&name) => format!("{path}.{name}"),
        (_, path) if path.is_empty() || path == "." => whole.to_owned(),
        (_, path) => path,
    }
}

fn named_in(message: &str) -> Option<String> {
    let about = ["missing field `", "unknown field `", "duplicate field `"];
    let rest = about.into_iter().find_map(|start| message.strip_prefix(start))?;
    rest.split('`').next().map(str::to_owned)
}

/// The rule that a message of serde tells. Where in the bytes it was broken helps nobody who knows
/// the part.
pub(super) fn in_words(message: &str) -> String {
    let message = message.split(" at line ").next().unwrap_or_default();
    if message.starts_with("missing field `") {
        return "is missing".to_owned();
    }
    if message.starts_with("duplicate field `") {
        return "stands there twice".to_owned();
    }
    match message.strip_prefix("unknown field `").and_then(|rest| rest.split_once('`')) {
        Some((name, known)) => unknown(name, known),
        None => format!("is wrong: {}", shorten(message.to_owned())),
    }
}

/// No field has this name; what is known stands in the message, each name in backticks.
fn unknown(name: &str, known: &str) -> String {
    let names: Vec<&str> = known.split('`').skip(1).step_by(2).collect();
    if let Some(meant) = names.iter().find(|known| is_close(name, known)) {
        return format!("is not known here: is it {meant}?");
    }
    match names.as_slice() {
        [] => "is not known here, where there are no fields".to_owned(),
        names => shorten(format!("is not known here; there are {}", names.join(", "))),
    }
}

/// One letter is missing, is too much, or is another one; or two neighbours have changed places.
fn is_close(name: &str, known: &str) -> bool {
    let (name, known) = (name.as_bytes(), known.as_bytes());
    let same = name.iter().zip(known).take_while(|(one, other)| one == other).count();
    let (name, known) = (&name[same..], &known[same..]);
    match (name, known) {
        ([first, second, name @ ..], [one, other, known @ ..])
            if (first, second) == (other, one) && name == known =>
        {
            true
        }
        ([_, name @ ..], [_, known @ ..]) if name == known => true,
        ([_, name @ ..], known) | (known, [_, name @ ..]) if name == known => true,
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rule_is_told_without_the_place_in_the_bytes() {
        for (message, rule) in [
            ("missing field `kind` at line 1 column 2", "is missing"),
            ("duplicate field `kind` at line 1 column 9", "stands there twice"),
            ("unknown field `kin`, expected one of `kind`, `lane` at line 1", "is it kind?"),
            ("unknown field `ilne`, expected `kind` or `lane`", "; there are kind, lane"),
            ("unknown field `x`, there are no fields", "no fields"),
            ("invalid type: integer `7`, expected a string", "is wrong: invalid type: integer"),
        ] {
            let said = in_words(message);
            assert!(said.ends_with(rule) || said.starts_with(rule), "{message}: {said}");
            assert!(!said.contains("line 1"), "{said}");
        }
    }

    #[test]
    fn one_slip_is_close_and_two_are_not() {
        for name in ["kin", "kinds", "kidn", "kink", "ind"] {
            assert!(is_close(name, "kind"), "{name}");
        }
        for name in ["kni", "dink", "k", "kindest", "lane"] {
            assert!(!is_close(name, "kind"), "{name}");
        }
    }
}
