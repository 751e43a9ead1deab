//! Prometheus' text format.

use std::fmt::{Display, Write};

/// A text that grows line by line.
#[derive(Default)]
pub(crate) struct Text(String);

impl Text {
    /// Announces a family of samples.
    pub(crate) fn family(&mut self, name: &str, kind: &str, about: &str) {
        // Writing to a string cannot fail.
        let _ = writeln!(self.0, "# HELP {name} {about}\n# TYPE {name} {kind}");
    }

    /// One sample.
    pub(crate) fn sample(&mut self, name: &str, labels: &[(&str, &str)], value: impl Display) {
        self.0.push_str(name);
        for (position, (label, text)) in labels.iter().enumerate() {
            let before = if position == 0 { '{' } else { ',' };
            let _ = write!(self.0, "{before}{label}=\"{}\"", escape(text));
        }
        if !labels.is_empty() {
            self.0.push('}');
        }
        let _ = writeln!(self.0, " {value}");
    }

    /// A family of one sample.
    pub(crate) fn number(&mut self, name: &str, kind: &str, about: &str, value: impl Display) {
        self.family(name, kind, about);
        self.sample(name, &[], value);
    }

    /// The whole text.
    pub(crate) fn finish(self) -> String {
        self.0
    }
}

fn escape(text: &str) -> String {
    text.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_are_quoted_and_escaped() {
        let mut text = Text::default();
        text.number("a_total", "counter", "Things.", 3);
        text.sample("b", &[("lane", "x\"y\\"), ("c", "d")], 0.5);
        assert_eq!(
            text.finish(),
            "# HELP a_total Things.\n# TYPE a_total counter\na_total 3\n\
             b{lane=\"x\\\"y\\\\\",c=\"d\"} 0.5\n"
        );
    }
}
