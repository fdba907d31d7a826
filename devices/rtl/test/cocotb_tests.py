"""Tests of the Verilog by cocotb, without the harness: words in and out of the tops, on Icarus Verilog.

  python test/cocotb_tests.py        compiles both tops and runs what is below
"""
import os
import random
import struct
import sys
from pathlib import Path

import cocotb
from cocotb.clock import Clock
from cocotb.triggers import FallingEdge, RisingEdge

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from drive import GROUP, SWITCH, SWITCH_IP, datagram, head, olaf_update, update, wrapped  # noqa: E402

WORD = 64


async def start(dut, streams):
    """Clock and reset; done when the memories are clear."""
    cocotb.start_soon(Clock(dut.clk, 4, unit="ns").start())
    for stream in streams:
        stream["valid"].value = 0
    dut.cfg_valid.value = 0
    dut.rst.value = 1
    for _ in range(3):
        await FallingEdge(dut.clk)
    dut.rst.value = 0
    while True:
        await FallingEdge(dut.clk)
        if dut.busy.value == 0:
            return


async def configure(dut, entries):
    for address, value in entries:
        dut.cfg_valid.value, dut.cfg_address.value, dut.cfg_data.value = 1, address, value
        await FallingEdge(dut.clk)
    dut.cfg_valid.value = 0


def stream(dut, prefix):
    names = {"data": "tdata", "keep": "tkeep", "last": "tlast", "valid": "tvalid", "ready": "tready", "user": "tuser"}
    return {short: getattr(dut, f"{prefix}_{name}") for short, name in names.items()}


async def give(dut, to, frame, port, choice):
    """A frame, word by word, with pauses now and then."""
    for at in range(0, len(frame), WORD):
        part = frame[at : at + WORD]
        while choice.random() < 0.2:
            to["valid"].value = 0
            await FallingEdge(dut.clk)
        to["data"].value = int.from_bytes(part, "little")
        to["keep"].value = (1 << len(part)) - 1
        to["last"].value = int(at + WORD >= len(frame))
        to["user"].value = port
        to["valid"].value = 1
        while True:
            await RisingEdge(dut.clk)
            taken = to["ready"].value == 1
            await FallingEdge(dut.clk)
            if taken:
                break
    to["valid"].value = 0


async def collect(dut, source, frames, choice, readiness):
    """Frames that leave, as (ports, bytes); words are taken with this probability."""
    data = b""
    while True:
        source["ready"].value = int(choice.random() < readiness[0])
        await RisingEdge(dut.clk)
        if source["valid"].value == 1 and source["ready"].value == 1:
            keep = int(source["keep"].value)
            data += int(source["data"].value).to_bytes(WORD, "little")[: keep.bit_length()]
            if source["last"].value == 1:
                frames.append((int(source["user"].value), data))
                data = b""
        await FallingEdge(dut.clk)


async def rest(dut):
    quiet = 0
    while quiet < 3:
        await FallingEdge(dut.clk)
        quiet = quiet + 1 if dut.busy.value == 0 else 0


if "switchml" in os.environ.get("COCOTB_TOPLEVEL", ""):

    @cocotb.test()
    async def sums_leave_once_and_answers_alone(dut):
        choice, frames = random.Random(3), []
        to, out = stream(dut, "s"), stream(dut, "m")
        await start(dut, [to])
        mac = int.from_bytes(SWITCH[0], "big")
        await configure(dut, [(0, 3), (1, int.from_bytes(SWITCH_IP, "big")), (2, mac), (3, int.from_bytes(GROUP[1], "big")),
                              (4, 64), (5, 4)] + [(32 + w, 0x0A000001 + w) for w in range(3)])
        cocotb.start_soon(collect(dut, out, frames, choice, [0.6]))
        for number in range(6):
            wanted = {}
            order = [(w, slot) for w in range(3) for slot in range(4)]
            choice.shuffle(order)
            for w, slot in order:
                lanes = [choice.randrange(-(2**31), 2**31) for _ in range(64)]
                wanted[slot] = [wrapped(a + b) for a, b in zip(wanted.get(slot, [0] * 64), lanes)]
                await give(dut, to, update(w, slot, number & 1, number * 4 + slot, lanes), w + 5, choice)
            await rest(dut)
            expected = [datagram(SWITCH, GROUP, head(slot, number & 1, number * 4 + slot, 64) + struct.pack(">64i", *lanes))
                        for slot, lanes in wanted.items()]
            assert sorted(data for _, data in frames) == sorted(expected), number
            assert all(ports == 0b111 << 5 for ports, _ in frames)
            frames.clear()
            await give(dut, to, update(1, 2, number & 1, number * 4 + 2, [0] * 64), 9, choice)
            await rest(dut)
            assert len(frames) == 1 and frames[0][0] == 1 << 9
            assert frames[0][1][42:] == expected[list(wanted).index(2)][42:]
            frames.clear()
            await give(dut, to, update(1, 2, number & 1, number * 4 + 2, [0] * 64)[:200], 6, choice)
            await give(dut, to, update(1, 2, (number & 1) ^ 1, 0, [0] * 64)[:-1], 6, choice)
            # The worker's port is again where it was.
            await give(dut, to, update(1, 2, number & 1, number * 4 + 2, [0] * 64), 6, choice)
            await rest(dut)
            assert len(frames) == 1
            frames.clear()

else:

    @cocotb.test()
    async def updates_wait_merge_and_are_replaced(dut):
        choice, frames = random.Random(4), []
        to, out, down = stream(dut, "s"), stream(dut, "m"), stream(dut, "a")
        readiness = [1.0]
        dut.now_ns.value = 0
        dut.m_start.value = 1
        dut.b_tready.value = 1
        await start(dut, [to, down])
        server = int.from_bytes(SWITCH_IP, "big")
        await configure(dut, [(0, 6), (1, 0x0A000001), (2, server), (3, 0xEFC00000), (4, 2), (5, 0), (7, 2)] +
                             [(256 + w, w // 2) for w in range(6)])
        cocotb.start_soon(collect(dut, out, frames, choice, readiness))
        # The link is busy: cluster 0 merges, cluster 1 is replaced, cluster 2 finds no slot.
        dut.m_start.value = 0
        for number, lane in [(0, 0.5), (1, 0.25), (0, 2.0), (2, 7.0), (2, 8.0), (4, 1.0)]:
            await give(dut, to, olaf_update(number, float(number), [lane] * 46), 0, choice)
        other = datagram((b"\2\0\1\1\1\1", b"\1\1\1\1", 7), SWITCH, bytes(100))
        await give(dut, to, other, 0, choice)
        for _ in range(60):
            await FallingEdge(dut.clk)
        assert [data for _, data in frames] == [other], "what is no update goes around the queue"
        readiness[0] = 0.5
        dut.m_start.value = 1
        await rest(dut)
        assert [data for _, data in frames[1:]] == [olaf_update(0, 1.0, [2.75] * 46), olaf_update(2, 2.0, [8.0] * 46)]
        assert all(ports == 2 for ports, _ in frames)


def main():
    from cocotb_tools.check_results import get_results
    from cocotb_tools.runner import get_runner

    here = Path(__file__).resolve().parent
    shared = ["frame_store.v", "ipv4.v"]
    tops = {"switchml": (shared + ["switchml.v"], {"POOL": 4}), "olaf": (shared + ["f32_add.v", "small_fifo.v", "olaf_queue.v", "olaf.v"], {})}
    out = Path(os.environ.get("OUT", here / "../../../target/devices/rtl")).resolve()
    failed = 0
    for top, (sources, parameters) in tops.items():
        runner = get_runner("icarus")
        folder = out / "cocotb" / top
        runner.build(sources=[here.parent / source for source in sources], hdl_toplevel=top, parameters=parameters, build_dir=folder,
                     timescale=("1ns", "1ps"), build_args=["-g2005"], always=True)
        results = runner.test(hdl_toplevel=top, test_module="cocotb_tests", build_dir=folder, test_dir=here,
                              results_xml=str(folder / "results.xml"), extra_env={"PYTHONDONTWRITEBYTECODE": "1"})
        tests, failures = get_results(results)
        failed += failures + (tests == 0)
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
