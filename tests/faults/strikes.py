"""Faults in the middle of a command: killed, cut off from the server, the server gone. Then the same again."""

import random
import time
from collections.abc import Callable
from dataclasses import dataclass

from faults.subjects import Case, Subject
from faults.world import World, terminate_sessions
from programs import Program, run_program, started

TRIES = 6


@dataclass(frozen=True)
class Strike:
    """What one fault did: complaints about rows and jobs, and what the commands printed as tracebacks."""

    subject: str
    fault: str
    lost: tuple[str, ...] = ()
    tracebacks: tuple[str, ...] = ()


Fault = Callable[[World, Case, Program], None]


def kill(world: World, case: Case, program: Program) -> None:
    """SIGKILL: nothing of the program's own can run any more."""
    del world, case
    program.process.kill()


def terminate(world: World, case: Case, program: Program) -> None:
    """End its sessions on the server, and its connections to Redis."""
    del program
    for database in case.databases:
        terminate_sessions(database)
    world.redis.execute_command("CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes")  # type: ignore[no-untyped-call]


def stop_server(world: World, case: Case, program: Program) -> None:
    """Stop the server at once, wait for what the program says of it, and start the server again."""
    del case
    world.stop_at_once()
    program.process.join(60)
    world.start()


FAULTS: dict[str, Fault] = {"kill": kill, "terminate": terminate, "stop server": stop_server}


def duration(world: World, subject: Subject) -> float:
    """Measure a run that nobody disturbs."""
    case = subject(world)
    start = time.monotonic()
    done = run_program(case.argv, cwd=case.cwd, environment=case.environment)
    seconds = time.monotonic() - start
    assert done.returncode == 0, f"{done.stdout}\n{done.stderr}"
    complaints = case.complaints()
    assert not complaints, complaints
    _drop(world, case)
    return seconds


def strike(world: World, subject: Subject, fault: str, seconds: float) -> Strike:
    """Start the command, let the fault happen so many seconds later, run the command again, and compare."""
    case = subject(world)
    with started(case.argv, cwd=case.cwd, environment=case.environment) as program:
        program.process.join(seconds)
        FAULTS[fault](world, case, program)
        done = program.wait()
    printed = [done.stdout + done.stderr]
    for _ in range(TRIES):  # a session that was killed may hold its locks for a moment
        again = run_program(case.again or case.argv, cwd=case.cwd, environment=case.environment)
        printed.append(again.stdout + again.stderr)
        if again.returncode in case.codes:
            break
        time.sleep(0.5)
    lost = case.complaints()
    if again.returncode not in case.codes:
        lost.append(f"it cannot be finished: exit {again.returncode}: {printed[-1][-600:]}")
    _drop(world, case)
    name = getattr(subject, "__name__", "?")
    return Strike(name, fault, tuple(lost), tuple(each for each in printed if "Traceback" in each))


def instants(subject: str, fault: str, number: int, seconds: float) -> list[float]:
    """Choose moments of a run, the same ones every time."""
    chance = random.Random(f"{subject} {fault}")
    return sorted(chance.uniform(0, seconds * 1.1) for _ in range(number))


def _drop(world: World, case: Case) -> None:
    for database in case.databases:
        world.postgres.drop(database)
