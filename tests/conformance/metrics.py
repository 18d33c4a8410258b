"""Reads candor's `/metrics` with the parser of Prometheus' own library for Python.

    tests/.venv/bin/python tests/conformance/metrics.py path/to/candor

A gateway runs between two tunnels on loopback. Frames are sent through it; then every line of the page
must be one that prometheus_client (PyPI) reads, names, labels and values must be those that `candor
route stats --json` tells, and the rule must have its name back, quotes and all. A signal service is compared with
`candor signals stats --json` in the same way. promtool of Prometheus finds nothing to say about both pages and the
alerts in examples/prometheus, which do what their tests say, and ask for metrics that are on the pages. Exit code 0 if
all agree, 1 if not.
"""

import json
import re
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import urllib.error
import urllib.request
from pathlib import Path

from prometheus_client.parser import text_string_to_metric_families

# What has to be escaped.
RULE = 'say "when" \\ never, ü {x="y"}'
MATCHED, UNMATCHED = 100, 50
ALERTS = Path(__file__).parents[2] / "examples" / "prometheus"
# Longer than anything here takes.
FOR_EVER = 60


def bound():
    """A UDP socket with a port of its own."""
    udp = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    udp.bind(("127.0.0.1", 0))
    udp.settimeout(FOR_EVER)
    return udp


def free_port():
    with bound() as udp:
        return udp.getsockname()[1]


def datagram(sequence, can_id):
    """One frame, as cannelloni sends it."""
    header = struct.pack(">BBBH", 2, 0, sequence % 256, 1)
    return header + struct.pack(">IB", can_id, 2) + b"\xab\xcd"


def fetch(url, method="GET"):
    request = urllib.request.Request(url, method=method)
    with urllib.request.urlopen(request, timeout=FOR_EVER) as answer:
        return answer.headers, answer.read().decode()


def status(url, method="GET"):
    try:
        fetch(url, method)
        return 200
    except urllib.error.HTTPError as error:
        return error.code


def stats(candor, control):
    command = [candor, "route", "stats", "--control", control, "--json"]
    output = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    return [json.loads(line) for line in output.splitlines()]


def samples(page):
    """Every sample of a page by its name and labels; each must be there once."""
    found = {}
    for family in text_string_to_metric_families(page):
        assert family.documentation, f"{family.name} has no HELP"
        assert family.type in ("counter", "gauge", "summary"), f"{family.name}: {family.type}"
        for sample in family.samples:
            key = (sample.name, frozenset(sample.labels.items()))
            assert key not in found, f"{key} is there twice"
            found[key] = sample.value
    lines = [line for line in page.splitlines() if not line.startswith("#")]
    assert len(lines) == len(found), f"{len(lines)} lines, {len(found)} samples"
    return found


def compare(found, told):
    """The page against what `candor route stats` tells."""

    def value(name, **labels):
        return found[(name, frozenset(labels.items()))]

    by_type = {}
    for line in told:
        by_type.setdefault(line["type"], []).append(line["data"])
    assert value("candor_up") == 1
    assert value("candor_rules_generation") == by_type["summary"][0]["generation"]
    assert value("candor_rules_rejected") == 0
    for port in by_type["port"]:
        labels = {"bus": port["bus"], "port": port["port"]}
        for metric, field in [
            ("received_frames_total", "received"),
            ("routed_frames_total", "routed"),
            ("not_routed_frames_total", "not_routed"),
            ("refused_frames_total", "refused"),
            ("transmitted_frames_total", "transmitted"),
            ("queue_frames", "queued"),
            ("queue_depth_frames", "queue_depth"),
        ]:
            assert value(f"candor_port_{metric}", **labels) == port[field], (port, metric)
        assert port["received"] == port["routed"] + port["not_routed"] + port["refused"], port
    for rule in by_type["rule"]:
        assert rule["rule"] == RULE
        labels = {key: rule[key] for key in ("rule", "from", "to")}
        handled = value("candor_rule_copies_total", **labels, outcome="handled", cause="")
        assert handled == rule["handled"] == MATCHED, rule
        ended = ("handled", "pending", "refused", "lost")
        assert rule["copies"] == sum(rule[ending] for ending in ended) == MATCHED, rule
    for latency in by_type["latency"]:
        labels = {key: latency[key] for key in ("from", "to")}
        assert value("candor_latency_seconds_count", **labels) == latency["count"]
        for quantile, field in [("0.5", "p50_ns"), ("0.99", "p99_ns"), ("0.999", "p999_ns")]:
            seconds = value("candor_latency_seconds", **labels, quantile=quantile)
            # Not a number as long as nothing was measured.
            expected = latency[field] / 1e9 if latency["count"] else None
            assert seconds == expected or (expected is None and seconds != seconds), latency
    received = sum(port["received"] for port in by_type["port"])
    assert received == MATCHED + UNMATCHED, by_type["port"]


def address(gateway):
    """Where the metrics are, as the gateway tells it."""
    for line in gateway.stderr:
        found = re.search(r"http://\S+/metrics", line)
        if found:
            return found.group()
    sys.exit("the gateway did not tell where its metrics are")


def promtool(*arguments, page=None):
    """Runs promtool, which must have no objection."""
    command = ["promtool", *map(str, arguments)]
    found = subprocess.run(command, input=page, capture_output=True, text=True)
    assert found.returncode == 0, f"{' '.join(command)}: {found.stdout}{found.stderr}"


def check_alerts(pages):
    """The alerts ask for what is on the pages, and do what their tests say."""
    rules = ALERTS / "candor.rules.yml"
    promtool("check", "rules", rules)
    promtool("test", "rules", ALERTS / "candor.test.yml")
    named = set(re.findall(r"\bcandor_\w+", "".join(re.findall(r"expr:.*?labels:", rules.read_text(), re.DOTALL))))
    found = {name for page in pages for name, _ in samples(page)}
    assert len(named) > 10 and named <= found, named - found


def check_service(candor, folder):
    """The page of a signal service, which has a recording and is asked by nobody."""
    log, sock = folder / "drive.log", folder / "signals.sock"
    log.write_text("(1.000000) can0 123#07\n(1.002000) can0 123#08\n", encoding="utf-8")
    command = [candor, "signals", "serve", "--port", f"car=file:{log}?speed=max"]
    command += ["--listen", "127.0.0.1:0", "--listen", f"unix:{sock}"]
    service = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
    try:
        said = service.stderr.readline()
        url = re.search(r"http://[^/]+", said).group() + "/metrics"
        headers, page = fetch(url)
        while ("candor_signals_bus_up{" not in page) or '"} 1' in page.split("candor_signals_bus_up{")[1].split("\n")[0]:
            headers, page = fetch(url)
        assert headers["Content-Type"] == "text/plain; version=0.0.4; charset=utf-8", headers
        asked = [candor, "signals", "stats", f"unix:{sock}", "--json"]
        told = [json.loads(line) for line in subprocess.check_output(asked, text=True).splitlines()]
        bus = next(line["data"] for line in told if line["type"] == "bus")
        labels = frozenset({"bus": bus["name"], "port": bus["port"]}.items())
        found = samples(page)
        assert bus["frames"] == found[("candor_signals_bus_received_frames_total", labels)] == 2, bus
        assert found[("candor_signals_bus_silent_seconds", labels)] <= bus["silent_ns"] / 1e9, bus
        assert found[("candor_signals_subscribers", frozenset())] == 0
        assert status(url.removesuffix("/metrics") + "/healthz") == 503, "the recording is over"
        return page
    finally:
        service.send_signal(signal.SIGTERM)
        service.communicate(timeout=FOR_EVER)


def check(candor, folder):
    before, behind = bound(), bound()
    ours = [free_port(), free_port()]

    def port(peer, listen):
        return f"cannelloni:udp://127.0.0.1:{peer.getsockname()[1]}?listen={listen}"

    rules = folder / "metrics.rules.toml"
    rules.write_text(
        f"""[bus]
before = "{port(before, ours[0])}"
behind = "{port(behind, ours[1])}"

[[rule]]
name = '{RULE}'
from = "before"
to = "behind"
match = ["0x123"]
""",
        encoding="utf-8",
    )
    control = str(folder / "metrics.sock")
    command = [candor, "route", "run", rules, "--control", control, "--metrics", "127.0.0.1:0"]
    gateway = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
    try:
        url = address(gateway)
        for number in range(MATCHED + UNMATCHED):
            can_id = 0x456 if number % 3 == 2 else 0x123
            before.sendto(datagram(number, can_id), ("127.0.0.1", ours[0]))
        frames = 0
        while frames < MATCHED:
            frames += struct.unpack(">BBBH", behind.recv(2048)[:5])[3]
        headers, page = fetch(url)
        # Traffic is over, so that both tell the same.
        while found_received(page) < MATCHED + UNMATCHED:
            headers, page = fetch(url)
        assert headers["Content-Type"] == "text/plain; version=0.0.4; charset=utf-8", headers
        compare(samples(page), stats(candor, control))
        assert fetch(url, "HEAD")[1] == ""
        assert status(url, "POST") == 405
        assert status(url.removesuffix("/metrics") + "/") == 404
        assert status(url.removesuffix("/metrics") + "/healthz?max_silence=60s") == 200
        silent = found_silent(page)
        assert silent == {"before"}, silent
    finally:
        gateway.send_signal(signal.SIGTERM)
        _, told = gateway.communicate(timeout=FOR_EVER)
    assert gateway.returncode == 0, told
    return page


def found_silent(page):
    """The buses that have a silence: those that a rule takes frames from."""
    families = {family.name: family for family in text_string_to_metric_families(page)}
    return {sample.labels["bus"] for sample in families["candor_port_silent_seconds"].samples}


def found_received(page):
    families = {family.name: family for family in text_string_to_metric_families(page)}
    return sum(sample.value for sample in families["candor_port_received_frames"].samples)


def main():
    with tempfile.TemporaryDirectory() as folder:
        pages = [check(sys.argv[1], Path(folder)), check_service(sys.argv[1], Path(folder))]
    for page in pages:
        promtool("check", "metrics", page=page)
    check_alerts(pages)
    print("prometheus_client and promtool read every metric as candor tells it")


main()
