"""Every option, with its help text.

Read from the files given with `--config-file` (or `/etc/holdfast/holdfast.conf` when it is there),
then from environment variables `HOLDFAST_<SECTION>__<OPTION>`, which win. Without either, the
service starts on the defaults below. Names follow Ironic's where the meaning is the same.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from oslo_config import cfg

DEFAULT_FILE = Path("/etc/holdfast/holdfast.conf")
ENVIRONMENT_PREFIX = "HOLDFAST_"

INTERFACES = (
    "bios",
    "boot",
    "console",
    "deploy",
    "inspect",
    "management",
    "network",
    "power",
    "raid",
    "rescue",
    "storage",
    "vendor",
)

_DEFAULT = [
    cfg.StrOpt("state_dir", default="./state", help="Where the embedded database and run files live."),
    cfg.BoolOpt("debug", default=False, help="Log at debug level."),
    cfg.StrOpt(
        "auth_strategy",
        default="noauth",
        choices=["noauth", "http_basic", "keystone"],
        help="Who may call. `noauth` treats every caller as administrator and listens on loopback only.",
    ),
    cfg.StrOpt(
        "http_basic_auth_user_file",
        default="/etc/holdfast/htpasswd",
        help="Users of `http_basic`: lines of `name:bcrypt-hash`, as `holdfast passwd` and htpasswd -B write.",
    ),
    cfg.BoolOpt(
        "rbac_service_role_elevated_access",
        default=False,
        help="Users with role `service` in the service project see and change nodes of every project.",
    ),
    cfg.StrOpt("rbac_service_project_name", default="service", help="The name of that service project."),
    cfg.ListOpt(
        "enabled_hardware_types",
        default=["fake-hardware", "redfish", "ipmi"],
        help="Hardware types nodes may use; others may be installed as plugins.",
    ),
    *[
        cfg.ListOpt(
            f"enabled_{name}_interfaces",
            default=[],
            help=f"{name.capitalize()} interfaces nodes may use; empty means all their hardware type supports.",
        )
        for name in INTERFACES
    ],
    *[
        cfg.StrOpt(
            f"default_{name}_interface",
            help=f"The {name} interface of nodes that name none; unset means the hardware type's preference.",
        )
        for name in INTERFACES
    ],
    cfg.StrOpt("default_resource_class", help="Resource class of nodes created without one."),
    cfg.StrOpt("default_portgroup_mode", default="active-backup", help="Mode of port groups created without one."),
]

_API = [
    cfg.StrOpt("host", default="127.0.0.1", help="Address to listen on."),
    cfg.PortOpt("port", default=6385, help="Port to listen on."),
    cfg.IntOpt("workers", default=1, min=1, help="Worker processes. More than one needs PostgreSQL."),
    cfg.IntOpt("threads", default=16, min=1, help="Request threads in each worker."),
    cfg.StrOpt(
        "public_endpoint",
        help="Base URL shown in links, when it differs from what clients connect to (a proxy, say).",
    ),
    cfg.IntOpt("max_limit", default=1000, min=1, help="Most items in one page of a list."),
    cfg.IntOpt("max_json_body_size", default=1024, min=1, help="Largest JSON body, in KiB."),
    cfg.IntOpt(
        "max_json_body_size_provision",
        default=65536,
        min=1,
        help="Largest body of a provision request, in KiB: it may carry a config drive.",
    ),
    cfg.IntOpt("max_json_body_depth", default=25, min=1, help="Deepest nesting of a JSON body."),
    cfg.IntOpt("max_json_body_keys", default=10000, min=1, help="Most keys and items in a JSON body."),
    cfg.BoolOpt(
        "restrict_lookup",
        default=True,
        help="Answer ramdisk lookups only for nodes in a state in which a ramdisk is expected.",
    ),
    cfg.IntOpt("ramdisk_heartbeat_timeout", default=300, min=1, help="Seconds a ramdisk may stay silent."),
    cfg.StrOpt(
        "ramdisk_host",
        help="Address on the provisioning network to serve ramdisks on. Set it and ramdisk_port, and lookup, "
        "heartbeat and inspection are answered there only, and nothing else is.",
    ),
    cfg.PortOpt("ramdisk_port", help="The port of that."),
    cfg.FloatOpt(
        "ramdisk_rate_limit",
        default=20.0,
        min=0,
        help="Requests a second that one address may send to the endpoints for ramdisks; 0: any number. "
        "This machine's own addresses (a proxy, say) are not limited.",
    ),
    cfg.IntOpt("ramdisk_rate_burst", default=200, min=1, help="Requests it may send at once before that counts."),
    cfg.IntOpt(
        "max_json_body_size_inspection", default=8192, min=1, help="Largest report of an inspection ramdisk, in KiB."
    ),
]

_DATABASE = [
    cfg.StrOpt(
        "connection",
        secret=True,
        help="Database URL, as postgresql+psycopg://user:password@host/name. Unset: SQLite in state_dir.",
    ),
    cfg.IntOpt("pool_size", default=16, min=1, help="Connections kept open by each process."),
]

_CONDUCTOR = [
    cfg.IntOpt("heartbeat_interval", default=5, min=1, help="Seconds between signs of life of a process."),
    cfg.IntOpt(
        "heartbeat_timeout",
        default=30,
        min=1,
        help="Seconds of silence after which a process counts as dead and its flows are taken over.",
    ),
    cfg.IntOpt(
        "sync_power_state_interval",
        default=120,
        min=0,
        help="Seconds within which every node's power state is read once, spread evenly. 0 turns it off.",
    ),
    cfg.IntOpt("sync_power_state_workers", default=8, min=1, help="Power states read at the same time."),
    cfg.BoolOpt(
        "force_power_state_during_sync",
        default=False,
        help="Switch hardware back to the recorded state when they differ; otherwise record what is true.",
    ),
    cfg.IntOpt(
        "power_state_sync_max_retries",
        default=3,
        min=0,
        help="Failed reads in a row before a node is put into maintenance with fault `power failure`.",
    ),
    cfg.IntOpt("power_state_change_timeout", default=60, min=1, help="Seconds to wait for a power change."),
    cfg.IntOpt("soft_power_off_timeout", default=600, min=1, help="Seconds to wait for a soft power off."),
    cfg.BoolOpt("automated_clean", default=True, help="Clean nodes before they become available."),
    cfg.BoolOpt("allow_deleting_available_nodes", default=True, help="Nodes in `available` may be deleted."),
    cfg.IntOpt("deploy_callback_timeout", default=1800, min=0, help="Seconds a deploy may wait; 0: for ever."),
    cfg.IntOpt("clean_callback_timeout", default=1800, min=0, help="Seconds cleaning may wait; 0: for ever."),
    cfg.IntOpt("inspect_wait_timeout", default=1800, min=0, help="Seconds inspection may wait; 0: for ever."),
    cfg.IntOpt("rescue_callback_timeout", default=1800, min=0, help="Seconds rescue may wait; 0: for ever."),
    cfg.IntOpt("check_provision_state_interval", default=60, min=1, help="Seconds between checks of those waits."),
]

_FLOWS = [
    cfg.IntOpt("step_attempts", default=3, min=1, help="Tries of a step before its failure counts."),
    cfg.FloatOpt("retry_delay", default=1.0, min=0, help="Seconds before the second try; doubles each time."),
    cfg.IntOpt("keep_finished_days", default=30, min=0, help="Days a finished flow stays visible; 0: for ever."),
]

_REDFISH = [
    cfg.IntOpt("connection_attempts", default=3, min=1, help="Tries to reach a BMC before giving up."),
    cfg.IntOpt("connection_retry_interval", default=2, min=0, help="Seconds between those tries."),
    cfg.IntOpt("connection_timeout", default=30, min=1, help="Seconds to wait for one answer of a BMC."),
    cfg.StrOpt("auth_type", default="auto", choices=["auto", "basic", "session"], help="How to log in to a BMC."),
]

_IPMI = [
    cfg.IntOpt("command_timeout", default=60, min=1, help="Seconds an ipmitool call may take."),
    cfg.IntOpt("command_attempts", default=3, min=1, help="Tries of a failing ipmitool call."),
    cfg.StrOpt("ipmitool", default="ipmitool", help="The ipmitool executable."),
]

_FAKE = [
    cfg.StrOpt(
        "state_file",
        help="Where fake-hardware keeps its simulated machines. Unset: fake-hardware.sqlite in state_dir.",
    ),
    *[
        cfg.FloatOpt(f"{what}_delay", default=0.0, min=0, help=f"Seconds a simulated {meaning} takes.")
        for what, meaning in (
            ("power", "power change"),
            ("deploy", "deployment"),
            ("clean", "clean step"),
            ("inspect", "inspection"),
            ("rescue", "rescue or its end"),
        )
    ],
]

_BOOT = [
    cfg.ListOpt(
        "allowed_networks",
        default=["127.0.0.0/8", "::1/128"],
        help="Networks from which machines may fetch their boot scripts, as 10.0.0.0/24. A script of a machine "
        "that boots from a volume holds the volume's CHAP secret: name provisioning networks only.",
    ),
    cfg.StrOpt(
        "kernel_append_params",
        default="nofb vga=normal",
        help="Kernel arguments of ramdisks whose node names none; nodes may include them as %default%.",
    ),
    cfg.IntOpt("attempts", default=3, min=1, max=100, help="Tries of a boot before the machine reports its failure."),
    cfg.IntOpt("retry_delay", default=5, min=1, max=3600, help="Seconds a machine waits between those tries."),
    cfg.IntOpt("restart_delay", default=30, min=1, max=3600, help="Seconds after such a report until it starts over."),
]

_AGENT = [
    cfg.StrOpt(
        "api_url",
        help="The bare-metal API as ramdisks reach it, as http://10.0.0.1:6385/baremetal. "
        "Unset: where it listens for them, or [api] public_endpoint.",
    ),
    cfg.ListOpt(
        "callback_networks",
        default=[],
        help="Networks in which ramdisks may be called back, as 10.0.0.0/24. "
        "Empty: any address but loopback, link-local, multicast and the like.",
    ),
    cfg.BoolOpt("require_tls", default=False, help="Refuse ramdisks that cannot be called back over https."),
    cfg.IntOpt("command_timeout", default=60, min=1, help="Seconds to wait for one answer of a ramdisk."),
    cfg.IntOpt("command_attempts", default=3, min=1, help="Tries to reach a ramdisk before giving up."),
    cfg.IntOpt("power_off_wait", default=30, min=0, help="Seconds a ramdisk has to shut down by itself."),
    cfg.ListOpt(
        "image_roots",
        default=[],
        help="Directories from which images given as file:// are taken. Empty: no such images.",
    ),
    cfg.IntOpt("image_check_timeout", default=30, min=1, help="Seconds to wait for the first bytes of an image."),
    cfg.IntOpt(
        "dhcp_timeout",
        default=0,
        min=0,
        help="Seconds from power on to the lease of an address, where dnsmasq reports leases "
        "(`holdfast dhcp --lease-script`); 0: any.",
    ),
    cfg.IntOpt(
        "script_timeout",
        default=600,
        min=0,
        help="Seconds from that lease, or from power on where nobody reports it, to the boot script; 0: any.",
    ),
    cfg.IntOpt("lookup_timeout", default=1200, min=0, help="Seconds from power on to the ramdisk's lookup; 0: any."),
    cfg.IntOpt("first_heartbeat_timeout", default=300, min=0, help="Seconds from there to its heartbeat; 0: any."),
    cfg.IntOpt("image_timeout", default=7200, min=0, help="Seconds an image may take to be written; 0: any."),
    *[
        cfg.IntOpt(
            f"{step}_priority",
            min=0,
            help=f"Priority of the ramdisk's clean step {step}; 0 turns it off, unset leaves it to the ramdisk.",
        )
        for step in ("erase_devices", "erase_devices_metadata")
    ],
]

_CINDER = [
    cfg.StrOpt(
        "auth_type",
        default="none",
        choices=["none", "http_basic", "password", "v3applicationcredential"],
        help="How to log in: nothing, HTTP basic, or at a Keystone.",
    ),
    cfg.StrOpt(
        "endpoint_override",
        help="Where Cinder is, as http://cinder.example.org:8776/v3; with its project id before 3.67. "
        "Unset: what Keystone's catalog says.",
    ),
    cfg.StrOpt("auth_url", help="Where Keystone is."),
    cfg.StrOpt("username", help="The user to log in as."),
    cfg.StrOpt("password", secret=True, help="The password of that user."),
    cfg.StrOpt("user_domain_name", default="Default", help="The domain of that user."),
    cfg.StrOpt("project_name", default="service", help="The project whose volumes are attached."),
    cfg.StrOpt("project_domain_name", default="Default", help="The domain of that project."),
    cfg.StrOpt("application_credential_id", help="The application credential to log in with."),
    cfg.StrOpt("application_credential_secret", secret=True, help="The secret of that credential."),
    cfg.StrOpt("region_name", help="Which of the catalog's regions."),
    cfg.StrOpt("interface", default="public", help="Which of the catalog's endpoints: public, internal, admin."),
    cfg.StrOpt("cafile", help="The CA that signed Cinder's certificate."),
    cfg.BoolOpt("insecure", default=False, help="Believe any certificate. For a network you trust."),
    cfg.IntOpt("timeout", default=60, min=1, help="Seconds to wait for one answer: some arrays take long to export."),
]

_TGT = [
    cfg.StrOpt("portal", help="Address and port under which machines reach this machine's tgtd, as 10.0.0.5:3260."),
    cfg.StrOpt("iqn_prefix", default="iqn.2026-01.org.holdfast", help="How the names of exported targets begin."),
    cfg.StrOpt("control_socket", help="TGT_IPC_SOCKET of that tgtd, where it is not the default."),
    cfg.IntOpt("control_port", default=0, min=0, help="The -C number of that tgtd."),
    cfg.StrOpt("tgtadm", default="tgtadm", help="The tgtadm executable."),
]

# What `[neutron]` knows of networks: purpose, and what the machine does on it.
_NEUTRON_NETWORKS = {
    "cleaning": "is cleaned",
    "provisioning": "is written to",
    "inspection": "is inspected by a ramdisk",
    "rescuing": "runs a rescue ramdisk",
}

_NEUTRON = [
    cfg.StrOpt(
        "auth_type",
        help="How to log in to Neutron: none, http_basic, password, v3applicationcredential. Unset: there is none.",
    ),
    cfg.StrOpt("endpoint_override", help="Where Neutron is; unset means where Keystone's catalogue says it is."),
    cfg.StrOpt("auth_url", help="Where Keystone is, for the auth types that need it."),
    cfg.StrOpt("username", help="The user Holdfast is in Neutron."),
    cfg.StrOpt("password", secret=True, help="The password of that user."),
    cfg.StrOpt("user_domain_name", default="Default", help="The domain of that user."),
    cfg.StrOpt("project_name", help="The project Holdfast's own Neutron ports belong to."),
    cfg.StrOpt("project_domain_name", default="Default", help="The domain of that project."),
    cfg.StrOpt("application_credential_id", help="For v3applicationcredential."),
    cfg.StrOpt("application_credential_secret", secret=True, help="For v3applicationcredential."),
    cfg.StrOpt("region_name", help="The region to take from the catalogue."),
    cfg.StrOpt("cafile", help="Certificates to trust when Neutron or Keystone speak TLS; unset: the system's."),
    cfg.BoolOpt("insecure", default=False, help="Do not check those certificates."),
    cfg.IntOpt("request_timeout", default=45, min=1, help="Seconds to wait for one answer of Neutron."),
    cfg.IntOpt("retries", default=1, min=0, help="Tries after the first to connect; flows repeat their step besides."),
    cfg.BoolOpt(
        "fail_on_port_binding_failure",
        default=True,
        help="With network interface `neutron`: a port that Neutron cannot bind is an error.",
    ),
    *[
        cfg.StrOpt(
            f"{purpose}_network",
            help=f"Name or UUID of the network a machine is on while it {meaning}; "
            f"a node's driver_info[{purpose}_network] wins.",
        )
        for purpose, meaning in _NEUTRON_NETWORKS.items()
    ],
    *[
        cfg.ListOpt(
            f"{purpose}_network_security_groups",
            default=[],
            help=f"Security groups of the ports Holdfast makes on the {purpose} network; empty: Neutron's default.",
        )
        for purpose in _NEUTRON_NETWORKS
    ],
]

OPTIONS: dict[str, list[cfg.Opt]] = {
    "DEFAULT": _DEFAULT,
    "api": _API,
    "database": _DATABASE,
    "conductor": _CONDUCTOR,
    "flows": _FLOWS,
    "redfish": _REDFISH,
    "ipmi": _IPMI,
    "fake": _FAKE,
    "boot": _BOOT,
    "agent": _AGENT,
    "cinder": _CINDER,
    "tgt": _TGT,
    "neutron": _NEUTRON,
}


def list_opts() -> list[tuple[str, list[cfg.Opt]]]:
    """What oslo's sample generator asks for."""
    return list(OPTIONS.items())


def load(
    files: Sequence[str] = (),
    environment: Mapping[str, str] | None = None,
    overrides: Mapping[tuple[str, str], Any] | None = None,
) -> cfg.ConfigOpts:
    """The configuration of this process. `overrides` maps (section, option) to a value and wins over all."""
    conf = cfg.ConfigOpts()
    for section, options in OPTIONS.items():
        conf.register_opts(options, group=None if section == "DEFAULT" else section)
    paths = list(files) or ([str(DEFAULT_FILE)] if DEFAULT_FILE.exists() else [])
    conf(args=[], project="holdfast", default_config_files=paths, default_config_dirs=[])
    for section, name, value in _from_environment(os.environ if environment is None else environment):
        _override(conf, section, name, value)
    for (section, name), value in (overrides or {}).items():
        if value is not None:
            _override(conf, section, name, value)
    return conf


def database_url(conf: cfg.ConfigOpts) -> str:
    """The configured database, or the embedded one in the state directory."""
    configured: str | None = conf.database.connection
    return configured or f"sqlite:///{Path(conf.state_dir).resolve() / 'holdfast.sqlite'}"


def unknown_keys(files: Sequence[str]) -> list[str]:
    """`[section] option` of every key in the files that no option reads: most are typing mistakes."""
    known = {(section, option.dest) for section, options in OPTIONS.items() for option in options}
    # These sections belong to libraries that register their own options when they are used.
    foreign = {"keystone_authtoken", "oslo_policy", "oslo_middleware"}
    found = []
    for path in files:
        sections: dict[str, dict[str, list[str]]] = {}
        cfg.ConfigParser(path, sections).parse()
        found += [
            f"[{section}] {key}"
            for section, values in sections.items()
            for key in values
            if section not in foreign and (section, key.replace("-", "_")) not in known
        ]
    return found


def _from_environment(environment: Mapping[str, str]) -> Iterator[tuple[str, str, str]]:
    for variable, value in environment.items():
        if variable.startswith(ENVIRONMENT_PREFIX) and "__" in variable:
            section, _, name = variable.removeprefix(ENVIRONMENT_PREFIX).lower().partition("__")
            yield ("DEFAULT" if section == "default" else section), name, value


def _override(conf: cfg.ConfigOpts, section: str, name: str, value: Any) -> None:
    try:
        conf.set_override(name, value, group=None if section == "DEFAULT" else section)
    except (cfg.NoSuchOptError, cfg.NoSuchGroupError) as error:
        raise cfg.ConfigFileValueError(f"There is no option [{section}] {name}") from error
    except ValueError as error:
        raise cfg.ConfigFileValueError(f"[{section}] {name}: {error}") from error
