"""What the documentation has a reader type and its pages' test does not: which test does, and why."""

from __future__ import annotations

from typing import NamedTuple


class Elsewhere(NamedTuple):
    """`test` runs the command, or what it stands for; `words` are what to look for in that test's file."""

    test: str
    words: str
    why: str


_PAGES = "tests/docs/test_commands.py::test_the_page_can_be_followed"
_MAKE = "tests/docs/test_elsewhere.py::test_the_targets_of_make_run_what_is_tested"
_INSTALLED = Elsewhere(
    "tests/docs/test_elsewhere.py::test_what_pip_installs_is_what_runs",
    "from_pip",
    "asks a package index; `make test` types it, with the extras, before the first test",
)
_CHAIN = "tests/slurm/test_chain.py::"

ELSEWHERE = {
    "python3 -m venv ~/watchdogd-venv": Elsewhere(
        _PAGES, "slurm.python", "the cluster of the tests has such an environment for all its users"
    ),
    "~/watchdogd-venv/bin/pip install .": _INSTALLED,
    ". ~/watchdogd-venv/bin/activate": Elsewhere(
        _PAGES, '"PATH": f"{slurm.typed.parent}:{slurm.python.parent}:', "each command has a shell of its own"
    ),
    "export PATH=~/watchdogd-venv/bin:$PATH": Elsewhere(
        _PAGES, '"PATH": f"{slurm.typed.parent}:{slurm.python.parent}:', "each command has a shell of its own"
    ),
    "pip install .": _INSTALLED,
    "pip install '.[prometheus]'": _INSTALLED,
    "pip install 'watchdogd[postgres]'": _INSTALLED,
    "pip install ./watchdogd-gotify": Elsewhere(
        "tests/notify/test_foreign_channel.py::test_every_verb_knows_the_channel_of_another_package",
        '"pip", "install"',
        "is installed there beside the environment, not into it",
    ),
    "$EDITOR ~/.watchdogd/config.toml": Elsewhere(
        "tests/docs/test_commands.py::test_the_readme_can_be_followed",
        "reader.write(",
        "an editor wants a person: what she would add is added",
    ),
    **{
        command: Elsewhere("tests/cli/test_nodes.py::test_a_node_is_added_listed_and_removed", words, why)
        for command, words, why in (
            ("watchdogd nodes", "said(capsys)", "lists nodes that a page's reader has not"),
            ("watchdogd nodes run-17 --exclude", '"--exclude"', "likewise"),
            (
                'watchdogd nodes --add n017 --reason "slow link"',
                '"--add", "n017"',
                "no page's reader has n017",
            ),
            ("watchdogd nodes --remove n017", '"--remove", "n017"', "likewise"),
        )
    },
    **{
        command: Elsewhere(
            "tests/cli/test_explain.py::test_the_clocks_the_limits_and_where_they_come_from_are_shown",
            '"--explain"',
            "the README's reader has a run of some seconds",
        )
        for command in (
            "watchdogd check my-training/log_staleness --explain",
            "watchdogd check my-training --explain",
        )
    },
    "watchdogd backtest --log FILE": Elsewhere(
        "tests/plugins/log_staleness/test_replay.py::test_people_and_programs_read_it",
        '"--log"',
        "wants a log whose lines bear times",
    ),
    **{
        command: Elsewhere(
            "tests/web/test_morning.py::test_the_verb_prints_it_and_sends_it", words, "wants a day of history"
        )
        for command, words in (("watchdogd digest", '"digest"'), ("watchdogd digest --send", '"--send"'))
    },
    "createuser watchdogd --pwprompt": Elsewhere(
        "tests/history/test_postgres.py::test_the_page_of_the_history_can_be_followed",
        "createuser",
        "wants a database server",
    ),
    "createdb --owner watchdogd bloom_watch": Elsewhere(
        "tests/history/test_postgres.py::test_the_page_of_the_history_can_be_followed",
        "createdb",
        "wants a database server",
    ),
    "make demo": Elsewhere(
        "tests/test_demo.py::test_the_whole_story_on_a_machine_without_slurm", '"demo"', "installs first"
    ),
    "watchdogd demo": Elsewhere(
        "tests/test_demo.py::test_the_whole_story_on_a_machine_without_slurm", '"demo"', "takes a minute"
    ),
    "make docs": Elsewhere(_MAKE, '"docs"', "records the demo, for minutes"),
    "make attack": Elsewhere(
        _MAKE, '"attack"', "tries what SECURITY.md promises, as other users, for minutes"
    ),
    "make fuzz": Elsewhere(_MAKE, '"fuzz"', "installs a fuzzer, and runs until it is interrupted"),
    "make test": Elsewhere(_MAKE, '"test"', "is what runs these tests"),
    "make test PYTEST='tests/daemon -x'": Elsewhere(_MAKE, "PYTEST=", "would run tests inside of a test"),
    "make test TORCH=torch": Elsewhere(_MAKE, "TORCH=", "fetches several gigabytes"),
    "make quick": Elsewhere(_MAKE, '"quick"', "runs some of these tests"),
    "make pythons": Elsewhere(_MAKE, '"pythons"', "runs some of these tests, twice"),
    "make lint": Elsewhere(_MAKE, '"lint"', "`make test` runs it beside these tests"),
    "make examples": Elsewhere(
        "tests/test_examples.py::test_a_framework_saves_stops_resumes_and_finishes",
        "def test_",
        "is that file",
    ),
    "make wheelhouse": Elsewhere(
        "tests/test_package.py::test_a_cluster_without_internet_installs_from_the_wheelhouse",
        '"wheelhouse"',
        "asks a package index",
    ),
    "watchdogd web --home A --home B": Elsewhere(
        "tests/web/test_homes.py::test_the_live_page_leads_to_that_of_each_home_and_to_its_numbers",
        "documents_of",
        "serves until it is interrupted",
    ),
    "watchdogd init --interactive": Elsewhere(
        "tests/slurm/test_first_minutes.py::test_questions_make_a_configuration_of_which_everything_is_tried",
        '"--interactive"',
        "asks a person",
    ),
    "make bench": Elsewhere(
        _MAKE, '"bench"', "installs and measures other programs for a quarter of an hour"
    ),
    "make chaos": Elsewhere(_MAKE, '"chaos"', "breaks a watchdog of its own for minutes"),
    "make soak": Elsewhere(_MAKE, '"soak"', "takes hours"),
    "make truth": Elsewhere(_MAKE, '"truth"', "tells the lives of a hundred forms, for minutes"),
    "watchdogd config --example": Elsewhere(
        "tests/test_package.py::test_the_example_of_a_configuration_is_installed",
        "'--example'",
        "is printed there from a wheel",
    ),
    "watchdogd ack 7": Elsewhere(
        _PAGES, "watchdogd ack", "there with the number of an incident that is open"
    ),
    "watchdogd check NAME": Elsewhere(
        "tests/cli/test_verbs.py::test_check_is_a_nagios_plugin_and_exits_with_the_worst", '"check"', "NAME"
    ),
    "watchdogd VERB --help": Elsewhere(
        "tests/docs/test_build.py::test_every_verb_has_its_help", "usage: watchdogd {verb}", "VERB"
    ),
    "watchdogd --help": Elsewhere("tests/test_cli.py::test_help_lists_every_verb", '"--help"', "of no page"),
    "watchdogd ensure": Elsewhere(
        "tests/deploy/test_crontab.py::test_ensure_from_cron_starts_one_chain_and_brings_it_back",
        '"ensure"',
        "is for a crontab, and runs from one there",
    ),
    "watchdogd guard --run run-17 -- CMD": Elsewhere(
        "tests/cli/test_guard.py::test_the_exit_code_is_cmds", '"guard", "--run"', "CMD"
    ),
    "watchdogd init --group GROUP": Elsewhere(
        "tests/slurm/test_story.py::test_the_story_of_a_run", '"init", "--group"', "GROUP, with its members"
    ),
    "watchdogd notify --test slack": Elsewhere(
        "tests/cli/test_verbs.py::test_notify_says_what_was_delivered", '"notify"', "typed without the name"
    ),
    'watchdogd preflight --run RUN --srun "OPTIONS OF YOUR SRUN"': Elsewhere(
        "tests/slurm/test_preflight.py::test_the_masks_of_all_ranks", "--srun", "is for a job script"
    ),
    "watchdogd preflight --run run-17 || exit": Elsewhere(
        "tests/slurm/test_preflight.py::test_a_job_that_may_go", "preflight", "is for a job script"
    ),
    "watchdogd probe --run run-17 &": Elsewhere(
        "tests/slurm/test_probe.py::test_alice_sees_the_gpus_of_bobs_job_through_his_samples",
        "probe",
        "is for a colleague's job script",
    ),
    "watchdogd probe --run RUN &": Elsewhere(
        "tests/slurm/test_probe.py::test_alice_sees_the_gpus_of_bobs_job_through_his_samples", "probe", "RUN"
    ),
    "watchdogd run": Elsewhere(
        "tests/cli/test_verbs.py::test_a_second_daemon_says_who_has_the_lease_and_a_tick_does_nothing",
        'dog("run")',
        "stays in the foreground",
    ),
    "watchdogd stacks": Elsewhere(
        "tests/slurm/test_stacks.py::test_the_one_that_stands_elsewhere_is_named",
        "stacks",
        "wants a hung job",
    ),
    "watchdogd stacks run-17": Elsewhere(
        "tests/slurm/test_stacks.py::test_the_one_that_stands_elsewhere_is_named",
        "stacks",
        "wants a hung job",
    ),
    "watchdogd start --local": Elsewhere(
        _CHAIN + "test_a_local_background_process", '"--local"', "the pages go on with the chain"
    ),
    "watchdogd start --mode tick": Elsewhere(
        _CHAIN + "test_tick_mode", '"start", "--mode", "tick"', "typed with its partition"
    ),
}
"""Command → who runs it. `tests/docs/test_elsewhere.py` holds that it is neither too long nor too short."""
