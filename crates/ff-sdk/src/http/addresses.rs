//! The addresses of a deployment's servers. All of them serve the same, so whoever finds one gone
//! goes on with the next.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use http::Uri;

/// One address or several, and which one is in use. Clones use the same one.
#[derive(Clone)]
pub(super) struct Addresses {
    all: Arc<[String]>,
    current: Arc<AtomicUsize>,
}

impl Addresses {
    /// Reads what people write: addresses with commas in between.
    pub(super) fn parse(text: &str) -> Result<Self, String> {
        let all = text.split(',').map(|one| one.trim().trim_end_matches('/').to_owned());
        let all = all.collect::<Vec<_>>();
        all.iter().try_for_each(|one| check(one))?;
        Ok(Self { all: all.into(), current: Arc::default() })
    }

    /// The one to ask, and its number.
    pub(super) fn current(&self) -> (usize, &str) {
        let number = self.current.load(Ordering::Relaxed) % self.all.len();
        (number, &self.all[number])
    }

    /// This one did not answer: the next is asked from now on, unless somebody moved on already.
    pub(super) fn leave(&self, number: usize) {
        let next = (number + 1) % self.all.len();
        let _ = self.current.compare_exchange(number, next, Ordering::Relaxed, Ordering::Relaxed);
    }

    pub(super) fn any_is_secure(&self) -> bool {
        self.all.iter().any(|one| one.starts_with("https:"))
    }
}

fn check(url: &str) -> Result<(), String> {
    let rule = || "must look like http://host:7480 or https://host".to_owned();
    let uri: Uri = url.parse().map_err(|_| rule())?;
    let known = matches!(uri.scheme_str(), Some("http" | "https"));
    let host = uri.host().is_some_and(|host| !host.is_empty());
    let plain =
        uri.query().is_none() && uri.authority().is_some_and(|it| !it.as_str().contains('@'));
    if known && host && plain { Ok(()) } else { Err(rule()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_leaves_an_address_goes_on_with_the_next_and_comes_around() {
        let addresses = Addresses::parse("http://a:1/, https://b:2").expect("two");
        assert_eq!(addresses.current(), (0, "http://a:1"));
        assert!(addresses.any_is_secure());
        addresses.leave(0);
        addresses.leave(0);
        assert_eq!(addresses.clone().current(), (1, "https://b:2"), "two left the same one");
        addresses.leave(1);
        assert_eq!(addresses.current().0, 0);
    }

    #[test]
    fn each_of_several_addresses_must_be_one() {
        for text in ["http://a,", "http://a,b:2", ""] {
            assert!(Addresses::parse(text).is_err(), "{text}");
        }
    }
}
