"""The checks of vehicle.py. This runs in the machine, as root, in the home folder of root.

Each check writes a line to the console: `ok` or `FAILED`, its name, and what was seen. The last line has the numbers of
checks; without it nothing counts.
"""

import functools
import json
import os
import re
import signal
import subprocess
import time
import traceback
import urllib.request
from pathlib import Path

SETTINGS = json.loads(Path("settings.json").read_text())
RULES = Path("/etc/candor/car.rules.toml")
SIGNALS = Path("/etc/candor/car.signals.toml")
ROUTE = "candor-route@car.service"
SERVICE = "candor-signals@car.service"
# Written by dpkg and systemd about themselves, or at any time.
NOT_OURS = re.compile(r"^/(proc|sys|dev|run|tmp|root|var/tmp|var/(lib|log|cache)/(dpkg|apt|systemd|private)|var/log)(/|$)")
# Identifiers are sent in turn, from the first to the last. `low` and `high` pass, and every sixteenth of all is refused.
FIRST, LAST, REFUSED_FROM = 0x100, 0x1FF, 0x1F0
LAST_FRAME = "100#FFFFFFFF"
# An echo is what lets other programs of this machine see what the gateway sends.
RULE = """
[[rule]]
name = "{}"
from = "powertrain"
to = "body"
match = ["{}"]
echo = true
"""
BUSES = """default = "refuse"

[bus]
powertrain = "vcan0?buffer=4194304"
body = "vcan1"
"""
PASSING = BUSES + RULE.format("low", "0x100-0x17F") + RULE.format("high", "0x180-0x1EF")
# "low" stays as it is, "high" gives another identifier, and there is one more.
CHANGED = PASSING + 'set = { id = "0x321" }\n' + RULE.format("more", "0x400")
BROKEN = CHANGED.replace('to = "body"', 'to = "bdoy"', 1)
SERVED = """listen = ["127.0.0.1:1234", "unix:/run/candor-signals/car/signals.sock"]

[bus.body]
port = "vcan1"
dbc = "/usr/share/doc/candor/examples/small-car.dbc"
"""

checks = failed = 0


def say(line):
    print(f"vehicle: {line}", flush=True)


def check(name, holds, seen):
    """Whether something is as it should be, and what was seen of it."""
    global checks, failed
    checks += 1
    failed += not holds
    say(f"{'ok' if holds else 'FAILED'} {name}: " + " ".join(str(seen).split()))


def run(*command, limit=60):
    """The exit code of a command, and what it printed."""
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=limit)
    return done.returncode, done.stdout.strip()


def must(*command, limit=60):
    """What a command prints that has to succeed."""
    code, text = run(*command, limit=limit)
    if code != 0:
        raise RuntimeError(f"{' '.join(command)}: exit code {code}: {text}")
    return text


def objects(*command, limit=60):
    """What a command prints as JSON Lines: pairs of a type and its data. Messages are on standard error."""
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, timeout=limit)
    if done.returncode != 0:
        raise RuntimeError(f"{' '.join(command)}: exit code {done.returncode}: {done.stdout}{done.stderr}")
    return [(line["type"], line["data"]) for line in map(json.loads, done.stdout.splitlines())]


def until(condition, limit=30):
    """Waits until something holds, for a time; the last value of it, and how long it took."""
    began = time.monotonic()
    while True:
        value = condition()
        if value or time.monotonic() - began > limit:
            return value, time.monotonic() - began
        time.sleep(0.1)


def show(unit, *names):
    text = must("systemctl", "show", unit, *(f"--property={name}" for name in names))
    found = dict(line.split("=", 1) for line in text.splitlines())
    return [found[name] for name in names]


def pid_of(unit):
    return int(show(unit, "MainPID")[0])


def is_active(unit):
    return show(unit, "ActiveState", "SubState") == ["active", "running"]


def running():
    """Units of ours that are not at rest."""
    return must("systemctl", "list-units", "--no-legend", "--plain", "--state=active,activating,deactivating,failed", "candor*")


def unusual(text):
    """Warnings of dpkg. It knows of no other packages here, and says that folders of theirs are not empty."""
    words = re.compile("warning|error|fail", re.I)
    return [line for line in text.splitlines() if words.search(line) and "not empty" not in line]


def sockets():
    return sorted(str(path) for path in Path("/run/candor").rglob("*") if path.is_socket())


def stats():
    """What the gateway counted: the port of vcan0, rules by name, and the summary."""
    found = objects("candor", "route", "stats", "--control", "/run/candor/car/car.sock", "--json")
    port = next(data for kind, data in found if kind == "port" and data["bus"] == "powertrain")
    return port, {data["rule"]: data for kind, data in found if kind == "rule"}, found[-1][1]


def answers():
    """The counters, or nothing if the gateway does not answer."""
    try:
        return stats()
    except RuntimeError:
        return None


def kernel_count(interface):
    """How many frames the kernel sent on an interface."""
    return int(Path(f"/sys/class/net/{interface}/statistics/tx_packets").read_text())


def backlog_drops():
    """How many frames the kernel dropped on their way from an interface to sockets: the second column, of each processor.

    A thread with real-time priority that sends on a virtual bus keeps ksoftirqd of its processor waiting, which hands on what
    it sent. Up to netdev_max_backlog frames wait.
    """
    return sum(int(line.split()[1], 16) for line in Path("/proc/net/softnet_stat").read_text().splitlines())


def files():
    found = set()
    for folder, folders, names in os.walk("/"):
        folders[:] = [name for name in folders if not NOT_OURS.match(os.path.join(folder, name))]
        found.update(os.path.join(folder, name) for name in (*folders, *names))
    return {name for name in found if not NOT_OURS.match(name)}


def has_socket(pid):
    files = Path(f"/proc/{pid}/fd")
    try:
        return any(str(file.readlink()).startswith("socket:") for file in files.iterdir())
    except FileNotFoundError:
        # One of them was closed meanwhile.
        return False


def passes(*sent):
    """What comes out on vcan1 within some seconds when frames are sent on vcan0, in the notation of candump."""
    with subprocess.Popen(["candor", "bus", "dump", "vcan1", "--time", "6s", "-L"], stdout=subprocess.PIPE, text=True) as dump:
        # An emulated machine may take a second to start a program.
        until(lambda: has_socket(dump.pid))
        time.sleep(0.5)
        must("candor", "bus", "send", "vcan0", *sent)
        return [line.split()[2] for line in dump.stdout.read().splitlines()]


# ---- The checks, in their order -----------------------------------------------------------------


def doctor():
    """Without and with CAN interfaces; the package is there."""
    must("dpkg", "-i", "lower.deb")
    check("nothing runs by itself", running() == "", running() or "no unit of candor is loaded")
    code, _ = run("candor", "doctor")
    check("doctor without an interface", code == 1, f"exit code {code}")
    # As doctor advises: room for frames while the gateway does not run.
    Path("/proc/sys/net/core/rmem_max").write_text("8388608")
    Path("/proc/sys/net/core/netdev_max_backlog").write_text("100000")
    for name in ["vcan0", "vcan1"]:
        must("ip", "link", "add", name, "type", "vcan")
        must("ip", "link", "set", name, "up")
    code, text = run("candor", "doctor", "--json")
    verdict = json.loads(text.splitlines()[-1])["data"]
    check("doctor with interfaces", code == 0 and verdict["can_run"], f"exit code {code}, {verdict}")


def start():
    RULES.write_text(PASSING)
    must("candor", "route", "check", str(RULES))
    must("systemctl", "enable", "--now", "candor-route@car")
    kind, state, text, pid = show(ROUTE, "Type", "SubState", "StatusText", "MainPID")
    check("service is ready", (kind, state) == ("notify", "running") and text, f"Type={kind}, {state}, status `{text}`")
    priorities = {}
    for task in Path(f"/proc/{pid}/task").iterdir():
        number = int(task.name)
        if os.sched_getscheduler(number) == os.SCHED_FIFO:
            name = (task / "comm").read_text().strip()
            priorities[name] = (os.sched_getparam(number).sched_priority, sorted(os.sched_getaffinity(number)))
    good = priorities and all(value == (80, [1]) for value in priorities.values())
    check("threads have real-time priority", good, f"SCHED_FIFO priority and processors: {priorities}")
    status = dict(line.split(":", 1) for line in Path(f"/proc/{pid}/status").read_text().splitlines())
    user = status["Uid"].split()[0]
    check("memory is locked", int(status["VmLck"].split()[0]) > 0, f"VmLck {status['VmLck']}")
    check("it is not root", user != "0", f"user {user}, capabilities {status['CapEff'].strip()}")
    check("control socket", sockets() == ["/run/candor/car/car.sock"], sockets())


def record(command):
    """Records vcan1 while a command runs and until the gateway has dealt with what it sent; what the recorder says."""
    path = Path("/run/vcan1.log")
    path.unlink(missing_ok=True)
    recorder = subprocess.Popen(
        ["candor", "bus", "record", "body=vcan1?buffer=8388608", "--output", str(path), "--json"],
        stdout=subprocess.PIPE,
        text=True,
    )
    # What is recorded stands in another file until the end.
    beside, _ = until(lambda: [found for found in Path("/run").iterdir() if "vcan1.log" in found.name])
    time.sleep(1)
    sent = command()
    until(lambda: LAST_FRAME.encode() in beside[0].read_bytes()[-200:], 60)
    recorder.send_signal(signal.SIGINT)
    lines = [json.loads(line) for line in recorder.communicate(timeout=60)[0].splitlines()]
    return path, sent, next(line["data"] for line in lines if line["type"] == "port")


def frames():
    """Sends many frames, and looks at each of them afterwards."""
    frames = SETTINGS["frames"]
    sent_before, out_before, drops_before = kernel_count("vcan0"), kernel_count("vcan1"), backlog_drops()

    def send():
        count = ["--count", str(frames), "--rate", "4000/s", "--id", f"0x{FIRST:X}-0x{LAST:X}", "--data", "increment"]
        began = time.monotonic()
        # On one processor: the kernel does not keep frames in order that two processors sent.
        command = ["taskset", "--cpu-list", "0", "candor", "bus", "generate", "vcan0", *count, "--json"]
        delivery = objects(*command, limit=600)[-1][1]
        took = time.monotonic() - began
        # What the kernel dropped before the gateway could receive it is known with the next frame.
        must("candor", "bus", "send", "vcan0", LAST_FRAME)
        until(lambda: stats()[0]["received"] + stats()[0]["overflow_frames"] >= delivery["sent"] + 1)
        return delivery["sent"], took

    path, (sent, took), recorder = record(send)
    port, rules, _ = stats()
    total = kernel_count("vcan0") - sent_before
    check("frames are sent", sent == frames and total == frames + 1, f"{sent} in {took:.1f} s; the kernel counts {total}")
    received, overflow = port["received"], port["overflow_frames"]
    check("every frame sent is counted", received + overflow == total, f"{total} = {received} received + {overflow} overflow")
    routed, not_routed, refused = (port[name] for name in ["routed", "not_routed", "refused"])
    equal = received == routed + not_routed + refused
    check("every frame received is counted", equal, f"{received} = {routed} routed + {not_routed} not routed + {refused} refused")
    copies, handled, pending, lost = (
        sum(rule[name] for rule in rules.values()) for name in ["copies", "handled", "pending", "lost"]
    )
    stopped = {name: rule["stopped"] for name, rule in rules.items()}
    equal = copies == routed == handled + pending + lost
    check("every copy is counted", equal, f"{copies} = {handled} handled + {pending} pending + {lost} lost {stopped}")
    out = kernel_count("vcan1") - out_before
    check("what the gateway sent, the kernel sent", out == handled, f"{handled} handled; the kernel counts {out}")
    frames_seen(path, recorder, handled, frames, lost, overflow, backlog_drops() - drops_before)


def frames_seen(path, recorder, handled, frames, lost_before, overflow, drops):
    """Whether the recording of vcan1 has the frames that should be there, in their order."""
    # The data of a frame is its number, low byte first; the last one is from us.
    numbers = []
    wrong = 0
    for line in path.read_text().split("\n"):
        fields = line.split()
        if len(fields) < 3:
            continue
        identifier, data = fields[2].split("#")
        number = int.from_bytes(bytes.fromhex(data), "little")
        if number != 0xFFFFFFFF:
            numbers.append(number)
            wrong += int(identifier, 16) != FIRST + number % (LAST - FIRST + 1)
    expected = [number for number in range(frames) if FIRST + number % (LAST - FIRST + 1) < REFUSED_FROM]
    recorded, lost = recorder["frames"], recorder["overflow"] + recorder["unwritten"]
    seen = f"{handled} = {recorded} recorded + {lost} overflow of the recorder + {drops} that the kernel dropped between them"
    check("what was sent arrives", recorded + lost + drops == handled, seen)
    disordered = sum(a >= b for a, b in zip(numbers, numbers[1:]))
    strange = len(set(numbers) - set(expected)) + len(numbers) - len(set(numbers))
    missing = len(expected) - len(numbers)
    # Of the frames that the kernel dropped before the gateway, some would not have passed.
    known = lost + lost_before + drops
    seen = f"{len(numbers)} of {len(expected)} that may pass; {known} are counted as lost, and up to {overflow} as overflow"
    check("those that may pass, and no others", not strange and known <= missing <= known + overflow, seen)
    seen = f"{wrong} with another identifier than they were sent with, {disordered} behind one that was sent later"
    check("unchanged and in order", wrong == 0 and disordered == 0, seen)


def reload():
    pid = pid_of(ROUTE)
    before = stats()
    RULES.write_text(CHANGED)
    must("systemctl", "reload", ROUTE)
    until(lambda: "more" in stats()[1])
    _, rules, summary = stats()
    seen = f"generation {before[2]['generation']}, then {summary['generation']}; rules {sorted(rules)}"
    check("reload takes changed rules", "more" in rules and summary["generation"] > before[2]["generation"], seen)
    check("reload keeps the process", pid_of(ROUTE) == pid and is_active(ROUTE), f"{pid}, then {pid_of(ROUTE)}")
    kept = [rule[name]["handled"] for rule in (before[1], rules) for name in ("low", "high")]
    check("counters stay", kept[:2] == kept[2:] and min(kept) > 0, f"`low` and `high`: {kept[:2]}, then {kept[2:]}")
    seen = passes("100#11", "180#22", "400#33", "1F0#44")
    check("the new rules are used", seen == ["100#11", "321#22", "400#33"], f"100#11 180#22 400#33 1F0#44 become {seen}")

    RULES.write_text(BROKEN)
    must("systemctl", "reload", ROUTE)
    until(lambda: stats()[2]["rejected"])
    summary = stats()[2]
    check("a broken file is told", "bdoy" in str(summary["rejected"]), summary["rejected"])
    code, text = run("candor", "route", "stats", "--control", "/run/candor/car/car.sock", "--check")
    check("stats --check says so", code == 1, f"exit code {code}: {text}")
    check("the process stays", pid_of(ROUTE) == pid and is_active(ROUTE), f"{pid}, then {pid_of(ROUTE)}")
    seen = passes("180#22", "400#33")
    check("the old rules stay in use", seen == ["321#22", "400#33"], f"180#22 400#33 become {seen}")
    RULES.write_text(PASSING)
    must("systemctl", "reload", ROUTE)
    until(lambda: not stats()[2]["rejected"])
    seen = passes("180#22", "400#33")
    check("the file is right again", not stats()[2]["rejected"] and seen == ["180#22"], f"180#22 400#33 become {seen}")


def watchdog():
    pid = pid_of(ROUTE)
    os.kill(pid, signal.SIGSTOP)
    _, took = until(lambda: pid_of(ROUTE) not in (0, pid) and is_active(ROUTE), 130)
    restarts, limit = show(ROUTE, "NRestarts", "WatchdogUSec")
    new = pid_of(ROUTE)
    good = new not in (0, pid) and restarts == "1" and 5 < took < 20
    check("watchdog", good, f"{pid} stood still; {new} runs after {took:.1f} s; WatchdogSec {limit}, {restarts} restart")
    journal = must("journalctl", "--no-pager", "--output=cat", "--unit", ROUTE)
    told = [line for line in journal.splitlines() if "atchdog" in line]
    check("the journal says why", told, told[:2])
    seen = passes("100#55")
    check("frames pass again", seen == ["100#55"], f"100#55 becomes {seen}")


def signals():
    """The signal service of the same name, beside the gateway."""
    SIGNALS.write_text(SERVED)
    must("candor", "signals", "check", str(SIGNALS))
    must("systemctl", "enable", "--now", "candor-signals@car")
    text = show(SERVICE, "StatusText")[0]
    check("signal service is ready", is_active(SERVICE), f"status `{text}`")
    code, text = run("candor", "signals", "stats", "--check")
    check("signal service is well", code == 0, f"exit code {code} {text}")
    code, text = run("candor", "signals", "stats", "unix:/run/candor-signals/car/signals.sock", "--check")
    check("its Unix socket answers", code == 0, f"exit code {code} {text}")
    signal_value()
    check("the gateway still answers", answers(), sockets())
    must("systemctl", "restart", SERVICE)
    answer, took = until(answers, 5)
    check("the gateway answers after a restart of the service", answer, f"{took:.1f} s, {sockets()}")
    must("systemctl", "restart", ROUTE)
    good = until(answers, 5)[0] and run("candor", "signals", "stats", "--check")[0] == 0
    check("both answer after a restart of the gateway", good, sockets())


def signal_value():
    watch = subprocess.Popen(
        ["candor", "signals", "watch", "ws://127.0.0.1:1234/api", "body/VehicleSpeed.Speed", "--count", "1"],
        stdout=subprocess.PIPE,
        text=True,
    )
    time.sleep(2)
    must("candor", "bus", "send", "vcan1", "--dbc", "/usr/share/doc/candor/examples/small-car.dbc", "VehicleSpeed", "Speed=100")
    try:
        text = watch.communicate(timeout=20)[0]
    except subprocess.TimeoutExpired:
        watch.kill()
        text = "nothing within 20 s"
    check("a signal arrives", re.search(r"VehicleSpeed\.Speed\s+100\b", text), text)
    with urllib.request.urlopen("http://127.0.0.1:1234/values?name=body/VehicleSpeed.Speed", timeout=20) as answer:
        text = answer.read().decode()
    check("a program gets its value by HTTP", re.search(r'"value":100\b', text), text)


def upgrade():
    """The package replaces one with a lower version while frames flow."""
    # systemd would take the name for an escaped path, if it were asked to.
    other = "candor-route@left-door.service"
    RULES.with_name("left-door.rules.toml").write_text(BUSES + RULE.format("doors", "0x500"))
    must("systemctl", "enable", "--now", other)
    before = {unit: pid_of(unit) for unit in (ROUTE, SERVICE, other)}
    rules = RULES.read_text()
    version = must("dpkg-query", "--show", "candor")
    counted = stats()[0]["received"]
    sender = subprocess.Popen(
        ["candor", "bus", "generate", "vcan0", "--time", "120s", "--rate", "1000/s", "--id", "0x100", "--json"],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        until(lambda: stats()[0]["received"] > counted + 1000)
        began = time.monotonic()
        text = must("dpkg", "-i", "candor.deb", limit=120)
        took = time.monotonic() - began
        versions = f"{version.split()[1]}, then {must('dpkg-query', '--show', 'candor').split()[1]}"
        check("upgrade says nothing unusual", not unusual(text), f"{versions}, {took:.1f} s {unusual(text) or ''}")
        for unit, old in before.items():
            until(lambda: is_active(unit))
            new = pid_of(unit)
            program = os.readlink(f"/proc/{new}/exe") if new else "none"
            same = new and os.path.samefile(f"/proc/{new}/exe", "/usr/bin/candor")
            good = is_active(unit) and new != old and same and program == "/usr/bin/candor"
            check(f"{unit} runs the new program", good, f"{old}, then {new}: {program}")
        flows, _ = until(lambda: answers() and stats()[0]["routed"])
        check("frames flow again", flows, f"{flows} routed since")
        _, _, summary = stats()
        fresh = summary["uptime_ns"] / 1e9 < 60 and summary["pid"] == pid_of(ROUTE)
        check("counters begin at 0", fresh and stats()[0]["routed"] < 60_000, f"up for {summary['uptime_ns'] / 1e9:.1f} s")
        check("rules stay", RULES.read_text() == rules and set(stats()[1]) == {"low", "high"}, sorted(stats()[1]))
        check("the control socket is where it was", "/run/candor/car/car.sock" in sockets(), sockets())
    finally:
        sender.kill()
        sender.wait()
    enabled = [run("systemctl", "is-enabled", unit)[1] for unit in before]
    check("all are still enabled", set(enabled) == {"enabled"}, enabled)


def refused_upgrade():
    """An upgrade to a program that does not take the rule file: the gateway goes on with the old one."""
    pid = pid_of(ROUTE)
    RULES.write_text(BROKEN)
    text = must("dpkg", "-i", "candor.deb", limit=120)
    told = [line for line in text.splitlines() if "was not restarted" in line]
    check("an upgrade tells what it did not restart", len(told) == 1 and ROUTE in told[0], told)
    check("a gateway whose file is refused goes on", pid_of(ROUTE) == pid and is_active(ROUTE), f"{pid}, then {pid_of(ROUTE)}")
    check("the signal service is restarted", is_active(SERVICE), f"{pid_of(SERVICE)}")
    RULES.write_text(PASSING)
    must("systemctl", "restart", ROUTE)
    seen = passes("100#66")
    check("frames pass with the file right again", seen == ["100#66"], f"100#66 becomes {seen}")


def python():
    """The Python package: a client of the signal service, and a recording that becomes columns."""
    import candor

    dbc = "/usr/share/doc/candor/examples/small-car.dbc"
    client = ["python3", "/usr/share/doc/candor/examples/client.py", "http://127.0.0.1:1234", "body", dbc, "1"]
    with subprocess.Popen(client, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as process:
        sender = ["candor", "bus", "send", "vcan1", "--dbc", dbc, "VehicleSpeed", "Speed=100", "--count", "100", "--gap", "100ms"]
        must(*sender)
        text = process.communicate(timeout=30)[0].strip()
    check("a client in Python has the signals", text == "VehicleSpeed {'Speed': 100.0, 'Valid': 0}", text)

    tables = candor.decode("recordings/drive.log", dbc)
    rows = {name: len(table) for name, table in tables.items() if name in ("EngineSpeed", "VehicleSpeed")}
    check("Python decodes a recording", len(rows) == 2 and min(rows.values()) > 0, f"rows {rows}")


def removal(before):
    must("dpkg", "-r", "candor", limit=120)
    check(
        "removal stops what runs", running() == "" and not is_active(ROUTE) and not is_active(SERVICE), running() or "nothing runs"
    )
    left = processes()
    check("no process is left", not left, left or "none")
    check("rule files stay at removal", RULES.exists() and SIGNALS.exists(), sorted(map(str, RULES.parent.iterdir())))
    text = must("dpkg", "--purge", "candor")
    check("purge says nothing unusual", not unusual(text), unusual(text) or "no warnings")
    left = sorted(files() - before)
    check("purge leaves nothing", not left, left or "no file that was not there before")
    left = sorted(before - files())
    check("purge takes nothing else", not left, left or "no file is missing")
    left = [str(path) for path in Path("/run").glob("candor*/*")]
    check("nothing is left in /run", not left, left or "no socket, and no folder of a unit")


def processes():
    """Processes whose program is or was candor."""
    found = []
    for path in Path("/proc").glob("[0-9]*/exe"):
        try:
            if "candor" in os.readlink(path):
                found.append(path.parent.name)
        except OSError:
            pass
    return found


def main():
    release, cpus = os.uname().release, os.cpu_count()
    say(f"Linux {release}, {must('systemctl', '--version').splitlines()[0]}, {cpus} processors, up for {time.monotonic():.0f} s")
    before = files()
    python_steps = [python] if SETTINGS["wheel"] else []
    steps = [doctor, start, frames, reload, watchdog, signals, upgrade, refused_upgrade]
    for step in [*steps, *python_steps, functools.partial(removal, before)]:
        name = getattr(step, "func", step).__name__
        began = time.monotonic()
        try:
            step()
        except Exception:
            check(f"step {name}", False, traceback.format_exc())
        say(f"-- {name}: {time.monotonic() - began:.1f} s")
    if failed:
        for unit in (ROUTE, SERVICE):
            print(run("journalctl", "--no-pager", "--unit", unit)[1], flush=True)
    say(f"end: {checks} checks, {failed} failed")


if __name__ == "__main__":
    main()
