//! Random numbers that are the same in every run.

use uuid::Uuid;

/// A generator (splitmix64): small, fast, and every seed is a good one.
#[derive(Clone, Debug)]
pub struct Dice(u64);

impl Dice {
    /// The generator of a seed.
    pub fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// The next number.
    pub fn roll(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// A number below a bound.
    pub fn below(&mut self, bound: u64) -> u64 {
        self.roll() % bound.max(1)
    }

    /// True this many times in a hundred.
    pub fn chance(&mut self, percent: u64) -> bool {
        self.below(100) < percent
    }

    /// One of these, all equally likely.
    pub fn pick<'a, T>(&mut self, from: &'a [T]) -> &'a T {
        &from[self.below(from.len() as u64) as usize]
    }

    /// One of these, most often one of the last; nothing if there is none. Counting from the end
    /// keeps a choice the same when something was left out before.
    pub fn recent<'a, T>(&mut self, from: &'a [T]) -> Option<&'a T> {
        if from.is_empty() {
            return None;
        }
        let back = if self.chance(60) { self.below(3) } else { self.roll() };
        from.get(from.len() - 1 - back as usize % from.len())
    }

    /// Most often one that fits, otherwise any: what is sure to be refused teaches little.
    pub fn likely<'a, T>(&mut self, from: &'a [T], fits: impl Fn(&T) -> bool) -> Option<&'a T> {
        let fitting: Vec<&T> = from.iter().filter(|item| fits(item)).collect();
        match fitting.is_empty() || self.chance(25) {
            true => self.recent(from),
            false => Some(*self.pick(&fitting)),
        }
    }

    /// Some of the time, a value.
    pub fn sometimes<T>(&mut self, percent: u64, make: impl FnOnce(&mut Self) -> T) -> Option<T> {
        self.chance(percent).then(|| make(self))
    }

    /// A uuid.
    pub fn uuid(&mut self) -> Uuid {
        Uuid::from_u64_pair(self.roll(), self.roll())
    }
}
