"""Holds the dashboard in examples/grafana and the alerts in examples/prometheus against the tables of docs/metrics.md.

    python3 tests/conformance/monitoring.py

Tests of the crates gateway and signal-service make these tables from the program, so what is asked for here is what the program tells.

* Every metric that an expression names is in a table, and so is every label that it compares, groups by or shows.
* rate(), irate() and increase() take counters, and delta(), deriv() and *_over_time() take gauges. A counter stands in one of the
  first or in resets(), or is compared with itself of before (`unless ... offset`). Its value alone is only shown under a title that says
  "since the start".
* A value of `outcome` is one that docs/metrics.md lists.
* A dashboard can be imported: its data source and its variables are defined, numbers of panels are unique, and no panel covers another.
* promtool of Prometheus can read every expression.

Expressions that are wrong, each in one way, must be found first. Exit code 0 if all of it holds, 1 if not.
"""

import itertools
import json
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
MANUAL = ROOT / "docs" / "metrics.md"
DASHBOARDS = sorted((ROOT / "examples" / "grafana").glob("*.json"))
ALERTS = sorted((ROOT / "examples" / "prometheus").glob("*.rules.yml"))

ROW = re.compile(r"^\| `(candor_\w+)` \| (\w+) \| (.*?) \| .* \|$", re.MULTILINE)
TOKEN = re.compile(r'"(?:[^"\\]|\\.)*"|\$?[A-Za-z_]\w*|[=!]=|[=!]~|\S')
OF_COUNTERS = {"rate", "irate", "increase"}
OF_GAUGES = {"delta", "idelta", "deriv", "predict_linear"}
# A gauge may fall for a good reason, and resets() is then how often.
OF_BOTH = {"resets"}
GROUPING = {"by", "without", "on", "ignoring", "group_left", "group_right"}
# What Prometheus itself tells of a target, and what it adds to each series.
OF_PROMETHEUS = {"up": ("gauge", set())}
ADDED = {"job", "instance"}
# What Grafana puts in.
BUILT_IN = {"$__rate_interval": "5m", "$__range": "6h", "$__interval": "1m"}


def metrics():
    """The tables: of each metric its kind and its labels."""
    found = dict(OF_PROMETHEUS)
    for name, kind, labels in ROW.findall(MANUAL.read_text(encoding="utf-8")):
        labels = set(re.findall(r"`(\w+)`", labels))
        found[name] = (kind, labels)
        if kind == "summary":
            for ending in ("_sum", "_count"):
                found[name + ending] = ("counter", labels - {"quantile"})
    assert len(found) > 50, "docs/metrics.md: its tables were not found"
    return found


def outcomes():
    """The values of `outcome`."""
    line = re.search(r"^`outcome` is (.*?);", MANUAL.read_text(encoding="utf-8"), re.MULTILINE)
    return set(re.findall(r"`(\w+)`", line[1]))


class Expression:
    """What a PromQL expression names, found without its grammar: promtool knows that."""

    def __init__(self, text, known, since_start=False):
        self.known = known
        self.is_value_enough = since_start or bool(re.search(r"(\w+(?:{[^}]*})?) unless \1 offset ", text))
        self.tokens = TOKEN.findall(text)
        self.wrong = []
        self.labels = set()
        self.grouped = set()
        self.read()
        unknown = self.grouped - self.labels - ADDED
        self.wrong += [f"no metric in it has the label `{label}`" for label in sorted(unknown)]

    def read(self):
        functions = []
        at = 0
        while at < len(self.tokens):
            token, following = self.tokens[at], self.tokens[at + 1 : at + 2]
            if token == "(":
                functions.append(self.tokens[at - 1] if at else "")
            elif token == ")":
                functions = functions[:-1]
            elif token in GROUPING and following == ["("]:
                end = self.tokens.index(")", at)
                self.grouped |= {label for label in self.tokens[at + 2 : end] if label != ","}
                at = end
            elif token in self.known:
                at = self.metric(token, functions, at)
            elif token.startswith("candor_"):
                self.wrong.append(f"`{token}` is not in docs/metrics.md")
            elif token == "{":
                # Matchers of something that is no metric, which was told.
                at = self.tokens.index("}", at)
            at += 1

    def metric(self, name, functions, at):
        """A metric and its matchers; where they end."""
        kind, labels = self.known[name]
        self.labels |= labels
        within = next((it for it in reversed(functions) if it in OF_COUNTERS | OF_GAUGES | OF_BOTH or it.endswith("_over_time")), None)
        if kind == "counter" and within not in OF_COUNTERS | OF_BOTH and not self.is_value_enough:
            self.wrong.append(f"`{name}` is a counter: it belongs into rate() or increase()")
        if kind != "counter" and within in OF_COUNTERS:
            self.wrong.append(f"`{name}` is a {kind}: {within}() is for counters")
        if self.tokens[at + 1 : at + 2] != ["{"]:
            return at
        end = self.tokens.index("}", at)
        for label, is_compared, value in zip(self.tokens[at + 2 : end], self.tokens[at + 3 : end], self.tokens[at + 4 : end]):
            if is_compared not in ("=", "!=", "=~", "!~") or not value.startswith('"'):
                continue
            if label not in labels | ADDED:
                self.wrong.append(f"`{name}` has no label `{label}`")
            if label == "outcome":
                unknown = set(value.strip('"').split("|")) - outcomes()
                self.wrong += [f"no `outcome` is `{value}`" for value in sorted(unknown)]
        return end


def check_expression(text, legend, known, title=""):
    """What is wrong with an expression and with the labels that are shown beside it."""
    expression = Expression(text, known, "since the start" in title)
    shown = set(re.findall(r"{{\s*(?:\$labels\.)?(\w+)\s*}}", legend))
    kept = expression.labels | ADDED
    by = re.match(r"(?:sum|min|max|avg|count) by \(", text)
    if by:
        kept = expression.grouped
    return expression.wrong + [f"`{label}` is shown, and not among its labels" for label in sorted(shown - kept)]


# ---- What has expressions ----------------------------------------------------------------------------


def alerts(path):
    """Expression and summary of each alert of a file. Its form is simple, so no reader of YAML is needed."""
    text = path.read_text(encoding="utf-8")
    for name, body in re.findall(r"^ +- alert: (\w+)\n(.*?)(?=^ +- alert:|\Z)", text, re.MULTILINE | re.DOTALL):
        expression = re.search(r"expr: (?:>-\n)?(.*?)\n +(?:for|labels):", body, re.DOTALL)
        summary = re.search(r'summary: "(.*)"', body)
        yield name, " ".join(expression[1].split()), summary[1]


def of_panels(dashboard):
    return [panel for panel in dashboard["panels"] if panel["type"] != "row"]


def check_form(dashboard):
    """What keeps a dashboard from being imported and shown."""
    wrong = []
    variables = {variable["name"] for variable in dashboard["templating"]["list"]}
    used = set(re.findall(r"\$\{?([A-Za-z_]\w*)", json.dumps(dashboard)))
    built_in = {name.removeprefix("$") for name in BUILT_IN} | {"__all"}
    wrong += [f"the variable `{name}` is not defined" for name in sorted(used - variables - built_in)]
    wrong += [f"the variable `{name}` is not used" for name in sorted(variables - used)]
    sources = {variable["name"] for variable in dashboard["templating"]["list"] if variable["type"] == "datasource"}
    for panel in of_panels(dashboard):
        for part in [panel, *panel["targets"]]:
            if part["datasource"]["uid"].strip("${}") not in sources:
                wrong.append(f"{panel['title']}: its data source is not the variable")
        letters = [target["refId"] for target in panel["targets"]]
        if len(set(letters)) != len(letters):
            wrong.append(f"{panel['title']}: two queries have one refId")
    numbers = [panel["id"] for panel in dashboard["panels"]]
    if len(set(numbers)) != len(numbers):
        wrong.append("two panels have one id")
    if not isinstance(dashboard.get("schemaVersion"), int) or not dashboard.get("uid") or not dashboard.get("title"):
        wrong.append("schemaVersion, uid or title is absent")
    places = [(panel["title"], panel["gridPos"]) for panel in dashboard["panels"]]
    wrong += [f"{title}: wider than 24" for title, place in places if place["x"] + place["w"] > 24]
    for (one, a), (other, b) in itertools.combinations(places, 2):
        if a["x"] < b["x"] + b["w"] and b["x"] < a["x"] + a["w"] and a["y"] < b["y"] + b["h"] and b["y"] < a["y"] + a["h"]:
            wrong.append(f"{one} covers {other}")
    return wrong


def queries(dashboard):
    """Place, expression and legend of all queries, with those of the variables."""
    for panel in of_panels(dashboard):
        for target in panel["targets"]:
            yield f"{panel['title']} {target['refId']}", target["expr"], target["legendFormat"]
    for variable in dashboard["templating"]["list"]:
        if variable["type"] == "query":
            metric, label = re.fullmatch(r"label_values\((.*), (\w+)\)", variable["definition"]).groups()
            yield f"variable {variable['name']}", metric, f"{{{{{label}}}}}"


def promtool(expressions):
    """What promtool does not read, of expressions by their places."""
    if not shutil.which("promtool"):
        return ["promtool is absent"]
    rules = []
    for text in expressions:
        for name, value in BUILT_IN.items():
            text = text.replace(name, value)
        rules.append({"record": f"expression_{len(rules)}", "expr": re.sub(r"\$\w+", ".+", text)})
    with tempfile.NamedTemporaryFile("w", suffix=".yml") as file:
        # JSON is YAML, too.
        json.dump({"groups": [{"name": "dashboard", "rules": rules}]}, file)
        file.flush()
        done = subprocess.run(["promtool", "check", "rules", file.name], capture_output=True, text=True)
    return [done.stdout + done.stderr] if done.returncode else []


# ---- Itself ------------------------------------------------------------------------------------------

WRONG = [
    ("candor_port_recieved_frames_total", "", "is not in"),
    ('rate(candor_port_recieved_frames_total{bus="a"}[5m])', "", "is not in"),
    ("candor_port_received_frames_total", "", "is a counter"),
    ("sum(candor_latency_seconds_count)", "", "is a counter"),
    ("rate(candor_port_queue_frames[5m])", "", "is a gauge"),
    ("increase(candor_latency_seconds[5m])", "", "is a summary"),
    ('candor_port_up{buss="a"}', "", "no label"),
    ('candor_port_up{bus="a", rule=~"b"}', "", "no label"),
    ('rate(candor_latency_seconds_count{quantile="0.5"}[5m])', "", "no label"),
    ("sum by (instance, rule) (rate(candor_port_full_total[5m]))", "", "has the label"),
    ('rate(candor_rule_copies_total{outcome="droped"}[5m])', "", "no `outcome`"),
    ("candor_port_up", "{{buss}}", "is shown"),
    ("sum by (instance) (1 - candor_port_up)", "{{bus}}", "is shown"),
]
RIGHT = [
    ('sum by (instance, cause) (rate(candor_rule_copies_total{outcome=~"lost|refused", instance=~"$gateway"}[5m])) > 0', "{{instance}} {{cause}}"),
    ('up{job="candor"} == 0', "{{ $labels.instance }}"),
    ("resets(candor_uptime_seconds[15m]) > 2", ""),
    ('candor_rule_copies_total{outcome="lost"} unless candor_rule_copies_total{outcome="lost"} offset 5m > 0', "{{cause}}"),
    ("rate(candor_latency_seconds_sum[5m]) / rate(candor_latency_seconds_count[5m])", "{{from}} {{to}}"),
]


def check_itself(known):
    for text, legend, reason in WRONG:
        found = check_expression(text, legend, known)
        assert len(found) == 1 and reason in found[0], (text, found)
    for text, legend in RIGHT:
        assert not check_expression(text, legend, known), (text, check_expression(text, legend, known))


def main():
    known = metrics()
    check_itself(known)
    wrong, count = [], 0
    for path in ALERTS:
        found = list(alerts(path))
        told = path.read_text(encoding="utf-8").count("- alert:")
        assert len(found) == told, f"{path.name}: {told} alerts, of which {len(found)} were read"
        for name, text, summary in found:
            wrong += [f"{path.name}: {name}: {reason}" for reason in check_expression(text, summary, known)]
        count += len(found)
    for path in DASHBOARDS:
        dashboard = json.loads(path.read_text(encoding="utf-8"))
        found = list(queries(dashboard))
        wrong += [f"{path.name}: {reason}" for reason in check_form(dashboard)]
        for place, text, legend in found:
            wrong += [f"{path.name}: {place}: {reason}" for reason in check_expression(text, legend, known, place)]
        wrong += [f"{path.name}: {reason}" for reason in promtool([text for _, text, _ in found])]
        count += len(found)
    assert ALERTS and DASHBOARDS
    if wrong:
        sys.exit("\n".join(wrong))
    print(f"{count} expressions of alerts and dashboards ask for metrics and labels that candor has")


if __name__ == "__main__":
    main()
