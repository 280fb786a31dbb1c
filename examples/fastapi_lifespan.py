"""FastAPI: every replica has a background task from start to shutdown, and one at a time runs the job."""

import asyncio
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress

import psycopg
from digest import DSN, EVERY, JOB, say
from fastapi import FastAPI

from pglock_inspect import LockError, arun_with_lock

logger = logging.getLogger(__name__)


async def send_digest() -> None:
    async with await psycopg.AsyncConnection.connect(DSN) as conn:
        await conn.execute("INSERT INTO digests (day) VALUES (current_date) ON CONFLICT DO NOTHING")


async def send_digests() -> None:
    while True:
        try:
            say(ran=await arun_with_lock(DSN, JOB, send_digest))
        except (LockError, psycopg.Error):
            logger.exception("%s failed, and is tried again", JOB)
        await asyncio.sleep(EVERY)


@asynccontextmanager
async def lifespan(_: FastAPI) -> AsyncIterator[None]:
    digests = asyncio.create_task(send_digests())
    yield
    digests.cancel()  # a run that is under way ends, and its lock with it
    with suppress(asyncio.CancelledError):
        await digests


app = FastAPI(lifespan=lifespan)


@app.get("/")
async def home() -> str:
    return "Hello"
