"""The examples of the frameworks, one after the other in one process: trained.py FOLDER RUN=MODULE...

Each is saved, stopped, begun again and finished by its switches; what came of it is one line of JSON.
"""

import contextlib
import importlib
import io
import json
import os
import re
import sys
import threading
import time
from pathlib import Path

import torch

HOME = Path(os.environ["WATCHDOGD_HOME"])
PATIENCE = 400.0
sys.path.append(str(Path(__file__).parents[2] / "examples"))


class Teller(io.TextIOBase):
    """Everything that is printed, kept and passed on."""

    def __init__(self):
        self.text = ""

    def write(self, text):
        self.text += text
        return sys.__stdout__.write(text)

    def flush(self):
        sys.__stdout__.flush()


def until(there, what):
    deadline = time.monotonic() + PATIENCE
    while not there():
        if time.monotonic() > deadline:
            print(f"waited in vain until {what}", flush=True)
            os._exit(1)
        time.sleep(0.02)


def press(run):
    """The save switch, then the kill switch."""
    save = HOME / "switches" / f"{run}.save"
    until(lambda: any((HOME / "inbox").glob(f"{run}.beat.*")), f"{run} begins")
    save.touch()
    until(lambda: not save.exists(), f"{run} saves")
    save.with_suffix(".kill").write_text('{"by": "bob", "reason": "lunch"}\n')


def trained(run, main, path):
    told = Teller()
    with contextlib.redirect_stdout(told):
        presser = threading.Thread(target=press, args=(run,), daemon=True)
        presser.start()
        main(path, 100_000)
        presser.join(PATIENCE)
        [beat] = (HOME / "inbox").glob(f"{run}.beat.*")
        asked = json.loads(beat.read_text())
        (HOME / "switches" / f"{run}.kill").unlink()
        acted = [(int(step), why) for step, why in re.findall(rf"{run}, step (\d+): (.*)", told.text)]
        unfinished = not (HOME / "switches" / f"{run}.finished").exists()
        main(path, acted[-1][0] + 5)
        left = "it began"
        try:
            main(path, acted[-1][0] + 50)
        except SystemExit as leaving:
            left = leaving.code
    resumed = json.loads(beat.read_text())["step"]
    return {"acted": acted, "unfinished": unfinished, "left": left, "beat": asked, "resumed": resumed}


LAUNCHED = {"RANK": "0", "LOCAL_RANK": "0", "WORLD_SIZE": "1", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "0"}
LAUNCHED |= {"LOCAL_WORLD_SIZE": "1", "NODE_RANK": "0"}
for word in sys.argv[2:]:
    run, _, module = word.partition("=")
    if (
        run == "composer"
    ):  # in a folder of its own; its torchvision is built for GPUs, with operators of theirs
        sys.path.append(str(Path(sys.prefix) / "composer"))
        operators = torch.library.Library("torchvision", "FRAGMENT")
        for name in ("nms", "qnms"):
            operators.define(f"{name}(Tensor boxes, Tensor scores, float threshold) -> Tensor")
    if run == "deepspeed":  # which wants a launcher's variables
        os.environ.update(LAUNCHED)
    found = trained(run, importlib.import_module(module).main, f"{sys.argv[1]}/{run}")
    print("\n" + json.dumps({"run": run, **found}), flush=True)
