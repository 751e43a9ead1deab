//! How much of everything a server accepts.

use std::time::Duration;

use serde::Deserialize;

const MIB: u64 = 1024 * 1024;

/// How much of everything a server accepts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Limits {
    /// Connections at a time. Never more than the operating system's limit of open files leaves.
    pub connections: u32,
    /// Requests under way at a time, without those that wait for work or for an end.
    pub requests: u32,
    /// Requests that wait for work or for an end at a time.
    pub waiting: u32,
    /// Bytes of large bodies (above 64 KiB) in memory at a time.
    pub large_body_bytes: u64,
    /// Bytes of the body of a bulk submission.
    pub bulk_body_bytes: u64,
    /// How long a client may take to send the head of a request, or stay silent before it.
    pub header_timeout_ms: u64,
    /// How long a client may take to send a body.
    pub body_timeout_ms: u64,
    /// How long a client may leave an answer unread.
    pub write_timeout_ms: u64,
    /// How long a request may take, the time it asked to wait not counted.
    pub request_timeout_ms: u64,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            connections: 4096,
            requests: 1024,
            waiting: 4096,
            large_body_bytes: 256 * MIB,
            bulk_body_bytes: 32 * MIB,
            header_timeout_ms: 60_000,
            body_timeout_ms: 30_000,
            write_timeout_ms: 30_000,
            request_timeout_ms: 30_000,
        }
    }
}

impl Limits {
    pub(crate) fn check(&self) -> Result<(), String> {
        let positive = [
            ("limits.connections", u64::from(self.connections)),
            ("limits.requests", u64::from(self.requests)),
            ("limits.waiting", u64::from(self.waiting)),
            ("limits.bulk_body_bytes", self.bulk_body_bytes),
            ("limits.header_timeout_ms", self.header_timeout_ms),
            ("limits.body_timeout_ms", self.body_timeout_ms),
            ("limits.write_timeout_ms", self.write_timeout_ms),
            ("limits.request_timeout_ms", self.request_timeout_ms),
        ];
        if let Some((name, _)) = positive.into_iter().find(|(_, value)| *value == 0) {
            return Err(format!("{name} must be at least 1"));
        }
        if self.large_body_bytes < self.bulk_body_bytes.max(16 * MIB) {
            let rule = "must be at least 16 MiB and not less than limits.bulk_body_bytes";
            return Err(format!("limits.large_body_bytes {rule}"));
        }
        Ok(())
    }

    pub(crate) fn header_timeout(&self) -> Duration {
        Duration::from_millis(self.header_timeout_ms)
    }

    pub(crate) fn body_timeout(&self) -> Duration {
        Duration::from_millis(self.body_timeout_ms)
    }

    pub(crate) fn write_timeout(&self) -> Duration {
        Duration::from_millis(self.write_timeout_ms)
    }

    pub(crate) fn request_timeout(&self) -> Duration {
        Duration::from_millis(self.request_timeout_ms)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_may_be_zero() {
        assert_eq!(Limits::default().check(), Ok(()));
        let without = Limits { requests: 0, ..Limits::default() };
        assert_eq!(without.check(), Err("limits.requests must be at least 1".to_owned()));
        let small = Limits { large_body_bytes: 1, ..Limits::default() };
        assert!(small.check().is_err());
    }
}
