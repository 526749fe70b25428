//! What edges carry.

use super::*;

/// What two edges carry holds for whoever came by either of them; one that carries nothing takes all away.
#[test]
fn edges_carry_what_holds_for_all_of_them() {
    let carry = |low: f64, high: f64| vec![vec![Interval { low, high }]];
    let ends = |carried: &Carried| {
        let boxes = carried.as_ref()?.as_ref()?;
        Some((boxes[0][0].low, boxes[0][0].high))
    };
    let mut carried = None;
    join(&mut carried, Some(&carry(0.0, 1.0)));
    join(&mut carried, Some(&carry(3.0, 4.0)));
    join(&mut carried, Some(&carry(-1.0, 0.5)));
    assert_eq!(ends(&carried), Some((-1.0, 4.0)));
    join(&mut carried, None);
    assert_eq!(ends(&carried), None);
    join(&mut carried, Some(&carry(0.0, 1.0)));
    assert_eq!(ends(&carried), None, "what came first carried nothing");
}
