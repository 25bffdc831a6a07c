"""The `ironic` command: the commands that the specs give in the older grammar, over python-ironicclient's library.

    ironic volume-connector-create|delete|list|show|update     ironic node-volume-connector-list
    ironic volume-target-create|delete|list|show|update        ironic node-volume-target-list
    ironic node-vif-list|attach|detach

Connectors and targets differ in a table (`NOUNS`); their commands are written once.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from cliff.app import App
from cliff.command import Command
from cliff.commandmanager import CommandManager
from cliff.lister import Lister
from cliff.show import ShowOne
from ironicclient import exc
from ironicclient.v1.client import Client
from keystoneauth1 import loading, session
from openstack import config as openstack_config

from holdfast import __version__
from holdfast.cli import connection

FIELDS_HELP = "One or more fields. Only these are fetched from the server."


@dataclass(frozen=True)
class Noun:
    """A volume resource: what it is made of, as options; what lists filter by; which columns they show."""

    word: str  # in command names
    manager: str  # attribute of the library's client
    node_list: str  # the library's list below a node
    required: Sequence[str]
    optional: Sequence[str]
    filters: Sequence[str]
    columns: Sequence[str]
    detail: Sequence[str]


CONNECTOR = Noun(
    "volume-connector",
    "volume_connector",
    "list_volume_connectors",
    ("type", "connector_id"),
    (),
    ("type", "connector_id"),
    ("uuid", "node_uuid", "type", "connector_id"),
    ("uuid", "node_uuid", "type", "connector_id", "extra", "created_at", "updated_at"),
)
TARGET = Noun(
    "volume-target",
    "volume_target",
    "list_volume_targets",
    ("volume_type", "volume_id"),
    ("boot_index", "properties"),
    ("volume_type", "volume_id", "boot_index"),
    ("uuid", "node_uuid", "volume_type", "boot_index", "volume_id"),
    (
        "uuid",
        "node_uuid",
        "volume_type",
        "boot_index",
        "volume_id",
        "properties",
        "extra",
        "created_at",
        "updated_at",
    ),
)
NOUNS = (CONNECTOR, TARGET)


class IronicApp(App):
    """cliff's application: formats, completion and `help` come from there."""

    def __init__(self) -> None:
        super().__init__("Volume and VIF commands of the bare-metal service.", __version__, commands())
        self._client: Client | None = None

    def build_option_parser(self, description: Any, version: Any, argparse_kwargs: Any = None) -> Any:
        parser = super().build_option_parser(description, version, argparse_kwargs)
        parser.add_argument(
            "--ironic-url",
            help="the bare-metal API (default: OS_CLOUD or OS_ENDPOINT; else HOLDFAST_URL, or the local service)",
        )
        parser.add_argument("--os-cloud", help="the cloud in clouds.yaml")
        return parser

    @property
    def client(self) -> Client:
        if self._client is None:
            self._client = connect(self.options.ironic_url, self.options.os_cloud)
        return self._client


def connect(url: str | None, cloud: str | None) -> Client:
    """A client of the library for the service the caller means; the newest version both know."""
    if url is None and (cloud or connection.is_configured([])):
        region = openstack_config.OpenStackConfig(override_defaults={"auth_type": "none"}).get_one(cloud=cloud)
        endpoint, keystone = region.get_endpoint("baremetal") or region.config.get("endpoint"), region.get_session()
    else:
        endpoint = url or connection.local_endpoint()
        keystone = session.Session(auth=loading.get_plugin_loader("none").load_from_options(endpoint=endpoint))
    return Client(session=keystone, endpoint_override=endpoint, os_ironic_api_version="latest")


class _Verb:
    """What the commands below share: the application's client, and the noun they are about."""

    noun: Noun

    @property
    def client(self) -> Client:
        application: IronicApp = self.app  # type: ignore[attr-defined]
        return application.client

    def manager(self) -> Any:
        return getattr(self.client, self.noun.manager)


class Create(_Verb, ShowOne):
    """Create one."""

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        parser: argparse.ArgumentParser = super().get_parser(prog_name)
        parser.add_argument("--node", required=True, metavar="<node>", help="UUID or name of the node.")
        for name in self.noun.required:
            parser.add_argument(f"--{name}", required=True, metavar=f"<{name}>")
        for name in self.noun.optional:
            if name == "properties":
                parser.add_argument("--properties", action="append", default=[], metavar="<key=value>")
            else:
                parser.add_argument(f"--{name}", metavar=f"<{name}>", type=int)
        parser.add_argument("-e", "--extra", action="append", default=[], metavar="<key=value>")
        parser.add_argument("-u", "--uuid", metavar="<uuid>")
        return parser

    def take_action(self, parsed_args: argparse.Namespace) -> Any:
        node: Any = self.client.node.get(parsed_args.node, fields=["uuid"])
        values = {name: getattr(parsed_args, name) for name in self.noun.required}
        for name in self.noun.optional:
            given = getattr(parsed_args, name)
            if name == "properties":
                given = _pairs(given) or None
            if given is not None:
                values[name] = given
        # The library insists on one; a volume that is not said to be something else is the root volume.
        if self.noun is TARGET:
            values.setdefault("boot_index", 0)
        if parsed_args.extra:
            values["extra"] = _pairs(parsed_args.extra)
        if parsed_args.uuid:
            values["uuid"] = parsed_args.uuid
        return _shown(self.manager().create(node_uuid=node.uuid, **values), self.noun.detail)


class Delete(_Verb, Command):
    """Delete one or several."""

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        parser: argparse.ArgumentParser = super().get_parser(prog_name)
        parser.add_argument("uuids", nargs="+", metavar="<uuid>")
        return parser

    def take_action(self, parsed_args: argparse.Namespace) -> None:
        failures = []
        for uuid in parsed_args.uuids:
            try:
                self.manager().delete(uuid)
                print(f"Deleted {self.noun.word.replace('-', ' ')} {uuid}")
            except exc.ClientException as error:
                failures.append(f"{uuid}: {error}")
        if failures:
            raise exc.CommandError("\n".join(failures))


class List(_Verb, Lister):
    """List them."""

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        parser: argparse.ArgumentParser = super().get_parser(prog_name)
        for name in self.noun.filters:
            parser.add_argument(f"--{name}", metavar=f"<{name}>", help=f"Only those with this {name}.")
        _add_paging(parser)
        return parser

    def take_action(self, parsed_args: argparse.Namespace) -> Any:
        filters = {name: getattr(parsed_args, name) for name in self.noun.filters}
        manager = connection.narrowed(self.manager(), filters)
        return _listed(manager.list(**_paging(parsed_args)), self.noun, parsed_args)


class NodeList(_Verb, Lister):
    """List those of a node."""

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        parser: argparse.ArgumentParser = super().get_parser(prog_name)
        _add_paging(parser)
        parser.add_argument("node", nargs="?", metavar="<node>", help="UUID or name of the node.")
        return parser

    def take_action(self, parsed_args: argparse.Namespace) -> Any:
        node = _last(parsed_args, "node")
        listed = getattr(self.client.node, self.noun.node_list)(node, **_paging(parsed_args))
        return _listed(listed, self.noun, parsed_args)


class Show(_Verb, ShowOne):
    """Show one."""

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        parser: argparse.ArgumentParser = super().get_parser(prog_name)
        parser.add_argument("--fields", nargs="+", default=[], metavar="<field>", help=FIELDS_HELP)
        parser.add_argument("uuid", nargs="?", metavar="<uuid>")
        return parser

    def take_action(self, parsed_args: argparse.Namespace) -> Any:
        uuid = _last(parsed_args, "uuid")
        return _shown(
            self.manager().get(uuid, fields=parsed_args.fields or None), parsed_args.fields or self.noun.detail
        )


class Update(_Verb, ShowOne):
    """Change one."""

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        parser: argparse.ArgumentParser = super().get_parser(prog_name)
        parser.add_argument("uuid", metavar="<uuid>")
        parser.add_argument("op", metavar="<op>", choices=("add", "replace", "remove"))
        parser.add_argument("attributes", nargs="+", metavar="<path=value>", help="Only <path> to remove.")
        return parser

    def take_action(self, parsed_args: argparse.Namespace) -> Any:
        patch = [_operation(parsed_args.op, attribute) for attribute in parsed_args.attributes]
        return _shown(self.manager().update(parsed_args.uuid, patch), self.noun.detail)


class VifList(_Verb, Lister):
    """List the VIFs of a node."""

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        parser: argparse.ArgumentParser = super().get_parser(prog_name)
        parser.add_argument("node", metavar="<node>")
        return parser

    def take_action(self, parsed_args: argparse.Namespace) -> Any:
        return ("id",), [(vif.id,) for vif in self.client.node.vif_list(parsed_args.node)]


class VifAttach(_Verb, Command):
    """Attach a VIF to a node."""

    method = "vif_attach"

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        parser: argparse.ArgumentParser = super().get_parser(prog_name)
        parser.add_argument("node", metavar="<node>")
        parser.add_argument("vif_id", metavar="<vif_id>")
        return parser

    def take_action(self, parsed_args: argparse.Namespace) -> None:
        getattr(self.client.node, self.method)(parsed_args.node, parsed_args.vif_id)


class VifDetach(VifAttach):
    """Detach a VIF from a node."""

    method = "vif_detach"


VERBS: dict[str, Any] = {"create": Create, "delete": Delete, "list": List, "show": Show, "update": Update}
VIF_VERBS: dict[str, Any] = {"list": VifList, "attach": VifAttach, "detach": VifDetach}


def commands() -> CommandManager:
    """Every command by its name."""
    manager = CommandManager("holdfast.ironic", convert_underscores=False)
    for noun in NOUNS:
        for verb, base in VERBS.items():
            manager.add_command(f"{noun.word}-{verb}", _about(base, noun))
        manager.add_command(f"node-{noun.word}-list", _about(NodeList, noun))
    for verb, base in VIF_VERBS.items():
        manager.add_command(f"node-vif-{verb}", base)
    return manager


def _about(base: type[_Verb], noun: Noun) -> Any:
    name = base.__name__ + noun.word.title().replace("-", "")
    text = (base.__doc__ or "").rstrip(".") + f": a {noun.word.replace('-', ' ')} of a node."
    return type(name, (base,), {"noun": noun, "__doc__": text, "__module__": __name__})


def _add_paging(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--detail", action="store_true", help="Show every field.")
    parser.add_argument("--limit", type=int, metavar="<limit>", help="At most so many; 0: all of them.")
    parser.add_argument("--marker", metavar="<uuid>", help="Only those behind this one.")
    parser.add_argument("--sort-key", metavar="<field>")
    parser.add_argument("--sort-dir", metavar="<direction>", choices=("asc", "desc"))
    parser.add_argument("--fields", nargs="+", default=[], metavar="<field>", help=FIELDS_HELP)


def _paging(parsed: argparse.Namespace) -> dict[str, Any]:
    return {
        "detail": parsed.detail,
        "limit": parsed.limit,
        "marker": parsed.marker,
        "sort_key": parsed.sort_key,
        "sort_dir": parsed.sort_dir,
        "fields": parsed.fields or None,
    }


def _last(parsed: argparse.Namespace, name: str) -> str:
    """The argument behind `--fields a b`: the parser takes it for one more field, as the specs write it."""
    given = getattr(parsed, name) or (parsed.fields.pop() if parsed.fields else None)
    if not given:
        raise exc.CommandError(f"the following arguments are required: <{name}>")
    return str(given)


def _listed(
    items: Iterable[Any], noun: Noun, parsed: argparse.Namespace
) -> tuple[Sequence[str], list[tuple[Any, ...]]]:
    columns = parsed.fields or (noun.detail if parsed.detail else noun.columns)
    return columns, [tuple(getattr(item, column, None) for column in columns) for item in items]


def _shown(item: Any, columns: Sequence[str]) -> tuple[Sequence[str], list[Any]]:
    return columns, [getattr(item, column, None) for column in columns]


def _operation(op: str, attribute: str) -> dict[str, Any]:
    path, equals, value = attribute.partition("=")
    path = path if path.startswith("/") else f"/{path}"
    if op == "remove":
        return {"op": op, "path": path}
    if not equals:
        raise exc.CommandError(f"{attribute!r} is not <path=value>")
    return {"op": op, "path": path, "value": _value(value)}


def _pairs(given: Sequence[str]) -> dict[str, Any]:
    pairs = {}
    for pair in given:
        key, equals, value = pair.partition("=")
        if not equals:
            raise exc.CommandError(f"{pair!r} is not <key=value>")
        pairs[key] = _value(value)
    return pairs


def _value(text: str) -> Any:
    """JSON where it is JSON, text where it is not, as the older client read it."""
    try:
        return json.loads(text)
    except ValueError:
        return text


def main(arguments: Sequence[str] | None = None) -> int:
    return int(IronicApp().run(list(sys.argv[1:] if arguments is None else arguments)))
