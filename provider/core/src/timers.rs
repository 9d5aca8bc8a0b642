//! A queue of deadlines, made for timers that nearly always move before they run out.
//!
//! Every acknowledgement pushes its QP's retransmission timer forward, so that must cost nothing. The true
//! deadline is kept in a map by key. The priority queue holds an entry at or before it: pushing a deadline
//! forward or clearing it changes the map alone, and the entry, when its time comes, is put back at the true
//! deadline or thrown away. The price is that [`Deadlines::next`] may name a moment at which nothing is due.

use crate::Nanos;
use std::cmp::Reverse;
use std::collections::hash_map::Entry;
use std::collections::{BinaryHeap, HashMap};
use std::hash::{BuildHasherDefault, DefaultHasher, Hash};

/// Deadlines by key, at most one for each.
///
/// Moving a deadline forward and clearing it are O(1) and add nothing to the queue; setting it anew or moving
/// it back is O(log n). Memory follows the number of deadlines set, not how often they were moved. Deadlines
/// that are equal come due in the order of their keys, so the same calls give the same answers.
#[derive(Clone, Debug)]
pub struct Deadlines<K> {
    /// Hashed without a random seed; its order shows nowhere.
    timers: HashMap<K, Timer, BuildHasherDefault<DefaultHasher>>,
    queue: BinaryHeap<Reverse<(Nanos, K)>>,
    /// Timers that have a deadline.
    live: usize,
}

#[derive(Clone, Copy, Debug)]
struct Timer {
    /// `None` once cleared; the timer stays while its entry does, so that setting it again is cheap.
    deadline: Option<Nanos>,
    /// Where its entry stands in the queue. Entries of the same key elsewhere are void.
    queued: Nanos,
}

/// Void entries tolerated beyond one for each live timer before the queue is rebuilt.
const VOID_ENTRIES: usize = 16;

impl<K: Copy + Eq + Ord + Hash> Deadlines<K> {
    /// No deadlines.
    pub fn new() -> Self {
        Deadlines { timers: HashMap::default(), queue: BinaryHeap::new(), live: 0 }
    }

    /// Sets or moves the deadline of `key` to the moment `at`.
    pub fn set(&mut self, key: K, at: Nanos) {
        match self.timers.entry(key) {
            Entry::Vacant(vacant) => {
                vacant.insert(Timer { deadline: Some(at), queued: at });
                self.live += 1;
            }
            Entry::Occupied(mut occupied) => {
                let timer = occupied.get_mut();
                self.live += usize::from(timer.deadline.is_none());
                timer.deadline = Some(at);
                if timer.queued <= at {
                    return;
                }
                timer.queued = at;
            }
        }
        self.queue.push(Reverse((at, key)));
        self.drop_void_entries();
    }

    /// Takes the deadline of `key` away, if it has one.
    pub fn clear(&mut self, key: K) {
        let Some(timer) = self.timers.get_mut(&key) else { return };
        if timer.deadline.take().is_some() {
            self.live -= 1;
            self.drop_void_entries();
        }
    }

    /// The deadline of `key`.
    pub fn deadline(&self, key: K) -> Option<Nanos> {
        self.timers.get(&key)?.deadline
    }

    /// When to call [`Deadlines::pop_due`] next: never later than the earliest deadline, sometimes earlier.
    /// `None` when no deadline is set and none was cleared lately.
    pub fn next(&self) -> Option<Nanos> {
        self.queue.peek().map(|Reverse((at, _))| *at)
    }

    /// Takes out the earliest deadline that is not after `now`; its key. Call it until it gives `None`.
    pub fn pop_due(&mut self, now: Nanos) -> Option<K> {
        // Each round removes an entry or moves one forward to a deadline that will be final for this call.
        loop {
            let Reverse((at, key)) = *self.queue.peek()?;
            if at > now {
                return None;
            }
            self.queue.pop();
            let Entry::Occupied(mut occupied) = self.timers.entry(key) else { continue };
            if occupied.get().queued != at {
                continue;
            }
            match occupied.get().deadline {
                Some(deadline) if deadline > at => {
                    occupied.get_mut().queued = deadline;
                    self.queue.push(Reverse((deadline, key)));
                }
                Some(_) => {
                    occupied.remove();
                    self.live -= 1;
                    return Some(key);
                }
                None => {
                    occupied.remove();
                }
            }
        }
    }

    /// Rebuilds the queue from the map once void entries outnumber the live ones. That many sets and clears
    /// went before, so it costs each of them O(1).
    fn drop_void_entries(&mut self) {
        if self.queue.len() <= 2 * self.live + VOID_ENTRIES {
            return;
        }
        self.timers.retain(|_, timer| timer.deadline.is_some());
        self.queue.clear();
        for (key, timer) in &mut self.timers {
            if let Some(deadline) = timer.deadline {
                timer.queued = deadline;
                self.queue.push(Reverse((deadline, *key)));
            }
        }
        self.queue.shrink_to(2 * (2 * self.live + VOID_ENTRIES));
        self.timers.shrink_to(2 * (2 * self.live + VOID_ENTRIES));
    }
}

impl<K: Copy + Eq + Ord + Hash> Default for Deadlines<K> {
    fn default() -> Self {
        Self::new()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    #[test]
    fn pushing_forward_adds_no_entries() {
        let mut deadlines = Deadlines::new();
        for now in 0..1_000_000u64 {
            deadlines.set(7u32, now + 1000);
        }
        assert_eq!(deadlines.queue.len(), 1);
        assert_eq!(deadlines.pop_due(1_000_998), None);
        assert_eq!(deadlines.next(), Some(1_000_999));
        assert_eq!(deadlines.pop_due(1_000_999), Some(7));
        assert_eq!(deadlines.next(), None);
    }

    #[test]
    fn clearing_and_setting_again_adds_no_entries() {
        let mut deadlines = Deadlines::new();
        for now in 0..10_000u64 {
            deadlines.set(7u32, now + 100_000);
            deadlines.clear(7);
        }
        assert!(deadlines.queue.len() <= 1);
        assert_eq!(deadlines.pop_due(u64::MAX), None);
        assert_eq!(deadlines.next(), None);
    }

    #[test]
    fn memory_follows_the_live_deadlines() {
        let mut deadlines = Deadlines::new();
        for at in (0..100_000u64).rev() {
            deadlines.set(1u32, at);
        }
        assert!(deadlines.queue.len() <= 2 + VOID_ENTRIES, "moved back: {}", deadlines.queue.len());
        for key in 0..10_000u32 {
            deadlines.set(key, 1_000_000);
        }
        for key in 0..10_000u32 {
            deadlines.clear(key);
        }
        assert!(deadlines.queue.len() <= VOID_ENTRIES, "cleared: {}", deadlines.queue.len());
        assert!(deadlines.timers.len() <= VOID_ENTRIES && deadlines.timers.capacity() < 1000);
    }

    #[test]
    fn equal_deadlines_come_in_key_order() {
        let mut deadlines = Deadlines::new();
        for key in [5u32, 1, 9, 3] {
            deadlines.set(key, 10 + u64::from(key));
            deadlines.set(key, 50);
        }
        let order: Vec<_> = std::iter::from_fn(|| deadlines.pop_due(50)).collect();
        assert_eq!(order, [1, 3, 5, 9]);
    }

    #[derive(Clone, Copy, Debug)]
    enum Step {
        Set(u8, u64),
        Clear(u8),
        Advance(u64),
    }

    fn step() -> impl Strategy<Value = Step> {
        prop_oneof![
            4 => (0..12u8, 0..60u64).prop_map(|(key, after)| Step::Set(key, after)),
            2 => (0..12u8).prop_map(Step::Clear),
            2 => (0..25u64).prop_map(Step::Advance),
        ]
    }

    proptest! {
        #[test]
        fn behaves_as_a_plain_map(steps in prop::collection::vec(step(), 0..400)) {
            let mut deadlines = Deadlines::new();
            let mut model: BTreeMap<u8, u64> = BTreeMap::new();
            let mut now = 0;
            for step in steps {
                match step {
                    Step::Set(key, after) => {
                        deadlines.set(key, now + after);
                        model.insert(key, now + after);
                    }
                    Step::Clear(key) => {
                        deadlines.clear(key);
                        model.remove(&key);
                    }
                    Step::Advance(by) => {
                        now += by;
                        let mut due: Vec<_> = model.iter().map(|(k, at)| (*at, *k)).collect();
                        due.retain(|(at, _)| *at <= now);
                        due.sort_unstable();
                        for (_, key) in due {
                            prop_assert_eq!(deadlines.pop_due(now), Some(key));
                            model.remove(&key);
                        }
                        prop_assert_eq!(deadlines.pop_due(now), None);
                    }
                }
                for key in 0..12 {
                    prop_assert_eq!(deadlines.deadline(key), model.get(&key).copied());
                }
                if let Some(first) = model.values().min() {
                    prop_assert!(deadlines.next().is_some_and(|next| next <= *first));
                }
                prop_assert_eq!(deadlines.live, model.len());
                prop_assert!(deadlines.queue.len() <= 2 * model.len() + VOID_ENTRIES + 12);
            }
        }
    }
}
