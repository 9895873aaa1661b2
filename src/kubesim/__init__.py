"""A Kubernetes cluster of our own: a core without sockets, and shells around it.

The way of a request, in the order of the files to read:

    shells/http or kube.in_process → server → routing → verbs and subresources/
        reading: listing, watching, selection → presentation (tables/, negotiation)
        writing: patching (patches/) → admitting (admission/, custom/) → writing, deletion → store

In the background, on the same store and clock: garbage, namespaces, establishing, definition_removal. What
makes the server a living cluster is put together in `life`: kubelets, heartbeats, controllers/, scheduler/,
and a scenario/.
"""

from kubesim.apiserver.api_server import ApiServer

__all__ = ["ApiServer"]
