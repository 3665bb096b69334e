//! Durations as people write them: `8`, `8s`, `500ms`, `5m`, `2h`. Sizes: `120x40`.

use std::time::Duration;

use crate::supervisor::settings::Size;

/// Far beyond any wait that makes sense, and small enough that `Instant + Duration` cannot overflow.
const LONGEST: Duration = Duration::from_secs(10 * 365 * 24 * 3600);

/// More cells than any screen has; a larger emulator would only cost memory.
const MOST_CELLS_A_SIDE: u16 = 4096;

pub fn parse(text: &str) -> Result<Duration, String> {
    let digits_end = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let (number, unit) = text.split_at(digits_end);
    let millis_in_unit = match unit {
        "ms" => Some(1),
        "" | "s" => Some(1000),
        "m" => Some(60 * 1000),
        "h" => Some(3600 * 1000),
        _ => None,
    };
    let Some(millis_in_unit) = millis_in_unit.filter(|_| !number.is_empty()) else {
        return Err(format!("`{text}` is not a duration; expected something like 8, 8s, 500ms, 5m or 2h"));
    };
    // Only digits are left, so a number that does not parse is one that is too large.
    let millis = number.parse::<u64>().ok().and_then(|n| n.checked_mul(millis_in_unit));
    match millis.map(Duration::from_millis) {
        Some(duration) if duration <= LONGEST => Ok(duration),
        _ => Err(format!("`{text}` is too long; expected ten years at most")),
    }
}

pub fn parse_positive(text: &str) -> Result<Duration, String> {
    match parse(text)? {
        Duration::ZERO => Err(format!("`{text}` is no time at all; expected more than zero")),
        duration => Ok(duration),
    }
}

/// The shortest text that `parse` reads back as the same duration.
pub fn show(duration: Duration) -> String {
    let millis = duration.as_millis();
    match millis {
        0 => "0s".to_string(),
        _ if !millis.is_multiple_of(1000) => format!("{millis}ms"),
        _ if millis.is_multiple_of(3600 * 1000) => format!("{}h", millis / (3600 * 1000)),
        _ if millis.is_multiple_of(60 * 1000) => format!("{}m", millis / (60 * 1000)),
        _ => format!("{}s", millis / 1000),
    }
}

pub fn parse_size(text: &str) -> Result<Size, String> {
    let side = |digits: &str| {
        // `parse` alone would also take a plus sign.
        let plain = digits.bytes().all(|b| b.is_ascii_digit());
        let side = digits.parse::<u16>().ok().filter(|_| plain)?;
        (1..=MOST_CELLS_A_SIDE).contains(&side).then_some(side)
    };
    match text.split_once('x').and_then(|(cols, rows)| Some((side(cols)?, side(rows)?))) {
        Some((cols, rows)) => Ok(Size { cols, rows }),
        None => Err(format!(
            "`{text}` is not a size; expected COLSxROWS like 120x40, each from 1 to {MOST_CELLS_A_SIDE}"
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_read_in_every_unit() {
        for (text, millis) in [
            ("8", 8000),
            ("8s", 8000),
            ("500ms", 500),
            ("5m", 300_000),
            ("2h", 7_200_000),
            ("0", 0),
            ("0s", 0),
            ("007s", 7000),
            ("87600h", LONGEST.as_millis() as u64),
        ] {
            assert_eq!(parse(text), Ok(Duration::from_millis(millis)), "{text}");
        }
    }

    #[test]
    fn what_is_no_duration_is_refused_in_words() {
        for text in ["", "s", "-1", "+1", "1.5s", "8 s", " 8", "8S", "8sec", "1d", "1h30m", "٣s"] {
            let error = parse(text).unwrap_err();
            assert!(error.contains("is not a duration"), "{text}: {error}");
        }
        for text in ["87601h", "18446744073709551615h", "99999999999999999999999"] {
            let error = parse(text).unwrap_err();
            assert!(error.contains("too long"), "{text}: {error}");
        }
    }

    #[test]
    fn what_is_shown_reads_back_the_same() {
        for text in ["0s", "1ms", "1500ms", "8s", "90s", "5m", "2h", "61m"] {
            assert_eq!(show(parse(text).unwrap()), text);
        }
    }

    #[test]
    fn sizes() {
        assert_eq!(parse_size("120x40"), Ok(Size { cols: 120, rows: 40 }));
        assert_eq!(parse_size("1x4096"), Ok(Size { cols: 1, rows: 4096 }));
        for text in [
            "",
            "x",
            "120",
            "120x",
            "x40",
            "0x40",
            "120x0",
            "4097x1",
            "+1x1",
            "120X40",
            "1x2x3",
            "99999999x1",
        ] {
            assert!(parse_size(text).is_err(), "{text}");
        }
    }
}
