"""Tasks of Streams groups: shared out evenly, kept where they are, and standbys apart."""

from __future__ import annotations

from collections import Counter

from hypothesis import given, strategies as st

from goqueue.groups.streams.assignor import Role, Task, TaskMember, assign_tasks

NOTHING: frozenset[Task] = frozenset()
PROCESSES = st.lists(st.sampled_from("ABCD"), min_size=1, max_size=8)


def members(*processes: str) -> dict[str, TaskMember]:
    return {f"m{n}": TaskMember(each, NOTHING) for n, each in enumerate(processes)}


def with_previous(
    found: dict[str, TaskMember], assigned: dict[str, frozenset[Task]]
) -> dict[str, TaskMember]:
    return {
        each: TaskMember(member.process_id, assigned.get(each, NOTHING))
        for each, member in found.items()
    }


def active(tasks: frozenset[Task]) -> set[Task]:
    return {task for task in tasks if task[0] is Role.ACTIVE}


def check(
    found: dict[str, TaskMember],
    assigned: dict[str, frozenset[Task]],
    counts: dict[str, int],
    standbys: int,
) -> None:
    every = {(each, number) for each, count in counts.items() for number in range(count)}
    running = Counter(task[1:] for tasks in assigned.values() for task in active(tasks))
    assert running == Counter(every)
    loads = {each: len(active(tasks)) for each, tasks in assigned.items()}
    assert max(loads.values()) - min(loads.values()) <= 1
    by_process: Counter[str] = Counter()
    for each, load in loads.items():
        by_process[found[each].process_id] += load
    for process, load in by_process.items():
        threads = sum(member.process_id == process for member in found.values())
        assert abs(load - len(every) * threads / len(found)) < 1
    places = Counter(
        (found[each].process_id, *task[1:]) for each, tasks in assigned.items() for task in tasks
    )
    assert all(count == 1 for count in places.values()), "twice in one process"
    copies = min(standbys, len(by_process) - 1)
    stateful = Counter(t[1:] for ts in assigned.values() for t in ts if t[0] is Role.STANDBY)
    assert stateful == Counter({task: copies for task in every if task[0] == "1" and copies})


@given(
    before=PROCESSES,
    after=PROCESSES,
    counts=st.fixed_dictionaries({"0": st.integers(0, 6), "1": st.integers(1, 6)}),
    standbys=st.integers(0, 3),
)
def test_tasks_are_shared_out_evenly_whatever_members_had_before(
    before: list[str], after: list[str], counts: dict[str, int], standbys: int
) -> None:
    former = members(*before)
    first = assign_tasks(former, counts, {"1"}, standbys)
    check(former, first, counts, standbys)
    now = with_previous(members(*after), first)
    check(now, assign_tasks(now, counts, {"1"}, standbys), counts, standbys)


@given(processes=PROCESSES, standbys=st.integers(0, 2))
def test_nothing_moves_when_nothing_has_changed(processes: list[str], standbys: int) -> None:
    found = members(*processes)
    first = assign_tasks(found, {"0": 5, "1": 7}, {"1"}, standbys)
    assert assign_tasks(with_previous(found, first), {"0": 5, "1": 7}, {"1"}, standbys) == first


def test_a_new_process_takes_only_its_share() -> None:
    found = members("A", "A")
    first = assign_tasks(found, {"1": 8}, {"1"}, 0)
    grown = with_previous(members("A", "A", "B", "B"), first)
    second = assign_tasks(grown, {"1": 8}, {"1"}, 0)
    assert [len(second[f"m{n}"]) for n in range(4)] == [2, 2, 2, 2]
    assert second["m0"] < first["m0"]
    assert second["m1"] < first["m1"]


def test_the_standby_takes_over_when_the_active_member_is_gone() -> None:
    found = members("A", "B", "C")
    first = assign_tasks(found, {"1": 6}, {"1"}, 1)
    survivors = {each: found[each] for each in ("m1", "m2")}
    second = assign_tasks(with_previous(survivors, first), {"1": 6}, {"1"}, 1)
    lost = {task[1:] for task in active(first["m0"])}
    for each in survivors:
        gained = {task[1:] for task in active(second[each])} & lost
        assert gained == {t[1:] for t in first[each] if t[0] is Role.STANDBY} & lost


def test_a_task_that_must_move_stays_in_its_process_if_it_can() -> None:
    tasks = frozenset((Role.ACTIVE, "1", number) for number in range(4))
    found = {
        "m0": TaskMember("A", tasks),
        "m1": TaskMember("A", NOTHING),
        "m2": TaskMember("B", frozenset((Role.ACTIVE, "1", number) for number in (4, 5))),
    }
    assigned = assign_tasks(found, {"1": 6}, {"1"}, 0)
    assert active(assigned["m0"]) | active(assigned["m1"]) == tasks
    assert assigned["m2"] == found["m2"].previous


def test_nobody_gets_anything_where_there_is_nobody() -> None:
    assert assign_tasks({}, {"0": 3}, set(), 1) == {}
