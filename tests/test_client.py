"""holdfast.client: filters by trait from Python, over real HTTP."""

from __future__ import annotations

from pathlib import Path

import openstack
import pytest
import requests

from holdfast.client import list_nodes
from tests.service import Service


@pytest.fixture(scope="module")
def fleet(service: Service) -> Service:
    fleet = {"plain": [], "gpu": ["CUSTOM_GPU"], "fast": ["CUSTOM_GPU", "CUSTOM_NVME"], "disk": ["CUSTOM_NVME"]}
    for name, traits in fleet.items():
        service.enrol(name=name)
        service.send("PUT", f"/v1/nodes/{name}/traits", {"traits": traits})
    return service


def test_the_four_filters(fleet: Service) -> None:
    def names(**filters: object) -> list[str]:
        return [node["name"] for node in list_nodes(fleet.baremetal, **filters)]

    both = ["CUSTOM_GPU", "CUSTOM_NVME"]
    assert names() == ["plain", "gpu", "fast", "disk"]
    assert names(traits=both) == ["fast"]
    assert names(traits_any=both) == ["gpu", "fast", "disk"]
    assert names(not_traits=both) == ["plain", "gpu", "disk"]
    assert names(not_traits_any=both) == ["plain"]
    assert names(traits=["CUSTOM_GPU"], not_traits_any={"CUSTOM_NVME"}, provision_state="enroll") == ["gpu"]
    assert names(traits=iter(both), maintenance=True) == []


def test_pages_are_followed_and_other_arguments_passed_on(fleet: Service) -> None:
    nodes = list_nodes(
        f"{fleet.baremetal}/v1/",
        traits_any=["CUSTOM_GPU", "CUSTOM_NVME"],
        limit=1,
        sort_key="name",
        sort_dir="desc",
        fields=["name", "traits"],
    )
    assert [(node["name"], len(node["traits"])) for node in nodes] == [("gpu", 1), ("fast", 2), ("disk", 1)]


def test_a_session_of_ones_own_is_used(fleet: Service) -> None:
    with requests.Session() as session:
        asked: list[str] = []
        session.hooks["response"].append(lambda answer, **_: asked.append(answer.request.path_url))
        assert len(list(list_nodes(fleet.baremetal, session=session, limit=3))) == 4
    assert len(asked) == 2


@pytest.mark.filterwarnings("ignore")  # openstacksdk's own deprecations are its own
def test_openstacksdk_lends_its_credentials(fleet: Service, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("OS_CLIENT_CONFIG_FILE", str(fleet.clouds))
    monkeypatch.chdir(tmp_path)
    with openstack.connect(cloud="holdfast") as connection:
        found = list_nodes(connection.baremetal, traits=["CUSTOM_NVME"], limit=1)
        assert [node["name"] for node in found] == ["fast", "disk"]


def test_what_the_service_refuses_is_raised(fleet: Service) -> None:
    with pytest.raises(requests.HTTPError) as refused:
        list(list_nodes(fleet.baremetal, traits=["no trait"]))
    assert refused.value.response.status_code == 400


def test_the_managers_of_the_specs_are_at_hand() -> None:
    from holdfast import client

    assert client.VolumeConnectorManager.resource_class.__name__ == "VolumeConnector"
    assert client.VolumeTargetManager.resource_class.__name__ == "VolumeTarget"
