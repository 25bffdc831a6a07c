"""`holdfast completion`: what makes bash complete these commands, their actions and their options."""

from __future__ import annotations

import argparse
import importlib
from collections.abc import Iterator
from typing import Any

from holdfast.cli import main

SCRIPT = """\
# holdfast completion, for bash: source <(holdfast completion)
_holdfast() {
    local words="${COMP_WORDS[*]:1:COMP_CWORD-1}" wanted=""
    while [ -n "$words" ] && [ -z "${_holdfast_words[$words]+x}" ]; do
        [[ "$words" == *" "* ]] && words="${words% *}" || words=""
    done
    wanted="${_holdfast_words[${words:-.}]}"
    mapfile -t COMPREPLY < <(compgen -W "$wanted" -- "${COMP_WORDS[COMP_CWORD]}")
}
declare -A _holdfast_words=(
@WORDS@
)
complete -o default -F _holdfast holdfast
"""


def add_parser(commands: Any) -> None:
    parser = commands.add_parser(
        "completion",
        help="print what makes bash complete these commands",
        description="Prints a script for bash: source <(holdfast completion). `openstack complete`, "
        "`holdfast baremetal complete` and `ironic complete` do the same for theirs.",
    )
    parser.set_defaults(run=run)


def run(_options: argparse.Namespace) -> int:
    lines = [f'    ["{path}"]="{" ".join(words)}"' for path, words in sorted(choices())]
    print(SCRIPT.replace("@WORDS@", "\n".join(lines)), end="")
    return 0


def choices() -> Iterator[tuple[str, list[str]]]:
    """What may follow each beginning of a command line; `.` is the bare command."""
    yield ".", [*main.COMMANDS, "--help", "--version"]
    for name, (module, _about) in main.COMMANDS.items():
        commands = argparse.ArgumentParser().add_subparsers()
        importlib.import_module(f"holdfast.cli.{module}").add_parser(commands)
        yield from _below(name, commands.choices[name])


def _below(path: str, parser: argparse.ArgumentParser) -> Iterator[tuple[str, list[str]]]:
    words: list[str] = []
    for action in parser._actions:
        words += action.option_strings
        if isinstance(action, argparse._SubParsersAction):
            words += action.choices
            for name, child in action.choices.items():
                yield from _below(f"{path} {name}", child)
    yield path, words
