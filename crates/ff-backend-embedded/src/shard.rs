//! A shard: one thread that owns a keyspace and a Lua machine, and runs calls one after the other.

use std::sync::{Arc, mpsc};

use ff_core::backend_error::BackendError;
use ff_core::partition::Partition;
use ff_script::args::Args;
use ff_script::dump::Dump;
use ff_script::host::Function;
use ff_script::value::Value;
use hashbrown::HashMap;
use tokio::sync::oneshot;

use crate::backlog::BacklogPermit;
use crate::error::{FunctionError, backend as errors};
use crate::keyspace::Seeded;
use crate::memory::Portion;
use crate::stats::{self, Counters};
use crate::stop::Stop;
use crate::vm::{LoadedFunction, Machine};
use crate::wake::{WakeHub, Wakes};
use crate::watchdog::Post;

/// Calls that are run before what they did is handed to the journal: enough to share a sync, few
/// enough that the first does not wait long for the last.
const BATCH_MAX: usize = 32;

/// What a shard can be asked to do.
pub(crate) enum Job {
    Call {
        function: Function,
        partition: Partition,
        args: Args,
        caller: Caller,
    },
    Dump(oneshot::Sender<Dump>),
    /// Answer when everything that was run before is as durable as configured.
    Settle(Caller),
    Stop,
}

/// What a call is answered with.
pub(crate) type Outcome = Result<Value, BackendError>;

/// Who waits for a call, and the room that the call takes until it is answered.
pub(crate) struct Caller {
    reply: oneshot::Sender<Outcome>,
    permit: Option<BacklogPermit>,
}

impl Caller {
    pub(crate) fn new(reply: oneshot::Sender<Outcome>, permit: Option<BacklogPermit>) -> Self {
        Self { reply, permit }
    }

    /// True if nobody waits any more.
    fn is_gone(&self) -> bool {
        self.reply.is_closed()
    }

    fn tell(self, outcome: Outcome) {
        // There is room for the next call before the caller can make it.
        drop(self.permit);
        // A caller that went away does not want its answer.
        let _ = self.reply.send(outcome);
    }
}

/// An outcome that may have to wait until the journal has what came before it.
pub(crate) struct Answer {
    pub(crate) caller: Caller,
    pub(crate) outcome: Outcome,
    /// True if the call has a transaction of its own in the journal.
    pub(crate) wrote: bool,
    pub(crate) partition: Partition,
    pub(crate) wakes: Wakes,
}

impl Answer {
    /// Wakes whoever waits for what the call did, and answers it.
    pub(crate) fn deliver(self, hub: &WakeHub) {
        hub.deliver(self.partition, self.wakes);
        self.caller.tell(self.outcome);
    }

    /// Answers the call with an error: what it did did not last, or is not known to.
    pub(crate) fn refuse(self, error: BackendError) {
        self.caller.tell(Err(error));
    }
}

/// Where answers go.
pub(crate) trait Commit {
    /// May a call that reads only (or one that writes) be run now? One that writes is promised room
    /// in the journal, by the bytes of its arguments.
    fn admits(&mut self, read_only: bool, argument_bytes: usize) -> Result<(), BackendError>;
    /// Answers a call, now or when everything before it is durable.
    fn answer(&mut self, machine: &mut Machine, answer: Answer);
    /// True if what was run is to be handed over before more is.
    fn is_batch_large(&self) -> bool;
    /// A batch of calls was run.
    fn end_batch(&mut self, machine: &mut Machine);
}

/// Runs one shard until it is told to stop.
pub(crate) struct Shard<C> {
    machine: Machine,
    commit: C,
    /// What the keyspace takes of the store's memory.
    portion: Portion,
    counters: Arc<Counters>,
    stop: Arc<Stop>,
    post: Arc<Post>,
    /// Keys of the partitions that were called, which are few.
    keys: HashMap<Partition, String, Seeded>,
}

impl<C: Commit> Shard<C> {
    pub(crate) fn new(
        machine: Machine,
        commit: C,
        portion: Portion,
        counters: Arc<Counters>,
        stop: Arc<Stop>,
        post: Arc<Post>,
    ) -> Self {
        Self { machine, commit, portion, counters, stop, post, keys: HashMap::default() }
    }

    pub(crate) fn run(mut self, jobs: &mpsc::Receiver<Job>) {
        while let Ok(first) = jobs.recv() {
            let rest = std::iter::from_fn(|| jobs.try_recv().ok()).take(BATCH_MAX - 1);
            let mut going_on = true;
            for job in std::iter::once(first).chain(rest) {
                going_on &= self.handle(job);
                if self.commit.is_batch_large() {
                    self.commit.end_batch(&mut self.machine);
                }
            }
            self.commit.end_batch(&mut self.machine);
            if !going_on {
                break;
            }
        }
        jobs.try_iter().for_each(refuse);
    }

    /// False if this was the last job.
    fn handle(&mut self, job: Job) -> bool {
        match job {
            Job::Call { caller, .. } if caller.is_gone() => {}
            Job::Call { function, partition, args, caller } => {
                self.call(function, partition, &args, caller);
            }
            Job::Dump(reply) => self.dump(reply),
            Job::Settle(caller) => self.settle(caller),
            Job::Stop => return false,
        }
        true
    }

    fn dump(&mut self, reply: oneshot::Sender<Dump>) {
        // What a call that failed left in the keyspace is not to be seen.
        if self.stop.reason().is_none() {
            let mut dump = Dump::new();
            self.machine.session().keyspace.dump_into(&mut dump);
            let _ = reply.send(dump);
        }
    }

    fn settle(&mut self, caller: Caller) {
        let (outcome, partition) = (Ok(Value::Nil), Partition::flow(0));
        let answer = Answer { caller, outcome, wrote: false, partition, wakes: Vec::new() };
        self.commit.answer(&mut self.machine, answer);
    }

    fn call(&mut self, function: Function, partition: Partition, args: &Args, caller: Caller) {
        let loaded = match self.admit(function, args) {
            Ok(loaded) => loaded,
            Err(error) => return caller.tell(Err(error)),
        };
        stats::add(&self.counters.calls, 1);
        self.post.begin(function.wire_name, partition);
        let key = self.keys.entry(partition).or_insert_with(|| partition.key());
        let result = self.machine.call(loaded, partition, key.as_bytes(), args);
        self.post.rest();
        let outcome = result.map_err(|error| self.failed(function, partition, error));
        let session = self.machine.session();
        self.portion.count(session.keyspace.bytes());
        let effects = &mut session.effects;
        let wrote = effects.finish();
        let wakes = effects.take_wakes();
        let answer = Answer { caller, outcome, wrote, partition, wakes };
        self.commit.answer(&mut self.machine, answer);
    }

    /// Drops what a call that failed had done, of which nobody is told. If that changed the
    /// keyspace, the store stops: the journal, which has nothing of it, is the way back.
    fn failed(
        &mut self,
        function: Function,
        partition: Partition,
        error: FunctionError,
    ) -> BackendError {
        let effects = &mut self.machine.session().effects;
        let halfway = effects.has_begun() || error == FunctionError::CommandPanicked;
        effects.abandon();
        let error = errors::function_failed(function.wire_name, error);
        if !halfway {
            return error;
        }
        let reason =
            format!("a call failed on {partition} after its first write: {}", error.message);
        let error = errors::stopped(&reason);
        self.stop.because(reason);
        error
    }

    fn admit(&mut self, function: Function, args: &Args) -> Result<LoadedFunction, BackendError> {
        if let Some(reason) = self.stop.reason() {
            return Err(errors::stopped(reason));
        }
        let loaded = self
            .machine
            .function(function.wire_name)
            .ok_or_else(|| errors::unknown_function(function.wire_name))?;
        if function.read_only && !loaded.read_only {
            return Err(errors::not_read_only(function.wire_name));
        }
        if self.portion.is_full() && !loaded.read_only && !loaded.allowed_when_full {
            return Err(errors::store_full());
        }
        self.commit.admits(loaded.read_only, args.byte_len())?;
        Ok(loaded)
    }
}

/// Answers a job that came too late.
fn refuse(job: Job) {
    if let Job::Call { caller, .. } | Job::Settle(caller) = job {
        caller.tell(Err(errors::closed()));
    }
}

/// Answers as soon as a batch was run: there is no journal. Not earlier, because waking a caller
/// costs more than a call, unless many are woken together.
pub(crate) struct CommitToMemory {
    pub(crate) hub: Arc<WakeHub>,
    pub(crate) answers: Vec<Answer>,
}

impl Commit for CommitToMemory {
    fn admits(&mut self, _read_only: bool, _argument_bytes: usize) -> Result<(), BackendError> {
        Ok(())
    }

    fn is_batch_large(&self) -> bool {
        false
    }

    fn answer(&mut self, _machine: &mut Machine, answer: Answer) {
        self.answers.push(answer);
    }

    fn end_batch(&mut self, _machine: &mut Machine) {
        self.answers.drain(..).for_each(|answer| answer.deliver(&self.hub));
    }
}
