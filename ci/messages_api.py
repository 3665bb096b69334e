#!/usr/bin/env python3
"""A Messages API for tests: answers every request, on loopback only, and writes down what it was asked.

Usage: messages_api.py LOG PORTFILE    serve; the kernel chooses the port, PORTFILE tells it
       messages_api.py --show LOG      one line for each request of a conversation, its turns joined by " | ",
                                new lines within them shown as \\n

Each request becomes one JSON line in LOG: {"n", "tools", "turns": [[role, text], ...]}. The answer to the
user's words T is "reply to: T". Words that end in "slowly" are answered with a beginning and then silence,
until the client hangs up; "fail now", as a line of them, is answered with an error.
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


def texts(message):
    """The words of one turn, without what the client adds around them in tags of its own."""
    content = message.get("content")
    blocks = [{"type": "text", "text": content}] if isinstance(content, str) else content or []
    found = [b.get("text", "") for b in blocks if isinstance(b, dict) and b.get("type") == "text"]
    return [text.strip() for text in found if not text.lstrip().startswith("<")]


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

    def answer_json(self, status, value):
        data = json.dumps(value).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(data)

    def refuse(self, status, kind, message):
        self.answer_json(status, {"type": "error", "error": {"type": kind, "message": message}})

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
        else:
            self.refuse(404, "not_found_error", path)

    def message(self, request):
        number, turns = remember(request, self.log_path)
        asked = next((text for role, text in reversed(turns) if role == "user"), "nothing")
        if "fail now" in asked.split("\n"):
            self.refuse(400, "invalid_request_error", "failed as asked")
            return
        reply = "reply to: " + asked
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
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream; charset=utf-8")
        self.send_header("Connection", "close")
        self.end_headers()
        self.close_connection = True
        self.event(type="message_start", message=message)
        self.event(type="content_block_start", index=0, content_block={"type": "text", "text": ""})
        self.event(type="content_block_delta", index=0, delta={"type": "text_delta", "text": reply})
        if asked.endswith("slowly"):
            self.keep_silent()
        self.event(type="content_block_stop", index=0)
        self.event(
            type="message_delta",
            delta={"stop_reason": "end_turn", "stop_sequence": None},
            usage={"output_tokens": 5},
        )
        self.event(type="message_stop")

    def event(self, **data):
        self.wfile.write(("event: %s\ndata: %s\n\n" % (data["type"], json.dumps(data))).encode())
        self.wfile.flush()

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
