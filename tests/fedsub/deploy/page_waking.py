"""A page's service worker, woken by the browser while the page is closed."""

from typing import Any

from fedsub.deploy.driven_browser import Driven


def close_page(tab: Driven) -> None:
    """Close the tab; what is driven from now on is one without a page."""
    page = tab.target
    tab.open("about:blank")
    tab.call("Target.closeTarget", targetId=page)


def wake(tab: Driven, origin: str, periodic: bool = True) -> None:
    """Wake an origin's service worker for one event; what it does then goes on beside."""
    tab.call("ServiceWorker.enable")
    # Of a new profile's first service worker.
    about: dict[str, Any] = {"origin": f"{origin}/", "registrationId": "0", "tag": "turns"}
    if periodic:
        tab.call("ServiceWorker.dispatchPeriodicSyncEvent", **about)
    else:
        tab.call("ServiceWorker.dispatchSyncEvent", **about, lastChance=True)


def kill_workers(tab: Driven) -> None:
    """End all service workers, as a browser does that is short of memory."""
    tab.call("ServiceWorker.enable")
    tab.call("ServiceWorker.stopAllWorkers")
