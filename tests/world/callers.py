"""Who asks: two users and root."""

from __future__ import annotations

from pyslurm_ng.ctld.rules.context import Caller

ROOT = Caller(uid=0, gid=0, user_name="root", is_admin=True, is_operator=True)
ALICE = Caller(uid=1001, gid=1001, user_name="alice", group_name="alice", groups=("alice", "hpc"))
BOB = Caller(uid=1002, gid=1002, user_name="bob", group_name="bob")
