//! Calls that come at the same moment: those that are alike enough are sent as one. Nobody waits
//! for others to come: what is under way is not waited for, and a single one is sent by itself.

use std::sync::{Mutex, MutexGuard, PoisonError};

/// How often those who are about to run go first, as long as some of them join.
const TURNS_MAX: usize = 8;

/// What is about to be sent: members, in groups of those whose keys are equal.
#[derive(Debug)]
pub struct Gathering<K, T> {
    groups: Mutex<Groups<K, T>>,
    members_max: usize,
}

#[derive(Debug)]
struct Groups<K, T> {
    begun: u64,
    waiting: Vec<Group<K, T>>,
}

#[derive(Debug)]
struct Group<K, T> {
    number: u64,
    key: K,
    members: Vec<T>,
}

/// A group that was begun: whoever begins one sends it.
#[derive(Debug)]
#[must_use = "nobody else sends it"]
pub struct Begun(u64);

impl<K: PartialEq, T> Gathering<K, T> {
    /// Groups of at most so many.
    pub fn new(members_max: usize) -> Self {
        Self { groups: Mutex::new(Groups { begun: 0, waiting: Vec::new() }), members_max }
    }

    /// Joins a group, or begins one.
    pub fn join(&self, key: K, member: T) -> Option<Begun> {
        let mut groups = self.lock();
        let has_room = |it: &&mut Group<K, T>| it.members.len() < self.members_max && it.key == key;
        if let Some(group) = groups.waiting.iter_mut().find(has_room) {
            group.members.push(member);
            return None;
        }
        groups.begun += 1;
        let number = groups.begun;
        groups.waiting.push(Group { number, key, members: vec![member] });
        Some(Begun(number))
    }

    /// The members of a group, when all who are about to run have joined it: those who come while
    /// others go first.
    pub async fn gather(&self, begun: Begun) -> Option<(K, Vec<T>)> {
        let mut known = 0;
        for _ in 0..TURNS_MAX {
            tokio::task::yield_now().await;
            let count = self.count(&begun);
            if count == known || count == self.members_max {
                break;
            }
            known = count;
        }
        self.take(begun)
    }

    fn count(&self, begun: &Begun) -> usize {
        let groups = self.lock();
        let group = groups.waiting.iter().find(|group| group.number == begun.0);
        group.map_or(0, |group| group.members.len())
    }

    fn take(&self, Begun(number): Begun) -> Option<(K, Vec<T>)> {
        let mut groups = self.lock();
        let at = groups.waiting.iter().position(|group| group.number == number)?;
        let group = groups.waiting.swap_remove(at);
        Some((group.key, group.members))
    }

    fn lock(&self) -> MutexGuard<'_, Groups<K, T>> {
        self.groups.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn those_that_are_alike_are_gathered_until_there_are_enough() {
        let gathering = Gathering::new(2);
        let odd = gathering.join("odd", 1).expect("the first one begins");
        let even = gathering.join("even", 2).expect("it is of another kind");
        assert!(gathering.join("odd", 3).is_none());
        let full = gathering.join("odd", 5).expect("the group before is full");
        assert_eq!(gathering.gather(odd).await, Some(("odd", vec![1, 3])));
        assert_eq!(gathering.gather(even).await, Some(("even", vec![2])));
        assert_eq!(gathering.gather(full).await, Some(("odd", vec![5])));
        let next = gathering.join("odd", 7).expect("the others are on their way");
        assert_eq!(gathering.gather(next).await, Some(("odd", vec![7])));
    }

    #[tokio::test]
    async fn whoever_is_about_to_run_is_waited_for_and_nobody_else() {
        let gathering = std::sync::Arc::new(Gathering::new(8));
        let tasks: Vec<_> = (0..4)
            .map(|number| {
                let gathering = std::sync::Arc::clone(&gathering);
                tokio::spawn(async move {
                    let begun = gathering.join((), number)?;
                    gathering.gather(begun).await
                })
            })
            .collect();
        let mut gathered = Vec::new();
        for task in tasks {
            gathered.extend(task.await.expect("no panic"));
        }
        assert_eq!(gathered, [((), vec![0, 1, 2, 3])]);
    }
}
