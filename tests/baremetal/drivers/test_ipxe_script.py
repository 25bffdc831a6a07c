"""iPXE scripts: what they say, and that nothing in a node's fields can say anything else."""

from __future__ import annotations

import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as some

from holdfast import errors
from holdfast.baremetal.drivers import ipxe_script
from holdfast.baremetal.drivers.ipxe_script import Links, Patience, Volume

LINKS = Links("52-54-00-00-00-01", "52-54-00-00-00-01/failed")
PATIENCE = Patience(attempts=3, retry_delay=5, restart_delay=30)
INITIATOR = "iqn.2026-01.org.example:node-1"
IQN = "iqn.2010-10.org.example:vol-1"
SINGLE = {"target_iqn": IQN, "target_portal": "192.0.2.7:3260", "target_lun": 1}

# What would end a word, a command or a line, or be replaced, if it got into a script.
INJECTIONS = [
    "chap b",
    "a\nsanboot iscsi:evil",
    "a\rb",
    "a\tb",
    "a\x00b",
    "a\x0bb",
    "a\x7fb",
    "a;b",
    "a&&b",
    "a||b",
    "||",
    "${net0/mac}",
    "a${b",
    "#comment",
    "a\\",
    "ä",
    "a\u2028b",
    "a\xa0b",
    "",
    None,
    7,
    ["a"],
    {"a": "b"},
]


def urls(**properties: Any) -> tuple[str, ...]:
    return ipxe_script.iscsi_volume("v", properties, "The target:").urls


class TestPaths:
    def test_one_path(self) -> None:
        assert urls(**SINGLE) == (f"iscsi:192.0.2.7::3260:1:{IQN}",)

    def test_luns_are_hexadecimal(self) -> None:
        assert urls(**{**SINGLE, "target_lun": 26}) == (f"iscsi:192.0.2.7::3260:1a:{IQN}",)

    def test_a_portal_without_port_means_the_iscsi_port(self) -> None:
        assert urls(**{**SINGLE, "target_portal": "storage.example.org"}) == (
            f"iscsi:storage.example.org::3260:1:{IQN}",
        )

    def test_ipv6_keeps_its_brackets(self) -> None:
        assert urls(**{**SINGLE, "target_portal": "[2001:DB8::7]:3261"}) == (f"iscsi:[2001:db8::7]::3261:1:{IQN}",)

    def test_several_paths_are_paired_index_by_index(self) -> None:
        assert urls(
            target_iqns=["iqn.2010-10.org.example:x", "iqn.2010-10.org.example:y"],
            target_portals=["192.0.2.7:3260", "[fd00::8]:3260"],
            target_luns=[0, 10],
        ) == (
            "iscsi:192.0.2.7::3260:0:iqn.2010-10.org.example:x",
            "iscsi:[fd00::8]::3260:a:iqn.2010-10.org.example:y",
        )

    def test_paths_win_over_the_single_value_beside_them(self) -> None:
        several = {
            "target_portals": ["192.0.2.7:3260", "192.0.2.8:3260"],
            "target_iqns": [IQN, IQN],
            "target_luns": [1, 1],
        }
        assert len(urls(**SINGLE, **several)) == 2

    def test_portals_may_share_one_name_and_lun(self) -> None:
        assert urls(target_iqn=IQN, target_portals=["192.0.2.7:3260", "192.0.2.8:3260"], target_lun=2) == (
            f"iscsi:192.0.2.7::3260:2:{IQN}",
            f"iscsi:192.0.2.8::3260:2:{IQN}",
        )

    def test_lists_of_different_lengths_are_refused(self) -> None:
        with pytest.raises(errors.DriverDataInvalid, match="target_luns must have one value for each of the 3"):
            urls(target_iqn=IQN, target_portals=["192.0.2.7", "192.0.2.8", "192.0.2.9"], target_luns=[1, 2])

    @pytest.mark.parametrize("key", ["target_iqn", "target_portal", "target_lun"])
    def test_what_is_missing_is_named(self, key: str) -> None:
        with pytest.raises(errors.DriverDataInvalid, match=f"lacks {key}"):
            urls(**{name: value for name, value in SINGLE.items() if name != key})

    @pytest.mark.parametrize(
        "portal",
        [
            "192.0.2.7:0",
            "192.0.2.7:99999",
            "fd00::1:3260",
            "[fd00::g]:3260",
            "[192.0.2.7]:3260",
            "a b:3260",
            "x:1:2",
            ":3260",
        ],
    )
    def test_malformed_portals_are_refused(self, portal: str) -> None:
        with pytest.raises(errors.DriverDataInvalid, match=r"address:port"):
            urls(**{**SINGLE, "target_portal": portal})

    @pytest.mark.parametrize("lun", [-1, 0x4000, True, "1a", 1.0, None, "٣"])
    def test_malformed_luns_are_refused(self, lun: Any) -> None:
        with pytest.raises(errors.DriverDataInvalid):
            urls(**{**SINGLE, "target_lun": lun})

    def test_half_a_login_is_refused(self) -> None:
        with pytest.raises(errors.DriverDataInvalid, match="CHAP needs both"):
            ipxe_script.iscsi_volume("v", {**SINGLE, "auth_username": "u"}, "The target:")


class TestVolumeScript:
    def script(self, *others: Volume, **login: Any) -> str:
        root = ipxe_script.iscsi_volume("vol-1", {**SINGLE, **login}, "The target:")
        return ipxe_script.volume_script(INITIATOR, root, others, LINKS, PATIENCE)

    def test_it_logs_in_hooks_and_boots(self) -> None:
        lines = self.script(auth_username="u1", auth_password="s3cret").splitlines()
        assert lines[0] == "#!ipxe"
        order = [
            f"set initiator-iqn {INITIATOR}",
            "set username u1",
            "set password s3cret",
            f"sanhook --drive 0x80 iscsi:192.0.2.7::3260:1:{IQN} || goto hook_failed",
            "sanboot --no-describe --drive 0x80 ||",
        ]
        places = [lines.index(line) for line in order]
        assert places == sorted(places)

    def test_further_volumes_are_further_drives_each_with_its_own_login(self) -> None:
        plain = Volume("vol-2", ("iscsi:192.0.2.9::3260:5:iqn.2010-10.org.example:y",))
        lines = self.script(plain, auth_username="u1", auth_password="s3cret").splitlines()
        second = lines.index(f"sanhook --drive 0x81 {plain.urls[0]} || goto hook_failed")
        # Without CHAP of its own it must not be sent the other's.
        assert lines[second - 2 : second] == ["clear username ||", "clear password ||"]
        # What the firmware hands to the operating system is the root volume's login again.
        after = lines[second + 1 :]
        assert after.index("set password s3cret") < after.index("sanboot --no-describe --drive 0x80 ||")

    def test_all_paths_go_into_one_drive(self) -> None:
        root = Volume("vol-1", ("iscsi:a", "iscsi:b"))
        script = ipxe_script.volume_script(INITIATOR, root, [], LINKS, PATIENCE)
        assert "sanhook --drive 0x80 iscsi:a iscsi:b || goto hook_failed" in script

    def test_it_gives_up_after_some_tries_reports_and_starts_over(self) -> None:
        script = self.script()
        assert "iseq ${attempt} 3 && goto report ||" in script
        assert f"imgfetch --name report {LINKS.failed}?failure=${{failure}} ||" in script
        assert f"sleep 30\nchain --replace --autofree {LINKS.script} ||" in script

    def test_every_label_that_is_jumped_to_is_there(self) -> None:
        script = self.script()
        labels = set(re.findall(r"^:(\w+)$", script, re.MULTILINE))
        assert set(re.findall(r"goto (\w+)", script)) <= labels

    def test_there_is_an_end_to_drives(self) -> None:
        with pytest.raises(errors.DriverDataInvalid, match="at most 16"):
            self.script(*[Volume("v", ("iscsi:x",))] * 16)


class TestInjection:
    @pytest.mark.parametrize("value", INJECTIONS)
    @pytest.mark.parametrize("key", ["auth_username", "auth_password"])
    def test_no_login_gets_out_of_its_word(self, key: str, value: Any) -> None:
        if value is None:
            return
        login = {"auth_username": "u", "auth_password": "p", key: value}
        with pytest.raises(errors.DriverDataInvalid) as refusal:
            ipxe_script.iscsi_volume("v", {**SINGLE, **login}, "The target:")
        assert key in refusal.value.public
        if isinstance(value, str) and len(value) > 2:
            assert value not in refusal.value.public

    @pytest.mark.parametrize("value", INJECTIONS)
    def test_no_name_or_portal_gets_out_of_its_word(self, value: Any) -> None:
        for key in ("target_iqn", "target_portal"):
            with pytest.raises(errors.DriverDataInvalid):
                urls(**{**SINGLE, key: value})
        if isinstance(value, str):
            with pytest.raises(errors.DriverDataInvalid):
                urls(**{**SINGLE, "target_iqn": f"{IQN}{value or ' '}"})

    @pytest.mark.parametrize("value", [value for value in INJECTIONS if value != "#comment"])
    def test_no_url_gets_out_of_its_word(self, value: Any) -> None:
        with pytest.raises(errors.DriverDataInvalid):
            ipxe_script.http_url(f"http://h/{value or ' '}" if isinstance(value, str) else value, "The kernel")

    @pytest.mark.parametrize("url", ["ftp://h/k", "http://", "file:///etc/shadow", "http://u:p@h/k", "http://h:x/k"])
    def test_urls_are_http_and_hold_no_credentials(self, url: str) -> None:
        with pytest.raises(errors.DriverDataInvalid, match="without credentials"):
            ipxe_script.http_url(url, "The kernel")

    @pytest.mark.parametrize(
        "text", ["a\nb", "a\tb", "quiet ; shell", "quiet && shell", "a ${b}", "a # b", "a \\", "ä"]
    )
    def test_no_kernel_argument_begins_a_command(self, text: str) -> None:
        with pytest.raises(errors.DriverDataInvalid, match="kernel_append_params"):
            ipxe_script.words(text, "driver_info/kernel_append_params")

    def test_kernel_arguments_are_words(self) -> None:
        assert ipxe_script.words("  console=ttyS0,115200  nofb a='b' ", "x") == [
            "console=ttyS0,115200",
            "nofb",
            "a='b'",
        ]

    @given(some.text())
    def test_whatever_passes_for_a_word_is_one_to_ipxe(self, text: str) -> None:
        try:
            passed = ipxe_script.word(text, "x")
        except errors.DriverDataInvalid:
            return
        assert passed.split() == [passed]
        assert passed.isascii()
        assert passed.isprintable()
        assert not passed.startswith("#")
        assert not any(mark in passed for mark in ("${", "&&", "||", ";", "\\"))

    @given(some.text(), some.text())
    def test_no_volume_id_can_change_the_script(self, volume_id: str, username: str) -> None:
        plain = ipxe_script.volume_script(INITIATOR, Volume("v", ("iscsi:x",)), [], LINKS, PATIENCE)
        odd = ipxe_script.volume_script(INITIATOR, Volume(volume_id, ("iscsi:x",)), [], LINKS, PATIENCE)
        differing = [line for line in odd.splitlines() if line not in plain.splitlines()]
        assert len(odd.splitlines()) == len(plain.splitlines())
        assert all(re.fullmatch(r"echo Holdfast: drive 0x80 is volume [\w.:?-]*", line, re.ASCII) for line in differing)


class TestRamdiskScript:
    def test_it_boots_the_kernel_with_its_arguments(self) -> None:
        script = ipxe_script.ramdisk_script(
            "http://h/k", "http://h/r", ["ipa-api-url=http://h:6385", "nofb"], "52:54:00:00:00:01", LINKS, PATIENCE
        )
        kernel = (
            "kernel http://h/k initrd=ramdisk ipa-api-url=http://h:6385 nofb BOOTIF=52:54:00:00:00:01 || goto failed"
        )
        assert kernel in script.splitlines()
        assert "initrd --name ramdisk http://h/r || goto failed" in script.splitlines()
        labels = set(re.findall(r"^:(\w+)$", script, re.MULTILINE))
        assert set(re.findall(r"goto (\w+)", script)) <= labels


class TestReports:
    @pytest.mark.parametrize(
        ("failure", "words"),
        [
            ("hook-410d613c", "refused the login: wrong CHAP user or secret"),
            ("hook-0x4c0a6092", "did not answer in time"),
            ("boot-2e852001", "connected but did not boot: what is on it cannot be booted"),
            ("ramdisk-2d0c613b", "ramdisk could not be fetched or started: there is no such target or file"),
            ("hook-ff000000", "iPXE failed"),
        ],
    )
    def test_error_numbers_become_sentences(self, failure: str, words: str) -> None:
        reason = ipxe_script.reason(failure)
        assert reason is not None
        assert words in reason

    @pytest.mark.parametrize("failure", ["", "hook", "hook-", "hook-xyz", "evil-1", "hook-1 <b>", "hook-123456789"])
    def test_anything_else_is_no_report(self, failure: str) -> None:
        assert ipxe_script.reason(failure) is None
