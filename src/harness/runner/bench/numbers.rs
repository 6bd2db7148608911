//! The middle and the tail of what was measured.

use std::time::Duration;

/// The middle of some numbers; the later one of two.
pub(super) fn median(mut numbers: Vec<f64>) -> f64 {
    numbers.sort_by(f64::total_cmp);
    numbers.get(numbers.len() / 2).copied().unwrap_or(0.0)
}

/// What so many in a hundred of some sorted times do not exceed; nothing when there is none.
pub(super) fn quantile(sorted: &[Duration], percent: usize) -> Duration {
    let last = sorted.len().saturating_sub(1);
    let at = (sorted.len() * percent / 100).min(last);
    sorted.get(at).copied().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_middle_and_the_tail_of_few_numbers() {
        assert_eq!(median(vec![3.0, 1.0, 2.0]), 2.0);
        let times: Vec<_> = (1..=3).map(Duration::from_millis).collect();
        assert_eq!(quantile(&times, 50), Duration::from_millis(2));
        assert_eq!(quantile(&times, 99), Duration::from_millis(3));
        assert_eq!(quantile(&[], 99), Duration::ZERO);
    }
}
