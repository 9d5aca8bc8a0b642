//! Version scripts, as `ld --version-script` reads them.

use crate::{Node, PRIVATE_NODES, PUBLIC, private_names_of};
use std::fmt::Write;

/// The version script of `libibverbs.so.1`.
pub fn ibverbs_version_script() -> String {
    let mut script = version_script(PUBLIC);
    for node in PRIVATE_NODES {
        // A name with a `.symver` of its own has to be listed in each of its nodes, or `local: *` drops it.
        let names = private_names_of(node);
        write_node(
            &mut script,
            &format!("IBVERBS_PRIVATE_{node}"),
            names.iter().map(String::as_str),
            "",
            None,
        );
    }
    script
}

/// A version script for `nodes`, each inheriting from the one before; everything that none of them lists is local.
pub fn version_script(nodes: &[Node<'_>]) -> String {
    let mut script = String::new();
    let mut parent = None;
    for node in nodes {
        let tail = if parent.is_none() { "local:\n\t*;\n" } else { "" };
        write_node(&mut script, node.name, node.symbols.iter().copied(), tail, parent);
        parent = Some(node.name);
    }
    script
}

fn write_node<'a>(
    script: &mut String,
    name: &str,
    symbols: impl Iterator<Item = &'a str>,
    tail: &str,
    parent: Option<&str>,
) {
    let symbols: String = symbols.map(|symbol| format!("\t{symbol};\n")).collect();
    let parent = parent.map_or(String::new(), |parent| format!(" {parent}"));
    write!(script, "{name} {{\nglobal:\n{symbols}{tail}}}{parent};\n\n").expect("a String takes everything");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nodes_inherit_in_order_and_only_the_first_makes_the_rest_local() {
        let nodes =
            [Node { name: "A_1.0", symbols: &["one", "two"] }, Node { name: "A_1.1", symbols: &["three"] }];
        assert_eq!(
            version_script(&nodes),
            "A_1.0 {\nglobal:\n\tone;\n\ttwo;\nlocal:\n\t*;\n};\n\nA_1.1 {\nglobal:\n\tthree;\n} A_1.0;\n\n"
        );
    }
}
