"""Text of YAML to lists and maps, with the lines in which maps begin; PyYAML reads it."""

from __future__ import annotations

import importlib
from typing import Any

from pyslurm_ng.base.input_files import MOST_OF_CONF, read_whole
from pyslurm_ng.conf.lexer import ConfError, ConfErrors


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
    except (OSError, UnicodeDecodeError, yaml.YAMLError) as problem:
        raise ConfErrors([ConfError(path, 0, "", " ".join(str(problem).split()))]) from None
