use std::fs;
use std::time::Instant;

use super::*;
use crate::cli::client::tests::{hold, state_dir};
use crate::control::client::testing::{Dir, Says, serve};
use crate::control::protocol::{Activity, Body, Health, Phase};

const UUID: &str = "018f5c3e-8c1b-4b53-9d7e-3f1f2a1b2c3d";

fn plain(width: Option<usize>) -> Look {
    Look { colours: false, width }
}

fn row(session: &str, health: &str) -> Row {
    Row {
        session: session.into(),
        dir: "/run/agentsup".into(),
        live: Some(true),
        pid: Some(4_194_304),
        health: health.into(),
        phase: Some("preparing".into()),
        activity: Some("unknown".into()),
        description: None,
        restart_count: Some(3),
        uptime_ms: Some(11_520_000),
        cwd: Some("/home/somebody/projects/a-long-name/src".into()),
        error: None,
        code: None,
    }
}

#[test]
fn the_table_fits_eighty_columns_and_says_what_it_cut() {
    let rows = [row(UUID, "degraded"), row("short", "dead")];
    let text = text(&rows, plain(Some(80)));
    for line in text.lines() {
        assert!(line.chars().count() <= 80, "{line}");
    }
    let lines: Vec<&str> = text.lines().collect();
    assert!(lines[0].starts_with("SESSION ") && lines[0].contains(" CWD"), "{text}");
    assert!(lines[1].starts_with("018f5c3e ") && lines[1].contains(" 3h12m ") && lines[1].ends_with("/src"));
    assert!(lines[1].contains('…') && lines[2].contains(" dead "), "{text}");
}

#[test]
fn with_room_or_without_a_terminal_nothing_is_cut() {
    for width in [None, Some(200)] {
        let text = text(&[row(UUID, "healthy")], plain(width));
        assert!(text.contains(UUID) && text.contains("/home/somebody/projects/a-long-name/src"), "{text}");
    }
    let narrow = text(&[row(&"n".repeat(64), "healthy")], plain(Some(80)));
    assert!(narrow.lines().all(|line| line.chars().count() <= 80), "{narrow}");
    assert_eq!(text(&[], plain(None)), "no sessions\n");
}

#[test]
fn what_an_agent_is_about_is_behind_the_rest_where_there_is_room() {
    let about = Some("fixes the build".to_owned());
    let rows = [Row { description: about, ..row("a", "healthy") }, row("b", "healthy")];
    let lines = |width| text(&rows, plain(width)).lines().map(str::to_owned).collect::<Vec<_>>();
    let told = lines(None);
    assert!(told[0].ends_with(" ABOUT"), "{told:?}");
    assert!(told[1].ends_with("/src fixes the build") && told[2].ends_with("/src"), "{told:?}");
    let wide = lines(None)[0].len();
    assert!(lines(Some(wide + 8))[1].ends_with("/src fixes the bu…"), "{:?}", lines(Some(wide + 8)));
    assert!(lines(Some(wide))[0].ends_with(" CWD") && lines(Some(80))[1].ends_with("/src"));
}

#[test]
fn colours_are_only_around_the_health_and_several_dirs_are_named() {
    let painted = text(&[row("a", "healthy")], Look { colours: true, width: None });
    assert!(painted.contains("\x1b[32mhealthy\x1b[0m"), "{painted:?}");
    let rows = [row("a", "dead"), Row { dir: "/tmp/x".into(), ..row("b", "dead") }];
    let text = text(&rows, plain(None));
    assert!(text.contains("\n/run/agentsup:\na ") && text.contains("\n/tmp/x:\nb "), "{text}");
}

#[test]
fn hostile_words_do_not_reach_the_terminal() {
    let row = Row { cwd: Some("/a\x1b[2J".into()), ..row("a", "healthy\x07") };
    let text = text(&[row], plain(None));
    assert!(!text.contains('\x1b') && !text.contains('\x07'), "{text:?}");
}

#[test]
fn the_living_the_silent_and_the_dead_are_told_apart_in_time() {
    let dir = Dir::new();
    let place = state_dir(&dir);
    let _locks = ["answers", "hangs", "mute"].map(|session| hold(&dir, session));
    serve(&place.socket("answers"), |_| {
        let state = State {
            pid: Some(42),
            phase: Phase::Running,
            health: Health::Healthy,
            activity: Activity::Paused,
            ..State::default()
        };
        Says::Body(Body::State(Box::new(state)))
    });
    serve(&place.socket("hangs"), |_| Says::Nothing);
    let record = r#"{"pid": 9, "phase": "running", "health": "degraded", "restart_count": 2, "cwd": "/w"}"#;
    for session in ["hangs", "mute", "dead"] {
        fs::write(place.record(session), record).unwrap();
    }
    fs::write(place.socket("stale"), "").unwrap();

    let began = Instant::now();
    let rows = look(&[place]).unwrap();
    assert!(began.elapsed() < PATIENCE * 4);
    let seen: Vec<_> =
        rows.iter().map(|row| (row.session.as_str(), row.live, row.pid, row.health.as_str())).collect();
    assert_eq!(
        seen,
        [
            ("answers", Some(true), Some(42), "healthy"),
            ("dead", Some(false), None, "dead"),
            ("hangs", Some(true), Some(9), "silent"),
            ("mute", Some(true), Some(9), "degraded"),
            ("stale", Some(false), None, "dead"),
        ]
    );
    assert_eq!((rows[1].cwd.as_deref(), rows[1].restart_count), (Some("/w"), Some(2)));
    assert_eq!(rows[0].activity.as_deref(), Some("paused"));
    assert!(rows[2].error.is_some() && rows[3].error.as_deref() == Some("it has no control socket"));
}
