"""How each figure of ci/bench is taken. Peers and agentsup are measured in turn, round by round, so that what
else the machine does meets all of them; only figures of one run may be compared."""

import os
import pty
import re
import select
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))
# What each way of output is, and how many bytes of it are sent.
KINDS = ("text", "raw", "tui")


class Ground:
    """Where everything of one run lies: tools, texts, state dirs."""

    def __init__(self, binary):
        self.dir = tempfile.mkdtemp(prefix="agentsup-bench-")
        self.binary = os.path.abspath(binary)
        self.tool = os.path.join(self.dir, "bench")
        subprocess.run(
            ["cc", "-O2", "-static", "-o", self.tool, os.path.join(HERE, "bench.c"), "-lutil"], check=True
        )
        self.off = self.write("off.toml", "[screen]\nenabled = false\n[log]\njournald = false\n")
        self.on = self.write("on.toml", "[log]\njournald = false\n")
        # In memory, as /run is, where a disk's own time would be most of a start. On disk: `on_disk`.
        memory = "/dev/shm" if os.access("/dev/shm", os.W_OK) else self.dir
        self.state = tempfile.mkdtemp(prefix="agentsup-bench-", dir=memory)
        self.on_disk = os.path.join(self.dir, "state")

    def write(self, name, text):
        path = os.path.join(self.dir, name)
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)
        return path

    def close(self):
        shutil.rmtree(self.dir, ignore_errors=True)
        shutil.rmtree(self.state, ignore_errors=True)

    def inits(self):
        """Each as it stands before a command."""
        return {
            "agentsup": [self.binary, "init", "--"],
            "bare": [self.tool, "init"],
            "tini": [which("tini"), "-s", "--"],
            "tini-static": [which("tini-static"), "-s", "--"],
            "dumb-init": [which("dumb-init"), "--"],
            "catatonit": [which("catatonit"), "--"],
        }

    def run(self, config=None, session="bench", on_clean="exit", state=None):
        options = ["--dir", state or self.state, "--session", session, "--io", "pty", "--config", config or self.on]
        return [self.binary, "run", *options, "--on-clean", on_clean, "--"]

    def ptys(self):
        return {"agentsup": self.run(), "off": self.run(self.off), "loop": [self.tool, "loop"]}

    def other_ptys(self, *command):
        """The peers that own a terminal; each takes its command in its own way."""
        words = " ".join("'%s'" % word.replace("'", "'\\''") for word in command)
        tcl = " ".join("{%s}" % word for word in command)
        self.dtach = os.path.join(self.dir, "dtach")
        return {
            "script": [which("script"), "-qefc", "exec " + words, "/dev/null"],
            "dtach": [which("dtach"), "-A", self.dtach, "-E", "-z", "-r", "none", *command],
            "expect": [which("expect"), "-c", "set timeout -1; spawn -noecho %s; interact" % tcl],
        }

    def services(self, command):
        """The peers that are told in a file what to run, with that file."""
        folder = os.path.join(self.dir, "s6")
        os.mkdir(folder)
        run = self.write("s6/run", "#!/bin/sh\nexec %s\n" % " ".join(command))
        os.chmod(run, 0o755)
        told = "[supervisord]\nnodaemon=true\nlogfile=/dev/null\nlogfile_maxbytes=0\npidfile=%s/supervisord.pid\n[program:it]\ncommand=%s\n"
        config = self.write("supervisord.conf", told % (self.dir, " ".join(command)))
        return {"s6": [which("s6-supervise"), folder], "supervisord": [which("supervisord"), "-c", config]}


def which(name):
    return shutil.which(name) or sys.exit("ci/bench: no %s" % name)


def numbers(command, **more):
    """What a tool of ours printed."""
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, stdin=subprocess.DEVNULL, **more)
    if done.returncode != 0:
        sys.exit("ci/bench: %s ended with %d" % (" ".join(command), done.returncode))
    return [int(word) for word in done.stdout.split()]


def in_turn(ways, rounds, take):
    """The median of what `take` says of each way, the ways taken in turn."""
    seen = {name: [] for name in ways}
    for _ in range(rounds):
        for name, way in ways.items():
            seen[name].append(take(way))
    return {name: statistics.median(values) for name, values in seen.items()}


def status(pid, key):
    with open("/proc/%d/status" % pid, encoding="ascii", errors="replace") as file:
        return int(next(line for line in file if line.startswith(key + ":")).split()[1])


def cpu(pids):
    """Processor time of these processes alone, in seconds."""
    total = 0
    for pid in pids:
        for task in os.listdir("/proc/%d/task" % pid):
            with open("/proc/%d/task/%s/schedstat" % (pid, task), encoding="ascii") as file:
                total += int(file.read().split()[0])
    return total / 1e9


def sizes(ground):
    paths = {"agentsup": ground.binary, "tini-static": which("tini-static"), "catatonit": which("catatonit")}
    return {name: os.path.getsize(path) for name, path in paths.items()}


class Idle:
    """Everybody at rest with a child that waits, at the same time."""

    def __init__(self, ground):
        self.ground, self.pids, self.children = ground, {}, []
        waits = [ground.tool, "echo"]
        for name, command in ground.inits().items():
            self.start("init " + name if name == "agentsup" else name, command + waits, subprocess.PIPE)
        self.start("run agentsup", ground.run(session="idle") + waits, subprocess.DEVNULL)
        self.start("loop", [ground.tool, "loop", *waits], subprocess.PIPE)
        self.start("dtach", [which("dtach"), "-N", os.path.join(ground.dir, "idle.dtach"), *waits], subprocess.DEVNULL)
        for name, command in ground.services([ground.tool, "handler", "1"]).items():
            self.start(name, command, subprocess.DEVNULL)
        self.tmux = ["tmux", "-f", "/dev/null", "-S", os.path.join(ground.dir, "idle.tmux")]
        subprocess.run([*self.tmux, "new-session", "-d", "-x", "120", "-y", "40", *waits], check=True)
        asked = subprocess.run([*self.tmux, "display-message", "-p", "#{pid}"], check=True, stdout=subprocess.PIPE)
        self.pids["tmux"] = int(asked.stdout)
        time.sleep(2)

    def start(self, name, command, stdin):
        child = subprocess.Popen(command, stdin=stdin, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        self.children.append(child)
        self.pids[name] = child.pid

    def resident(self):
        return {name: status(pid, "VmRSS") for name, pid in self.pids.items()}

    def wake_ups(self, seconds):
        count = lambda pid: status(pid, "voluntary_ctxt_switches") + status(pid, "nonvoluntary_ctxt_switches")
        before = {name: count(pid) for name, pid in self.pids.items()}
        time.sleep(seconds)
        return {name: count(pid) - before[name] for name, pid in self.pids.items()}

    def close(self):
        subprocess.run([*self.tmux, "kill-server"], check=False)
        for child in self.children:
            child.terminate()
        for child in self.children:
            try:
                child.wait(5)
            except subprocess.TimeoutExpired:
                child.kill()
                child.wait()


def start_up(ground, rounds, runs):
    """Microseconds that each adds to a command that ends at once."""
    tool = ground.tool
    ways = {name: [*command, tool, "true"] for name, command in ground.inits().items()}
    ways = {("init" if name == "agentsup" else name): way for name, way in ways.items()}
    ways["run"] = [*ground.run(), tool, "true"]
    ways["run on disk"] = [*ground.run(state=ground.on_disk), tool, "true"]
    ways["loop"] = [tool, "loop", tool, "true"]
    ways["script"] = ground.other_ptys(tool, "true")["script"]
    ways["none"] = [tool, "true"]
    took = in_turn(ways, rounds, lambda way: numbers([tool, "spawn", str(runs), *way])[0] / 1000)
    return {name: value - took["none"] for name, value in took.items() if name != "none"}


def signals(ground, rounds, runs):
    """Microseconds from a signal to the child's handler."""
    ways = {name: [*command, ground.tool, "handler", "9"] for name, command in ground.inits().items()}
    return in_turn(ways, rounds, lambda way: numbers([ground.tool, "signals", str(runs), *way])[0] / 1000)


def orphans(ground, rounds, count):
    """Microseconds an orphan, until all are reaped; and PID 1's own processor time for one."""
    place = ["unshare", "--pid", "--fork", "--mount-proc"]
    ways = {name: [*place, *command, ground.tool, "orphans", str(count)] for name, command in ground.inits().items()}
    own = {name: [] for name in ways}
    taken = {name: [] for name in ways}
    for _ in range(rounds):
        for name, way in ways.items():
            took, used = numbers(way)
            taken[name].append(took / count / 1000)
            own[name].append(used / count / 1000)
    medians = lambda all_: {name: statistics.median(values) for name, values in all_.items()}
    return medians(taken), medians(own)


def texts(ground, megabytes):
    """A build's log; bytes of which none is a control; and what a program that draws its screen writes."""
    line = "%6d  the quick brown fox jumps over the lazy dog and writes a log line about it\n"
    printable = bytes(range(0x20, 0x7F)) + "äöü€漢字".encode() + bytes(range(0xA0, 0x100))
    frame = "".join(
        "\x1b[%d;1H\x1b[38;5;%dm│ \x1b[1mitem %d\x1b[0m ✔ done \x1b[K" % (n % 40 + 1, n % 256, n) for n in range(4000)
    )
    blocks = {
        "text": "".join(line % n for n in range(10000)).encode(),
        "raw": (printable * 40 + b"\n") * 10,
        "tui": frame.encode(),
    }
    files = {}
    for kind, block in blocks.items():
        files[kind] = os.path.join(ground.dir, kind)
        with open(files[kind], "wb") as file:
            while file.tell() < megabytes << 20:
                file.write(block)
    return files


def through(command, pids_of=lambda pid: [pid]):
    """Seconds until the last of a command's output is shown on a terminal, and what that cost its wrapper."""
    child, master = pty.fork()
    if child == 0:
        os.environ["TERM"] = "xterm-256color"
        os.execvp(command[0], command)
    began = cost = took = None
    tail = b""
    while took is None:
        got = os.read(master, 1 << 16)
        tail = (tail + got)[-4096:]
        if began is None and b"BEGIN" in tail:
            began, cost = time.monotonic(), cpu(pids_of(child))
            os.write(master, b"\r")
        elif began is not None and b"THE-END" in tail:
            took, cost = time.monotonic() - began, cpu(pids_of(child)) - cost
    os.write(master, b"\r")
    try:
        while os.read(master, 1 << 16):
            pass
    except OSError:
        pass
    os.waitpid(child, 0)
    os.close(master)
    return took, cost


def throughput(ground, files, rounds):
    """MB/s and own CPU seconds for a GB, for each kind of output."""
    tmux = ["tmux", "-f", "/dev/null", "-S", os.path.join(ground.dir, "tmux")]

    def with_master(pid):
        asked = subprocess.run(["pgrep", "-f", "dtach -A " + ground.dtach], stdout=subprocess.PIPE, check=True)
        return sorted({pid, *map(int, asked.stdout.split())})

    def with_server(pid):
        asked = subprocess.run([*tmux, "display-message", "-p", "#{pid}"], stdout=subprocess.PIPE, check=True)
        return [pid, int(asked.stdout)]

    found = {}
    for kind, file in files.items():
        # `THE-END` is made of two words, so that no echo of the command can be it.
        script = 'printf BEGIN; read go; cat %s; printf "THE%%s" -END; read go' % file
        shell = ["sh", "-c", script]
        ways = {name: ([*command, *shell], None) for name, command in ground.ptys().items()}
        ways |= {name: (command, with_master if name == "dtach" else None) for name, command in ground.other_ptys(*shell).items()}
        ways["tmux"] = ([*tmux, "new-session", *shell], with_server)
        speeds, costs = {name: [] for name in ways}, {name: [] for name in ways}
        size = os.path.getsize(file)
        for _ in range(rounds):
            for name, (way, pids) in ways.items():
                took, cost = through(way, pids) if pids else through(way)
                speeds[name].append(size / 1e6 / took)
                costs[name].append(cost / (size / 1e9))
        found[kind] = (
            {name: max(values) for name, values in speeds.items()},
            {name: statistics.median(values) for name, values in costs.items()},
        )
    return found


def echo(ground, rounds, keys):
    """Microseconds from a key to its echo."""
    ways = {name: [*command, ground.tool, "echo"] for name, command in ground.ptys().items()}
    ways |= ground.other_ptys(ground.tool, "echo")
    ways["none"] = [ground.tool, "echo"]
    return in_turn(ways, rounds, lambda way: numbers([ground.tool, "keys", str(keys), *way])[0] / 1000)


class Served:
    """A supervisor with a socket that is asked."""

    def __init__(self, ground, command, config="", session="served", on_clean="exit"):
        self.ground, self.session = ground, session
        path = ground.write(session + ".toml", "[log]\njournald = false\n" + config)
        self.child = subprocess.Popen(
            [*ground.run(path, session, on_clean), *command],
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
        )
        self.socket = os.path.join(ground.state, "supervisor", session + ".sock")
        end = time.monotonic() + 10
        while not os.path.exists(self.socket) and time.monotonic() < end:
            time.sleep(0.05)

    def calls(self, count, connections):
        return numbers([self.ground.tool, "calls", self.socket, str(count), str(connections)])

    def resident(self):
        return status(self.child.pid, "VmRSS")

    def restarts(self):
        page = subprocess.run(
            [self.ground.binary, "metrics", "--socket", self.socket], stdout=subprocess.PIPE, check=True
        ).stdout.decode()
        return int(re.search(r"^agentsup_restarts_total (\d+)$", page, re.MULTILINE)[1])

    def drain(self, enough):
        """Reads its output until so much has come."""
        seen = 0
        while seen < enough:
            ready, _, _ = select.select([self.child.stdout], [], [], 60)
            got = os.read(self.child.stdout.fileno(), 1 << 16) if ready else b""
            if not got:
                sys.exit("ci/bench: the output ended early")
            seen += len(got)

    def close(self):
        self.child.send_signal(signal.SIGKILL)
        self.child.wait()
        self.child.stdout.close()


def growth(ground, files, full):
    """KiB that came after the warm-up, by what was asked of the supervisor."""
    grown = {}
    served = Served(ground, ["sh", "-c", "while :; do cat %s; done" % files["text"]], session="output")
    served.drain(128 << 20)
    before = served.resident()
    served.drain((1 << 30) if full else 256 << 20)
    grown["output"] = served.resident() - before
    served.close()

    served = Served(ground, [ground.tool, "echo"], session="calls")
    served.calls(10000, 4)
    before = served.resident()
    served.calls(100000 if full else 20000, 4)
    grown["calls"] = served.resident() - before
    served.close()

    policy = (
        '[run]\nrestart = "always"\n[policy]\ntransient_wait = 0\nflapping_wait = "1ms"\nhalt_after = 1000000\n'
        'flapping_after = 1000000\n'
    )
    served = Served(ground, [ground.tool, "true"], policy, session="restarts", on_clean="restart")
    first, last = 200, 1000 if full else 500
    while served.restarts() < first:
        time.sleep(0.02)
    before = served.resident()
    while served.restarts() < first + last:
        time.sleep(0.02)
    grown["restarts"] = served.resident() - before
    served.close()
    return grown
