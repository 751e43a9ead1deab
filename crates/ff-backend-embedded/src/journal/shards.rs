//! Reads a journal into the keyspaces of shards, with several threads. Each reads all that was
//! appended, so that each sees for itself where it ends, and repeats what belongs to its shards; of
//! a rewritten file it reads only their slices.

use std::ops::Range;
use std::path::{Path, PathBuf};
use std::thread;

use super::layout::Layout;
use super::load::{self, Loaded, Sink};
use super::manifest::Manifest;
use super::replay::{Replay, key_of};
use super::scan::Scanner;
use super::slice::{Section, Slices};
use crate::error::StoreError;
use crate::keyspace::Keyspace;

/// Reads a journal into as many keyspaces.
pub(crate) fn load(
    layout: &Layout,
    manifest: &Manifest,
    shards: usize,
) -> Result<(Loaded, Vec<Keyspace>), StoreError> {
    let threads = threads().min(shards);
    let read = |thread: usize| {
        let mut share = Share::new(thread, threads, shards);
        load::load(layout, manifest, &mut share).map(|loaded| (loaded, share))
    };
    let shares: Vec<_> = thread::scope(|scope| {
        let others: Vec<_> = (1..threads).map(|number| scope.spawn(move || read(number))).collect();
        let mine = read(0);
        let others = others.into_iter().map(|thread| thread.join().unwrap_or_else(panicked));
        std::iter::once(mine).chain(others).collect()
    });
    let mut keyspaces: Vec<_> = (0..shards).map(|_| Keyspace::default()).collect();
    let mut first = None;
    for (number, outcome) in shares.into_iter().enumerate() {
        let (loaded, share) = outcome?;
        first.get_or_insert(loaded);
        for (place, replay) in share.replays.into_iter().enumerate() {
            keyspaces[number + place * threads] = replay.into_keyspace();
        }
    }
    let mut loaded = first.expect("there is at least one shard");
    loaded.report.keys = keyspaces.iter().map(|keyspace| keyspace.len() as u64).sum();
    Ok((loaded, keyspaces))
}

/// How many threads read a journal.
pub(crate) fn threads() -> usize {
    thread::available_parallelism().map_or(1, usize::from)
}

/// Hands on what a thread panicked with.
pub(crate) fn panicked<T>(panic: Box<dyn std::any::Any + Send>) -> T {
    std::panic::resume_unwind(panic)
}

/// What one thread reads: every so many shards from one on.
struct Share {
    first: usize,
    threads: usize,
    shards: usize,
    replays: Vec<Replay>,
    slices: Slices,
    path: PathBuf,
}

impl Share {
    fn new(first: usize, threads: usize, shards: usize) -> Self {
        let replays = (first..shards).step_by(threads).map(|_| Replay::default()).collect();
        Self { first, threads, shards, replays, slices: Slices::default(), path: PathBuf::new() }
    }

    /// The keyspace of this slice, if that belongs to a shard of ours.
    fn replay(&mut self, index: u16) -> Option<&mut Replay> {
        let shard = usize::from(index) % self.shards;
        (shard % self.threads == self.first).then(|| &mut self.replays[shard / self.threads])
    }

    fn apply(&mut self, command: &[&[u8]]) -> Result<(), String> {
        let index = self.slices.of(key_of(command)?)?;
        self.replay(index).map_or(Ok(()), |replay| replay.apply(command))
    }
}

/// How much of a shard is read before room is made for the rest of its keys.
const SAMPLE: u64 = 8;

/// Repeats the slices of one shard.
fn replay_shard(
    path: &Path,
    scanner: &mut Scanner,
    sections: Vec<Section>,
    replay: &mut Replay,
) -> Result<(), StoreError> {
    let all: u64 = sections.iter().map(|section| section.bytes()).sum();
    let (mut read, mut is_expected) = (0, false);
    for section in sections {
        let bytes = section.bytes();
        load::read_part(path, scanner, section.part, |command| replay.apply(command))?;
        read += bytes;
        if !is_expected && read * SAMPLE >= all {
            is_expected = true;
            let keyspace = replay.keyspace();
            let keys = keyspace.len() as u128 * u128::from(all) / u128::from(read.max(1));
            keyspace.expect(keys as usize);
        }
    }
    Ok(())
}

impl Sink for Share {
    fn file(&mut self, path: &Path) {
        self.path = path.to_owned();
    }

    fn transaction(&mut self, _part: Range<u64>, scanner: &Scanner) -> Result<(), String> {
        scanner.commands(|command| self.apply(command))
    }

    fn sections(&mut self, sections: Vec<Section>) -> Result<(), StoreError> {
        let path = self.path.clone();
        let mut scanner = load::open(&path)?;
        let mut shards: Vec<Vec<Section>> = vec![Vec::new(); self.shards];
        for section in sections {
            shards[usize::from(section.index) % self.shards].push(section);
        }
        for sections in shards {
            let Some(first) = sections.first() else { continue };
            let Some(replay) = self.replay(first.index) else { continue };
            replay_shard(&path, &mut scanner, sections, replay)?;
        }
        Ok(())
    }
}
