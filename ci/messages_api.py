#!/usr/bin/env python3
"""A Messages API for tests: answers every request, on loopback only, and writes down what it was asked.

Usage: messages_api.py LOG PORTFILE    serve; the kernel chooses the port, PORTFILE tells it
       messages_api.py --show LOG      one line for each request of a conversation, its turns joined by " | ",
                                new lines within them shown as \\n

Each request becomes one JSON line in LOG: {"n", "tools", "turns": [[role, text], ...]}. The answer to the
user's words T is "reply to: T". Words that end in "slowly" are answered with a beginning and then silence,
until the client hangs up, those that end in "silently" with nothing at all; "fail now", as a line of them, is
answered with an error. Words that begin with "limit me" are answered with a rate limit that ends with the minute
in which the server first saw them, and then with a reply. "run: COMMAND" makes the client use Bash with it, "run: ONE ;; TWO" twice at once; the answer to
what the tools say is "tools said: …".
"""

import json
import os
import sys
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

LOCK = threading.Lock()
COUNT = 0
SILENCE = 120
# The words of each limit that was asked for, and when it ends.
LIMITS = {}


def texts(message):
    """The words of one turn, without what the client adds around them in tags of its own."""
    content = message.get("content")
    blocks = [{"type": "text", "text": content}] if isinstance(content, str) else content or []
    found = [b.get("text", "") for b in blocks if isinstance(b, dict) and b.get("type") == "text"]
    return [text.strip() for text in found if not text.lstrip().startswith("<")]


def tool_results(request):
    """What the tools said, if that is the newest turn."""
    spoken = [m for m in request.get("messages", []) if m.get("role") == "user"]
    content = spoken[-1].get("content") if spoken else None
    blocks = content if isinstance(content, list) else []
    found = [b.get("content") for b in blocks if isinstance(b, dict) and b.get("type") == "tool_result"]
    return [c if isinstance(c, str) else " ".join(texts({"content": c})) for c in found]


def remember(request, log_path):
    global COUNT
    spoken = [m for m in request.get("messages", []) if m.get("role") in ("user", "assistant")]
    turns = [[m["role"], text] for m in spoken for text in texts(m)]
    with LOCK, open(log_path, "a", encoding="utf-8") as log:
        COUNT += 1
        log.write(json.dumps({"n": COUNT, "tools": len(request.get("tools") or []), "turns": turns}) + "\n")
        return COUNT, turns


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    log_path = None

    def log_message(self, *_):
        pass

    def answer_json(self, status, value, headers=()):
        data = json.dumps(value).encode()
        self.send_response(status)
        for name, text in headers:
            self.send_header(name, text)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(data)

    def refuse(self, status, kind, message, headers=()):
        self.answer_json(status, {"type": "error", "error": {"type": kind, "message": message}}, headers)

    def is_limited(self, asked):
        if not asked.startswith("limit me"):
            return False
        with LOCK:
            # Clients tell it without seconds; one that is over when they have told it would be a day away.
            end = LIMITS.setdefault(asked, (int(time.time()) + 5) // 60 * 60 + 60)
        left = end - int(time.time())
        if left <= 0:
            return False
        headers = [
            ("retry-after", str(left)),
            ("anthropic-ratelimit-unified-status", "rejected"),
            ("anthropic-ratelimit-unified-reset", str(end)),
            ("anthropic-ratelimit-unified-representative-claim", "five_hour"),
        ]
        self.refuse(429, "rate_limit_error", "limited as asked", headers)
        return True

    def do_HEAD(self):
        self.answer_json(200, {})

    def do_GET(self):
        self.refuse(404, "not_found_error", self.path)

    def do_POST(self):
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        path = self.path.split("?")[0]
        try:
            request = json.loads(body)
        except ValueError:
            self.refuse(400, "invalid_request_error", "not JSON")
            return
        if path == "/v1/messages/count_tokens":
            self.answer_json(200, {"input_tokens": 10})
        elif path == "/v1/messages":
            self.message(request)
        elif path == "/v1/responses":
            self.response(request)
        else:
            self.refuse(404, "not_found_error", path)

    def message(self, request):
        number, turns = remember(request, self.log_path)
        asked = next((text for role, text in reversed(turns) if role == "user"), "nothing")
        if "fail now" in asked.split("\n"):
            self.refuse(400, "invalid_request_error", "failed as asked")
            return
        if self.is_limited(asked):
            return
        said = tool_results(request)
        commands = asked[5:].split(" ;; ") if asked.startswith("run: ") and not said else []
        reply = "tools said: " + " | ".join(said) if said else "reply to: " + asked
        message = {
            "id": "msg_test_%d" % number,
            "type": "message",
            "role": "assistant",
            "model": request.get("model"),
            "content": [],
            "stop_reason": None,
            "stop_sequence": None,
            "usage": {"input_tokens": 10, "output_tokens": 1},
        }
        if not request.get("stream"):
            message.update(content=[{"type": "text", "text": reply}], stop_reason="end_turn")
            self.answer_json(200, message)
            return
        self.begin_events()
        if asked.endswith("silently"):
            self.keep_silent()
        self.event(type="message_start", message=message)
        self.event(type="content_block_start", index=0, content_block={"type": "text", "text": ""})
        self.event(type="content_block_delta", index=0, delta={"type": "text_delta", "text": reply})
        if asked.endswith("slowly"):
            self.keep_silent()
        self.event(type="content_block_stop", index=0)
        for at, command in enumerate(commands, 1):
            self.tool_use(at, "toolu_test_%d_%d" % (number, at), {"command": command, "description": "as asked"})
        self.event(
            type="message_delta",
            delta={"stop_reason": "tool_use" if commands else "end_turn", "stop_sequence": None},
            usage={"output_tokens": 5},
        )
        self.event(type="message_stop")

    def response(self, request):
        """The same for codex, which speaks another API."""
        spoken = [m for m in request.get("input", []) if m.get("type") == "message" and m.get("role") == "user"]
        parts = [part.get("text", "") for m in spoken for part in m.get("content", [])]
        asked = next((text.strip() for text in reversed(parts) if not text.lstrip().startswith("<")), "nothing")
        text = {"type": "output_text", "text": "reply to: " + asked}
        usage = {"input_tokens": 10, "output_tokens": 5, "total_tokens": 15}
        self.begin_events()
        self.event(type="response.created", response={"id": "resp_test"})
        item = {"type": "message", "role": "assistant", "id": "msg_test", "content": [text]}
        self.event(type="response.output_item.done", item=item)
        self.event(type="response.completed", response={"id": "resp_test", "usage": usage})

    def begin_events(self):
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream; charset=utf-8")
        self.send_header("Connection", "close")
        self.end_headers()
        self.close_connection = True

    def event(self, **data):
        self.wfile.write(("event: %s\ndata: %s\n\n" % (data["type"], json.dumps(data))).encode())
        self.wfile.flush()

    def tool_use(self, index, name, given):
        block = {"type": "tool_use", "id": name, "name": "Bash", "input": {}}
        self.event(type="content_block_start", index=index, content_block=block)
        delta = {"type": "input_json_delta", "partial_json": json.dumps(given)}
        self.event(type="content_block_delta", index=index, delta=delta)
        self.event(type="content_block_stop", index=index)

    def keep_silent(self):
        end = time.monotonic() + SILENCE
        while time.monotonic() < end:
            time.sleep(0.2)
            self.event(type="ping")

    def handle(self):
        try:
            super().handle()
        except (BrokenPipeError, ConnectionResetError):
            pass  # the client was killed or has hung up, as some tests want it


def show(log_path):
    with open(log_path, encoding="utf-8") as log:
        for line in log:
            entry = json.loads(line)
            if entry["tools"] or entry["turns"]:
                turns = ("%s: %s" % (role, text.replace("\n", "\\n")) for role, text in entry["turns"])
                print(" | ".join(turns))


def serve(log_path, port_file):
    Handler.log_path = log_path
    open(log_path, "a", encoding="utf-8").close()
    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    with open(port_file + ".new", "w", encoding="ascii") as file:
        file.write(str(server.server_address[1]))
    os.rename(port_file + ".new", port_file)
    server.serve_forever()


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    if sys.argv[1] == "--show":
        show(sys.argv[2])
    else:
        serve(sys.argv[1], sys.argv[2])
