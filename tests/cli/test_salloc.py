"""What salloc runs when it is given no command."""

from __future__ import annotations

import pwd

import pytest

from pyslurm_ng.cli.salloc import login_shell


@pytest.mark.parametrize(
    ("account", "variable", "shell"),
    [("/bin/fish", "/bin/zsh", "/bin/fish"), ("", "/bin/zsh", "/bin/sh"),
     (None, "/bin/zsh", "/bin/zsh"), (None, "", "/bin/sh")],
)  # fmt: skip
def test_the_shell_is_that_of_the_account(
    account: str | None, variable: str, shell: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """SHELL counts only where the account is unknown, as in some containers."""

    def entry(uid: int) -> pwd.struct_passwd:
        if account is None:
            raise KeyError(uid)
        return pwd.struct_passwd(("user", "x", uid, 0, "", "/", account))

    monkeypatch.setenv("SHELL", variable)
    monkeypatch.setattr(pwd, "getpwuid", entry)
    assert login_shell() == shell
