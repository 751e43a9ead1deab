//! A real valkey-server for comparisons, and a client that speaks just enough of its protocol.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};

/// A reply as the server sent it.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Resp {
    Nil,
    Int(i64),
    Bytes(Vec<u8>),
    Error(String),
    Array(Vec<Resp>),
}

impl Resp {
    /// On one line, as `support::show` writes a value; an error is its text.
    pub(crate) fn show(&self) -> String {
        match self {
            Self::Nil => "(nil)".to_owned(),
            Self::Int(number) => number.to_string(),
            Self::Bytes(bytes) => format!("\"{}\"", bytes.escape_ascii()),
            Self::Error(text) => text.split(" script: ").next().unwrap_or(text).to_owned(),
            Self::Array(values) => {
                format!("[{}]", values.iter().map(Self::show).collect::<Vec<_>>().join(" "))
            }
        }
    }
}

/// A server that ends with the test.
pub(crate) struct Valkey {
    process: Child,
    pub(crate) port: u16,
}

impl Valkey {
    /// Starts a server on a free port. Fails the test if there is none to start.
    pub(crate) fn start(directory: &Path, options: &[&str]) -> Self {
        let port = free_port();
        let process = Command::new("valkey-server")
            .args(["--port", &port.to_string(), "--save", "", "--bind", "127.0.0.1"])
            .arg("--dir")
            .arg(directory)
            .args(options)
            .stdout(Stdio::null())
            .spawn()
            .expect("valkey-server must be installed");
        Self { process, port }
    }

    /// Connects once the server answers.
    pub(crate) fn connect(&mut self) -> Client {
        for _ in 0..100_000 {
            if let Ok(stream) = TcpStream::connect(("127.0.0.1", self.port)) {
                let mut client = Client::new(stream);
                while matches!(client.call(&[b"PING"]), Resp::Error(_)) {
                    std::thread::yield_now();
                }
                return client;
            }
            let ended = self.process.try_wait().expect("the server can be asked for");
            assert!(ended.is_none(), "valkey-server ended: {ended:?}");
            std::thread::yield_now();
        }
        panic!("valkey-server does not answer");
    }
}

impl Drop for Valkey {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

fn free_port() -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port is free");
    listener.local_addr().expect("it has an address").port()
}

/// A connection.
pub(crate) struct Client {
    reader: BufReader<TcpStream>,
}

impl Client {
    fn new(stream: TcpStream) -> Self {
        stream.set_nodelay(true).expect("the option exists");
        Self { reader: BufReader::new(stream) }
    }

    pub(crate) fn call(&mut self, args: &[&[u8]]) -> Resp {
        let mut request = format!("*{}\r\n", args.len()).into_bytes();
        for argument in args {
            request.extend_from_slice(format!("${}\r\n", argument.len()).as_bytes());
            request.extend_from_slice(argument);
            request.extend_from_slice(b"\r\n");
        }
        self.reader.get_mut().write_all(&request).expect("the server reads");
        self.read()
    }

    /// A command whose words are separated by spaces.
    pub(crate) fn words(&mut self, command: &str) -> Resp {
        self.call(&command.split(' ').map(str::as_bytes).collect::<Vec<_>>())
    }

    fn read(&mut self) -> Resp {
        let mut line = Vec::new();
        self.reader.read_until(b'\n', &mut line).expect("the server answers");
        let text = String::from_utf8_lossy(&line[1..]).trim_end().to_owned();
        let number = || text.parse::<i64>().expect("a number");
        match line[0] {
            b'+' => Resp::Bytes(text.into_bytes()),
            b'-' => Resp::Error(text),
            b':' => Resp::Int(number()),
            b'$' if number() < 0 => Resp::Nil,
            b'*' if number() < 0 => Resp::Nil,
            b'$' => {
                let mut bytes = vec![0; number() as usize + 2];
                self.reader.read_exact(&mut bytes).expect("the server answers");
                bytes.truncate(bytes.len() - 2);
                Resp::Bytes(bytes)
            }
            b'*' => Resp::Array((0..number()).map(|_| self.read()).collect()),
            other => panic!("unexpected reply type {other}"),
        }
    }
}
