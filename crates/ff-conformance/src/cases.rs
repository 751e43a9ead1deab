//! Tests that are written once and run on every host.

use std::pin::Pin;

use crate::deployment::Deployment;

/// What a test returns when it is started.
pub type Running<'a> = Pin<Box<dyn Future<Output = ()> + 'a>>;

/// One test.
#[derive(Clone, Copy)]
pub struct Case {
    /// The file it is in.
    pub file: &'static str,
    /// What it claims.
    pub name: &'static str,
    /// Starts it on a deployment.
    pub run: for<'a> fn(&'a Deployment) -> Running<'a>,
}

/// Declares the tests of a file, as `async fn claim(d: &Deployment) { … }`, and lists them in
/// `CASES`.
#[macro_export]
macro_rules! conformance {
    ($($(#[$doc:meta])* async fn $name:ident($d:ident: &Deployment) $body:block)*) => {
        /// The tests of this file.
        pub(crate) const CASES: &[$crate::Case] = &[$({
            $(#[$doc])*
            async fn $name($d: &$crate::Deployment) $body
            fn start(deployment: &$crate::Deployment) -> $crate::Running<'_> {
                Box::pin($name(deployment))
            }
            $crate::Case { file: module_path!(), name: stringify!($name), run: start }
        }),*];
    };
}
