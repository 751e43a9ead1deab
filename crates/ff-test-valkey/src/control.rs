//! A minimal client over the server's Unix socket: it works the same with TLS, without TLS, and
//! while the network port is busy.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;

/// An answer of the server.
#[derive(Clone, Debug, PartialEq)]
pub enum Reply {
    /// No value.
    Nil,
    /// A whole number.
    Int(i64),
    /// A status or a byte string, as text.
    Text(String),
    /// A list.
    List(Vec<Reply>),
    /// An error, with its code.
    Error(String),
}

impl Reply {
    /// The text of a status or byte string, empty for everything else.
    pub fn text(&self) -> &str {
        match self {
            Self::Text(text) => text,
            _ => "",
        }
    }
}

/// One connection to a server.
pub(crate) struct Control {
    stream: BufReader<UnixStream>,
}

impl Control {
    pub(crate) fn connect(socket: &Path) -> io::Result<Self> {
        let stream = UnixStream::connect(socket)?;
        stream.set_read_timeout(Some(Duration::from_secs(10)))?;
        Ok(Self { stream: BufReader::new(stream) })
    }

    /// Runs one command.
    pub(crate) fn run(&mut self, words: &[&str]) -> io::Result<Reply> {
        let mut packed = format!("*{}\r\n", words.len());
        for word in words {
            packed.push_str(&format!("${}\r\n{word}\r\n", word.len()));
        }
        self.stream.get_mut().write_all(packed.as_bytes())?;
        self.read()
    }

    fn read(&mut self) -> io::Result<Reply> {
        let mut line = String::new();
        if self.stream.read_line(&mut line)? == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        let (kind, rest) = line.trim_end().split_at(1);
        Ok(match kind {
            "+" => Reply::Text(rest.to_owned()),
            "-" => Reply::Error(rest.to_owned()),
            ":" => Reply::Int(number(rest)?),
            "$" => self.read_bytes(number(rest)?)?,
            "*" => self.read_list(number(rest)?)?,
            _ => return Err(io::Error::other(format!("a reply of an unknown kind {kind:?}"))),
        })
    }

    fn read_bytes(&mut self, length: i64) -> io::Result<Reply> {
        let Ok(length) = usize::try_from(length) else { return Ok(Reply::Nil) };
        let mut bytes = vec![0; length + 2];
        self.stream.read_exact(&mut bytes)?;
        bytes.truncate(length);
        Ok(Reply::Text(String::from_utf8_lossy(&bytes).into_owned()))
    }

    fn read_list(&mut self, length: i64) -> io::Result<Reply> {
        let Ok(length) = usize::try_from(length) else { return Ok(Reply::Nil) };
        Ok(Reply::List((0..length).map(|_| self.read()).collect::<io::Result<_>>()?))
    }
}

fn number(text: &str) -> io::Result<i64> {
    text.parse().map_err(|_| io::Error::other(format!("{text:?} is not a number")))
}
