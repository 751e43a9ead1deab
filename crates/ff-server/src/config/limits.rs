//! How much of everything a server accepts.

use std::time::Duration;

const MIB: u64 = 1024 * 1024;

/// How much of everything a server accepts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Connections at a time, three quarters of them of one address. Never more than the operating
    /// system's limit of open files leaves.
    pub connections: u32,
    /// Requests under way at a time, without those that wait for work or for an end. Never more
    /// than a quarter of the connections.
    pub requests: u32,
    /// Requests that wait for work or for an end at a time. Never more than half of the
    /// connections.
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
            connections: 8192,
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

/// With fewer, there is nothing to share out.
const CONNECTIONS_MIN: u32 = 8;

impl Limits {
    /// These limits where there is room for so many connections. Requests that wait get a half of
    /// them and others a quarter, but for a reserve: together they are fewer than one address may
    /// have, so that somebody who only asks for the server's health always finds a place.
    pub(crate) fn within(self, room: u64) -> Self {
        let room = u32::try_from(room).unwrap_or(u32::MAX);
        let connections = self.connections.min(room).max(CONNECTIONS_MIN);
        let reserve = (connections / 64).max(1);
        Self {
            connections,
            waiting: self.waiting.min(connections / 2),
            requests: self.requests.min(connections / 4 - reserve),
            ..self
        }
    }

    pub(crate) fn check(&self) -> Result<(), String> {
        let positive = [
            ("limits.requests", u64::from(self.requests)),
            ("limits.waiting", u64::from(self.waiting)),
            ("limits.bulk_body_bytes", self.bulk_body_bytes),
            ("limits.header_timeout", self.header_timeout_ms),
            ("limits.body_timeout", self.body_timeout_ms),
            ("limits.write_timeout", self.write_timeout_ms),
            ("limits.request_timeout", self.request_timeout_ms),
        ];
        if let Some((name, _)) = positive.into_iter().find(|(_, value)| *value == 0) {
            return Err(format!("{name} must be at least 1"));
        }
        if self.connections < CONNECTIONS_MIN {
            return Err(format!("limits.connections must be at least {CONNECTIONS_MIN}"));
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
        let few = Limits { connections: 7, ..Limits::default() };
        assert_eq!(few.check(), Err("limits.connections must be at least 8".to_owned()));
        let small = Limits { large_body_bytes: 1, ..Limits::default() };
        assert!(small.check().is_err());
    }

    #[test]
    fn what_works_and_what_waits_leaves_places_even_to_one_address() {
        for room in [0, 8, 9, 40, 128, 896, 8192, u64::MAX] {
            let within = Limits::default().within(room);
            let of_one_address = within.connections - within.connections / 4;
            assert!(within.waiting + within.requests < of_one_address, "{within:?}");
            assert!(within.waiting > 0 && within.requests > 0, "{within:?}");
            assert!(u64::from(within.connections) <= room.max(8), "{within:?}");
        }
        assert_eq!(Limits::default().within(u64::MAX), Limits::default(), "nothing is cut off");
    }
}
