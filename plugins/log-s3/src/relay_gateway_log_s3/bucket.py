"""One bucket: objects put and got in threads, with credentials that may change at any time."""

from __future__ import annotations

import asyncio
import io
from collections.abc import Callable
from typing import Any, Final

from relay_gateway.errors import StorageUnavailableError
from relay_gateway.plugin import PluginContext
from relay_gateway_log_s3.access_keys import AccessKeys, AccessKeySource
from relay_gateway_log_s3.clients import Clients
from relay_gateway_log_s3.config import BucketConfig
from relay_gateway_log_s3.refusals import Doing, Refusal, failed, refused

LARGEST: Final = 256 * 1024 * 1024
"""Bytes of an object that is read at most, and of what is in it."""
_ENCRYPTIONS: Final = {"s3": "AES256", "kms": "aws:kms"}

Call = Callable[[Any], Any]


class Bucket:
    """Objects of the bucket of ``section``. Methods raise :class:`StorageUnavailableError`, which
    says what to do."""

    def __init__(self, config: BucketConfig, context: PluginContext, section: str) -> None:
        self._config = config
        self._context = context
        self._section = section
        self._keys = AccessKeySource(config, context, section)
        self._clients = Clients(config, context)
        self._owner = {"ExpectedBucketOwner": config.bucket_owner} if config.bucket_owner else {}

    async def check(self) -> None:
        """Finds out whether the bucket is there and answers; what may not be asked is no error,
        since writing needs another permission."""
        answer = await self._call(
            self._doing("", "s3:ListBucket"),
            lambda client: client.head_bucket(Bucket=self._config.bucket, **self._owner),
        )
        if isinstance(answer, Refusal) and answer.status != 403:
            raise StorageUnavailableError(answer.told)

    async def put(self, name: str, body: bytes, content_type: str) -> None:
        """Stores gzipped ``body``, in place of what had this name."""
        answer = await self._call(
            self._doing(name, "s3:PutObject"),
            lambda client: self._upload(client, name, body, content_type),
        )
        if isinstance(answer, Refusal):
            raise StorageUnavailableError(answer.told)

    async def get(self, name: str) -> bytes | None:
        """What is stored under this name, or ``None``."""
        answer = await self._call(
            self._doing(name, "s3:GetObject and s3:ListBucket"),
            lambda client: self._download(client, name),
        )
        if isinstance(answer, Refusal):
            if answer.missing:
                return None
            raise StorageUnavailableError(answer.told)
        found: bytes = answer
        return found

    def close(self) -> None:
        """Closes connections."""
        self._clients.forget()

    def _doing(self, name: str, action: str) -> Doing:
        return Doing(f"s3://{self._config.bucket}/{name}", action, self._section)

    async def _call(self, doing: Doing, call: Call) -> Any:
        """What ``call`` returned, or why it did not; tried again with other credentials, where
        those would help."""
        answer = await self._attempt(doing, call)
        if isinstance(answer, Refusal) and answer.stale:
            # A client keeps the credentials that it found, or did not find, when it was made.
            self._keys.doubt()
            self._clients.forget()
            answer = await self._attempt(doing, call)
        return answer

    async def _attempt(self, doing: Doing, call: Call) -> Any:
        keys = await self._keys.current()
        return await self._context.run_blocking(self._ask, keys, doing, call)

    def _ask(self, keys: AccessKeys | None, doing: Doing, call: Call) -> Any:
        # Nothing is raised from the errors caught here: they quote what was answered.
        from botocore.exceptions import BotoCoreError, ClientError, HTTPClientError

        try:
            return call(self._clients.of(keys))
        except ClientError as error:
            return refused(error.response, doing)
        except (BotoCoreError, HTTPClientError, OSError) as error:
            return failed(error, doing)

    def _upload(self, client: Any, name: str, body: bytes, content_type: str) -> None:
        from boto3.s3.transfer import TransferConfig

        size = self._config.multipart_bytes
        client.upload_fileobj(
            io.BytesIO(body),
            self._config.bucket,
            name,
            ExtraArgs=self._put_arguments(content_type),
            # Its own threads would be unbounded by ours.
            Config=TransferConfig(
                multipart_threshold=size, multipart_chunksize=size, use_threads=False
            ),
        )

    def _put_arguments(self, content_type: str) -> dict[str, str]:
        config = self._config
        arguments = {"ContentType": content_type, "ContentEncoding": "gzip", **self._owner}
        if config.encryption != "bucket":
            arguments["ServerSideEncryption"] = _ENCRYPTIONS[config.encryption]
        if config.kms_key_id is not None:
            arguments["SSEKMSKeyId"] = config.kms_key_id
        if config.storage_class is not None:
            arguments["StorageClass"] = config.storage_class
        return arguments

    def _download(self, client: Any, name: str) -> bytes:
        answer = client.get_object(Bucket=self._config.bucket, Key=name, **self._owner)
        with answer["Body"] as stream:
            found: bytes = stream.read(LARGEST + 1)
        if len(found) > LARGEST:
            raise OSError(f"{name} is larger than {LARGEST} bytes")
        return found


class Running:
    """Calls that go on when nobody waits for them any more, and are known until they end."""

    def __init__(self) -> None:
        self._tasks: set[asyncio.Future[Any]] = set()

    async def shielded(self, work: Any) -> Any:
        """What ``work`` returns; a cancelled wait leaves it to end by itself."""
        task = asyncio.ensure_future(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return await asyncio.shield(task)

    async def ended(self) -> None:
        """Waits for all of them."""
        await asyncio.gather(*self._tasks, return_exceptions=True)
