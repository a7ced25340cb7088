"""Text of YAML to lists and maps, with the lines in which maps begin; PyYAML reads it."""

from __future__ import annotations

import importlib
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from pyslurm_ng.base.input_files import MOST_OF_CONF, read_whole
from pyslurm_ng.conf.lexer import ConfError, ConfErrors


class Origin(NamedTuple):
    """Where content comes from: its file, a name for messages, and the lines of its maps."""

    path: str
    lead: str
    lines: Mapping[int, int]

    def failure(self, unit: Any, text: str) -> ConfErrors:
        """Return an exception with one error about a map."""
        return ConfErrors([self.error(self.line(unit), text)])

    def error(self, line: int, text: str) -> ConfError:
        """Return an error about one line of the file."""
        return ConfError(self.path, line, "", f"{self.lead}{text}")

    def unknown(self, unit: Any, key: Any, known: Iterable[str]) -> ConfErrors:
        """Return an exception about a key that a map may not have."""
        # Imported here because only a faulty configuration needs it.
        from difflib import get_close_matches

        names = list(known)
        near = get_close_matches(str(key), names, n=1, cutoff=0.75)
        hint = f"did you mean {near[0]}" if near else f"known are {', '.join(names)}"
        return self.failure(unit, f"{key}: unknown key; {hint}")

    def line(self, unit: Any) -> int:
        """Return the line in which a map begins; 0 if it is not known."""
        return self.lines.get(id(unit), 0)

    def below(self, lead: str) -> Origin:
        """Return the same with a longer name."""
        return self._replace(lead=f"{self.lead}{lead}")

    def word(
        self, key: str, value: Any, unit: Any, expected: str = "a name or a list of hosts"
    ) -> str:
        """Return a name or host list; YAML may have read it as a number.

        Raises:
            ConfErrors: it is neither.
        """
        text = str(value) if isinstance(value, (str, int)) and not isinstance(value, bool) else ""
        if not text or any(letter in text for letter in " \t\n\r#=\"'\\"):
            raise self.failure(unit, f"{key}: expected {expected}")
        return text


def load_yaml(path: str) -> tuple[Any, dict[int, int]]:
    """Return a file's content, and the line of each map by its `id`.

    Raises:
        ConfErrors: the file cannot be read, is no YAML, or gives a key of a map twice.
    """
    yaml: Any = importlib.import_module("yaml")  # only sites with such a file need PyYAML
    lines: dict[int, int] = {}

    class Loader(yaml.SafeLoader):  # type: ignore[misc]
        """Notes where maps begin, and refuses a key that is given twice."""

    def read_map(loader: Any, node: Any) -> Any:
        keys = [key.value for key, _ in node.value]
        for number, key in enumerate(keys):
            if key in keys[:number]:
                mark = node.value[number][0].start_mark
                raise yaml.constructor.ConstructorError(None, None, f"{key} is there twice", mark)
        content: dict[Any, Any] = {}
        lines[id(content)] = node.start_mark.line + 1
        yield content
        content.update(loader.construct_mapping(node))

    Loader.add_constructor("tag:yaml.org,2002:map", read_map)
    try:
        with open(path, encoding="utf-8") as stream:
            return yaml.load(read_whole(stream, MOST_OF_CONF), Loader), lines
    except yaml.MarkedYAMLError as problem:
        mark = problem.problem_mark or problem.context_mark
        text = " ".join(str(problem.problem).split())
        raise ConfErrors([ConfError(path, mark.line + 1 if mark else 0, "", text)]) from None
    except UnicodeDecodeError:
        raise ConfErrors([ConfError(path, 0, "", "is not text in UTF-8")]) from None
    except OSError as problem:
        text = f"cannot be read: {problem.strerror}"
        raise ConfErrors([ConfError(path, 0, "", text)]) from None
    except yaml.YAMLError as problem:
        raise ConfErrors([ConfError(path, 0, "", " ".join(str(problem).split()))]) from None
