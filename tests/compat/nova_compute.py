"""Nova's own ironic driver in a process: runs in Nova's venv, and does with the driver what nova-compute does.

    python nova_compute.py NOVA.CONF        then one JSON line `[function, arguments]` for each call on stdin

The driver, its SDK, its configuration and Nova's database are the real ones. There is no API, scheduler,
conductor, Glance or message bus: instances, block devices and network information are made here, from Nova's classes.
"""

import json
import sys
import traceback
import uuid

from nova import monkey_patch

# As nova-compute does. Nova's other modules may only be imported afterwards.
monkey_patch.patch(backend="threading")
# ruff: noqa: E402

from nova.compute import provider_tree, task_states, vm_states
from nova.db import migration
from nova.network import model
from nova.objects import fields
from nova.virt import block_device, driver
from nova.volume import cinder
from oslo_log import log as logging

from nova import config, context, objects

CONTEXT = None
DRIVER = None
VOLUMES = None
IMAGE = "5b0a2f6e-0e1b-4b0c-9a57-6d1a3b9ac0de"


def start(conf):
    """Nova's database, made anew, and the driver as nova-compute loads it."""
    global CONTEXT, DRIVER, VOLUMES
    config.parse_args(["nova-compute", "--config-file", conf])
    logging.setup(config.CONF, "nova")
    objects.register_all()
    migration.db_sync(database="main")
    CONTEXT = context.RequestContext("user-1", "project-1", auth_token="any", is_admin=True)
    VOLUMES = cinder.API()
    DRIVER = driver.load_compute_driver(None)
    DRIVER.init_host("compute-1")


def available_nodes():
    return DRIVER.get_available_nodes(refresh=True)


def resource(node):
    return DRIVER.get_available_resource(node)


def provider(node):
    """Inventory and traits of the node, as they go to Placement."""
    tree = provider_tree.ProviderTree()
    tree.new_root(node, node, generation=0)
    DRIVER.get_available_nodes(refresh=True)
    DRIVER.update_provider_tree(tree, node)
    data = tree.data(node)
    return {"inventory": data.inventory, "traits": sorted(data.traits)}


def node_is_deleted(node):
    return DRIVER.is_node_deleted(node)


def instances():
    DRIVER.get_available_nodes(refresh=True)
    return DRIVER.list_instance_uuids()


def create(node, vifs=(), volumes=(), extra_specs=None, config_drive=False):
    """A new instance in Nova's database, scheduled to the node; its UUID."""
    flavor = objects.Flavor(
        CONTEXT, name="bm.large", flavorid="1", memory_mb=2048, vcpus=2, root_gb=10, ephemeral_gb=0, swap=0,
        rxtx_factor=1.0, vcpu_weight=0, disabled=False, is_public=True, extra_specs=extra_specs or {},
    )  # fmt: skip
    instance = objects.Instance(
        CONTEXT, uuid=str(uuid.uuid4()), user_id="user-1", project_id="project-1", host="compute-1",
        node=node, compute_id=1,
        launched_on="compute-1", hostname="my-instance", display_name="My instance", image_ref="" if volumes else IMAGE,
        root_device_name="/dev/sda", vm_state=vm_states.BUILDING, task_state=task_states.SPAWNING,
        config_drive="True" if config_drive else "", flavor=flavor, old_flavor=None, new_flavor=None, metadata={},
        system_metadata={"owner_user_name": "alice", "owner_project_name": "physics"}, launch_index=0, locked=False,
    )  # fmt: skip
    instance.create()
    for number, volume in enumerate(volumes):
        objects.BlockDeviceMapping(
            CONTEXT, instance_uuid=instance.uuid, source_type="volume", destination_type="volume",
            device_type="disk", device_name=f"/dev/sd{chr(97 + number)}", boot_index=number,
            volume_id=volume, volume_size=10, delete_on_termination=False, no_device=False,
            attachment_id=VOLUMES.attachment_create(CONTEXT, volume, instance.uuid)["id"],
        ).create()  # fmt: skip
    _remember(instance, vifs)
    return instance.uuid


def spawn(instance, admin_password=None):
    """The order of nova-compute: reserve the node, networks, volumes, deploy."""
    found = _instance(instance)
    networks = found.get_network_info()
    DRIVER.prepare_for_spawn(found)
    DRIVER.prepare_networks_before_block_device_mapping(found, networks)
    devices = _block_devices(instance)
    block_device.attach_block_devices(devices["block_device_mapping"], CONTEXT, found, VOLUMES, DRIVER)
    DRIVER.spawn(
        CONTEXT, found, _image(), [], admin_password, {}, network_info=networks, block_device_info=devices
    )  # fmt: skip
    found.vm_state, found.task_state = vm_states.ACTIVE, None
    found.save()


def clean_up_failed_spawn(instance):
    found = _instance(instance)
    DRIVER.clean_networks_preparation(found, found.get_network_info())
    DRIVER.failed_spawn_cleanup(found)


def volume_connector(instance):
    return DRIVER.get_volume_connector(_instance(instance))


def power_state(instance):
    return fields.InstancePowerState.from_index(DRIVER.get_info(_instance(instance), use_cache=False).state)


def exists(instance):
    return DRIVER.instance_exists(_instance(instance))


def power_off(instance, timeout=0):
    DRIVER.power_off(_instance(instance), timeout=timeout)


def power_on(instance):
    found = _instance(instance)
    DRIVER.power_on(CONTEXT, found, found.get_network_info())


def reboot(instance, kind):
    found = _instance(instance)
    DRIVER.reboot(CONTEXT, found, found.get_network_info(), kind)


def attach_interface(instance, vif):
    DRIVER.attach_interface(CONTEXT, _instance(instance), _image(), _networks([vif])[0])


def detach_interface(instance, vif):
    DRIVER.detach_interface(CONTEXT, _instance(instance), _networks([vif])[0])


def rebuild(instance):
    found = _instance(instance)
    found.task_state = task_states.REBUILDING
    found.save()
    DRIVER.rebuild(
        CONTEXT, found, _image(), [], None, {}, [], None, None, network_info=found.get_network_info()
    )  # fmt: skip
    found.task_state = None
    found.save()


def rescue(instance, password):
    found = _instance(instance)
    DRIVER.rescue(CONTEXT, found, found.get_network_info(), _image(), password, None, None)


def unrescue(instance):
    DRIVER.unrescue(CONTEXT, _instance(instance))


def destroy(instance):
    found = _instance(instance)
    found.task_state = task_states.DELETING
    found.save()
    devices = _block_devices(instance)
    DRIVER.destroy(CONTEXT, found, found.get_network_info(), devices)
    for device in devices["block_device_mapping"]:
        VOLUMES.attachment_delete(CONTEXT, device["attachment_id"])
    found.destroy()


def _instance(wanted):
    attributes = ["flavor", "info_cache", "metadata", "system_metadata"]
    return objects.Instance.get_by_uuid(CONTEXT, wanted, expected_attrs=attributes)


def _image():
    return objects.ImageMeta.from_dict({"id": IMAGE, "properties": {}})


def _block_devices(instance):
    found = objects.BlockDeviceMappingList.get_by_instance_uuid(CONTEXT, instance)
    return {"root_device_name": "/dev/sda", "block_device_mapping": block_device.convert_volumes(found)}


def _remember(instance, vifs):
    cache = objects.InstanceInfoCache.new(CONTEXT, instance.uuid)
    cache.network_info = _networks(vifs)
    cache.save()


def _networks(vifs):
    """Network information as Nova gets it from Neutron; each VIF has an id and an address."""
    made = []
    for vif in vifs:
        subnet = model.Subnet(cidr="10.0.0.0/24", ips=[model.FixedIP(address=vif["ip"])], version=4)
        network = model.Network(id=str(uuid.uuid4()), label="tenant", subnets=[subnet])
        made.append(model.VIF(id=vif["id"], address=vif["mac"], network=network, type="other", vnic_type="baremetal"))
    return model.NetworkInfo(made)


def main():
    # The answers have stdout for themselves.
    answers, sys.stdout = sys.stdout, sys.stderr
    start(sys.argv[1])
    for line in sys.stdin:
        name, arguments = json.loads(line)
        try:
            answer = {"result": globals()[name](**arguments)}
        except Exception as error:
            traceback.print_exc()
            answer = {"error": type(error).__name__, "message": str(error)}
        answers.write(json.dumps(answer) + "\n")
        answers.flush()


if __name__ == "__main__":
    main()
