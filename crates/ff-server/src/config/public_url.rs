//! The address of the server as people see it, in links that are sent to them.

use std::fmt;
use std::str::FromStr;

use super::Authority;

/// The beginning of every link: scheme, host, perhaps a port, perhaps a path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PublicUrl {
    text: String,
    pub(crate) authority: Authority,
}

impl PublicUrl {
    /// The address of a path of this server.
    pub(crate) fn join(&self, path: &str) -> String {
        format!("{}{path}", self.text)
    }
}

impl FromStr for PublicUrl {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        read(text.trim_end_matches('/')).ok_or_else(|| {
            format!("{text:?} is no public URL: write it like https://flow.example.com")
        })
    }
}

fn read(text: &str) -> Option<PublicUrl> {
    let rest = text.strip_prefix("https://").or_else(|| text.strip_prefix("http://"))?;
    let (authority, path) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"/-._~%".contains(&byte);
    let authority = authority.parse().ok().filter(|_| path.bytes().all(plain))?;
    Some(PublicUrl { text: text.to_owned(), authority })
}

impl fmt::Display for PublicUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_begin_with_the_address_that_people_see() {
        for (text, link) in [
            ("https://flow.example.com", "https://flow.example.com/a"),
            ("https://flow.example.com/", "https://flow.example.com/a"),
            ("http://127.0.0.1:7480", "http://127.0.0.1:7480/a"),
            ("https://example.com/flow/", "https://example.com/flow/a"),
            ("http://[::1]:7480", "http://[::1]:7480/a"),
        ] {
            assert_eq!(text.parse::<PublicUrl>().expect(text).join("/a"), link);
        }
    }

    #[test]
    fn what_is_no_address_of_a_site_is_refused() {
        for wrong in [
            "",
            "flow.example.com",
            "ftp://flow.example.com",
            "https://",
            "https://user@flow.example.com",
            "https://flow.example.com/?a=b",
            "https://flow.example.com/#a",
            "https://flow.example.com/a b",
            "javascript:alert(1)",
        ] {
            assert!(wrong.parse::<PublicUrl>().is_err(), "{wrong}");
        }
    }
}
