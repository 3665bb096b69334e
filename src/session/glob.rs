//! Glob patterns: `*` and `?` stay within one part of a path, a part `**` stands for any number
//! of parts, none included. Pure.

/// For names of variables: there are no parts.
pub(super) fn matches_name(pattern: &[u8], name: &[u8]) -> bool {
    // Every variable meets every pattern at each spawn, and most differ in their first letter or their last.
    let differs =
        |letter: Option<&u8>, of: Option<&u8>| !matches!(letter, None | Some(b'*' | b'?')) && letter != of;
    if differs(pattern.first(), name.first()) || differs(pattern.last(), name.last()) {
        return false;
    }
    wild(pattern, name, |p| *p == b'*', |p, b| *p == b'?' || p == b)
}

/// For absolute paths without `.` and `..`.
pub(super) fn matches_path(pattern: &[u8], path: &[u8]) -> bool {
    let pattern: Vec<&[u8]> = parts(pattern).collect();
    let path: Vec<&[u8]> = parts(path).collect();
    wild(&pattern, &path, |p| *p == b"**", |p, part| matches_name(p, part))
}

fn parts(path: &[u8]) -> impl Iterator<Item = &[u8]> {
    path.split(|b| *b == b'/').filter(|part| !part.is_empty())
}

/// Only the last star can need another try: whatever an earlier star took more, the later one
/// could take instead. So one mark to return to is enough, and time stays within
/// pattern × text, also for `*a*a*a*…`.
fn wild<P, T>(
    pattern: &[P],
    text: &[T],
    is_star: impl Fn(&P) -> bool,
    equal: impl Fn(&P, &T) -> bool,
) -> bool {
    let (mut p, mut t) = (0, 0);
    let mut star: Option<(usize, usize)> = None;
    while t < text.len() {
        if p < pattern.len() && is_star(&pattern[p]) {
            star = Some((p + 1, t));
            p += 1;
        } else if p < pattern.len() && equal(&pattern[p], &text[t]) {
            p += 1;
            t += 1;
        } else if let Some((after, taken)) = star {
            p = after;
            t = taken + 1;
            star = Some((after, taken + 1));
        } else {
            return false;
        }
    }
    pattern[p..].iter().all(is_star)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names() {
        let m = |p: &str, n: &str| matches_name(p.as_bytes(), n.as_bytes());
        assert!(m("*", "") && m("*", "ANY") && m("LC_*", "LC_ALL") && m("*_PROXY", "HTTP_PROXY"));
        assert!(m("A*C*E", "ABCDE") && m("A*B", "AxBxB") && m("A?C", "ABC") && m("HOME", "HOME"));
        assert!(!m("LC_*", "LC") && !m("HOME", "HOMER") && !m("HOME", "home") && !m("", "A"));
        assert!(!m("*_PROXY", "HTTP_PROXY_X"));
    }

    #[test]
    fn one_star_stays_in_a_part_and_two_cross() {
        let m = |p: &str, n: &str| matches_path(p.as_bytes(), n.as_bytes());
        assert!(m("/work/*", "/work/a") && !m("/work/*", "/work/a/b") && !m("/work/*", "/work"));
        assert!(m("/work/**", "/work/a/b") && m("/work/**", "/work") && !m("/work/**", "/works"));
        assert!(m("/a/**/z", "/a/z") && m("/a/**/z", "/a/b/c/z") && !m("/a/**/z", "/a/bz"));
        assert!(m("/a*/b", "/ax/b") && !m("/a*/b", "/ax/c/b") && m("/", "/") && m("/**", "/"));
    }

    #[test]
    fn a_hostile_pattern_takes_no_exponential_time() {
        assert!(!matches_name("*a".repeat(500).as_bytes(), "a".repeat(499).as_bytes()));
        assert!(!matches_path("/**/a".repeat(200).as_bytes(), "/a".repeat(199).as_bytes()));
    }
}
