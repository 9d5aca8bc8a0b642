//! A line of a script, word by word.

use super::number::parse_number;
use thiserror::Error;

/// What is wrong with a script.
#[derive(Clone, PartialEq, Eq, Debug, Error)]
#[error("{script}.wire, line {line}: {reason}")]
pub struct ScriptError {
    /// The script's name.
    pub script: String,
    /// The line, from 1.
    pub line: usize,
    /// What is wrong.
    pub reason: String,
}

/// The words of a line, each taken once.
#[derive(Clone, Debug)]
pub(super) struct Words<'a> {
    /// Words without `=`, in their order.
    bare: Vec<&'a str>,
    /// Words `key=value`.
    pairs: Vec<(&'a str, &'a str)>,
}

/// Why a line is not understood.
pub(super) type Reason = String;

impl<'a> Words<'a> {
    pub(super) fn new(line: &'a str) -> Words<'a> {
        let (mut bare, mut pairs) = (Vec::new(), Vec::new());
        for word in line.split_whitespace() {
            match word.split_once('=') {
                Some(pair) => pairs.push(pair),
                None => bare.push(word),
            }
        }
        Words { bare, pairs }
    }

    /// The next bare word.
    pub(super) fn next(&mut self, what: &str) -> Result<&'a str, Reason> {
        if self.bare.is_empty() { Err(format!("{what} is missing")) } else { Ok(self.bare.remove(0)) }
    }

    /// The next bare word as a number.
    pub(super) fn next_number(&mut self, what: &str) -> Result<u64, Reason> {
        parse_number(self.next(what)?)
    }

    /// Whether `word` is among the bare ones.
    pub(super) fn flag(&mut self, word: &str) -> bool {
        let found = self.bare.iter().position(|bare| *bare == word);
        found.map(|at| self.bare.remove(at)).is_some()
    }

    /// `Some(true)` for `word`, `Some(false)` for `!word`.
    pub(super) fn tri(&mut self, word: &str) -> Option<bool> {
        if self.flag(word) {
            return Some(true);
        }
        self.flag(&format!("!{word}")).then_some(false)
    }

    /// The value of `key`.
    pub(super) fn value(&mut self, key: &str) -> Option<&'a str> {
        let found = self.pairs.iter().position(|(own, _)| *own == key);
        found.map(|at| self.pairs.remove(at).1)
    }

    /// The value of `key` as something else.
    pub(super) fn parsed<T>(
        &mut self,
        key: &str,
        parse: impl FnOnce(&str) -> Result<T, Reason>,
    ) -> Result<Option<T>, Reason> {
        let parsed = self.value(key).map(parse).transpose();
        parsed.map_err(|reason| format!("{key}: {reason}"))
    }

    /// The value of `key` as a number of that width.
    pub(super) fn number<T: TryFrom<u64>>(&mut self, key: &str) -> Result<Option<T>, Reason> {
        self.parsed(key, |value| {
            T::try_from(parse_number(value)?).map_err(|_| format!("{value} is too large"))
        })
    }

    /// Nothing may be left.
    pub(super) fn end(self) -> Result<(), Reason> {
        let left = self.bare.into_iter().map(str::to_owned);
        let left = left.chain(self.pairs.into_iter().map(|(key, _)| format!("{key}=…")));
        let left: Vec<_> = left.collect();
        if left.is_empty() { Ok(()) } else { Err(format!("not understood: {}", left.join(", "))) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_taken_once() {
        let mut words = Words::new("recv 1 A !SE len=0x10 psn=-1");
        assert_eq!(words.next("a command"), Ok("recv"));
        assert_eq!(words.next_number("a number"), Ok(1));
        assert_eq!((words.tri("A"), words.tri("SE"), words.tri("M")), (Some(true), Some(false), None));
        assert_eq!(words.number::<u8>("len"), Ok(Some(16)));
        assert_eq!(words.number::<u8>("len"), Ok(None));
        assert_eq!(words.clone().end(), Err("not understood: psn=…".into()));
        assert_eq!(words.value("psn"), Some("-1"));
        assert_eq!(words.end(), Ok(()));
    }

    #[test]
    fn numbers_have_their_width() {
        let mut words = Words::new("a=256 b=x");
        assert!(words.number::<u8>("a").is_err() && words.number::<u8>("b").is_err());
    }
}
