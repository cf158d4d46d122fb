"""The commands of `tellwhy` with their arguments and options, as Markdown and as a manual page."""

import re
from typing import Any

import typer.main

from tellwhy.views.cli import app

HEADING = re.compile(r"^(\w+)\n-{3,}$", flags=re.MULTILINE)


def list_commands() -> dict[str, Any]:
    """Every command by its name, in the order of `tellwhy --help`."""
    group: Any = typer.main.get_command(app)
    return dict(group.commands)


def describe_commands() -> str:
    """The commands as Markdown."""
    listed = list_commands()
    parts = [f"- [`tellwhy {name}`](#tellwhy-{name}): {first_line(each)}" for name, each in listed.items()]
    for name, command in listed.items():
        parts += ["", f"## tellwhy {name}", "", clean(command.help or "")]
        parts += ["", f"```text\n{usage_of(name, command)}\n```", "", "| option | meaning |", "| --- | --- |"]
        parts += [f"| {_names(param)} | {_meaning(param)} |" for param in shown(command)]
    return "\n".join(parts)


def first_line(command: Any) -> str:
    """What a command does, in one line."""
    return clean(command.help or "").split("\n\n")[0].replace("\n", " ")


def usage_of(name: str, command: Any) -> str:
    """The line that shows how a command is called."""
    taken = [names_of(param)[0] for param in shown(command) if param.param_type_name == "argument"]
    return " ".join(["tellwhy", name, "[OPTIONS]", *taken])


def shown(command: Any) -> list[Any]:
    """Arguments and options that are not hidden."""
    return [param for param in command.params if not getattr(param, "hidden", False)]


def clean(text: str) -> str:
    """A text without the marks that command lines use for form feeds and unwrapped blocks."""
    plain = text.replace("\b", "").replace("\f", "").strip()
    return HEADING.sub(r"**\1**\n", plain)


def names_of(param: Any) -> list[str]:
    """An argument's name, or an option's with what it takes."""
    if param.param_type_name == "argument":
        name = param.metavar or param.name.upper()
        return [name if param.required else f"[{name}]"]
    names = [*param.opts, *param.secondary_opts]
    if param.is_flag or param.count:
        return names
    return [*names[:-1], f"{names[-1]} {param.metavar or _type_of(param)}"]


def _type_of(param: Any) -> str:
    """What an option takes, where nobody gave it a name."""
    words = str(param.type_descriptor.annotation)
    kinds = {"Path": "PATH", "int": "N", "float": "NUMBER", "str": "TEXT"}
    return next((shown for kind, shown in kinds.items() if kind in words), "VALUE")


def meaning_of(param: Any) -> str:
    """What an argument or option means, with its default where it has one."""
    words = clean(getattr(param, "help", None) or "").replace("\n", " ")
    default = param.default
    if isinstance(default, (str, int, float)) and not isinstance(default, bool) and default != "":
        words += f" Default: {default}."
    return words


def _names(param: Any) -> str:
    return ", ".join(f"`{name}`" for name in names_of(param)).replace("|", "\\|")


def _meaning(param: Any) -> str:
    return meaning_of(param).replace("|", "\\|").replace("[", "\\[")
