"""Whether `candor lab compare` calls equal kernels equal, and finds what a driver takes longer.

    python3 tests/verdicts/verdicts.py CANDOR --kernel 6.12 --pairs 40     equal kernels
    python3 tests/verdicts/verdicts.py CANDOR --kernel 6.12 --few          four pairs of them, and rules that take longer
    python3 tests/verdicts/verdicts.py CANDOR --kernel 6.12 --driver       a driver that takes n instructions longer

Two sides of a pair of equal kernels have one kernel, with a parameter that nobody uses; with --few, also other seeds. No
figure of them may be slower or faster; and the gateway that changes frames has to be slower. With --driver, candor_can is built with a function on the way of each received
frame that takes n instructions more; each n has to be found, with that function before all others.

    --seed N     what the parameters are drawn by; printed
    --out DIR    where results are kept, and found again; else they are removed
    --count N    frames of each run of equal kernels (1000)

Machines are saved in a cache of their own, in which the kernels of CANDOR_CACHE are, and removed as soon as nothing needs
them: each takes 80 MB. Exit code 0 if all verdicts are right, 1 if not.
"""

import argparse
import json
import os
import random
import shutil
import string
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
# The gateway of the kernel, and one that is a process.
EXPERIMENTS = ["kernel", "user"]
# Instructions that are added to a driver.
ADDED = [20, 100, 1000]
FUNCTION = "candor_can_longer"


class Candor:
    """The program, with a cache for its machines."""

    def __init__(self, program, kernel, folder, keeps_machines):
        self.program = program
        self.kernel = kernel
        self.folder = Path(folder)
        self.environment = dict(os.environ, NO_COLOR="1")
        self.machines = None
        if not keeps_machines:
            self.machines = self.folder / "cache"
            shared = Path(os.environ.get("CANDOR_CACHE") or Path.home() / ".cache/candor")
            self.machines.mkdir(exist_ok=True)
            for name in os.listdir(shared):
                link = self.machines / name
                if name not in ("machines", "reports") and not link.exists():
                    link.symlink_to(shared.resolve() / name)
            self.environment["CANDOR_CACHE"] = str(self.machines)

    def run(self, *arguments, codes=(0,)):
        """Exit code and standard output of `candor lab ARGUMENTS`."""
        command = [self.program, "lab", *map(str, arguments)]
        outcome = subprocess.run(
            command, cwd=ROOT, env=self.environment, capture_output=True, text=True, check=False
        )
        if outcome.returncode not in codes:
            sys.exit(f"{' '.join(command)}: exit code {outcome.returncode}\n{outcome.stderr}")
        return outcome.returncode, outcome.stdout

    def forget_machines(self):
        """Removes what was saved of the machines of one side."""
        if self.machines:
            for name in ("machines", "reports"):
                shutil.rmtree(self.machines / name, ignore_errors=True)

    def compare(self, before, after):
        """The objects of a comparison, by type."""
        _, out = self.run("compare", before, after, "--top", 0, "--json", codes=(0, 1))
        objects = {}
        for line in out.splitlines():
            item = json.loads(line)
            objects.setdefault(item["type"], []).append(item["data"])
        return objects


def equal_side(candor, name, parameter, count, seed=1, experiments=EXPERIMENTS):
    """Results of the kernel with that parameter; where they are kept, those."""
    out = candor.folder / name
    if not (out / "done").exists():
        only = [word for experiment in experiments for word in ("--only", experiment)]
        settings = [f"count={count}", f"seed={seed}", f"vm.parameters={parameter}"]
        settings = [word for setting in settings for word in ("--set", setting)]
        candor.run("run", "campaigns/vm-quick.toml", *only, "--kernel", candor.kernel, *settings, "--out", out)
        (out / "done").touch()
        candor.forget_machines()
    return out


def judge_equal(candor, pairs):
    """Whether no pair of sides differs; prints a line for each."""
    wrong = 0
    compared = 0
    for before, after in pairs:
        figures = candor.compare(before, after)["figure"]
        compared += len(figures)
        other = [figure for figure in figures if figure["verdict"] != "same"]
        paths = [figure for figure in figures if figure["figure"] == "path"]
        moved = max(abs(figure["difference_instructions"]) for figure in paths)
        wide = max(figure[side]["most"] - figure[side]["least"] for figure in paths for side in ("before", "after"))
        told = ", ".join(f"{it['experiment']} {it['figure']} {it['verdict']}" for it in other) or "same"
        print(
            f"{before.name} and {after.name}: {told}; paths of {len(paths)} moved by up to {moved:.1f} instructions, "
            f"boots of a side by up to {wide:.0f} ns",
            flush=True,
        )
        wrong += len(other)
    print(f"{candor.kernel}: {len(pairs)} pairs of equal kernels, {compared} figures, {wrong} not the same")
    return wrong == 0 and compared > 0


def equal(candor, pairs, count, seed):
    """Pairs of one kernel with parameters that nobody uses."""
    draw = random.Random(seed)
    words = ["".join(draw.choices(string.ascii_lowercase, k=draw.randint(1, 60))) for _ in range(pairs + 1)]
    sides = [equal_side(candor, f"equal-{at}", f"unused={word}", count) for at, word in enumerate(words)]
    return judge_equal(candor, list(zip(sides, sides[1:])))


def few(candor, count):
    """Four pairs on ten machines: two parameters, two ranges of seeds. Then, on five of them, rules that change frames."""
    sides = {}
    for parameter in ("", "unused=ccc"):
        for seed in (1, 101):
            name = f"few-{parameter or 'none'}-{seed}"
            sides[parameter, seed] = equal_side(candor, name, parameter, count, seed, EXPERIMENTS[:1])
    pairs = [(sides["", a], sides["unused=ccc", b]) for a in (1, 101) for b in (1, 101)]
    out = candor.folder / "few-rules"
    rules = ["--set", 'gateway.rules="set-id-checksum.rules.toml"']
    candor.run("run", "campaigns/vm-quick.toml", "--only", EXPERIMENTS[0], "--kernel", candor.kernel, "--set", f"count={count}", *rules, "--out", out)
    verdicts = [figure["verdict"] for figure in candor.compare(sides["", 1], out)["figure"]]
    print(f"{candor.kernel}, rules that change frames: {', '.join(verdicts)}")
    return judge_equal(candor, pairs) and verdicts and all(verdict == "slower" for verdict in verdicts)


def longer_driver(folder, added):
    """The sources of candor_can with so many instructions more for each frame that it hands on."""
    target = folder / f"sources-{added}"
    shutil.rmtree(target, ignore_errors=True)
    shutil.copytree(ROOT / "kernel/candor_can", target)
    path = target / "device.c"
    function = f'static noinline void {FUNCTION}(void)\n{{\n\tasm volatile(".rept {added}\\n\\tnop\\n\\t.endr");\n}}\n\n'
    head = "void candor_distribute(struct candor_device *device, struct candor_frame *frame, u32 from)\n{\n"
    first = "\tstruct candor_handle *handle;\n\n"
    text = path.read_text()
    if text.count(head + first) != 1:
        sys.exit(f"{path}: candor_distribute is not found; adapt {__file__}")
    path.write_text(text.replace(head + first, function + head + first + f"\t{FUNCTION}();\n"))
    return target


def driver_side(candor, added, count):
    """Results and counts of the gateway on such a driver."""
    out = candor.folder / f"driver-{added}"
    if not (out / "done").exists():
        sources = longer_driver(candor.folder, added)
        commands = [("run", count), ("profile", max(count // 5, 50))]
        for command, frames in commands:
            candor.run(
                command, "tests/verdicts/driver.toml", "--kernel", candor.kernel, "--out", out,
                "--set", f"vm.driver_sources={sources}", "--set", f"count={frames}",
            )
        (out / "done").touch()
    return out


def drivers(candor, count, added):
    """Whether what a driver takes longer is found, and the function that does."""
    plain = driver_side(candor, 0, count)
    right = True
    for number in added:
        objects = candor.compare(plain, driver_side(candor, number, count))
        paths = [it for it in objects["figure"] if it["figure"] == "path"]
        is_slower = objects["verdict"][0]["slower"] > 0 and not objects["verdict"][0]["faster"]
        differences = ", ".join(f"{it['difference_instructions']:+.0f} {it['verdict']}" for it in paths)
        functions = [it for it in objects.get("function", []) if it["place"]]
        first = functions[0]["function"] if functions else "none"
        is_found = is_slower and first == FUNCTION
        print(
            f"{candor.kernel}, {number} instructions more: {'slower' if is_slower else 'not slower'}; paths {differences}; "
            f"{len(functions)} functions changed, the first is {first}",
            flush=True,
        )
        right = right and is_found
    return right


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("candor")
    parser.add_argument("--kernel", default="6.12")
    what = parser.add_mutually_exclusive_group(required=True)
    what.add_argument("--pairs", type=int)
    what.add_argument("--few", action="store_true")
    what.add_argument("--driver", action="store_true")
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(1 << 32))
    parser.add_argument("--out")
    parser.add_argument("--count", type=int, default=1000)
    arguments = parser.parse_args()
    program = str(Path(arguments.candor).resolve())
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(arguments.out or temporary).resolve()
        folder.mkdir(parents=True, exist_ok=True)
        candor = Candor(program, arguments.kernel, folder, keeps_machines=arguments.few or arguments.driver)
        if arguments.pairs:
            print(f"--seed {arguments.seed}")
            right = equal(candor, arguments.pairs, arguments.count, arguments.seed)
        elif arguments.driver:
            right = drivers(candor, arguments.count, ADDED)
        else:
            right = few(candor, arguments.count)
    sys.exit(0 if right else 1)


if __name__ == "__main__":
    main()
