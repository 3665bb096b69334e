//! The order in which children are started: as they are listed, but what one needs comes before it.

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum OrderError {
    /// Each needs the next, and the last is the first.
    Cycle(Vec<String>),
    Unknown {
        of: usize,
        need: String,
    },
}

/// The places of `children` (an id, and what it needs) in the order of their start.
pub fn order(children: &[(&str, &[String])]) -> Result<Vec<usize>, OrderError> {
    let place = |id: &str| children.iter().position(|(other, _)| *other == id);
    let mut needs = Vec::with_capacity(children.len());
    for (of, (_, named)) in children.iter().enumerate() {
        let places =
            named.iter().map(|need| place(need).ok_or(OrderError::Unknown { of, need: need.clone() }));
        needs.push(places.collect::<Result<Vec<usize>, _>>()?);
    }
    let mut order = Vec::with_capacity(children.len());
    let mut placed = vec![false; children.len()];
    while order.len() < children.len() {
        let is_free = |at: &usize| !placed[*at] && needs[*at].iter().all(|need| placed[*need]);
        match (0..children.len()).find(is_free) {
            Some(at) => {
                placed[at] = true;
                order.push(at);
            }
            None => return Err(OrderError::Cycle(cycle(children, &needs, &placed))),
        }
    }
    Ok(order)
}

/// Whoever is not placed needs somebody who is not: that leads in a circle.
fn cycle(children: &[(&str, &[String])], needs: &[Vec<usize>], placed: &[bool]) -> Vec<String> {
    let mut path = Vec::new();
    let mut at = placed.iter().position(|placed| !placed).unwrap_or_default();
    while !path.contains(&at) {
        path.push(at);
        at = needs[at].iter().copied().find(|need| !placed[*need]).unwrap_or(at);
    }
    let from = path.iter().position(|seen| *seen == at).unwrap_or_default();
    path[from..].iter().chain([&at]).map(|at| children[*at].0.to_owned()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(children: &[(&str, &[&str])]) -> Result<Vec<usize>, OrderError> {
        let needs: Vec<Vec<String>> =
            children.iter().map(|(_, needs)| needs.iter().map(|need| (*need).to_owned()).collect()).collect();
        let children: Vec<(&str, &[String])> =
            children.iter().zip(&needs).map(|((id, _), needs)| (*id, needs.as_slice())).collect();
        order(&children)
    }

    #[test]
    fn it_is_the_order_of_the_list_but_for_what_is_needed() {
        assert_eq!(of(&[("a", &[]), ("b", &[]), ("c", &[])]), Ok(vec![0, 1, 2]));
        assert_eq!(of(&[("a", &["c"]), ("b", &[]), ("c", &[])]), Ok(vec![1, 2, 0]));
        assert_eq!(of(&[("a", &["b", "c"]), ("b", &["c"]), ("c", &[])]), Ok(vec![2, 1, 0]));
        assert_eq!(of(&[]), Ok(vec![]));
    }

    #[test]
    fn a_cycle_is_named() {
        let named = |children: &[(&str, &[&str])]| match of(children) {
            Err(OrderError::Cycle(path)) => path.join(" "),
            other => panic!("{other:?}"),
        };
        assert_eq!(named(&[("a", &["a"])]), "a a");
        assert_eq!(named(&[("x", &[]), ("a", &["x", "b"]), ("b", &["c"]), ("c", &["a"])]), "a b c a");
        // Who only waits for the circle is not in it.
        assert_eq!(named(&[("w", &["a"]), ("a", &["b"]), ("b", &["a"])]), "a b a");
        let unknown = OrderError::Unknown { of: 1, need: "z".into() };
        assert_eq!(of(&[("a", &[]), ("b", &["a", "z"])]), Err(unknown));
    }
}
