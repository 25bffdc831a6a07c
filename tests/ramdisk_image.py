"""A whole ramdisk with the real ironic-python-agent, for machines that boot it under QEMU.

    python -m tests.ramdisk_image        builds it (once; the fixture does the same when it is missing)

A Debian kernel and an initramfs with little more in it than Python, the agent from PyPI, and the programs that the
agent calls. QEMU emulates every instruction here, so size is time: packages are unpacked and not installed, busybox
stands in for a shell and its company, and what nobody reads is left out. `INIT` is all the init system there is.

The result is `.agent-ramdisk` in the project, or where HOLDFAST_AGENT_RAMDISK points, and is built anew when this
file changes. Debian packages: mmdebstrap zstd cpio. It takes a minute, and root.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import NamedTuple

from tests.agent import REQUIREMENT

DIRECTORY = Path(os.environ.get("HOLDFAST_AGENT_RAMDISK") or Path(__file__).parent.parent / ".agent-ramdisk")

SUITE = "bookworm"
PACKAGES = (
    "linux-image-cloud-amd64",
    "python3",
    "busybox",
    "kmod",
    "udev",
    "iproute2",
    # what the agent calls
    "efibootmgr",
    "fdisk",
    "gdisk",
    "lshw",
    "mount",
    "parted",
    "psmisc",
    "qemu-utils",
    "util-linux",
    "util-linux-extra",
    "libgcc-s1",
    "libc-bin",
)
# Drivers of the machines that QEMU makes, and what reads EFI partitions and variables.
MODULES = ("virtio_pci", "virtio_net", "virtio_blk", "vfat", "nls_cp437", "nls_ascii", "efivarfs")
AGENT = "usr/lib/python3/dist-packages"
# Left out: nobody reads it there.
UNREAD = (
    "boot",
    "usr/share",
    "usr/lib/udev/hwdb.d",
    "usr/lib/klibc",
    "usr/lib/initramfs-tools",
    "usr/lib/dpkg",
    "usr/lib/*/gconv",
    "usr/lib/*/security",
    "usr/lib/*/libdb-5*",
    "usr/lib/*/libgio-2*",
    "usr/lib/*/libmvec*",
    "usr/lib/*/libsepol*",
    "usr/lib/*/libsemanage*",
    "usr/bin/dpkg*",
    "usr/bin/qemu-io",
    "usr/bin/qemu-nbd",
    "usr/bin/systemd-hwdb",
    "usr/sbin/tc",
    "usr/sbin/cgdisk",
    "usr/lib/python3.*/test",
    "usr/lib/python3.*/pydoc_data",
    "usr/lib/python3.*/lib2to3",
    "usr/lib/python3.*/ensurepip",
    "usr/lib/python3.*/idlelib",
    f"{AGENT}/bin",
    f"{AGENT}/ironic_python_agent/tests",
    f"{AGENT}/pip",
    f"{AGENT}/setuptools",
    f"{AGENT}/pkg_resources",
    f"{AGENT}/tzdata",
    f"{AGENT}/*/tests",
    f"{AGENT}/*/locale",
    f"{AGENT}/netaddr/eui/*.txt",  # vendors of network cards, by name
    "var",
)

INIT_SAYS = "ramdisk: the kernel has started it"
RESCUED_SAYS = "ramdisk: the agent was given the hash of a password"
INIT = f"""#!/bin/sh
export PATH=/usr/sbin:/usr/bin HOME=/root LANG=C.UTF-8 PYTHONDONTWRITEBYTECODE=1
mount -t proc proc /proc
mount -t sysfs sys /sys
mount -t devtmpfs dev /dev
mkdir -p /dev/pts /dev/shm
mount -t devpts devpts /dev/pts
mount -t tmpfs run /run
exec > /dev/console 2>&1
echo "{INIT_SAYS}"
[ ! -d /sys/firmware/efi ] || mount -t efivarfs efivarfs /sys/firmware/efi/efivars
/usr/lib/systemd/systemd-udevd --daemon
udevadm trigger --action=add
udevadm settle
hostname ramdisk
ip link set lo up
# The card that fetched us is named on the command line, by its address.
wanted=$(tr ' ' '\\n' < /proc/cmdline | sed -n 's/^BOOTIF=//p')
for card in /sys/class/net/*; do
    if [ "$(cat "$card/address")" = "$wanted" ]; then
        ip link set "${{card##*/}}" up
        udhcpc -i "${{card##*/}}" -n -q -t 20 -T 1 -s /etc/lease
    fi
done
echo "ramdisk: the agent starts"
python3 -c 'import sys; from ironic_python_agent.cmd.agent import run; sys.exit(run())'
echo "ramdisk: the agent has ended: $?"
grep -q '^[$]6[$]' /etc/ipa-rescue-config/ipa-rescue-password && echo "{RESCUED_SAYS}"
while true; do sleep 3600; done
"""
LEASE = """#!/bin/sh
[ "$1" = bound ] || exit 0
ip addr add "$ip/$mask" dev "$interface"
[ -z "$router" ] || ip route add default via "${router%% *}"
"""
# Nobody would hear a polite request: there is no init system.
POWER = '#!/bin/sh\nsync\nexec busybox "${0##*/}" -f\n'
FILES = {
    "init": INIT,
    "etc/lease": LEASE,
    "usr/sbin/poweroff": POWER,
    "usr/sbin/reboot": POWER,
    "etc/passwd": "root:x:0:0:root:/root:/bin/sh\n",
    "etc/group": "root:x:0:\ntty:x:5:\ndisk:x:6:\nkmem:x:15:\nlp:x:7:\ndialout:x:20:\ncdrom:x:24:\n"
    "tape:x:26:\naudio:x:29:\nvideo:x:44:\ninput:x:101:\nsgx:x:102:\nkvm:x:103:\nrender:x:104:\n",
}


class RamdiskImage(NamedTuple):
    kernel: Path
    initramfs: Path


def built() -> RamdiskImage:
    """The ramdisk, built if there is none or the recipe has changed; several test processes may ask at once."""
    DIRECTORY.mkdir(parents=True, exist_ok=True)
    image = RamdiskImage(DIRECTORY / "kernel", DIRECTORY / "initramfs")
    recipe = hashlib.sha256(Path(__file__).read_bytes() + REQUIREMENT.encode()).hexdigest()
    with open(DIRECTORY / "lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        done = DIRECTORY / "recipe"
        if not done.exists() or done.read_text() != recipe:
            done.unlink(missing_ok=True)
            with tempfile.TemporaryDirectory(dir=DIRECTORY) as scratch:
                _build(Path(scratch) / "root", image)
            done.write_text(recipe)
    return image


def _build(root: Path, image: RamdiskImage) -> None:
    _unpack(root)
    shutil.copyfile(next(root.glob("boot/vmlinuz-*")), image.kernel)
    _choose_modules(root)
    _install_agent(root)
    for pattern in UNREAD:
        for path in root.glob(pattern):
            shutil.rmtree(path) if path.is_dir() and not path.is_symlink() else path.unlink()
    for name in ("dev", "proc", "sys", "run", "tmp", "root", "var/log", "var/tmp", "etc/ipa-rescue-config"):
        (root / name).mkdir(parents=True, exist_ok=True)
    for name, text in FILES.items():
        (root / name).unlink(missing_ok=True)
        (root / name).write_text(text)
        (root / name).chmod(0o755)
    _run("chroot", root, "ldconfig")  # the agent asks it where libraries are
    _compile(root)
    _pack(root, image.initramfs)


def _unpack(root: Path) -> None:
    merged = "for d in bin sbin lib lib64; do mkdir -p $1/usr/$d; ln -s usr/$d $1/$d; done"
    packages = f"--include={','.join(PACKAGES)}"
    _run("mmdebstrap", "--quiet", "--variant=extract", packages, f"--setup-hook={merged}", SUITE, root)
    for applet in _run("chroot", root, "busybox", "--list").split():
        link = root / "usr/bin" / applet
        if not link.is_symlink() and not link.exists() and not (root / "usr/sbin" / applet).exists():
            link.symlink_to("busybox")


def _choose_modules(root: Path) -> None:
    """Keeps the drivers we need, and what those need."""
    (all_modules,) = root.glob("usr/lib/modules/*")
    version = all_modules.name
    _run("chroot", root, "depmod", version)
    shown = _run("chroot", root, "modprobe", "--set-version", version, "--show-depends", "--all", *MODULES)
    kept = {Path(line.split()[1]).name for line in shown.splitlines() if line.startswith("insmod")}
    for module in all_modules.rglob("*.ko"):
        if module.name not in kept:
            module.unlink()
    _run("chroot", root, "depmod", version)


def _install_agent(root: Path) -> None:
    version = os.readlink(root / "usr/bin/python3").removeprefix("python")
    # Among the interpreter's own modules: the agent starts Python again, without this one's environment.
    target = ["--target", root / AGENT, "--python-version", version]
    wheels = ["--only-binary", ":all:", "--no-compile", "--quiet"]
    _run(sys.executable, "-m", "pip", "install", *wheels, *target, REQUIREMENT)


def _compile(root: Path) -> None:
    """Bytecode instead of source: to compile it at each boot would take minutes."""
    (library,) = root.glob("usr/lib/python3.*")
    for place in (library, root / AGENT):
        _run("chroot", root, "python3", "-m", "compileall", "-b", "-q", "-j2", f"/{place.relative_to(root)}")
        for source in place.rglob("*.py"):
            source.unlink()


def _pack(root: Path, initramfs: Path) -> None:
    partial = initramfs.with_suffix(".part")
    command = "find . -xdev | cpio --quiet --create --format=newc --owner=0:0 | zstd -q -15 -T0 -f -o"
    _run("bash", "-o", "pipefail", "-c", f'cd "$0" && {command} "$1"', root, partial)
    partial.replace(initramfs)


def _run(*command: str | Path) -> str:
    done = subprocess.run([str(part) for part in command], capture_output=True, text=True)
    if done.returncode:
        raise RuntimeError(f"{' '.join(map(str, command))} failed: {done.stdout[-2000:]}{done.stderr[-4000:]}")
    return done.stdout


if __name__ == "__main__":
    built()
