"""A training loop in plain Python under the switches: fits a line, saves, resumes, stops when asked.

python examples/plain_loop.py CHECKPOINT [STEPS]

Try it: while it runs, `touch ~/.watchdogd/switches/line-fit.save`, then `line-fit.kill` in the same place.
Once that is removed, start it again and it goes on where it stopped.
"""

import json
import os
import random
import sys
import time

from watchdogd.training import Guard


def load(path):
    try:
        with open(path, encoding="utf-8") as file:
            return json.load(file)
    except FileNotFoundError:
        return {"step": 0, "slope": 0.0, "offset": 0.0}


def save(path, state):
    with open(path + ".new", "w", encoding="utf-8") as file:
        json.dump(state, file)
    os.replace(path + ".new", path)


def train_step(state):
    """One step of gradient descent towards y = 3x + 1; the loss is the squared error."""
    x = random.uniform(-1, 1)  # noqa: S311  no secret
    error = state["slope"] * x + state["offset"] - (3 * x + 1)
    state["slope"] -= 0.1 * error * x
    state["offset"] -= 0.1 * error
    state["step"] += 1
    time.sleep(0.01)
    return error * error


def main(checkpoint, steps):
    guard = Guard("line-fit", time_left="auto", memory_free="2%")
    guard.exit_if_stopped()
    state = load(checkpoint)
    while state["step"] < steps:
        loss = train_step(state)
        wish = guard.poll(step=state["step"], loss=loss)
        if wish:
            print(f"step {state['step']}: {wish.reason}", flush=True)
            save(checkpoint, state)
        if wish.save:
            guard.saved()
        if wish.stop:
            sys.exit(0)
    save(checkpoint, state)
    guard.finished()
    print(f"done after {state['step']} steps: y = {state['slope']:.2f}x + {state['offset']:.2f}", flush=True)


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]) if len(sys.argv) > 2 else 3000)
