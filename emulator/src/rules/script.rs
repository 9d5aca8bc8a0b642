//! Rules as data: a TOML file with one `[[rule]]` for each.

use super::{Action, Address, Kind, Rule, Seen};
use crate::chance::Chance;
use ferroce_core::Nanos;
use ferroce_wire::Opcode;
use serde::{Deserialize, Serialize};
use thiserror::Error;

/// A list of rules.
///
/// ```
/// use ferroce_emulator::rules::Script;
///
/// let script = Script::from_toml(r#"
///     ## The third packet of the first connection is lost, and its first repetition too.
///     [[rule]]
///     to = "b"
///     qpn = 1
///     psn = 2
///     times = 2
///     action = "drop"
///
///     ## Each tenth acknowledgement on this link is late.
///     [[rule]]
///     link = "a-b"
///     opcode = "RC_ACKNOWLEDGE"
///     one_in = 10
///     action = { delay = { ns = 50_000 } }
/// "#)?;
/// assert_eq!(script.rule.len(), 2);
/// # Ok::<(), ferroce_emulator::rules::ScriptError>(())
/// ```
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Script {
    /// The rules, first things first.
    #[serde(default)]
    pub rule: Vec<ScriptRule>,
}

impl Script {
    /// Reads a script.
    ///
    /// # Errors
    /// The line that is wrong, and what is wrong with it.
    pub fn from_toml(text: &str) -> Result<Script, ScriptError> {
        toml::from_str(text).map_err(|error| ScriptError(error.to_string()))
    }

    /// Writes it as it is read.
    pub fn to_toml(&self) -> String {
        toml::to_string(self).expect("every field has a form in TOML")
    }
}

/// Why a text is no script.
#[derive(Clone, PartialEq, Eq, Debug, Error)]
#[error("the script is not right: {0}")]
pub struct ScriptError(String);

/// One rule: to which packets it applies, and what it does to them. It applies to those for which all that is given
/// holds.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ScriptRule {
    /// On this link. Without it, where a packet leaves its host.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub link: Option<String>,
    /// Sent by this host or switch.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub from: Option<String>,
    /// Received by this host or switch at the other end of the link.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub to: Option<String>,
    /// Of this opcode.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub opcode: Option<OpcodeName>,
    /// Requests, responses or CNPs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kind: Option<Kind>,
    /// To this relative QPN ([`Address::qpn`]).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub qpn: Option<u32>,
    /// With this relative PSN ([`Address::psn`]), or `[first, last]`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub psn: Option<PsnSpan>,
    /// The n-th time that this PSN passes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub nth: Option<u32>,
    /// From this moment on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub after_ns: Option<Nanos>,
    /// Before this moment.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub until_ns: Option<Nanos>,
    /// One in so many of them, by chance.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub one_in: Option<u64>,
    /// The first so many of them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub times: Option<u32>,
    /// What is done to them.
    pub action: Action,
}

/// A relative PSN, or a range of them.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(untagged)]
pub enum PsnSpan {
    /// One.
    One(i32),
    /// From the first to the last, both included.
    Range(i32, i32),
}

impl PsnSpan {
    fn holds(self, psn: i32) -> bool {
        match self {
            PsnSpan::One(one) => psn == one,
            PsnSpan::Range(first, last) => (first..=last).contains(&psn),
        }
    }
}

/// An opcode by its name, such as `RC_SEND_ONLY`.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct OpcodeName(pub Opcode);

impl TryFrom<String> for OpcodeName {
    type Error = String;

    fn try_from(name: String) -> Result<Self, String> {
        let found = Opcode::all().find(|opcode| opcode.name() == name).map(OpcodeName);
        found.ok_or(format!("no opcode is called {name:?}; names look like {}", Opcode::RC_SEND_ONLY))
    }
}

impl From<OpcodeName> for String {
    fn from(name: OpcodeName) -> String {
        name.0.name().into()
    }
}

impl ScriptRule {
    /// A rule for every packet, for the caller to narrow: `ScriptRule { psn: …, ..ScriptRule::new(Action::Drop) }`.
    pub fn new(action: Action) -> ScriptRule {
        ScriptRule {
            link: None,
            from: None,
            to: None,
            opcode: None,
            kind: None,
            qpn: None,
            psn: None,
            nth: None,
            after_ns: None,
            until_ns: None,
            one_in: None,
            times: None,
            action,
        }
    }

    /// Whether it applies to the packet, chance and number of times left out.
    fn applies(&self, seen: &Seen<'_>) -> bool {
        let here = match &self.link {
            Some(link) => link == seen.crossing.link,
            None => seen.crossing.is_first,
        };
        let is = |wanted: &Option<String>, name: &str| wanted.as_ref().is_none_or(|wanted| wanted == name);
        let is_opcode = |OpcodeName(wanted)| seen.packet.is_some_and(|packet| packet.opcode() == wanted);
        here && is(&self.from, seen.crossing.from)
            && is(&self.to, seen.crossing.to)
            && self.opcode.is_none_or(is_opcode)
            && self.is_at(seen.address)
            && self.after_ns.is_none_or(|after| seen.now >= after)
            && self.until_ns.is_none_or(|until| seen.now < until)
    }

    /// A frame that is no packet has no place, and is not selected by one.
    fn is_at(&self, address: Option<Address>) -> bool {
        let Some(address) = address else {
            return self.kind.is_none() && self.qpn.is_none() && self.psn.is_none() && self.nth.is_none();
        };
        self.kind.is_none_or(|kind| kind == address.kind)
            && self.qpn.is_none_or(|qpn| qpn == address.qpn)
            && self.psn.is_none_or(|span| span.holds(address.psn))
            && self.nth.is_none_or(|nth| nth == address.nth)
    }
}

/// A rule of a script at work.
#[derive(Debug)]
pub(super) struct Running {
    rule: ScriptRule,
    label: String,
    fired: u32,
}

impl Running {
    /// The rule with the number `number`, from 1.
    pub(super) fn new(rule: ScriptRule, number: usize) -> Running {
        Running { rule, label: format!("rule {number}"), fired: 0 }
    }
}

impl Rule for Running {
    fn judge(&mut self, seen: &Seen<'_>, chance: &mut Chance) -> Option<Action> {
        let used_up = self.rule.times.is_some_and(|times| self.fired >= times);
        if used_up || !self.rule.applies(seen) || !self.rule.one_in.is_none_or(|n| chance.one_in(n)) {
            return None;
        }
        self.fired += 1;
        Some(self.rule.action.clone())
    }

    fn label(&self) -> String {
        self.label.clone()
    }
}

#[cfg(test)]
mod tests {
    use super::super::HexBytes;
    use super::*;

    #[test]
    fn a_script_reads_as_it_is_written() {
        let text = r#"
            [[rule]]
            link = "a-b"
            from = "a"
            to = "b"
            opcode = "RC_WRITE_LAST_IMM"
            kind = "request"
            qpn = 2
            psn = [3, 5]
            nth = 1
            after_ns = 1_000
            until_ns = 2_000
            one_in = 4
            times = 6
            action = { replace = { payload = "04 7f ff", seal = false } }
            [[rule]]
            psn = -1
            action = "mark-ce"
            [[rule]]
            action = { duplicate = {} }
            [[rule]]
            action = { corrupt = {} }
            [[rule]]
            action = { reorder = { packets = 2 } }
        "#;
        let script = Script::from_toml(text).expect("a script");
        let first = &script.rule[0];
        assert_eq!((first.psn, first.times), (Some(PsnSpan::Range(3, 5)), Some(6)));
        assert_eq!(first.opcode, Some(OpcodeName(Opcode::RC_WRITE_LAST_IMM)));
        assert_eq!(
            first.action,
            Action::Replace { payload: HexBytes(vec![4, 0x7f, 0xff].into()), seal: false }
        );
        let rest: Vec<_> = script.rule[1..].iter().map(|rule| rule.action.to_string()).collect();
        assert_eq!(rest, ["mark CE", "duplicate 1 times, 0 ns apart", "corrupt a bit", "reorder behind 2"]);
        assert_eq!(Script::from_toml(&script.to_toml()), Ok(script));
        assert_eq!(Script::from_toml(""), Ok(Script::default()));
    }

    #[test]
    fn a_mistake_is_named() {
        for (text, words) in [
            ("[[rule]]\nqnp = 1\naction = 'drop'", "qnp"),
            ("[[rule]]\naction = 'lose'", "lose"),
            ("[[rule]]\nopcode = 'SEND'\naction = 'drop'", "names look like RC_SEND_ONLY"),
            ("[[rule]]\npsn = 3", "action"),
            ("[[rule]]\naction = { replace = { payload = 'abc', seal = true } }", "whole number of bytes"),
            ("[[rule]]\naction = { replace = { payload = 'xy', seal = true } }", "hexadecimal"),
            ("[[rules]]", "rules"),
        ] {
            let error = Script::from_toml(text).expect_err(text).to_string();
            assert!(error.contains(words), "{text}: {error}");
        }
    }
}
