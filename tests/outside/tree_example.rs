//! The team of `examples/team`, with agents that only pretend to be claude and do as its prompts say.

use std::os::unix::fs::symlink;
use std::process::Command;

use crate::support::{AGENTSUP, FAKE, Lab, Launch, Place, eventually};

/// What each agent does with a prompt, as a shell script.
const LEAD: &str = r#"case "$PROMPT" in
  *"build the login page"*)
    for n in 1 2; do agentsup trigger --session team.worker-$n --thread login --no-wait "half $n"; done ;;
  *approved*) echo "$PROMPT" | grep -o 'approved: half [12]' >>"$RESULT" ;;
esac"#;
const WORKER: &str = r#"case "$PROMPT" in *half*)
  half=$(echo "$PROMPT" | grep -o 'half [12]')
  agentsup trigger --session team.reviewer --thread login --no-wait "ready: $half, by $AGENT_DOC_SESSION" ;;
esac"#;
const REVIEWER: &str = r#"case "$PROMPT" in *ready:*)
  half=$(echo "$PROMPT" | grep -o 'half [12]')
  agentsup trigger --session team.lead --thread login --no-wait "approved: $half" ;;
esac"#;

fn quoted(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}

/// What the image of the document sets for it.
fn image_env() -> Vec<(String, String)> {
    let document = format!("{}/docs/trees.md", env!("CARGO_MANIFEST_DIR"));
    let document = std::fs::read_to_string(document).expect("the document");
    let image = document.split("```dockerfile\n").nth(1).and_then(|rest| rest.split("```").next());
    let lines = image.expect("an image").lines().filter_map(|line| line.strip_prefix("ENV "));
    lines.filter_map(|line| line.split_once('=')).map(|(name, value)| (name.into(), value.into())).collect()
}

#[test]
fn the_team_of_the_example_does_its_work_by_triggers() {
    // As a plain process, and as the entrypoint of a container.
    for place in Place::possible(&[Place::Plain, Place::Pid1]) {
        the_team_does_its_work(place);
    }
}

fn the_team_does_its_work(place: Place) {
    let lab = Lab::new();
    let example = format!("{}/examples/team", env!("CARGO_MANIFEST_DIR"));
    for file in ["lead.md", "reviewer.md", "worker.md"] {
        std::fs::copy(format!("{example}/{file}"), lab.path(file)).expect("the example");
    }
    lab.dir("bin");
    symlink(FAKE, lab.path("bin/claude")).expect("a fake claude");
    symlink(AGENTSUP, lab.path("bin/agentsup")).expect("agentsup");
    let mut text = String::new();
    for block in
        std::fs::read_to_string(format!("{example}/team.toml")).expect("the example").split("[[child]]\n")
    {
        let Some(id) = block.lines().find_map(|line| line.strip_prefix("id = ")) else {
            text += block;
            continue;
        };
        let id = id.trim_matches('"');
        let script = match id {
            "lead" => LEAD,
            "reviewer" => REVIEWER,
            _ => WORKER,
        };
        let home = lab.dir(id);
        let env = [
            format!("FAKE_CLAUDE={home}"),
            format!("HOME={home}"),
            format!("FAKE_SCRIPT={script}"),
            format!("RESULT={}", lab.text("result")),
        ];
        let env: Vec<String> = env.iter().map(|var| quoted(var)).collect();
        text += &format!("[[child]]\nenv = [{}]\n{block}", env.join(", "));
    }
    let file = lab.write("team.toml", &text);
    let path = format!("{}:{}", lab.text("bin"), std::env::var("PATH").unwrap_or_default());
    let mut launch = Launch::team(&lab, "team", &file).in_dir(lab.path("")).env("PATH", path);
    for (name, value) in image_env() {
        launch = launch.env(&name, value);
    }
    let sup = launch.at(place).start();
    let agentsup = |words: &[&str]| {
        let mut command = Command::new(AGENTSUP);
        command
            .args(words)
            .env("AGENTSUP_DIR", lab.state_dir())
            .env_remove("AGENTSUP_SESSION")
            .env_remove("AGENTSUP_SOCKET");
        let output = command.output().expect("agentsup");
        (
            output.status.code(),
            String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr),
        )
    };
    eventually("the node listens", || agentsup(&["ping", "team"]).0 == Some(0));
    let (code, said) = agentsup(&["wait", "team", "--for", "ready", "--timeout", "20s"]);
    assert_eq!(code, Some(0), "{said}\n{}", sup.so_far());
    let (code, said) =
        agentsup(&["trigger", "--session", "team.lead", "--thread", "login", "build the login page"]);
    assert_eq!(code, Some(0), "{said}\n{}", sup.so_far());
    lab.wait_for_file("result", "approved: half 1");
    lab.wait_for_file("result", "approved: half 2");
    let (_, drawn) = agentsup(&["ls", "--tree"]);
    assert!(drawn.contains("rest_for_one, 4 of 4 ready"), "{drawn}");
    assert_eq!(agentsup(&["stop", "team"]).0, Some(0));
    sup.end().assert_code(0);
}
