"""A real Dovecot on loopback, with a mailbox into which tests put letters."""

from __future__ import annotations

import grp
import imaplib
import os
import pwd
import shutil
import subprocess
import tempfile
import time
from contextlib import suppress
from email.message import EmailMessage
from pathlib import Path
from types import TracebackType
from typing import Self

import pytest

from tests.ports import port_of, reserve_port
from tests.waiting import wait_until

SERVER = shutil.which("dovecot", path=f"{os.environ.get('PATH', '')}:/usr/sbin")
USER, PASSWORD = "watchdog@example.org", "s3cret-of-the-mailbox"
_CONFIG = """
base_dir = {folder}/run
state_dir = {folder}/run
log_path = {folder}/log
protocols = imap
listen = 127.0.0.1
ssl = yes
ssl_cert = <{folder}/certificate.pem
ssl_key = <{folder}/key.pem
ssl_dh =
disable_plaintext_auth = no
auth_failure_delay = 0
default_internal_user = {me}
default_internal_group = {group}
default_login_user = {me}
first_valid_uid = 1
first_valid_gid = 1
mail_location = maildir:{folder}/mail
passdb {{
  driver = static
  args = password={password}
}}
userdb {{
  driver = static
  args = uid={uid} gid={gid} home={folder}/mail
}}
service imap-login {{
  chroot =
  service_count = 0
  inet_listener imap {{
    port = {plain}
  }}
  inet_listener imaps {{
    port = {tls}
    ssl = yes
  }}
}}
service anvil {{
  chroot =
}}
"""


class ImapServer:
    """Dovecot with one mailbox, of USER with PASSWORD; `url` speaks STARTTLS, `secure_url` TLS."""

    def __init__(self) -> None:
        self._plain, self._tls = reserve_port(), reserve_port()
        self._folder = Path(tempfile.mkdtemp(prefix="dovecot-"))
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def url(self) -> str:
        """imap://127.0.0.1:PORT."""
        return f"imap://127.0.0.1:{port_of(self._plain)}"

    @property
    def secure_url(self) -> str:
        """imaps://127.0.0.1:PORT, with a certificate that nobody signed."""
        return f"imaps://127.0.0.1:{port_of(self._tls)}"

    def put(self, *letters: EmailMessage, folder: str = "INBOX") -> None:
        """Letters arrive."""
        with self._session() as session:
            if folder != "INBOX":
                session.create(folder)
            for letter in letters:
                session.append(folder, "", time.time(), letter.as_bytes())

    def flags(self) -> bytes:
        """What stands at the letters of the inbox: whether somebody read them."""
        with self._session() as session:
            session.select("INBOX", readonly=True)
            return b" ".join(each for each in session.fetch("1:*", "(FLAGS)")[1] if isinstance(each, bytes))

    def _session(self) -> imaplib.IMAP4:
        session = imaplib.IMAP4("127.0.0.1", port_of(self._plain), timeout=60)
        session.login(USER, PASSWORD)
        return session

    def __enter__(self) -> Self:
        if SERVER is None:
            pytest.fail("dovecot is not installed: scripts/packages installs it")
        me = pwd.getpwuid(os.geteuid())
        owner = pwd.getpwnam("nobody") if me.pw_uid == 0 else me  # root may serve no mail
        self._folder.chmod(0o755)
        (self._folder / "mail").mkdir()
        os.chown(self._folder / "mail", owner.pw_uid, owner.pw_gid)
        _sign(self._folder)
        text = _CONFIG.format(
            folder=self._folder,
            me=owner.pw_name,
            group=grp.getgrgid(owner.pw_gid).gr_name,
            password=PASSWORD,
            uid=owner.pw_uid,
            gid=owner.pw_gid,
            plain=port_of(self._plain),
            tls=port_of(self._tls),
        )
        config = self._folder / "dovecot.conf"
        config.write_text(text)
        self._process = subprocess.Popen([SERVER, "-F", "-c", str(config)], stdin=subprocess.DEVNULL)
        wait_until(self._answers, 20, "Dovecot listens")
        return self

    def _answers(self) -> bool:
        with suppress(OSError, imaplib.IMAP4.error), self._session():
            return True
        assert self._process
        assert self._process.poll() is None, (self._folder / "log").read_text()
        return False

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._process:
            self._process.terminate()
            self._process.wait(60)
        self._plain.close()
        self._tls.close()
        shutil.rmtree(self._folder, ignore_errors=True)


def _sign(folder: Path) -> None:
    names = ["-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost,IP:127.0.0.1"]
    kind = ["-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "2"]
    files = ["-keyout", str(folder / "key.pem"), "-out", str(folder / "certificate.pem")]
    subprocess.run(["openssl", "req", *kind, *names, *files], check=True, capture_output=True, timeout=300)
