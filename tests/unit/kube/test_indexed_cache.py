"""The cache compared with a plain dictionary, for any sequence of changes and the events about them."""

from hypothesis import given
from hypothesis import strategies as st

from rescheduler.kube.api_resources import ObjectIdentity
from rescheduler.kube.watch_cache import IndexedCache

NAMES = st.sampled_from("abc")
ITEMS = st.tuples(
    NAMES, st.sampled_from(["uid-1", "uid-2"]), st.integers(1, 9), st.sets(st.sampled_from("xy"))
)
CHANGES = st.one_of(
    st.tuples(st.just("put"), ITEMS),
    st.tuples(st.just("remove"), NAMES),
    st.tuples(st.just("replace"), st.lists(ITEMS, unique_by=lambda item: item[0], max_size=3)),
)


def identify(item) -> ObjectIdentity:
    return ObjectIdentity(item[0], item[1], str(item[2]))


def filled(steps) -> tuple[IndexedCache, list]:
    cache: IndexedCache = IndexedCache(identify, {"letter": lambda item: item[3]})
    reported = []
    for verb, argument in steps:
        reported += getattr(cache, verb)(argument)
    return cache, reported


@given(st.lists(CHANGES, max_size=30))
def test_a_handler_that_follows_all_changes_has_what_the_cache_has(steps):
    cache, reported = filled(steps)
    watched = {}
    for old, new in reported:
        if old is not None:
            assert watched.pop(old[0]) == old, "the old object is the new one of the event before"
        if new is not None:
            assert new[0] not in watched
            watched[new[0]] = new
        if old is not None and new is not None:
            assert old[1] == new[1], "another uid is another object"
    assert sorted(watched) == sorted(item[0] for item in cache)
    assert all(cache.get(key) == item for key, item in watched.items())


@given(st.lists(CHANGES, max_size=30))
def test_indices_find_what_a_search_would_find(steps):
    cache, _ = filled(steps)
    for letter in "xyz":
        assert sorted(item[0] for item in cache.find("letter", letter)) == sorted(
            item[0] for item in cache if letter in item[3]
        )


@given(ITEMS, ITEMS)
def test_put_never_replaces_a_newer_state(first, second):
    cache, _ = filled([("put", first), ("put", second)])
    if first[0] == second[0] and second[2] <= first[2]:
        assert cache.get(first[0]) == first
    else:
        assert cache.get(second[0]) == second


def test_a_list_takes_the_place_of_everything_even_of_newer_states():
    cache, _ = filled([("put", ("a", "uid-1", 9, set())), ("replace", [("a", "uid-1", 3, set())])])
    assert cache.version("a") == 3


def test_an_equal_list_reports_no_change():
    """Unless the versions of the server can't be compared any more."""
    held, other = ("a", "uid-1", 3, {"x"}), ("a", "uid-1", 3, {"y"})
    cache, _ = filled([("put", held)])
    assert cache.replace([other]) == []
    assert cache.get("a") == held
    assert len(cache.replace([other], rewound=True)) == 1
    assert cache.get("a") == other
