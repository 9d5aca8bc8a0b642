//! The private names as a C translation unit.
//!
//! A name that several nodes have needs a symbol of its own per node, tied to it by `.symver`, which works only in the
//! object file that defines the symbol; hence one unit for all of them.

use crate::private::{Answer, PRIVATE, PRIVATE_NODES, register_driver};
use std::fmt::Write;

/// The source of the unit. Its functions call those that [`Answer::Calls`] names, so it links only with a library
/// that has them.
pub fn private_aliases() -> String {
    let mut source = include_str!("private.c").to_owned();
    for node in PRIVATE_NODES {
        for private in PRIVATE.iter().filter(|private| private.since <= node) {
            // A plain dlsym(3) or a link without versions finds the default version; the oldest node has it.
            let at = if private.since == node { "@@" } else { "@" };
            alias(&mut source, node, private.name, &symbol_of(private.answer), at);
        }
        alias(&mut source, node, &register_driver(node), &symbol_of(Answer::Nothing), "@@");
    }
    source
}

fn alias(source: &mut String, node: u32, name: &str, symbol: &str, at: &str) {
    writeln!(source, "ALIAS({node}, {name}, {symbol}, \"{at}\")").expect("a String takes everything");
}

fn symbol_of(answer: Answer) -> String {
    match answer {
        Answer::Errno => "ferroce_answer_errno".to_owned(),
        Answer::MinusOne => "ferroce_answer_minus_one".to_owned(),
        Answer::Null => "ferroce_answer_null".to_owned(),
        Answer::Nothing => "ferroce_answer_nothing".to_owned(),
        Answer::Flag => "ferroce_answer_flag".to_owned(),
        Answer::Calls(function) => function.replacen("ferroce_", "ferroce_answer_", 1),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_the_default_in_its_first_node_only() {
        let source = private_aliases();
        assert!(source.contains("ALIAS(34, ibv_cmd_reg_mr, ferroce_answer_errno, \"@@\")"));
        assert!(source.contains("ALIAS(65, ibv_cmd_reg_mr, ferroce_answer_errno, \"@\")"));
        assert!(source.contains("ALIAS(59, ibv_cmd_alloc_dmah, ferroce_answer_errno, \"@@\")"));
        assert!(!source.contains("ALIAS(57, ibv_cmd_alloc_dmah"));
    }
}
