"""Which options a batch script names itself, as sbatch reads its lines."""

import pytest

from watchdogd.batch.slurm import script_options


@pytest.mark.parametrize(
    ("lines", "expected"),
    [
        (["#SBATCH --partition=gpu"], {"partition"}),
        (["#SBATCH -p gpu -A project_1"], {"partition", "account"}),
        (["#SBATCH -pgpu"], {"partition"}),
        (["#SBATCH --part gpu --acco x --out=log"], {"partition", "account", "output"}),
        (["#SBATCH -o 'my log.txt' # -p gpu"], {"output"}),
        (["#SBATCH -D /tmp", "", "  # a word", "#SBATCH -J night"], {"chdir"}),
        (["#SBATCH -D /tmp", "", "# a word", "#SBATCH -J night"], {"chdir", "job-name"}),
        (["#SBATCH --output='open"], {"output"}),
        (["## SBATCH -p gpu", "#sbatch -p gpu", "# SBATCH -p gpu"], set()),
        (["module load x", "#SBATCH -p gpu"], set()),
        (["#SBATCH --parsable --priority=3 --acctg-freq=5 --open-mode=append"], set()),
        (["#SBATCH --partition", "#SBATCH -x", "#SBATCH -- -p"], {"partition", "exclude"}),
        ([], set()),
    ],
)
def test_what_the_lines_name(lines: list[str], expected: set[str]) -> None:
    assert set(script_options("\n".join(["#!/bin/bash", *lines, "srun train"]))) == expected


@pytest.mark.parametrize(
    "words", ["-x n1,n[3-4]", "-xn1,n[3-4]", "--exclude=n1,n[3-4]", "--exclude n1,n[3-4]"]
)
def test_nodes_that_the_script_leaves_out(words: str) -> None:
    assert script_options(f"#!/bin/sh\n#SBATCH --exclusive {words} -N2\n")["exclude"] == "n1,n[3-4]"


@pytest.mark.parametrize("words", ["--node=4", "--no 3", "--e=x"])
def test_an_ambiguous_abbreviation_ends_nothing(words: str, capfd: pytest.CaptureFixture[str]) -> None:
    assert script_options(f"#!/bin/sh\n#SBATCH -p gpu {words}\n") == {}
    assert capfd.readouterr().err == ""
