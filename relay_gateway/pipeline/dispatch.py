"""From a plan to an answer: draw a key, ask a host, and decide whether to ask again elsewhere.

The one owner of retries. Another attempt is only made before the first byte has reached the caller.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import chain

from relay_gateway.catalog.snapshot import Host, HostKey, Snapshot
from relay_gateway.errors import (
    FAULTS,
    RequestRefusedError,
    UpstreamError,
)
from relay_gateway.http.client import HttpClient
from relay_gateway.limits.choose import in_memory
from relay_gateway.pipeline.admit import Admission
from relay_gateway.pipeline.affinity import MIN_MARKED, Affinity, conversation_of
from relay_gateway.pipeline.announce import Announcer, Ledger, NoLedger
from relay_gateway.pipeline.breaker import HostBreakers
from relay_gateway.pipeline.call import Call
from relay_gateway.pipeline.course import Course, Result, Way
from relay_gateway.pipeline.credentials import Credentials
from relay_gateway.pipeline.first_event import begun
from relay_gateway.pipeline.judge import Judge
from relay_gateway.pipeline.key_health import Healing, KeyHealth
from relay_gateway.pipeline.keypool import KeyPools
from relay_gateway.pipeline.local import ask_locally
from relay_gateway.pipeline.nothing_left import no_way_left, with_wait
from relay_gateway.pipeline.opening import Opening, Ready
from relay_gateway.pipeline.ports import Caller, Exchange
from relay_gateway.pipeline.refusals import (
    NoAnswer,
    RedirectedError,
    Refusal,
    is_about_the_host,
    refusal_of,
)
from relay_gateway.pipeline.retries import Backoff, RetryBudget
from relay_gateway.pipeline.route import Candidate, Plan
from relay_gateway.pipeline.translate import Translator
from relay_gateway.pipeline.upstream_requests import RequestBuilder, target_of
from relay_gateway.plugin.context import Clock, SystemClock
from relay_gateway.plugin.providers import (
    UpstreamCall,
    UpstreamProvider,
    Verdict,
)
from relay_gateway.plugin.usage import Attempt
from relay_gateway.secret import Secret

_NO_KEY: tuple[HostKey | None, ...] = (None,)


class Dispatcher:
    """Asks upstreams until one answers or the plan is exhausted."""

    def __init__(
        self,
        providers: Mapping[str, UpstreamProvider],
        client: HttpClient,
        credentials: Credentials,
        pools: KeyPools,
        report: Callable[[str, BaseException], None],
        translator: Translator | None = None,
        ledger: Ledger | None = None,
        admission: Admission | None = None,
        *,
        clock: Clock | None = None,
        backoff: Backoff | None = None,
    ) -> None:
        clock = clock or SystemClock()
        self.now = clock.monotonic
        self._backoff = backoff or Backoff()
        self.breakers = HostBreakers(clock)
        self.budget = RetryBudget(clock)
        self.affinity = Affinity(clock)
        self._providers = providers
        self.asked: Counter[str] = Counter()
        """How often hosts of each adapter were asked."""
        self._client = client
        self._credentials = credentials
        self._pools = pools
        self.admission = admission or Admission(in_memory())
        self.ledger = ledger or NoLedger()
        self._announce = Announcer(self.ledger).announce
        self.health = KeyHealth(credentials, pools)
        self._requests = RequestBuilder(providers, translator or Translator({}, {}), report)
        self._refusals = Judge(self._requests)

    def providers_changed(self) -> None:
        """Looks at the providers again, of which there may be others than before."""
        self._requests.providers_changed()

    def prepare(self, call: Call, plan: Plan, caller: Caller) -> Ready | None:
        """Makes the first attempt ready, and accounts for it, if nothing has to be waited for
        before that: its limits have room and the credential is known."""
        ways = self._ways(call, plan)
        way = next(ways, None)
        while way is not None and (admitted := self.admission.admits_now(call, *way)) is not True:
            if admitted is None:
                return None
            way = next(ways, None)
        if way is None:
            return None
        candidate, key = way
        host = candidate.binding.host
        secret = self._credentials.peek(key) if key is not None else None
        if not self._requests.is_plain(candidate):
            return None
        if key is not None and secret is None:
            return None
        request = self._requests.build(call, candidate, secret, caller)
        self._announce(call, candidate.model, host, key)
        self._note_opening(call, candidate, key, self.now())
        return candidate, key, secret, request, ways

    def send(self, call: Call, ready: Ready) -> Opening | None:
        """Begins the first attempt, if a connection is idle."""
        candidate, key, secret, request, ways = ready
        host = candidate.binding.host
        exchange = self._client.begin_now(self._requests.target(host), request)
        if exchange is None:
            self._take_back(call)
            return None
        call.sent_at = call.asked_at = began = self.now()
        self._count(began)
        return Opening(candidate, key, secret, began, request, exchange, ways)

    def opened(self, call: Call, began: float, status: int, now: float) -> None:
        """The attempt that began at ``began`` was answered with success at ``now``."""
        call.first_byte_at = now
        self._note(call, now - began, status, None)
        drawn = call.drawn
        if drawn is not None and (drawn.strikes or drawn.models) and call.model is not None:
            self._pools.recovered(drawn, call.model.id)
        if call.probing is not None:
            self._answered(call, began)
        if call.conversation is not None and call.host_key is not None:
            self.affinity.served(call.conversation, call.host_key.id)

    def delivered(self, call: Call) -> None:
        """The answer has come to its end. One that broke off counts against its host; that another
        was complete is only known now, so a host that breaks every answer off has no success."""
        host = call.host
        if host is None:
            return
        if call.broke_off is not None:
            self.breakers.failed(host, call.asked_at, call.broke_off)
        elif self.breakers.troubled and call.outcome == "ok":
            self.breakers.succeeded(host.id, call.asked_at)

    async def dispatch(
        self, call: Call, plan: Plan, caller: Caller, opening: Opening | None = None
    ) -> Exchange | Refusal:
        """The first answer to deliver; raises :class:`RequestRefusedError` when there is none.

        ``opening`` is the first attempt, where it has begun.
        """
        if opening is None:
            self._count(self.now())
        course = self._course(call, self._ways(call, plan) if opening is None else opening.ways)
        way = await course.next() if opening is None else (opening.candidate, opening.key)
        while way is not None:
            result = await self._attempt(call, *way, caller, opening, course.healing)
            opening = None
            answer = course.take(way, result)
            if answer is not None:
                return answer
            way = await course.next()
        return self._give_up(call, plan, course.last)

    def retain(self, snapshot: Snapshot) -> None:
        """Lets go of connections to hosts that are gone from the catalog, or were changed."""
        self.breakers.retain(snapshot.hosts)
        self.health.retain(snapshot.host_keys)
        self._requests.retain(snapshot)
        self._client.retain([target_of(host) for host in snapshot.hosts.values()])

    def _course(self, call: Call, ways: Iterator[Way]) -> Course:
        routing = call.snapshot.settings.routing
        return Course(
            ways,
            Healing(self.health),
            self.budget,
            self._backoff,
            self._allows,
            max_attempts=routing.max_attempts,
            ratio=routing.retry_budget_ratio,
            deadline=call.deadline,
        )

    def _count(self, now: float) -> None:
        budget = self.budget
        if now >= budget.turns_at:
            budget.turn(now)
        budget.asked += 1

    def _ways(self, call: Call, plan: Plan) -> Iterator[Way]:
        troubled = self.breakers.troubled
        ejected = []
        for candidate in plan.candidates():
            host = candidate.binding.host
            if troubled and not self._allows(host):
                ejected.append(candidate)
                continue
            for key in self._keys(call, candidate):
                if troubled and not self._allows(host):
                    break  # it was ejected meanwhile
                yield candidate, key
        for candidate in ejected:
            for key in self._keys(call, candidate):
                if self._is_taken(candidate.binding.host):
                    break
                yield candidate, key

    def _allows(self, host: Host) -> bool:
        breaker = self.breakers.troubled.get(host.id)
        return breaker is None or breaker.allows(self.now())

    def _is_taken(self, host: Host) -> bool:
        """Whether not even a request that has nowhere else to go may try the host."""
        breaker = self.breakers.troubled.get(host.id)
        if breaker is None or breaker.is_closed:
            return False
        return not breaker.allows_last_resort(self.now())

    def _keys(self, call: Call, candidate: Candidate) -> Iterable[HostKey | None]:
        if candidate.binding.host.no_auth:
            return _NO_KEY
        keys, model_id = candidate.keys, candidate.model.id
        strategy = call.policy.key_selection if call.policy else "prioritized"
        order = self._pools.order(keys, strategy, model_id)
        call.conversation = None
        if len(keys) < 2 or len(call.body) < MIN_MARKED or call.relay_key is None:
            return order
        return self._with_affinity(call, candidate, strategy, order)

    def _with_affinity(
        self, call: Call, candidate: Candidate, strategy: str, order: Iterable[HostKey]
    ) -> Iterable[HostKey]:
        """``order``, but first the key that has the conversation's prompt in its cache."""
        equals, model_id = self._pools.equals(candidate.keys, strategy), candidate.model.id
        if len(equals) < 2 or call.relay_key is None:
            return order
        conversation = conversation_of(call.relay_key.id, model_id, call.body)
        if conversation is None:
            return order
        call.conversation = conversation
        best = self.affinity.prefer(
            conversation, equals, lambda key_id: self._pools.serves(key_id, model_id)
        )
        if best is None:
            return order
        return chain((equals[best],), (key for key in order if key.id != best))

    async def _attempt(
        self,
        call: Call,
        candidate: Candidate,
        key: HostKey | None,
        caller: Caller,
        opening: Opening | None,
        healing: Healing,
    ) -> Result:
        """One attempt, and its consequences for the key and the host."""
        host = candidate.binding.host
        if opening is None:
            if not await self.admission.admits(call, candidate, key):
                return None
            secret = await self.health.secret(key) if key is not None else None
            if (key is not None and secret is None) or self._is_taken(host):
                return None
            self._announce(call, candidate.model, host, key)
            began = self.now()
            self._note_opening(call, candidate, key, began)
        else:
            secret, began = opening.secret, opening.began
        try:
            exchange = await self._ask(call, candidate, secret, caller, opening)
            result = await self._judge(call, candidate, exchange, secret, began)
        except RequestRefusedError as error:
            return error
        except UpstreamError as error:
            self._note(call, self.now() - began, 0, error.reason)
            self._failed(call, host, began, NoAnswer(error))
            return NoAnswer(error)
        if isinstance(result, Refusal):
            elapsed = self.now() - began
            self._note(call, elapsed, result.status, result.classification.verdict.value)
            self._failed(call, host, began, result)
            self.health.take(result.classification, key, secret, candidate.model.id)
            if key is not None and secret is not None and _is_refused(result):
                healing.note(candidate, key, secret)
        return result

    def _failed(self, call: Call, host: Host, began: float, result: Refusal | NoAnswer) -> None:
        """Tells the host's breaker. A refusal for the sake of a key or of the request shows that
        the host is there."""
        if not is_about_the_host(result):
            if self.breakers.troubled and isinstance(result, Refusal):
                self._answered(call, began)
            return
        call.probing = None
        if isinstance(result, NoAnswer):
            self.breakers.failed(host, began, result.error.reason)
        else:
            wish = result.classification.retry_after
            self.breakers.failed(host, began, f"status {result.status}", wish)

    def _answered(self, call: Call, began: float) -> None:
        call.probing = None
        if call.host is not None:
            self.breakers.succeeded(call.host.id, began)

    def _note_opening(
        self, call: Call, candidate: Candidate, key: HostKey | None, now: float
    ) -> None:
        binding = candidate.binding
        call.model, call.host, call.host_key = candidate.model, binding.host, key
        call.pricing = binding.pricing
        speech = candidate.speech
        call.upstream_format = call.wire_format if speech is None else speech.wire_format
        if call.sent_at is None:
            call.sent_at = now
        call.asked_at = now
        self._draw(call, key, now)
        if self.breakers.troubled:
            self._claim(call, binding.host, now)

    def _take_back(self, call: Call) -> None:
        """Undoes what was claimed for an attempt that was not sent: the next one must not find the
        host tried, or the key in use, by this same request."""
        call.sent_at = None
        if call.drawn is not None:
            self._pools.put_back(call.drawn)
            call.drawn = None
        if call.probing is not None:
            call.probing.release()
            call.probing = None

    def _claim(self, call: Call, host: Host, now: float) -> None:
        """Where the host is ejected, this request is the one that tries it."""
        if call.probing is not None:
            call.probing.release()
        breaker = self.breakers.troubled.get(host.id)
        call.probing = None
        if breaker is not None and not breaker.is_closed:
            breaker.claim(now)
            call.probing = breaker

    def _draw(self, call: Call, key: HostKey | None, now: float) -> None:
        """Counts ``key`` as in use by this request, and no longer the one before it."""
        if call.drawn is not None:
            call.drawn.release()
        call.drawn = self._pools.draw(key.id, now) if key is not None else None

    async def _ask(
        self,
        call: Call,
        candidate: Candidate,
        secret: Secret | None,
        caller: Caller,
        opening: Opening | None,
    ) -> Exchange:
        host = candidate.binding.host
        provider = self._providers[host.adapter]
        if provider.local:
            upstream = self._requests.upstream_call(call, candidate, secret, caller.headers)
            return await self._ask_locally(provider, upstream)
        target = self._requests.target(host)
        if opening is not None:
            return await self._client.answer(target, opening.request, opening.exchange)
        request = self._requests.build(call, candidate, secret, caller)
        exchange = await self._client.begin(target, request)
        return await self._client.answer(target, request, exchange)

    async def _judge(
        self,
        call: Call,
        candidate: Candidate,
        exchange: Exchange,
        secret: Secret | None,
        began: float,
    ) -> Exchange | Refusal:
        provider = self._providers[candidate.binding.host.adapter]
        if 200 <= exchange.status < 300:
            problem = await begun(call, exchange)
            if problem is None:
                self.opened(call, began, exchange.status, self.now())
                return exchange
            return self._refusals.failed_at_once(call, provider, exchange, problem, secret)
        call.first_byte_at = self.now()
        if exchange.status < 400:
            exchange.cancel()
            raise RedirectedError("the upstream answered with a redirect; none is followed")
        return await self._refusals.refusal(call, provider, exchange, secret)

    async def _ask_locally(self, provider: UpstreamProvider, upstream: UpstreamCall) -> Exchange:
        try:
            return await ask_locally(provider, upstream)
        except UpstreamError:
            raise
        except FAULTS as error:  # plugins raise what they like
            raise self._requests.failed(provider, error) from None

    def _note(self, call: Call, seconds: float, status: int, error: str | None) -> None:
        if call.host is not None:
            self.asked[call.host.adapter] += 1
        call.attempts.append(
            Attempt(
                host_id=call.host.id if call.host else "",
                host_key_id=call.host_key.id if call.host_key else None,
                status=status,
                error=error,
                duration_ms=int(seconds * 1_000_000) / 1000,
            )
        )

    def _give_up(
        self, call: Call, plan: Plan, last: Refusal | NoAnswer | RequestRefusedError | None
    ) -> Refusal:
        if isinstance(last, RequestRefusedError):
            raise last
        if isinstance(last, NoAnswer):
            raise refusal_of(last.error)
        if last is None:
            raise call.full_key or no_way_left(plan, self._pools, self.breakers)
        if _is_refused(last):
            raise RequestRefusedError(
                502,
                "upstream_credentials",
                f"the upstream refused every credential for the model {plan.model.name!r}",
            )
        return with_wait(plan, last, self._pools)


def _is_refused(refusal: Refusal) -> bool:
    return refusal.classification.verdict is Verdict.CREDENTIAL
