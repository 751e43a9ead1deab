//! Reporting progress.

use crate::call::functions;

functions! {
    /// Records progress of the running attempt: a percentage, a message, or both. Empty leaves a
    /// value alone, `-` clears it.
    write ff_update_progress(UpdateProgress {
        held,
        progress_pct: String,
        progress_message: String,
    })
    -> UpdateProgressReply { "OK" => Recorded {} }
    refuses held [];
}
