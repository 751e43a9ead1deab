//! An execution's record, read as its documentation says (`lua/model/field.lua`).

use std::collections::BTreeMap;

use ff_core::limits;

/// How much waiting one step of priority outweighs when the policy says nothing.
const STRICT_STEP: f64 = 1e12;

const ENDED: [&str; 5] = ["success", "failed", "cancelled", "expired", "skipped"];
const LIVE: [&str; 5] = ["waiting", "delayed", "running", "lapsed", "revoked"];

/// The fields of a record by their stored names.
#[derive(Clone, Debug)]
pub struct Record {
    fields: BTreeMap<String, String>,
}

impl Record {
    /// A record from its hash.
    pub fn new(fields: &BTreeMap<Vec<u8>, Vec<u8>>) -> Self {
        let text = |bytes: &Vec<u8>| String::from_utf8_lossy(bytes).into_owned();
        Self { fields: fields.iter().map(|(name, value)| (text(name), text(value))).collect() }
    }

    /// A field's value.
    pub fn get(&self, field: &str) -> Option<&str> {
        self.fields.get(field).map(String::as_str)
    }

    /// True if the field is there.
    pub fn has(&self, field: &str) -> bool {
        self.fields.contains_key(field)
    }

    /// A field's value as a number.
    pub fn number(&self, field: &str) -> Option<f64> {
        self.get(field)?.parse().ok()
    }

    /// The stored state.
    pub fn state(&self) -> &str {
        self.get("st").unwrap_or("")
    }

    fn is_ended(&self) -> bool {
        ENDED.contains(&self.state())
    }

    /// The lane whose queue it belongs in.
    pub fn queue(&self) -> Option<String> {
        let claimable = matches!(self.state(), "waiting" | "lapsed" | "revoked");
        (claimable && !self.has("gx")).then(|| self.get("la").unwrap_or("").to_owned())
    }

    /// Its place in the queue.
    pub fn queue_score(&self) -> f64 {
        let step = self.number("ag").unwrap_or(STRICT_STEP);
        self.number("ct").unwrap_or(f64::NAN) - self.number("pr").unwrap_or(0.0) * step
    }

    /// The next time at which it needs attention.
    pub fn due_at(&self) -> Option<f64> {
        if self.is_ended() {
            return None;
        }
        let by_state: &[&str] = match self.state() {
            "running" => &["le", "ta"],
            "delayed" => &["du"],
            _ => &[],
        };
        let times = ["dl", "gx"].iter().chain(by_state).filter_map(|field| self.number(field));
        times.min_by(f64::total_cmp)
    }

    /// When it is removed.
    pub fn purge_at(&self) -> f64 {
        let keep = self.number("re").unwrap_or(limits::RETENTION_MS_DEFAULT as f64);
        self.number("et").unwrap_or(f64::NAN) + keep
    }

    /// What contradicts itself.
    pub fn faults(&self) -> Vec<String> {
        let state = self.state();
        let mut faults = Vec::new();
        let mut expect = |holds: bool, rule: &str| {
            if !holds {
                faults.push(format!("is {state} and breaks the rule: {rule}"));
            }
        };
        expect(LIVE.contains(&state) || self.is_ended(), "a state is one of ten words");
        for field in ["la", "ki", "ns", "ct"] {
            expect(self.has(field), "lane, kind, namespace and creation time are always there");
        }
        expect(self.is_ended() == self.has("et"), "an end time is there if and only if it ended");
        expect((state == "delayed") == self.has("du"), "a delay's end is there while it lasts");
        if state == "running" {
            for field in ["li", "ep", "le", "wo", "wi", "ac", "as"] {
                expect(self.has(field), "a running attempt has a lease and a worker");
            }
        } else if !self.is_ended() {
            expect(!self.has("le") && !self.has("ta"), "without a lease nothing of it is left");
        }
        let granted = ["gi", "gk", "gw", "gn", "gx"].iter().filter(|field| self.has(field)).count();
        expect(matches!(granted, 0 | 5), "a grant is there as a whole or not at all");
        expect(granted == 0 || self.queue_state(), "only what is claimable can be granted");
        self.check_numbers(&mut expect);
        faults
    }

    fn queue_state(&self) -> bool {
        matches!(self.state(), "waiting" | "lapsed" | "revoked")
    }

    /// Numbers are plain digits: an exponent or a fraction would mean another value elsewhere.
    fn check_numbers(&self, expect: &mut impl FnMut(bool, &str)) {
        for field in [
            "ct", "pr", "ag", "mt", "lm", "du", "dl", "dm", "at", "ta", "tl", "mc", "mp", "re", "ac",
            "as", "ae", "ep", "le", "lr", "ra", "gx", "sa", "et", "rc", "rl", "rp", "pp", "pt",
        ] {
            let plain = |text: &str| {
                text.len() <= 16 && text.parse::<u64>().is_ok_and(|number| number.to_string() == text)
            };
            expect(self.get(field).is_none_or(plain), &format!("{field} is a plain number"));
        }
    }
}
