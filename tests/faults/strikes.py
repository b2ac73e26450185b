"""Faults in the middle of a command: killed, cut off, a server gone. Then the same again."""

import random
import signal
import time
from collections.abc import Callable
from dataclasses import dataclass

from faults.case import Case, Complaint, Struck, Subject, Undisturbed, compare, differences, schema_of
from faults.world import World
from support.programs import Program, run_program, started

# A session of a program that was killed may hold its locks for a moment: how long to wait before each try.
PAUSES_S = (0.0, 0.05, 0.1, 0.2, 0.4, 0.8, 1.6)
EARLIEST, LATEST = 0.02, 1.0
TRIES = 5
CONNECTED_WITHIN_S = 60

# Strike, and say whether anything was hit.
Fault = Callable[[World, Case, Program], bool]


@dataclass(frozen=True)
class Strike:
    """Whether a fault hit the command, and what is wrong after it."""

    hit: bool
    complaints: tuple[Complaint, ...]


def kill(world: World, case: Case, program: Program) -> bool:
    """SIGKILL: nothing of the program's own can run any more. It is hit when it died of that."""
    del world, case
    program.process.kill()
    program.process.join()
    return program.process.exitcode == -signal.SIGKILL


def terminate(world: World, case: Case, program: Program) -> bool:
    """End its sessions on the server, and its connections to Redis. It is hit when it had any."""
    del program
    return world.end_sessions(case.databases) + world.redis_server.end_clients() > 0


def stop_server(world: World, case: Case, program: Program) -> bool:
    """Stop PostgreSQL at once, wait for what the program says of it, and start the server again."""
    sessions = world.count_sessions(case.databases)
    world.stop_at_once()
    program.process.join(60)
    world.start()
    return sessions > 0


def stop_redis(world: World, case: Case, program: Program) -> bool:
    """Kill Redis, wait for what the program says of it, and start it again."""
    del case
    clients = world.redis_server.count_clients()
    world.redis_server.stop_at_once()
    program.process.join(60)
    world.redis_server.start()
    return clients > 0


FAULTS: dict[str, Fault] = {
    "kill": kill,
    "sessions ended": terminate,
    "server stopped": stop_server,
    "Redis stopped": stop_redis,
}


@dataclass
class Pace:
    """How long the command runs, as far as is known: that depends on what else the machine does."""

    seconds: float

    def learn(self, waited: float, fraction: float, *, hit: bool) -> None:
        """Take a run for shorter when the fault came too late, and for longer when one near its end hit."""
        if not hit:
            self.seconds = min(self.seconds, max(waited, self.seconds / 4))
        elif fraction > 0.9:
            self.seconds *= 1.1


def undisturbed(world: World, subject: Subject) -> Undisturbed:
    """Run the command without a fault, once in each world: it is what the others are compared with."""
    found: Undisturbed = world.once(f"undisturbed {subject.__name__}", lambda: _run_alone(world, subject))
    return found


def strike(world: World, subject: Subject, fault: str, fraction: float) -> Strike:
    """Start the command, let the fault happen at that fraction of its run, finish the command, and compare."""
    reference = undisturbed(world, subject)
    known = reference.seconds if fault == "kill" else reference.connected_s
    pace: Pace = world.once(f"pace {subject.__name__} {fault}", lambda: Pace(known))
    case = subject(world)
    for database in case.databases:
        database.leave()  # who is on it from now on is the command
    with started(case.argv, cwd=case.cwd, environment=case.environment) as program:
        if fault != "kill":
            _wait_for_connection(world, case, program, fault)
        start = time.monotonic()
        program.process.join(fraction * pace.seconds)
        waited = time.monotonic() - start
        hit = FAULTS[fault](world, case, program)
        done = program.finish()
    pace.learn(waited, fraction, hit=hit)
    printed, reported = [done.stdout + done.stderr], []
    if done.returncode:
        reported = _finish(case, printed)
    reported += compare(case, reference) + case.complaints(Struck(fault, "\n".join(printed)))
    reported += [Complaint("tracebacks", each[-800:]) for each in printed if "Traceback" in each]
    drop(world, case)
    return Strike(hit, tuple(reported))


def strike_until_hit(world: World, subject: Subject, fault: str, fraction: float) -> list[Strike]:
    """Strike; where nothing was hit, again and earlier."""
    strikes = []
    for _ in range(TRIES):
        strikes.append(strike(world, subject, fault, fraction))
        if strikes[-1].hit:
            break
        fraction *= 0.7
    return strikes


def fractions(subject: str, fault: str, number: int) -> list[float]:
    """Choose moments of a run, the same ones every time."""
    chance = random.Random(f"{subject} {fault}")
    return [chance.uniform(EARLIEST, LATEST) for _ in range(number)]


def _wait_for_connection(world: World, case: Case, program: Program, fault: str) -> None:
    """Wait until the command is on the server that the fault is about: before that there is nothing to cut off."""
    end = time.monotonic() + CONNECTED_WITHIN_S
    while program.process.exitcode is None and time.monotonic() < end:
        if fault != "Redis stopped" and world.count_sessions(case.databases):
            return
        if fault != "server stopped" and world.redis_server.count_clients():
            return
        time.sleep(0.01)


def _finish(case: Case, printed: list[str]) -> list[Complaint]:
    """Run the command again until it ends well; add what it prints."""
    for pause in PAUSES_S:
        time.sleep(pause)
        argv = case.again() if case.again is not None else case.argv
        again = run_program(argv, cwd=case.cwd, environment=case.environment)
        printed.append(again.stdout + again.stderr)
        if again.returncode == 0:
            return []
    return [Complaint("unfinished", f"exit {again.returncode}: {printed[-1][-600:]}")]


def _run_alone(world: World, subject: Subject) -> Undisturbed:
    case = subject(world)
    for database in case.databases:
        database.leave()
    start = time.monotonic()
    with started(case.argv, cwd=case.cwd, environment=case.environment) as program:
        _wait_for_connection(world, case, program, "sessions ended")
        connected = time.monotonic()
        done = program.finish()
    end = time.monotonic()
    assert done.returncode == 0, f"{done.stdout}\n{done.stderr}"
    reference = Undisturbed(end - start, end - connected, case.read(), schema_of(case))
    wrong = differences(case.wanted, reference.rows) + case.complaints(Struck("none", done.stderr))
    assert not wrong, wrong
    drop(world, case)
    return reference


def drop(world: World, case: Case) -> None:
    """Drop the databases of a case."""
    for database in case.databases:
        world.postgres.drop(database)
