"""What `bench.stability` counts as undone."""

from bench.day_curve import DayMove, Undone, apps_of, undone_moves

MINUTE_S = 60.0


def move(minute, source, target, old, new, app="web"):
    return DayMove(minute * MINUTE_S, app, source, target, old, new)


def test_a_pod_that_goes_back_within_an_hour_is_undone():
    moves = [move(0, "n1", "n2", "a", "b"), move(59, "n2", "n1", "b", "c")]
    assert undone_moves(moves) == Undone(same_pod=1, same_workload=1, moved_again=1)


def test_after_an_hour_it_is_another_move():
    moves = [move(0, "n1", "n2", "a", "b"), move(61, "n2", "n1", "b", "c")]
    assert undone_moves(moves) == Undone(0, 0, 0)


def test_another_pod_of_the_workload_in_the_other_direction_counts_separately():
    moves = [
        move(0, "n1", "n2", "a", "b"),
        move(5, "n2", "n1", "x", "y"),
        move(6, "n2", "n1", "o", "p", "api"),
    ]
    assert undone_moves(moves) == Undone(same_pod=0, same_workload=1, moved_again=0)


def test_a_pod_that_moves_on_has_moved_again():
    moves = [move(0, "n1", "n2", "a", "b"), move(5, "n2", "n3", "b", "c")]
    assert undone_moves(moves) == Undone(same_pod=0, same_workload=0, moved_again=1)


def test_a_seed_gives_the_same_workloads_with_the_wanted_number_of_pods():
    apps = apps_of(20, 240, 8000, seed=1)
    assert apps == apps_of(20, 240, 8000, seed=1)
    assert sum(app.replicas for app in apps) == 240
    assert all(2 <= app.replicas_at(hour) <= max(2, app.replicas) for app in apps for hour in range(24))
