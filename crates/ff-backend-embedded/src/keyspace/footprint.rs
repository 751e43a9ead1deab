//! How much memory values take, counted while they change: the store's limit is compared with it
//! after every call, so asking must cost next to nothing.

use std::ops::{Deref, DerefMut};

use super::Kind;

/// What an allocation of so many bytes takes: with its header, in steps of 16, as the allocators of
/// most systems hand it out.
pub(crate) const fn allocated(bytes: usize) -> usize {
    const HEADER: usize = 8;
    const STEP: usize = 16;
    const LEAST: usize = 32;
    if bytes == 0 {
        return 0;
    }
    let taken = (bytes + HEADER).next_multiple_of(STEP);
    if taken < LEAST { LEAST } else { taken }
}

/// A value that is being changed. What it takes is counted again when it is let go.
pub(crate) struct Changing<'a, T: Kind> {
    value: &'a mut T,
    before: usize,
    held: &'a mut usize,
}

impl<'a, T: Kind> Changing<'a, T> {
    /// `held` counts what this value takes, among others.
    pub(super) fn new(value: &'a mut T, held: &'a mut usize) -> Self {
        let before = value.footprint();
        Self { value, before, held }
    }
}

impl<T: Kind> Deref for Changing<'_, T> {
    type Target = T;

    fn deref(&self) -> &T {
        self.value
    }
}

impl<T: Kind> DerefMut for Changing<'_, T> {
    fn deref_mut(&mut self) -> &mut T {
        self.value
    }
}

impl<T: Kind> Drop for Changing<'_, T> {
    fn drop(&mut self) {
        *self.held = *self.held + self.value.footprint() - self.before;
    }
}
