"""Runs the notebook of the examples, with the package and the program `candor` that are installed.

    python tests/python/notebook.py [FOLDER]

It is kept without outputs, every cell ends without an error, and at least three of them draw a picture. With FOLDER, the pictures are
written there. What it writes itself goes into a scratch copy of the repository.

Exit code 0 if so, 1 if not.
"""

import base64
import sys
import tempfile
from pathlib import Path

import nbformat
from examples import ROOT, scratch
from nbclient import NotebookClient

NOTEBOOK = "examples/drive.ipynb"


def main(arguments):
    notebook = nbformat.read(ROOT / NOTEBOOK, as_version=4)
    nbformat.validate(notebook)
    cells = [cell for cell in notebook.cells if cell.cell_type == "code"]
    if any(cell.outputs or cell.execution_count for cell in cells):
        print(f"{NOTEBOOK}: it has outputs; clear them before it is kept")
        return 1
    with tempfile.TemporaryDirectory() as folder:
        scratch(folder)
        NotebookClient(notebook, timeout=120, kernel_name="python3", resources={"metadata": {"path": folder}}).execute()
    pictures = [
        base64.b64decode(output.data["image/png"])
        for cell in cells
        for output in cell.outputs
        if "image/png" in output.get("data", {})
    ]
    print(f"{NOTEBOOK}: {len(cells)} cells, {len(pictures)} pictures")
    for number, picture in enumerate(pictures, 1):
        if arguments:
            Path(arguments[0], f"notebook-{number}.png").write_bytes(picture)
    return 0 if len(pictures) >= 3 else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
