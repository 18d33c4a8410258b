"""Licences of everything that Candor is built from.

    python3 packaging/licences.py check
        Whether all of them are among those of licences.toml: of crates that are linked, that build or that test, and of files that name
        a licence. Exit code 0 if so, 1 if not.
    python3 packaging/licences.py bill NAME TARGET FOLDER -- ARGUMENTS [-- ARGUMENTS]...
        Writes what is in the program, library or package NAME for TARGET into FOLDER: the texts of all licences (THIRD-PARTY-NOTICES),
        and a list of all parts (NAME.cdx.json, CycloneDX 1.6). ARGUMENTS are those of `cargo tree` that choose a package and its
        features; there is one list for each program inside. A crate without a text is an error.

The same commit gives the same bytes: the time is SOURCE_DATE_EPOCH, and nothing is random.
"""

import datetime
import json
import os
import re
import subprocess
import sys
import tomllib
import uuid
from collections import defaultdict
from html import unescape
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
RULES = tomllib.loads((ROOT / "packaging" / "licences.toml").read_text())
TEXTS = re.compile(r"^(un)?licen[cs]e|^copying|^copyright|^notice", re.I)


class Crate:
    """A package of cargo."""

    def __init__(self, metadata):
        self.name = metadata["name"]
        self.version = metadata["version"]
        self.licence = metadata["license"] or ""
        self.repository = metadata["repository"]
        # None for those of this repository.
        self.source = metadata["source"]
        self.folder = Path(metadata["manifest_path"]).parent

    def __str__(self):
        return f"{self.name} {self.version}"

    def texts(self):
        """What its licences and notices say, by file."""
        found = [path for path in sorted(self.folder.iterdir()) if TEXTS.search(path.name)]
        files = [path for path in found if path.is_file()]
        files += [path for folder in found if folder.is_dir() for path in sorted(folder.iterdir()) if path.is_file()]
        return [path.read_text(errors="replace").replace("\r\n", "\n").strip() for path in files]


def output(*command, folder=ROOT):
    return subprocess.run(command, cwd=folder, check=True, stdout=subprocess.PIPE, text=True).stdout


def crates_of(workspace):
    """All packages that the lock file of a workspace names, by name and version."""
    listing = output("cargo", "metadata", "--format-version", "1", "--locked", "--all-features", "--quiet", folder=ROOT / workspace)
    crates = [Crate(package) for package in json.loads(listing)["packages"]]
    return {(crate.name, crate.version): crate for crate in crates}


def tree(target, arguments, workspace, edges):
    """Names and versions of what is compiled for a target. It is less than what the lock file names."""
    command = ["cargo", "tree", "--locked", "--quiet", "--target", target, "--edges", edges, "--prefix", "none", "--format", "{p}"]
    lines = output(*command, "--no-dedupe", *arguments, folder=ROOT / workspace).splitlines()
    return {(name, version[1:]) for name, version in (line.split()[:2] for line in lines if line)}


def allows(expression, allowed):
    """Whether an expression of SPDX can be met: `A AND (B OR C)`; in old packages also `A/B`."""
    tokens = re.findall(r"[()]|(?:(?!AND\b|OR\b)[^\s()/]+(?: WITH [^\s()/]+)?)|AND|OR|/", expression)

    def choice():
        holds = [together()]
        while tokens and tokens[0] in ("OR", "/"):
            tokens.pop(0)
            holds.append(together())
        return any(holds)

    def together():
        holds = [one()]
        while tokens and tokens[0] == "AND":
            tokens.pop(0)
            holds.append(one())
        return all(holds)

    def one():
        token = tokens.pop(0) if tokens else ""
        if token != "(":
            return token in allowed
        holds = choice()
        return bool(tokens) and tokens.pop(0) == ")" and holds

    # What is left over is no part of an expression.
    return choice() and not tokens


# ---- check ----------------------------------------------------------------------------------------


def check_crates(workspace, targets):
    """What is wrong with the crates of a workspace."""
    crates = crates_of(workspace)
    used = set()
    for target in targets:
        used |= tree(target, ["--workspace", "--all-features"], workspace, "normal,build,dev")
    for crate in (crates[key] for key in sorted(used)):
        if crate.source is None:
            # Helpers of a build that are published nowhere need none.
            if crate.licence not in ("", RULES["own"]):
                yield f"{crate.folder.relative_to(ROOT)}: `{crate.licence}`; Candor's own packages are `{RULES['own']}`"
        elif not allows(crate.licence, RULES["allowed"] + RULES["also"].get(workspace, [])):
            yield f"{workspace}: {crate} is under `{crate.licence or 'no licence'}`, which packaging/licences.toml does not allow"


def check_files():
    """Files that say that they are under a licence which is not that of their folder."""
    pattern = r"SPDX-License-Identifier: *[A-Za-z0-9]"
    listing = subprocess.run(["git", "grep", "--untracked", "-I", "-E", pattern], cwd=ROOT, stdout=subprocess.PIPE, text=True).stdout
    for line in listing.splitlines():
        path, text = line.split(":", 1)
        expression = re.search(r"SPDX-License-Identifier: *([^*\"'`]*)", text)[1].strip()
        may_be_copyleft = any(path.startswith(f"{folder}/") for folder in RULES["copyleft"]["folders"])
        if not may_be_copyleft and re.search("GPL", expression):
            yield f"{path}: `{expression}`; only {', '.join(RULES['copyleft']['folders'])} may be under a licence of this kind"


def check():
    locks = {str(Path(path).parent) for path in output("git", "ls-files", "*Cargo.lock").splitlines()}
    wrong = [f"packaging/licences.toml: no targets for the workspace {name}" for name in sorted(locks - set(RULES["targets"]))]
    for workspace, targets in RULES["targets"].items():
        wrong += check_crates(workspace, targets)
    wrong += check_files()
    for line in wrong:
        print(f"FAILED {line}")
    return 1 if wrong else 0


# ---- bill -----------------------------------------------------------------------------------------


def parts(target, crates):
    """What is in a program without being a crate, with its text: (part, text)."""
    sysroot = Path(output("rustc", "--print", "sysroot").strip())
    rustc = output("rustc", "--version").split()[1]
    names = {crate.name for crate in crates}
    for part in RULES["part"]:
        if target not in part.get("targets", [target]) or ("with" in part and part["with"] not in names):
            continue
        part = {**part, "version": part["version"].replace("@RUSTC@", rustc)}
        folder = sysroot
        if "in" in part:
            folder = next(crate.folder for crate in crates_of("crates/plotly/package").values() if crate.name == part["in"])
        if "evidence" in part:
            evidence = folder / part["evidence"].replace("@TARGET@", target)
            if part["says"].encode() not in evidence.read_bytes():
                raise SystemExit(f"packaging/licences.toml: {part['name']} is not {part['version']}: {evidence} has no `{part['says']}`")
        if "text" in part:
            page = (folder / part["text"]).read_text()
            text = re.sub(r"\n\s*\n\s*\n+", "\n\n", unescape(re.sub("<[^>]*>", "", page)))
        else:
            permission = (ROOT / "LICENSE-MIT").read_text().split("\n\n", 2)[2]
            text = f"{part['copyright']}\n\n{permission}"
        yield part, text.strip()


def component(name, version, licence, **more):
    return {"type": "library", "name": name, "version": version, "licenses": [{"expression": licence.replace("/", " OR ")}], **more}


def bill(name, target, folder, programs):
    crates = crates_of(".")
    for workspace in RULES["targets"]:
        crates = {**crates_of(workspace), **crates}
    inside = set()
    for arguments in programs:
        workspace, target_of_program = ".", target
        if arguments[0] == "--in":
            workspace, target_of_program, arguments = arguments[1], arguments[2], arguments[3:]
        inside |= tree(target_of_program, arguments, workspace, "normal,no-proc-macro")
    used = [crates[key] for key in sorted(inside)]
    others = [crate for crate in used if crate.source]
    version = next(crate.version for crate in used if crate.source is None)
    # By their words: the same licence is wrapped in many ways.
    held, wrapped, components = defaultdict(set), {}, []

    def hold(text, owner):
        words = " ".join(text.split())
        wrapped.setdefault(words, text)
        held[words].add(owner)

    for crate in others:
        texts = crate.texts()
        # That of the Apache licence is the same for all, and names nobody.
        if not texts and allows(crate.licence, ["Apache-2.0"]):
            texts = [(ROOT / "LICENSE-APACHE").read_text().strip()]
        if not texts:
            raise SystemExit(f"{crate}: {crate.folder} has no text of a licence; its notice would be missing")
        for text in texts:
            hold(text, str(crate))
        links = [{"type": "vcs", "url": crate.repository}] if crate.repository else []
        more = {"purl": f"pkg:cargo/{crate.name}@{crate.version}", "externalReferences": links}
        components.append(component(crate.name, crate.version, crate.licence, **more))
    for part, text in parts(target, used):
        hold(text, f"{part['name']} {part['version']}")
        components.append(component(part["name"], part["version"], part["licence"]))
    lines = [f"{name} {version} contains these works of others.\n"]
    for owners, words in sorted((sorted(owners), words) for words, owners in held.items()):
        lines += ["-" * 100, *owners, "", wrapped[words], ""]
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "THIRD-PARTY-NOTICES").write_text("\n".join(lines))
    time = datetime.datetime.fromtimestamp(int(os.environ.get("SOURCE_DATE_EPOCH", 0)), datetime.UTC)
    document = {
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        # Of a name, so that the same sources give the same number.
        "serialNumber": uuid.uuid5(uuid.NAMESPACE_OID, f"candor {name} {version} {target} {time}").urn,
        "version": 1,
        "metadata": {
            "timestamp": time.strftime("%Y-%m-%dT%H:%M:%SZ"),
            "component": {"type": "application", "name": name, "version": version, "licenses": [{"expression": RULES["own"]}]},
            "properties": [{"name": "candor:target", "value": target}],
        },
        "components": components,
    }
    (folder / f"{name}.cdx.json").write_text(json.dumps(document, indent=1) + "\n")


def main(arguments):
    if arguments == ["check"]:
        return check()
    if len(arguments) > 5 and arguments[0] == "bill" and arguments[4] == "--":
        programs, rest = [], arguments[5:]
        while "--" in rest:
            programs.append(rest[: rest.index("--")])
            rest = rest[rest.index("--") + 1 :]
        bill(arguments[1], arguments[2], Path(arguments[3]), [*programs, rest])
        return 0
    print(__doc__, file=sys.stderr)
    return 2


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
