"""The peers, each with a configuration of its own in a folder of its own; Debian's packages, no service."""

from __future__ import annotations

import contextlib
import json
import socket
import time
import urllib.request
from collections.abc import Iterator, Sequence
from pathlib import Path

from benchmarks import measure

PLUGINS = "/usr/lib/nagios/plugins"
EVERY = 10
"""Seconds between two checks of the same thing by Nagios and Monit."""

_NAGIOS = """log_file={0}/nagios.log
cfg_file={0}/objects.cfg
object_cache_file={0}/objects.cache
precached_object_file={0}/objects.precache
status_file={0}/status.dat
temp_file={0}/nagios.tmp
temp_path={0}
check_result_path={0}/results
lock_file={0}/nagios.pid
command_file={0}/nagios.cmd
query_socket={0}/nagios.qh
state_retention_file={0}/retention.dat
nagios_user=root
nagios_group=root
interval_length=1
check_external_commands=0
enable_notifications=0
execute_host_checks=0
use_syslog=0
log_initial_states=0
check_for_updates=0
status_update_interval=5
"""
_OBJECTS = """define timeperiod {{
  timeperiod_name always
  alias always
{days}
}}
define host {{
  host_name here
  address 127.0.0.1
  max_check_attempts 2
  check_period always
  notification_period always
  contacts nobody
}}
define command {{
  command_name nothing
  command_line /bin/true
}}
define contact {{
  contact_name nobody
  host_notification_period always
  service_notification_period always
  host_notification_options n
  service_notification_options n
  host_notification_commands nothing
  service_notification_commands nothing
}}
{commands}
{services}
"""


@contextlib.contextmanager
def nagios(folder: Path, commands: Sequence[str]) -> Iterator[int]:
    """Nagios Core that runs each command every `EVERY` seconds; its pid once it has run them all once."""
    (folder / "results").mkdir()
    days = "\n".join(
        f"  {day} 00:00-24:00"
        for day in ("monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday")
    )
    defined = "\n".join(
        f"define command {{\n  command_name c{n}\n  command_line {words}\n}}"
        for n, words in enumerate(commands)
    )
    services = "\n".join(
        f"define service {{\n  host_name here\n  service_description s{n}\n  check_command c{n}\n"
        f"  check_interval {EVERY}\n  retry_interval {EVERY}\n  max_check_attempts 2\n  check_period always\n"
        "  notification_period always\n  contacts nobody\n}"
        for n in range(len(commands))
    )
    (folder / "nagios.cfg").write_text(_NAGIOS.format(folder))
    (folder / "objects.cfg").write_text(_OBJECTS.format(days=days, commands=defined, services=services))
    with measure.running(["/usr/sbin/nagios4", f"{folder}/nagios.cfg"]) as process:
        time.sleep(2.5 * EVERY)  # its first round is spread over one interval
        yield process.pid


def nagios_cost(commands: Sequence[str], seconds: float = 3 * EVERY) -> float:
    """CPU seconds of one check by Nagios, its programs included; RuntimeError where it does not keep up."""
    with measure.folder() as folder, nagios(folder, commands) as pid:
        begin, since = measure.cpu(pid), time.time()
        time.sleep(seconds)
        spent, took = measure.cpu(pid) - begin, time.time() - since
        measure.wait_until(lambda: _newest(folder) > since + seconds - EVERY, 90, "Nagios writes its status")
    return spent / (len(commands) * took / EVERY)


def _newest(folder: Path) -> float:
    """When the check that waited longest was made last."""
    status = folder / "status.dat"
    if not status.exists():
        return 0.0
    services = status.read_text().split("servicestatus {")[1:]
    times = [float(part.split("last_check=")[1].split("\n")[0]) for part in services]
    return min(times, default=0.0)


@contextlib.contextmanager
def monit(folder: Path, checks: Sequence[str]) -> Iterator[int]:
    """Monit that makes all checks, rests for a second, and so on; its pid once it does. Each time it makes
    `ticks` in `folder` a byte longer."""
    config, tick = folder / "monitrc", folder / "tick"
    tick.write_text(f"#!/bin/sh\necho >> {folder}/ticks\n")
    tick.chmod(0o700)
    config.write_text(
        f"set daemon 1\nset pidfile {folder}/pid\nset idfile {folder}/id\nset statefile {folder}/state\n"
        f"set log {folder}/log\ncheck program tick path {tick}\n  if status > 0 then alert\n"
        + "\n".join(checks)
        + "\n"
    )
    config.chmod(0o600)
    with measure.running(["/usr/bin/monit", "-I", "-c", str(config)]) as process:
        measure.wait_until((folder / "ticks").exists, 90, "Monit has begun")
        yield process.pid


def monit_cost(checks: Sequence[str], seconds: float = 3 * EVERY) -> float:
    """CPU seconds of one check by Monit."""
    with measure.folder() as folder, monit(folder, checks) as pid:
        begin, turns = measure.cpu(pid), (folder / "ticks").stat().st_size
        time.sleep(seconds)
        turns = (folder / "ticks").stat().st_size - turns
        return (measure.cpu(pid) - begin) / (len(checks) * turns)


@contextlib.contextmanager
def alertmanager(folder: Path, webhook: str) -> Iterator[tuple[int, str]]:
    """Alertmanager that sends each alert to a webhook at once; its pid and its URL."""
    port = free_port()
    config = folder / "alertmanager.yml"
    config.write_text(
        json.dumps(
            {
                "route": {
                    "receiver": "hook",
                    "group_by": ["..."],
                    "group_wait": "0s",
                    "group_interval": "1s",
                },
                "receivers": [{"name": "hook", "webhook_configs": [{"url": webhook}]}],
            }
        )
    )
    words = [
        "/usr/bin/prometheus-alertmanager",
        f"--config.file={config}",
        f"--storage.path={folder}/data",
        f"--web.listen-address=127.0.0.1:{port}",
        "--cluster.listen-address=",
    ]
    with measure.running(words) as process:
        url = f"http://127.0.0.1:{port}"
        measure.wait_until(lambda: _answers(f"{url}/-/ready"), 20, "Alertmanager answers")
        yield process.pid, url


def free_port() -> int:
    """A port that nobody uses just now."""
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        port: int = found.getsockname()[1]
        return port


def post(url: str, value: object) -> None:
    """Hand a value to an HTTP server."""
    data, kind = json.dumps(value).encode(), {"Content-Type": "application/json"}
    with urllib.request.urlopen(urllib.request.Request(url, data, kind), timeout=30):
        pass


def _answers(url: str) -> bool:
    try:
        with urllib.request.urlopen(url, timeout=2):
            return True
    except OSError:
        return False
