//! The seeds of random tests. Every random test takes its seeds from here, says which ones it plays
//! and prints the line that plays one of them again:
//!
//! ```text
//! seed 4711, to replay: FF_SEED=4711 FF_SEEDS=1 cargo test -p ff-some --test crash -- --exact lost
//! ```
//!
//! `FF_SEED` is the first seed, `FF_SEEDS` how many are played, `FF_STEPS` how long each is played
//! in tests that can tell. What is not given is what the test says.

use std::hash::{BuildHasher, Hasher, RandomState};
use std::ops::Range;

/// The random test that this is written in: `random_test!()`.
#[macro_export]
macro_rules! random_test {
    () => {{
        fn here() {}
        $crate::RandomTest::new(
            env!("CARGO_PKG_NAME"),
            env!("CARGO_CRATE_NAME"),
            ::std::any::type_name_of_val(&here),
        )
    }};
}

/// A random test: where it is, and which seeds it plays.
#[derive(Clone, Debug)]
pub struct RandomTest {
    /// What `cargo test` needs to find it.
    arguments: String,
    given: Given,
}

/// What the environment says.
#[derive(Clone, Debug, Default)]
struct Given {
    seed: Option<u64>,
    seeds: Option<u64>,
    steps: Option<u64>,
}

impl Given {
    fn read(variable: impl Fn(&str) -> Option<String>) -> Self {
        let number = |name: &str| {
            let text = variable(name)?;
            Some(text.parse().unwrap_or_else(|_| panic!("{name} must be a number, not {text:?}")))
        };
        Self { seed: number("FF_SEED"), seeds: number("FF_SEEDS"), steps: number("FF_STEPS") }
    }
}

impl RandomTest {
    /// For [`random_test!`]: the package, the crate, and the path of a function inside the test.
    pub fn new(package: &str, crate_name: &str, path: &str) -> Self {
        let given = Given::read(|name| std::env::var(name).ok());
        Self { arguments: arguments(package, crate_name, path), given }
    }

    /// One seed: the given one, or one that nobody played before. Prints how to play it again.
    pub fn seed(&self) -> u64 {
        let seed = self.given.seed.unwrap_or_else(fresh);
        println!("{}", self.replay(seed));
        seed
    }

    /// The seeds to play: the given ones, or these.
    pub fn seeds(&self, otherwise: Range<u64>) -> Range<u64> {
        let first = self.given.seed.unwrap_or(otherwise.start);
        let count = self.given.seeds.unwrap_or(otherwise.end - otherwise.start);
        let seeds = first..first.saturating_add(count);
        println!("seeds {} to {}", seeds.start, seeds.end.saturating_sub(1));
        seeds
    }

    /// How many steps to play of each seed: the given number, or this.
    pub fn steps(&self, otherwise: u64) -> u64 {
        self.given.steps.unwrap_or(otherwise)
    }

    /// The line that plays a seed again.
    pub fn replay(&self, seed: u64) -> String {
        let steps = self.given.steps.map(|steps| format!(" FF_STEPS={steps}")).unwrap_or_default();
        let arguments = &self.arguments;
        format!("seed {seed}, to replay: FF_SEED={seed} FF_SEEDS=1{steps} cargo test {arguments}")
    }
}

/// `-p package`, the target, and the test's own name. A crate that is no target of its own name is
/// the library.
fn arguments(package: &str, crate_name: &str, path: &str) -> String {
    let name = path.strip_suffix("::here").unwrap_or(path).replace("::{{closure}}", "");
    let name = name.strip_prefix(crate_name).unwrap_or(&name).trim_start_matches("::");
    let target = match crate_name == package.replace('-', "_") {
        true => "--lib".to_owned(),
        false => format!("--test {crate_name}"),
    };
    format!("-p {package} {target} -- --exact {name}")
}

/// The standard library's hash keys are random, which is all that a seed needs to be. Short ones
/// are easier to copy.
fn fresh() -> u64 {
    RandomState::new().build_hasher().finish() % 1_000_000_000
}

#[cfg(test)]
mod tests {
    use super::*;

    fn given(pairs: &[(&str, &str)]) -> RandomTest {
        let variable = |name: &str| {
            let pair = pairs.iter().find(|(other, _)| *other == name);
            pair.map(|(_, value)| (*value).to_owned())
        };
        RandomTest { given: Given::read(variable), ..random_test!() }
    }

    #[test]
    fn the_line_names_this_very_test() {
        let line = given(&[]).replay(7);
        assert_eq!(
            line,
            "seed 7, to replay: FF_SEED=7 FF_SEEDS=1 cargo test -p ff-test-seed --lib -- \
             --exact tests::given"
        );
        let elsewhere = arguments("ff-a", "crash", "crash::lost::{{closure}}::here");
        assert_eq!(elsewhere, "-p ff-a --test crash -- --exact lost");
    }

    #[test]
    fn what_is_given_is_played() {
        let all = given(&[("FF_SEED", "40"), ("FF_SEEDS", "2"), ("FF_STEPS", "9")]);
        assert_eq!((all.seed(), all.seeds(1..100), all.steps(60)), (40, 40..42, 9));
        assert!(all.replay(41).contains("FF_SEED=41 FF_SEEDS=1 FF_STEPS=9 cargo"));
        assert_eq!(given(&[("FF_SEED", "40")]).seeds(1..100), 40..139);
        assert_eq!(given(&[]).seeds(1..100), 1..100);
        assert_eq!(given(&[]).steps(60), 60);
    }

    #[test]
    #[should_panic(expected = "FF_SEED must be a number")]
    fn what_is_no_number_is_told() {
        given(&[("FF_SEED", "four")]);
    }

    #[test]
    fn fresh_seeds_differ() {
        assert_ne!((fresh(), fresh()), (fresh(), fresh()));
    }
}
