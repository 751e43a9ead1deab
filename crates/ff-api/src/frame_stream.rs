//! A task's output, written as one long request.

use ff_core::contracts::AppendFrameOutcome;
use ff_core::operation::{Nothing, Operation};

/// Appends frames to the output of a task's attempt as they arrive: one JSON object a line, each a
/// [`crate::frames::NewFrame`].
#[derive(Clone, Copy, Debug)]
pub struct WriteFrames;

impl Operation for WriteFrames {
    type Target = Nothing;
    type Request = Nothing;
    type Reply = AppendFrameOutcome;

    const PATH: &'static str = "/v1/tasks/frames/stream";
    const NAME: &'static str = "writeTaskFrames";
    const SUMMARY: &'static str = "Appends frames to a task's output as they arrive.";
    const ANSWERS: &'static str = "The body has ended, and all of its frames are there.";
    const ABOUT: &'static str = "The body is a line of JSON for each frame, as appendTaskFrames \
        takes them, for as long as there are any; an empty line keeps a silent connection alive. \
        Lines that arrive together are appended together, and nothing more is read until they \
        are there. The answer counts the last frame. After a broken connection, the frames from \
        any earlier number on are sent again: those that are there are not added twice.";
    const REFUSES: &'static [u16] = &[404, 409, 413, 415];
}
