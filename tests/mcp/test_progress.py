"""Progress never holds up the work: ordered, bounded, the newest always kept."""

from __future__ import annotations

import asyncio

from chaoscore.adapters.mcp.progress import QUEUE_MAX, ProgressPump


class SlowClient:
    """Takes one report, then nothing until it is let go."""

    def __init__(self) -> None:
        self.heard: list[float] = []
        self.reads = asyncio.Event()

    async def send(self, progress: float, total: float | None, message: str | None) -> None:
        self.heard.append(progress)
        await self.reads.wait()


async def reported(count: int, client: SlowClient) -> ProgressPump:
    pump = ProgressPump(client.send)
    for number in range(1, count + 1):
        await pump.report({"progress": number, "total": count, "message": ""})
    await asyncio.sleep(0)  # let the pump begin
    return pump


def test_what_a_stuck_client_does_not_take_is_bounded_and_the_newest_is_kept() -> None:
    async def scenario() -> list[float]:
        client = SlowClient()
        pump = await reported(1, client)
        for number in range(2, 1_001):
            await pump.report({"progress": number, "total": 1_000, "message": ""})
        client.reads.set()
        await pump.finish()
        return client.heard

    heard = asyncio.run(scenario())
    assert heard == [1, *range(1_001 - QUEUE_MAX, 1_001)]


def test_a_client_that_keeps_up_hears_all_in_order() -> None:
    async def scenario() -> list[float]:
        client = SlowClient()
        client.reads.set()
        await (await reported(QUEUE_MAX, client)).finish()
        return client.heard

    assert asyncio.run(scenario()) == list(range(1, QUEUE_MAX + 1))


def test_an_answer_does_not_wait_for_ever_for_progress_nobody_takes() -> None:
    async def scenario() -> list[float]:
        client = SlowClient()
        pump = await reported(10, client)
        await pump.finish()  # returns although the client takes nothing
        client.reads.set()
        await asyncio.sleep(0)
        return client.heard

    assert asyncio.run(scenario()) == [1]


def test_a_client_that_is_gone_ends_the_sending_and_not_the_work() -> None:
    async def scenario() -> int:
        calls = 0

        async def send(progress: float, total: float | None, message: str | None) -> None:
            nonlocal calls
            calls += 1
            raise ConnectionError

        pump = ProgressPump(send)
        for number in range(5):
            await pump.report({"progress": number})
        await pump.finish()
        return calls

    assert asyncio.run(scenario()) == 1


def test_what_is_no_number_is_left_out() -> None:
    async def scenario() -> list[float]:
        client = SlowClient()
        client.reads.set()
        pump = ProgressPump(client.send)
        await pump.report({"progress": "half"})
        await pump.report({"progress": 2})
        await pump.finish()
        return client.heard

    assert asyncio.run(scenario()) == [2]
