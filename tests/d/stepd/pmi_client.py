"""A client of PMI without an MPI library, run as a task: `python pmi_client.py VERSION WORD...`.

It begins, does what each word says, and prints the answers. It imports nothing of ours.
"""

from __future__ import annotations

import os
import sys
import time


class Client:
    """The task's side of the descriptor."""

    def __init__(self, version: int) -> None:
        self.version = version
        self.fd = int(os.environ["PMI_FD"])
        self.rank = os.environ.get("PMI_RANK") or os.environ["SLURM_PROCID"]
        self.unread = b""

    def line(self) -> str:
        while b"\n" not in self.unread:
            self.more()
        line, _, self.unread = self.unread.partition(b"\n")
        return line.decode()

    def more(self) -> None:
        data = os.read(self.fd, 65536)
        if not data:
            raise SystemExit(f"rank {self.rank}: the server has gone")
        self.unread += data

    def say(self, text: str) -> str:
        """Send a command and return the answer."""
        self.send(text)
        return self.hear()

    def send(self, text: str) -> None:
        if self.version == 1:
            os.write(self.fd, text.encode() + b"\n")
        else:
            os.write(self.fd, b"%-6d" % len(text) + text.encode())

    def hear(self) -> str:
        if self.version == 1:
            return self.line()
        while len(self.unread) < 6 or len(self.unread) < 6 + int(self.unread[:6]):
            self.more()
        end = 6 + int(self.unread[:6])
        text, self.unread = self.unread[6:end].decode(), self.unread[end:]
        return text

    def begin(self) -> None:
        os.write(self.fd, b"cmd=init pmi_version=%d pmi_subversion=0\n" % self.version)
        self.line()
        if self.version == 2:
            self.say(f"cmd=fullinit;pmirank={self.rank};threaded=FALSE;")

    def fence(self) -> str:
        return self.say("cmd=barrier_in" if self.version == 1 else "cmd=kvs-fence;")

    def do(self, word: str) -> None:
        v1 = self.version == 1
        if word == "exchange":  # each rank reads what all have put
            size = int(os.environ["PMI_SIZE"])
            put, get = (
                ("cmd=put kvsname=k key={} value={}", "cmd=get kvsname=k key={}")
                if v1
                else ("cmd=kvs-put;key={};value={};", "cmd=kvs-get;key={};")
            )
            for turn in range(3):
                self.say(put.format(f"k{self.rank}-{turn}", f"v{self.rank}-{turn}"))
                self.fence()
                for rank in range(size):
                    answer = self.say(get.format(f"k{rank}-{turn}"))
                    assert f"value=v{rank}-{turn}" in answer, answer
            print(f"rank {self.rank} has read {size}", flush=True)
        elif word == "fence":
            self.fence()
        elif word.startswith("sleep"):
            time.sleep(60)
        elif word.startswith("exit"):
            os._exit(int(word[4:]))
        elif word.startswith("raw:"):
            os.write(self.fd, bytes.fromhex(word[4:]))
            time.sleep(60)
        elif word.startswith("many:"):  # many:COUNT:TEXT, without an answer in between
            _, count, text = word.split(":", 2)
            for number in range(int(count)):
                self.send(text.replace("{}", str(number)))
        elif word.startswith("hear:"):  # the same, with answers
            _, count, text = word.split(":", 2)
            for _ in range(int(count)):
                self.say(text)
        elif word.startswith("abort"):
            self.send(f"cmd=abort exitcode={word[5:]}" if v1 else "cmd=abort;isworld=TRUE;")
            time.sleep(60)
        elif word.startswith("only"):  # only:RANK:WORD
            _, rank, rest = word.split(":", 2)
            if rank == self.rank:
                self.do(rest)
        else:
            print(self.say(word), flush=True)


if __name__ == "__main__":
    client = Client(int(sys.argv[1]))
    client.begin()
    for each in sys.argv[2:]:
        client.do(each)
    client.say("cmd=finalize" if client.version == 1 else "cmd=finalize;")
