//! Names with `*` in them.

/// Whether `pattern`, in which each `*` stands for any characters, is `name`.
pub(crate) fn is_match(pattern: &str, name: &str) -> bool {
    let Some((head, mut rest)) = pattern.split_once('*') else { return pattern == name };
    let Some(mut name) = name.strip_prefix(head) else { return false };
    // Each part between stars goes where it fits first; the last one has to end the name.
    while let Some((part, after)) = rest.split_once('*') {
        let Some((_, left)) = name.split_once(part) else { return false };
        (name, rest) = (left, after);
    }
    name.ends_with(rest)
}

/// Whether a person who asks for `filter` means `name`: a pattern if there is a `*` in it, else a part of the name.
pub(crate) fn is_meant(filter: &str, name: &str) -> bool {
    if filter.contains('*') { is_match(filter, name) } else { name.contains(filter) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stars_stand_for_anything() {
        for (pattern, name, expected) in [
            ("a/b", "a/b", true),
            ("a/b", "a/bc", false),
            ("a/*", "a/b/c", true),
            ("*/c", "a/b/c", true),
            ("a/*/c", "a/b/c", true),
            ("a/*/c", "a/b/d", false),
            ("a*b*c", "abc", true),
            ("a*b*c", "acb", false),
            ("*", "", true),
            ("ab*ba", "aba", false),
        ] {
            assert_eq!(is_match(pattern, name), expected, "{pattern} {name}");
        }
    }

    #[test]
    fn a_filter_without_a_star_is_a_part() {
        assert!(is_meant("b/c", "a/b/cd") && !is_meant("b/c*", "a/b/cd") && is_meant("*b/c*", "a/b/cd"));
    }
}
