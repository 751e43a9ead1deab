//! A host with a library from a string, and short ways to call it.
#![allow(clippy::unwrap_used, reason = "in a test, a panic is the report")]
#![allow(dead_code, reason = "each test file uses its own part")]

pub(crate) mod faulty;
pub(crate) mod load;
pub(crate) mod model;
pub(crate) mod valkey;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use ff_backend_embedded::{Disk, EmbeddedConfig, EmbeddedHost, Storage, SyncMode};
use ff_core::backend_error::BackendError;
use ff_core::clock::Clock;
use ff_core::partition::Partition;
use ff_script::args::Args;
use ff_script::host::{Function, Host};
use ff_script::library::Library;
use ff_script::value::Value;

/// Runs one command, or several separated by an argument `;`, and answers the last reply.
pub(crate) const RUN: &str = "#!lua name=run
local function run(keys, args)
  local reply, command = nil, {}
  for i = 1, #args do
    if args[i] == ';' then
      reply = redis.call(unpack(command))
      command = {}
    else
      command[#command + 1] = args[i]
    end
  end
  reply = redis.call(unpack(command))
  return reply
end
redis.register_function('run', run)
redis.register_function{function_name = 'read', callback = run, flags = {'no-writes'}}
redis.register_function('boom', function(keys, args)
  redis.call('SET', keys[1] .. ':boom', args[1])
  error('boom')
end)
";

/// The partition that tests use unless it matters.
pub(crate) const HOME: Partition = Partition::flow(7);

pub(crate) fn library(source: &str) -> Library {
    Library { name: "test", version: 1, hash: String::new(), source: source.to_owned() }
}

pub(crate) fn in_memory(source: &str) -> EmbeddedHost {
    let config = EmbeddedConfig { shards: 2, ..EmbeddedConfig::in_memory() };
    EmbeddedHost::open(config, &library(source)).expect("the store opens")
}

/// A configuration for a data directory.
pub(crate) fn on_disk(path: &Path, sync: SyncMode) -> EmbeddedConfig {
    let storage = Storage::Directory { path: path.to_owned(), sync };
    EmbeddedConfig { shards: 2, storage, ..EmbeddedConfig::in_memory() }
}

/// A store in a directory.
pub(crate) fn in_directory(path: &Path) -> EmbeddedHost {
    in_directory_on(path, faulty::Faults::none().disk())
}

/// A store in a directory on a disk that may fail.
pub(crate) fn in_directory_on(path: &Path, disk: Arc<dyn Disk>) -> EmbeddedHost {
    EmbeddedHost::open_on(on_disk(path, SyncMode::Always), &library(RUN), disk)
        .expect("the store opens")
}

/// The journal's files of one kind in a data directory, in order.
pub(crate) fn journal_files(root: &Path, kind: &str) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(root.join("appendonlydir")).expect("there is a journal");
    let mut files: Vec<PathBuf> = entries
        .map(|entry| entry.expect("it can be listed").path())
        .filter(|path| path.to_string_lossy().ends_with(&format!(".{kind}.aof")))
        .collect();
    files.sort();
    files
}

pub(crate) fn function(wire_name: &'static str) -> Function {
    Function { wire_name, read_only: wire_name == "read" }
}

pub(crate) async fn call(
    host: &EmbeddedHost,
    name: &'static str,
    partition: Partition,
    args: &[&[u8]],
) -> Result<Value, BackendError> {
    let args: Args = args.iter().copied().collect();
    host.call(function(name), partition, args).await
}

/// Runs commands in the home partition. Words are separated by spaces.
pub(crate) async fn run(host: &EmbeddedHost, commands: &str) -> Result<Value, BackendError> {
    let words: Vec<&[u8]> = commands.split(' ').map(str::as_bytes).collect();
    call(host, "run", HOME, &words).await
}

/// A reply on one line: `(nil)`, numbers, bytes with escapes, lists in brackets.
pub(crate) fn show(value: &Value) -> String {
    match value {
        Value::Nil => "(nil)".to_owned(),
        Value::Int(number) => number.to_string(),
        Value::Bytes(bytes) => format!("\"{}\"", bytes.escape_ascii()),
        Value::Array(values) => {
            format!("[{}]", values.iter().map(show).collect::<Vec<_>>().join(" "))
        }
    }
}

/// A reply or an error's text, without where it was raised.
pub(crate) fn outcome(result: &Result<Value, BackendError>) -> String {
    match result {
        Ok(value) => show(value),
        Err(error) => {
            let text = error.message.split_once(": ").map_or(&*error.message, |split| split.1);
            text.rsplit_once(" (line").map_or(text, |split| split.0).to_owned()
        }
    }
}

/// A clock that moves when it is told to.
#[derive(Default)]
pub(crate) struct ManualClock(pub(crate) AtomicU64);

impl ManualClock {
    pub(crate) fn at_ms(ms: u64) -> Arc<Self> {
        Arc::new(Self(AtomicU64::new(ms * 1000)))
    }

    pub(crate) fn set_ms(&self, ms: u64) {
        self.0.store(ms * 1000, Ordering::SeqCst);
    }
}

impl Clock for ManualClock {
    fn now_us(&self) -> u64 {
        self.0.load(Ordering::SeqCst)
    }
}

/// A small generator of numbers: the same seed, the same run.
pub(crate) struct Random(u64);

impl Random {
    pub(crate) fn new(seed: u64) -> Self {
        Self(seed.wrapping_mul(2).wrapping_add(1))
    }

    pub(crate) fn below(&mut self, limit: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 11) % limit
    }

    pub(crate) fn pick<'a, T: ?Sized>(&mut self, choices: &[&'a T]) -> &'a T {
        choices[self.below(choices.len() as u64) as usize]
    }
}
