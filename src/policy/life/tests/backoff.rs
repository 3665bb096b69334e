//! `backoff = "exponential"`.

use super::*;

fn numbers(jitter: f64) -> Numbers {
    let backoff = Backoff::Exponential { base: secs(2), factor: 2.0, max: secs(60), jitter };
    Numbers { backoff, halt_after: 9, ..Numbers::default() }
}

fn waits(numbers: &Numbers, seed: u64, exits: impl IntoIterator<Item = u8>) -> Vec<Duration> {
    let mut history = History::new(numbers.clone(), seed);
    let mut now = Now { at: Instant::now(), epoch: 0 };
    let mut waits = Vec::new();
    for exit in exits {
        if let (_, Verdict::Wait(wait)) = history.judge(code(exit), NO_TIME, now) {
            now.at += wait;
            waits.push(wait);
        }
    }
    waits
}

#[test]
fn waits_grow_by_the_factor_up_to_max() {
    assert_eq!(waits(&numbers(0.0), 7, [1; 9]), [2, 4, 8, 16, 32, 60, 60, 60].map(secs));
}

#[test]
fn early_clean_exits_grow_with_their_frequency() {
    assert_eq!(waits(&numbers(0.0), 7, [0; 5]), [2, 4, 8, 8, 8].map(secs));
}

#[test]
fn a_factor_beyond_all_numbers_waits_for_max() {
    let backoff = Backoff::Exponential { base: secs(2), factor: 1e300, max: secs(60), jitter: 0.0 };
    assert_eq!(waits(&Numbers { backoff, ..numbers(0.0) }, 7, [1; 4]), [2, 60, 60, 60].map(secs));
}

#[test]
fn jitter_stays_within_its_share_and_below_max() {
    let (plain, jittered) = (numbers(0.0), numbers(0.1));
    for seed in 0..500 {
        let seed = 0x9e37_79b9_7f4a_7c15_u64.wrapping_mul(seed);
        for (plain, wait) in waits(&plain, seed, [1; 9]).into_iter().zip(waits(&jittered, seed, [1; 9])) {
            assert!(wait >= plain.mul_f64(0.9) && wait <= plain.mul_f64(1.1).min(secs(60)), "{wait:?}");
        }
    }
}

#[test]
fn jitter_differs_between_supervisors_and_from_exit_to_exit() {
    let numbers = numbers(0.1);
    assert_ne!(waits(&numbers, 1, [1]), waits(&numbers, 2, [1]));
    let thirtieth_on = waits(&numbers, 1, [0; 40]).split_off(30);
    assert!(thirtieth_on.windows(2).all(|pair| pair[0] != pair[1]), "{thirtieth_on:?}");
}
