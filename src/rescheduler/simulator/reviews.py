"""May I? The answer to `kubectl auth can-i` and to clients that ask before they act: always yes."""

from rescheduler.simulator.exchange import Answer, Question, answer_object
from rescheduler.simulator.verbs import body_object

__all__ = ["answer"]

_PATHS = {
    "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews",
    "/apis/authorization.k8s.io/v1/subjectaccessreviews",
}


def answer(question: Question) -> Answer | None:
    """None if it is not such a question."""
    if question.method != "POST" or question.path not in _PATHS:
        return None
    asked = body_object(question)
    verdict = {"allowed": True, "reason": "the simulated API server lets anyone do anything"}
    return answer_object(201, {**asked, "status": verdict})
