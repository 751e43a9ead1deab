//! The files by which a program waits for signals and finds them, and its inputs.

use std::fs::{self, DirBuilder, File};
use std::io::{Read, Write};
use std::os::unix::fs::DirBuilderExt;
use std::path::PathBuf;

use ff_core::limits;
use ff_core::operation::encode;
use ff_script::ids::{IdSource, SystemIds};
use ff_sdk::{Context, ResumeSignal, ResumedBy, SuspendRequest, TaskError};
use serde::Serialize;

use super::Job;

/// More than the largest suspension that the engine takes.
const SUSPENSION_BYTES_MAX: u64 = 4 * limits::WAIT_DETAILS_BYTES_MAX;

/// A directory of one run of the program, gone after it.
pub(super) struct Files {
    directory: PathBuf,
    resumed_by: Option<ResumedBy>,
}

/// A signal as a line: its payload also as text, if it is some.
#[derive(Serialize)]
struct Line<'a> {
    #[serde(flatten)]
    signal: &'a ResumeSignal,
    #[serde(skip_serializing_if = "Option::is_none")]
    payload_text: Option<&'a str>,
}

impl Files {
    /// Puts the signals where the program finds them.
    pub(super) async fn new(context: &Context<Job>) -> Result<Self, TaskError> {
        let signals = context.resume_signals().await?;
        let name = format!("flowfabric-{}", SystemIds.random());
        let files =
            Self { directory: std::env::temp_dir().join(name), resumed_by: context.resumed_by() };
        // Signals are nobody else's business.
        DirBuilder::new().mode(0o700).create(&files.directory)?;
        let mut file = File::create(files.signals())?;
        for signal in &signals {
            let payload = signal.payload.as_deref();
            let payload_text = payload.and_then(|bytes| std::str::from_utf8(bytes).ok());
            let line = serde_json::to_string(&Line { signal, payload_text })?;
            writeln!(file, "{line}")?;
        }
        files.put_inputs(context).await?;
        Ok(files)
    }

    /// Puts what upstreams of the flow pass into files of the inputs' names, percent-encoded as in
    /// a path.
    async fn put_inputs(&self, context: &Context<Job>) -> Result<(), TaskError> {
        DirBuilder::new().mode(0o700).create(self.inputs())?;
        for input in context.inputs() {
            let bytes = context.input_raw(&input.name).await?.unwrap_or_default();
            fs::write(self.inputs().join(encode(&input.name)), bytes)?;
        }
        Ok(())
    }

    fn inputs(&self) -> PathBuf {
        self.directory.join("inputs")
    }

    fn signals(&self) -> PathBuf {
        self.directory.join("signals")
    }

    fn suspend(&self) -> PathBuf {
        self.directory.join("suspend")
    }

    /// What tells the program about them.
    pub(super) fn variables(&self) -> Vec<(&'static str, PathBuf)> {
        let by = self.resumed_by.map(|by| ("FLOWFABRIC_RESUMED_BY", by.as_str().into()));
        let files = [
            ("FLOWFABRIC_SIGNALS", self.signals()),
            ("FLOWFABRIC_SUSPEND", self.suspend()),
            ("FLOWFABRIC_INPUTS", self.inputs()),
        ];
        files.into_iter().chain(by).collect()
    }

    /// What the program wants to wait for; none if it did not say.
    pub(super) fn suspension(&self) -> Option<TaskError> {
        let file = File::open(self.suspend()).ok()?;
        let mut json = Vec::new();
        let read = file.take(SUSPENSION_BYTES_MAX).read_to_end(&mut json);
        let wrong = |error: String| TaskError::fail(format!("FLOWFABRIC_SUSPEND: {error}"));
        if let Err(error) = read {
            return Some(wrong(error.to_string()));
        }
        let request = serde_json::from_slice::<SuspendRequest>(&json);
        Some(request.map_or_else(|error| wrong(error.to_string()), TaskError::suspend))
    }
}

impl Drop for Files {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.directory);
    }
}
