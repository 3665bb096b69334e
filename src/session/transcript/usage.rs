//! What claude's transcript says of tokens and tools. A message is written in several lines, a part in
//! each, and each with what the message has used so far; those of subagents count like all others.

use std::collections::VecDeque;

use crate::sorted::Sorted;
use serde::Deserialize;
use serde_json::Value;

/// So many messages may be written at the same time, by subagents for one.
const OPEN_MOST: usize = 64;
/// Names of tools come from the model.
const TOOLS_MOST: usize = 256;
const NAME_MOST: usize = 128;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tokens {
    pub input: u64,
    pub output: u64,
    pub cache_read: u64,
    pub cache_created: u64,
}

impl Tokens {
    pub fn total(self) -> u64 {
        self.input
            .saturating_add(self.output)
            .saturating_add(self.cache_read)
            .saturating_add(self.cache_created)
    }

    /// With one message's `old` figures replaced by `new` ones.
    fn corrected(self, old: Tokens, new: Tokens) -> Tokens {
        let one = |sum: u64, old: u64, new: u64| sum.saturating_sub(old).saturating_add(new);
        Tokens {
            input: one(self.input, old.input, new.input),
            output: one(self.output, old.output, new.output),
            cache_read: one(self.cache_read, old.cache_read, new.cache_read),
            cache_created: one(self.cache_created, old.cache_created, new.cache_created),
        }
    }
}

/// All that the lines so far speak of.
#[derive(Debug, Default)]
pub struct Spent {
    pub tokens: Tokens,
    /// How often each tool was used.
    pub tools: Sorted<String, u64>,
    /// Messages that may go on, newest last.
    open: VecDeque<Message>,
}

#[derive(Debug)]
struct Message {
    id: String,
    tokens: Tokens,
    /// Ids of its uses of tools.
    tools: Vec<String>,
}

#[derive(Deserialize)]
struct Line {
    #[serde(rename = "type")]
    what: String,
    #[serde(default)]
    message: Value,
}

impl Spent {
    /// One line; most say nothing of it.
    pub fn add(&mut self, line: &[u8]) {
        // Results of tools are long, and cost nothing here.
        if memchr::memmem::find(line, b"\"usage\"").is_none() {
            return;
        }
        let Ok(Line { what, message }) = serde_json::from_slice(line) else { return };
        let (Some(id), true) = (message["id"].as_str(), what == "assistant") else { return };
        let figure = |name: &str| message["usage"][name].as_u64().unwrap_or(0);
        let tokens = Tokens {
            input: figure("input_tokens"),
            output: figure("output_tokens"),
            cache_read: figure("cache_read_input_tokens"),
            cache_created: figure("cache_creation_input_tokens"),
        };
        let mut open =
            match self.open.iter().position(|open| open.id == id).and_then(|at| self.open.remove(at)) {
                Some(open) => open,
                None => Message { id: id.to_owned(), tokens: Tokens::default(), tools: Vec::new() },
            };
        self.tokens = self.tokens.corrected(open.tokens, tokens);
        open.tokens = tokens;
        for part in message["content"].as_array().into_iter().flatten() {
            let is_use =
                matches!(part["type"].as_str(), Some("tool_use" | "server_tool_use" | "mcp_tool_use"));
            if let (true, Some(name), Some(id)) = (is_use, part["name"].as_str(), part["id"].as_str())
                && !open.tools.iter().any(|seen| seen == id)
            {
                open.tools.push(id.to_owned());
                self.count_tool(name);
            }
        }
        if self.open.len() == OPEN_MOST {
            self.open.pop_front();
        }
        self.open.push_back(open);
    }

    fn count_tool(&mut self, name: &str) {
        let is_new = !self.tools.contains_key(name);
        if name.len() <= NAME_MOST && !(is_new && self.tools.len() == TOOLS_MOST) {
            *self.tools.entry(name.to_owned()).or_default() += 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    const REAL: &str = include_str!("../../../tests/transcripts/claude.jsonl");

    fn line(id: &str, output: u64, content: Value) -> Vec<u8> {
        let usage = json!({
            "input_tokens": 10, "output_tokens": output,
            "cache_read_input_tokens": 100, "cache_creation_input_tokens": 1000,
        });
        let line = json!({"type": "assistant", "message": {"id": id, "content": content, "usage": usage}});
        line.to_string().into_bytes()
    }

    fn bash(id: &str) -> Value {
        json!([{"type": "tool_use", "id": id, "name": "Bash", "input": {}}])
    }

    #[test]
    fn a_message_counts_once_with_its_last_figures() {
        let mut spent = Spent::default();
        spent.add(&line("a", 1, json!([])));
        spent.add(&line("b", 7, bash("1")));
        spent.add(&line("a", 5, bash("2")));
        spent.add(&line("a", 5, bash("2")));
        let tokens = Tokens { input: 20, output: 12, cache_read: 200, cache_created: 2000 };
        assert_eq!((spent.tokens, spent.tokens.total()), (tokens, 2232));
        assert_eq!(spent.tools, [("Bash".to_owned(), 2)].into());
    }

    #[test]
    fn what_is_no_message_of_the_model_counts_nothing() {
        let mut spent = Spent::default();
        for line in [
            "",
            "{}",
            "\"usage\"",
            "[\"usage\"]",
            "{\"type\":\"assistant\",\"message\":{\"usage\":7}}",
            "{\"type\":\"user\",\"message\":{\"id\":\"a\",\"usage\":{\"input_tokens\":5}}}",
            "{\"type\":\"assistant\",\"message\":{\"id\":\"a\",\"usage\":{\"input_tokens\":-5}}}",
            "{\"type\":7,\"usage\":1}",
            "\u{0}\"usage\"",
        ] {
            spent.add(line.as_bytes());
        }
        assert_eq!((spent.tokens, spent.tools.len()), (Tokens::default(), 0));
    }

    #[test]
    fn nothing_grows_without_end() {
        let mut spent = Spent::default();
        for n in 0..1000 {
            let name = format!("tool {n}");
            spent.add(&line(&n.to_string(), 1, json!([{"type": "tool_use", "id": "x", "name": name}])));
        }
        assert_eq!((spent.tokens.output, spent.tools.len(), spent.open.len()), (1000, TOOLS_MOST, OPEN_MOST));
        spent.add(&line("x", u64::MAX, json!([])));
        spent.add(&line("y", u64::MAX, json!([])));
        assert_eq!(spent.tokens.total(), u64::MAX);
    }

    #[test]
    fn a_real_transcript_is_counted_with_its_subagents() {
        let mut spent = Spent::default();
        REAL.lines().for_each(|line| spent.add(line.as_bytes()));
        assert_eq!(spent.tokens, Tokens { input: 140, output: 66, cache_read: 0, cache_created: 0 });
        assert_eq!(format!("{:?}", spent.tools), "{\"Agent\": 1, \"Bash\": 5, \"Read\": 1}");
    }
}
