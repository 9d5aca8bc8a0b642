//! What is going to happen, in the order in which it will.

use ferroce_core::Nanos;
use std::cmp::{Ordering, Reverse};
use std::collections::BinaryHeap;

/// Events by their time. Those of one moment happen in the order in which they were planned.
#[derive(Debug)]
pub(crate) struct Agenda<E> {
    heap: BinaryHeap<Reverse<Entry<E>>>,
    planned: u64,
}

#[derive(Debug)]
struct Entry<E> {
    at: Nanos,
    number: u64,
    event: E,
}

impl<E> Agenda<E> {
    pub(crate) fn new() -> Self {
        Agenda { heap: BinaryHeap::new(), planned: 0 }
    }

    /// Plans `event` for the moment `at`.
    pub(crate) fn plan(&mut self, at: Nanos, event: E) {
        self.planned += 1;
        self.heap.push(Reverse(Entry { at, number: self.planned, event }));
    }

    /// When the next event is due.
    pub(crate) fn next(&self) -> Option<Nanos> {
        self.heap.peek().map(|Reverse(entry)| entry.at)
    }

    /// Takes the next event out, if it is due by `until`.
    pub(crate) fn pop(&mut self, until: Nanos) -> Option<(Nanos, E)> {
        if self.next()? > until {
            return None;
        }
        self.heap.pop().map(|Reverse(entry)| (entry.at, entry.event))
    }
}

impl<E> Entry<E> {
    fn key(&self) -> (Nanos, u64) {
        (self.at, self.number)
    }
}

impl<E> PartialEq for Entry<E> {
    fn eq(&self, other: &Self) -> bool {
        self.key() == other.key()
    }
}

impl<E> Eq for Entry<E> {}

impl<E> PartialOrd for Entry<E> {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl<E> Ord for Entry<E> {
    fn cmp(&self, other: &Self) -> Ordering {
        self.key().cmp(&other.key())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_moment_keeps_the_order_of_planning() {
        let mut agenda = Agenda::new();
        for (at, name) in [(5, 'c'), (3, 'a'), (5, 'd'), (3, 'b'), (9, 'e')] {
            agenda.plan(at, name);
        }
        assert_eq!(agenda.next(), Some(3));
        let order: String = std::iter::from_fn(|| agenda.pop(5)).map(|(_, name)| name).collect();
        assert_eq!(order, "abcd");
        assert_eq!(agenda.pop(8), None);
        assert_eq!(agenda.pop(9), Some((9, 'e')));
        assert_eq!(agenda.next(), None);
    }
}
