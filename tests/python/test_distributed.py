"""`candor.distributed`: the same parts whatever happens to the workers."""

import gzip
import hashlib
import json
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import unittest
import unittest.mock

import candor
import polars
from candor import distributed

ROOT = pathlib.Path(__file__).resolve().parents[2]
DRIVE = ROOT / "examples/recordings/drive.log"
DBC = ROOT / "examples/small-car.dbc"
DRIVES = 8


def drives(folder):
    """Recordings that differ, and a file that is none."""
    lines = DRIVE.read_bytes().splitlines(True)
    for number in range(DRIVES):
        path = folder / f"{number % 2}/drive{number}.log"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(b"".join(lines[number:]) * 8)
    (folder / "notes.md").write_text("# nothing\n")


def hashes(out):
    """Everything that a run made, by its path."""
    paths = (path for path in out.rglob("*") if path.is_file() and path.name != ".lock")
    return {path.relative_to(out).as_posix(): hashlib.sha256(path.read_bytes()).hexdigest() for path in paths}


def everything(out):
    """What is in a folder, and when each of it was written; but for the lock."""
    paths = (path for path in out.rglob("*") if path.name != ".lock")
    return {path.relative_to(out).as_posix(): path.is_dir() or (path.stat().st_mtime_ns, path.read_bytes()) for path in paths}


class Campaign(unittest.TestCase):
    def test_results_stay_if_no_report_is_made_of_new_ones(self):
        with tempfile.TemporaryDirectory() as folder:
            folder = pathlib.Path(folder)
            file = ROOT / "examples/small-car.toml"
            settings = {"shards": 2, "workers": 2}
            distributed.campaign(file, folder / "out", arguments=["--set", "count=500"], **settings)
            before = hashes(folder / "out")
            program = folder / "program"
            program.write_text("#!/bin/sh\nif [ \"$2\" = report ]; then echo no report >&2; exit 2; fi\nexec candor \"$@\"\n")
            program.chmod(0o755)
            with self.assertRaisesRegex(candor.Error, "lab report .*: no report"):
                distributed.campaign(file, folder / "out", arguments=["--set", "count=400"], program=str(program), **settings)
            after = hashes(folder / "out")
            self.assertEqual({path: it for path, it in after.items() if not path.startswith("shards/")}, before)
            self.assertFalse([path for path in after if distributed.TEMPORARY in path])
            for settings in ({"shards": 0}, {"shards": -1}, {"workers": 0}):
                with self.assertRaisesRegex(ValueError, "at least 1 is needed"):
                    distributed.campaign(file, folder / "out", **settings)

    def test_shards_make_what_one_run_makes(self):
        with tempfile.TemporaryDirectory() as folder:
            folder = pathlib.Path(folder)
            file = ROOT / "examples/small-car.toml"
            settings = ["--set", "count=500"]
            subprocess.run(["candor", "lab", "run", file, *settings, "--out", folder / "whole"], check=True, capture_output=True)
            report = distributed.campaign(file, folder / "parts", shards=4, workers=2, arguments=settings)
            self.assertTrue(report.is_file())
            one, many = (polars.DataFrame(candor.results(folder / name)) for name in ("whole", "parts"))
            self.assertTrue(one.equals(many))
            self.assertFalse((folder / "parts/shards").exists())
            with self.assertRaisesRegex(candor.Error, "2 of 2 shards failed; the first: 1/2: .*no-such-key"):
                distributed.campaign(file, folder / "failed", shards=2, workers=2, arguments=["--set", "no-such-key=1"])
            with self.assertRaises(FileNotFoundError):
                distributed.campaign(file, folder / "none", program="no-such-program")


class Distributed(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        drives(self.folder / "drives")
        self.asked = []
        ask = distributed._Worker.ask

        def noted(worker, recording):
            self.asked.append(recording)
            return ask(worker, recording)

        distributed._Worker.ask = noted
        self.addCleanup(setattr, distributed._Worker, "ask", ask)

    def decode(self, out, **settings):
        return distributed.decode(self.folder / "drives", DBC, self.folder / out, **settings)

    def test_parts_hold_every_row(self):
        seen = []
        manifest = self.decode("out", workers=2, progress=lambda *what: seen.append(what))
        self.assertEqual([part["recording"] for part in manifest["parts"]], sorted(f"{n % 2}/drive{n}.log" for n in range(DRIVES)))
        self.assertEqual([it["recording"] for it in manifest["passed_over"]], ["notes.md"])
        self.assertEqual([done for done, _, _ in seen], list(range(1, DRIVES + 2)))
        self.assertEqual(json.loads((self.folder / "out/manifest.json").read_text()), manifest)
        expected = candor.decode(sorted((self.folder / "drives").rglob("*.log")), DBC)
        for message, table in expected.items():
            files = [self.folder / "out" / part["messages"][message]["file"] for part in manifest["parts"]]
            self.assertEqual(len(list((self.folder / f"out/message={message}").iterdir())), len(files))
            found = polars.concat([polars.read_parquet(file) for file in files])
            columns = table.column_names
            self.assertTrue(found.select(columns).drop("bus").equals(polars.DataFrame(table).drop("bus")), message)

    def test_the_result_depends_on_nothing_but_the_input(self):
        self.decode("one", workers=1)
        first = hashes(self.folder / "one")
        self.decode("three", workers=3)
        self.assertEqual(hashes(self.folder / "three"), first)
        # What is complete is taken as it is; what is left over from others is swept, and nothing else.
        before = len(self.asked)
        times = {path: path.stat().st_mtime_ns for path in (self.folder / "one").rglob("*.parquet")}
        other = self.folder / "one/message=EngineSpeed"
        (other / "mine.parquet").write_text("kept")
        (other / ("0" * 32 + ".parquet")).write_text("left over")
        (other / ".candor-part-1-2").write_text("left over")
        self.decode("one", workers=2)
        self.assertEqual(len(self.asked) - before, DRIVES + 1)
        self.assertEqual({path: path.stat().st_mtime_ns for path in times}, times)
        (other / "mine.parquet").unlink()
        self.assertEqual(hashes(self.folder / "one"), first)
        # A file that is lost is made again; with other settings all are.
        next(iter(times)).unlink()
        self.decode("one", workers=2)
        self.assertEqual(hashes(self.folder / "one"), first)
        manifest = self.decode("one", workers=2, signals="EngineSpeed.*")
        self.assertEqual({message for part in manifest["parts"] for message in part["messages"]}, {"EngineSpeed"})
        self.assertEqual(len(list((self.folder / "one").rglob("*.parquet"))), DRIVES)

    def test_a_worker_that_dies_costs_its_task(self):
        self.decode("whole", workers=2)
        self.asked.clear()
        killed = []

        def kill(done, count, recording):
            if done == 3:
                children = pathlib.Path(f"/proc/{os.getpid()}/task")
                children = " ".join(task.joinpath("children").read_text() for task in children.iterdir()).split()
                workers = [pid for pid in children if b"candor.distributed" in pathlib.Path(f"/proc/{pid}/cmdline").read_bytes()]
                os.kill(int(workers[0]), signal.SIGKILL)
                killed.append(workers[0])

        self.decode("killed", workers=2, progress=kill)
        self.assertEqual(len(killed), 1)
        # Its task again, unless it had none just then; nothing else.
        self.assertLessEqual(len(self.asked), DRIVES + 2)
        self.assertGreaterEqual(len(self.asked), DRIVES + 1)
        self.assertEqual(hashes(self.folder / "killed"), hashes(self.folder / "whole"))

    def test_a_call_that_is_stopped_goes_on_where_it_was(self):
        self.decode("whole", workers=2)
        program = (
            "import signal, sys\nfrom candor import distributed\nsignal.signal(signal.SIGINT, signal.default_int_handler)\n"
            "def shown(done, count, recording):\n    print(done, flush=True)\n"
            "try:\n    distributed.decode(*sys.argv[1:], workers=2, progress=shown)\nexcept KeyboardInterrupt:\n    print('interrupted')\n"
        )
        arguments = [sys.executable, "-c", program, self.folder / "drives", DBC, self.folder / "stopped"]
        child = subprocess.Popen(arguments, stdout=subprocess.PIPE, text=True)
        self.assertEqual(child.stdout.readline(), "1\n")
        child.send_signal(signal.SIGINT)
        rest, _ = child.communicate(timeout=60)
        done = len(list((self.folder / "stopped/parts").glob("[0-9a-f]*")))
        if "interrupted" in rest:
            self.assertFalse((self.folder / "stopped/manifest.json").exists())
        self.decode("stopped", workers=2)
        self.assertGreaterEqual(done, 1)
        self.assertEqual(hashes(self.folder / "stopped"), hashes(self.folder / "whole"))

    def test_recordings_that_fail_are_told_at_the_end(self):
        (self.folder / "drives/broken.log").write_text("(1.0) can0 0C0#00\nnonsense\n(2.0) can0 0C0#00\n")
        (self.folder / "drives/other.log").write_text("(1.0) can0 7FF#00\n")
        with self.assertRaises(candor.Error) as caught:
            self.decode("out", workers=2)
        self.assertIn("2 of 11 recordings could not be decoded", str(caught.exception))
        self.assertIn("broken.log: RecordingError: ", str(caught.exception))
        manifest = json.loads((self.folder / "out/manifest.json").read_text())
        self.assertEqual([it["recording"] for it in manifest["failed"]], ["broken.log", "other.log"])
        self.assertEqual(len(manifest["parts"]), DRIVES)
        (self.folder / "drives/other.log").unlink()
        with self.assertRaises(candor.Error):
            self.decode("out", workers=2)
        manifest = self.decode("out", workers=2, skip_malformed=True)
        part = next(part for part in manifest["parts"] if part["recording"] == "broken.log")
        self.assertEqual(part["messages"]["EngineSpeed"]["rows"], 2)
        self.assertIn("1 malformed record passed over", part["warnings"][0])

    def test_a_call_that_fails_changes_nothing(self):
        self.decode("out", workers=2)
        out, drive = self.folder / "out", self.folder / "drives/0/drive0.log"
        before = everything(out)
        other = self.folder / "other.dbc"
        other.write_text('BU_: A\nBO_ 2000 O: 1 A\n SG_ S : 0|8@1+ (1,0) [0|0] "" A\n')
        broken = self.folder / "broken.dbc"
        broken.write_text("no DBC file")
        for expected, words, settings in [
            (candor.DatabaseError, "did you mean `EngineSpeed`?", {"signals": "EngineSped.*"}),
            (candor.Error, f"8 of 9 recordings could not be decoded, so {out} stays as it was; .* no frame is on a bus `can7`", {"bus": "can7"}),
            (candor.Error, "describes none of the", {"dbc": other}),
            (candor.DatabaseError, "this is not a DBC file", {"dbc": broken}),
            (candor.Error, "no file in the folder is called like", {"pattern": "*.bfl"}),
            (candor.Error, "no file in .* is a recording, so .* stays as it was; the first: .*notes.md", {"pattern": "*.md"}),
            (TypeError, "signals=5: expected a name or a list of names, not int", {"signals": 5}),
            (TypeError, "signals=.*: expected a name or a list of names, not bytes", {"signals": [b"Speed"]}),
            (ValueError, "signals=.*: the list is empty; leave signals out, or name one", {"signals": []}),
            (TypeError, "bus=0: expected a name or a list of names, not int", {"bus": 0}),
            (TypeError, "progress=5: expected a function", {"progress": 5}),
            (TypeError, "pattern=5: expected a name", {"pattern": 5}),
            (ValueError, "workers=-1: at least 1 is needed; leave workers out, or give 1 or more", {"workers": -1}),
            (ValueError, "workers=0: at least 1", {"workers": 0}),
            (TypeError, "workers=1.5: expected a whole number, not float", {"workers": 1.5}),
            (TypeError, "workers=True: expected a whole number", {"workers": True}),
            (TypeError, "not an instance of 'bool'", {"skip_malformed": 5}),
            (ValueError, "on='dask'", {"on": "dask"}),
        ]:
            asked = len(self.asked)
            with self.subTest(settings), self.assertRaisesRegex(expected, words):
                distributed.decode(self.folder / "drives", settings.pop("dbc", DBC), out, **settings)
            self.assertEqual(everything(out), before)
            # Only what frames are on which bus, and whether they are those of the DBC file, is not known before.
            self.assertTrue(expected is candor.Error or len(self.asked) == asked, words)
        # A recording that the result has is damaged: the result stays; it is no recording any more: it goes.
        drive.write_bytes(drive.read_bytes() + b"nonsense\n")
        with self.assertRaisesRegex(candor.Error, f"1 of 9 recordings could not be decoded, so {out} stays as it was; the first: 0/drive0.log"):
            self.decode("out", workers=2)
        self.assertEqual(everything(out), before)
        whole = drive.read_bytes()
        for damaged, words in [(os.urandom(500) + b"\0", "a file that the result has a part of is no recording"), (None, "FileNotFoundError")]:
            drive.unlink()
            drive.symlink_to(self.folder / "nothing") if damaged is None else drive.write_bytes(damaged)
            with self.assertRaisesRegex(candor.Error, f"{words}.*|.*{words}"):
                self.decode("out", workers=2)
            self.assertEqual(everything(out), before)
        drive.unlink()
        self.assertEqual(len(self.decode("out", workers=2)["parts"]), DRIVES - 1)
        drive.write_bytes(whole)

    def test_what_is_damaged_is_no_note(self):
        packed = gzip.compress(DRIVE.read_bytes())
        (self.folder / "drives/cut.log.gz").write_bytes(packed[:20])
        with self.assertRaisesRegex(candor.Error, "1 of 10 recordings could not be decoded, .*cut.log.gz: RecordingError|ends inside"):
            self.decode("out", workers=2)
        (self.folder / "drives/cut.log.gz").write_bytes(packed[:-6])
        with self.assertWarnsRegex(candor.RecordingWarning, "cut.log.gz: byte .*: the file ends inside"):
            self.decode("out", workers=2)

    def test_a_folder_that_cannot_be_listed_stops_the_call(self):
        refused = PermissionError(13, "Permission denied", "sub")
        with unittest.mock.patch("os.walk", side_effect=lambda top, onerror=None: onerror(refused) or iter([])), self.assertRaises(PermissionError):
            self.decode("out", workers=2)

    def test_a_manifest_of_somebody_else_stays(self):
        manifest = self.folder / "out/manifest.json"
        manifest.parent.mkdir()
        manifest.write_text('{"mine": 1}')
        with self.assertRaisesRegex(FileExistsError, "this is no manifest of candor.distributed"):
            self.decode("out", workers=2)
        self.assertEqual(manifest.read_text(), '{"mine": 1}')

    def test_ctrl_c_waits_for_the_new_result(self):
        came = []
        before = signal.signal(signal.SIGINT, lambda *_: came.append(1))
        try:
            with distributed._uninterrupted():
                signal.raise_signal(signal.SIGINT)
                self.assertEqual(came, [])
            self.assertEqual(came, [1])
        finally:
            signal.signal(signal.SIGINT, before)

    def test_a_full_disk_leaves_what_was_there(self):
        self.decode("out", workers=2, signals="EngineSpeed.*")
        before = everything(self.folder / "out")
        program = (
            "import resource, sys\nfrom candor import distributed\nresource.setrlimit(resource.RLIMIT_FSIZE, (6000, 6000))\n"
            "distributed.decode(*sys.argv[1:], workers=2)\n"
        )
        arguments = [sys.executable, "-c", program, self.folder / "drives", DBC, self.folder / "out"]
        child = subprocess.run(arguments, capture_output=True, text=True)
        place = f"{self.folder}/out/message="
        self.assertIn("stays as it was", child.stderr)
        self.assertRegex(child.stderr, rf"OSError: \[Errno 27\] File too large; raise the limit of file sizes \(`ulimit -f`\): '{place}\w+/\w+\.parquet'")
        self.assertEqual(everything(self.folder / "out"), before)

    def test_a_manifest_that_cannot_be_written_leaves_what_was_there(self):
        manifest = self.folder / "out/manifest.json"
        manifest.mkdir(parents=True)
        with self.assertRaises(IsADirectoryError):
            self.decode("out", workers=2)
        self.assertEqual(list(self.folder.glob("out/message=*/*")), [])
        self.assertFalse([path for path in everything(self.folder / "out") if distributed.TEMPORARY in path])
        manifest.rmdir()
        self.decode("out", workers=2)
        self.decode("whole", workers=2)
        self.assertEqual(hashes(self.folder / "out"), hashes(self.folder / "whole"))

    def test_ctrl_c_leaves_the_result_and_nothing_temporary(self):
        self.decode("out", workers=2, signals="EngineSpeed.*")
        out = self.folder / "out"
        before = everything(out)

        def stop(done, count, recording):
            # As a worker leaves it that is killed.
            for place in ("parts", "message=EngineSpeed"):
                (out / place / f"{distributed.TEMPORARY}1-2").mkdir()
            raise KeyboardInterrupt

        with self.assertRaises(KeyboardInterrupt):
            self.decode("out", workers=2, progress=stop)
        # But for parts that are complete, which the next call takes.
        part = re.compile(r"parts/[0-9a-f]{32}(?:/.*)?")
        self.assertEqual({path: it for path, it in everything(out).items() if not part.fullmatch(path)}, before)
        self.decode("out", workers=2)
        self.decode("whole", workers=2)
        self.assertEqual(hashes(out), hashes(self.folder / "whole"))

    def test_files_that_are_no_recordings_are_passed_over(self):
        texts = {
            "notes.txt": "Drive of Monday\n- rain\n", "ids.csv": "id,name\n0x123,Motor\n", "notes.log": "nothing happened\n",
            "numbers.txt": "1 2 3\n4 5 6\n", "numbers.csv": "1,2,3\n", "notes.asc": "hello\n", "notes.trc": "hello\n",
        }
        for name, text in texts.items():
            (self.folder / "drives" / name).write_text(text)
        (self.folder / "drives/empty.log").write_text("")
        manifest = self.decode("out", workers=2)
        self.assertEqual([it["recording"] for it in manifest["passed_over"]], sorted([*texts, "notes.md"]))
        reasons = {it["recording"]: it["reason"] for it in manifest["passed_over"]}
        self.assertRegex(reasons["notes.txt"], "notes.txt: not a recording: its name is one of candump-console, but no line")
        self.assertEqual(len(manifest["parts"]), DRIVES + 1)

    def test_a_result_is_never_read_as_recordings(self):
        drives = self.folder / "drives"
        for folder, out in [(drives, drives), (drives, drives / "."), (drives / "parts", drives), (drives / "message=A/b", drives)]:
            folder.mkdir(parents=True, exist_ok=True)
            (folder / "drive.log").write_bytes(DRIVE.read_bytes())
            before = everything(drives)
            with self.assertRaisesRegex(ValueError, "the recordings are where the result would be; give another folder"):
                distributed.decode(folder, DBC, out)
            self.assertEqual(everything(drives), before)
        for folder in ("parts", "message=A"):
            shutil.rmtree(drives / folder)
        manifest = distributed.decode(drives, DBC, drives / "decoded", workers=2)
        before = everything(drives)
        self.assertEqual(distributed.decode(drives, DBC, drives / "decoded", workers=2), manifest)
        self.assertEqual([it["recording"] for it in manifest["passed_over"]], ["notes.md"])
        self.assertEqual(everything(drives).keys(), before.keys())

    def test_a_folder_called_candor_is_not_what_workers_run(self):
        other = self.folder / "here/candor"
        other.mkdir(parents=True)
        (other / "__init__.py").write_text("raise SystemExit('another candor')\n")
        for name in ("pyarrow", "json"):
            (self.folder / f"here/{name}.py").write_text(f"raise SystemExit('another {name}')\n")
        self.addCleanup(os.chdir, os.getcwd())
        os.chdir(self.folder / "here")
        self.assertEqual(len(self.decode("out", workers=2)["parts"]), DRIVES)

    def test_messages_of_one_name_have_each_a_folder(self):
        text = DBC.read_text()
        dbc = self.folder / "twins.dbc"
        dbc.write_text(text.replace(" VehicleSpeed:", " EngineSpeed:"))
        with self.assertWarnsRegex(candor.DatabaseWarning, "`EngineSpeed` is already defined; this one is called `EngineSpeed_0x1B6`") as caught:
            manifest = distributed.decode(self.folder / "drives", dbc, self.folder / "out", workers=2)
        self.assertEqual(len(caught.warnings), 1)
        manifest_of_each = self.decode("each", workers=2)
        for part, one in zip(manifest["parts"], manifest_of_each["parts"]):
            self.assertEqual(part["messages"]["EngineSpeed_0x1B6"]["rows"], one["messages"]["VehicleSpeed"]["rows"])
            self.assertEqual(part["messages"]["EngineSpeed"]["rows"], one["messages"]["EngineSpeed"]["rows"])
            self.assertEqual(part["warnings"], [])

    def test_a_task_is_not_done_by_another_version(self):
        settings = {"task": "decode", "program": "another"}
        self.assertIn("another version", distributed._run(settings, "a.log")["error"])

    def test_two_calls_do_not_write_into_one_folder(self):
        errors = []

        def second(done, count, recording):
            if done == 1:
                try:
                    self.decode("out", workers=1)
                except candor.Error as error:
                    errors.append(str(error))

        self.decode("out", workers=1, progress=second)
        self.assertIn("another call writes here", errors[0])
        empty = self.folder / "empty"
        empty.mkdir()
        for expected, folder, settings in [
            (NotADirectoryError, "no", {}),
            (candor.Error, "empty", {}),
            (ValueError, "drives", {"on": "dask"}),
            (FileNotFoundError, "drives", {"dbc": "no.dbc"}),
        ]:
            with self.assertRaises(expected):
                distributed.decode(self.folder / folder, settings.pop("dbc", DBC), self.folder / "o", **settings)

    def test_a_worker_that_died_before_it_read_everything_is_cleared_away(self):
        child = subprocess.Popen(["true"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        child.wait()
        child.stdin.write("not read")
        worker = distributed._Worker.__new__(distributed._Worker)
        worker.child = child
        worker.stop_child()
        self.assertIsNone(worker.child)
        self.assertTrue(child.stdin.closed)

    def test_ray_makes_the_same_and_repeats_the_lost_task(self):
        self.decode("whole", workers=2)
        program = pathlib.Path(__file__).with_name("on_ray.py")
        run = subprocess.run([sys.executable, program, self.folder / "drives", DBC, self.folder / "ray"], capture_output=True, text=True, timeout=300)
        self.assertEqual(run.returncode, 0, run.stdout + run.stderr)
        self.assertEqual(hashes(self.folder / "ray"), hashes(self.folder / "whole"))
        tasks = json.loads(run.stdout.splitlines()[-1])
        self.assertEqual(tasks["killed"], 1, tasks)
        self.assertEqual(tasks["again"], 1, tasks)


if __name__ == "__main__":
    unittest.main()
