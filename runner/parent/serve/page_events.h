#pragma once

#include <functional>
#include <optional>
#include <string>

#include "runner/parent/page/document.h"
#include "runner/parent/serve/http_message.h"
#include "runner/parent/serve/run_catalog.h"

namespace runner {

/// Returns a string that identifies the contents of a page, without its forms. A page contains its
/// version in the address of its events, as `seen`, so that no change between the page and the
/// first event is missed.
std::string page_version(const Document& document);
std::string page_version(const Catalog& catalog, const CatalogSweep& sweep);

/// Returns a function (PageReply::events) that follows a list of runs. On each call, it returns the
/// event
///
///   report     rows of this list were changed, added or removed; at most every fifth call
///
/// or an empty text. As long as nothing has changed in the folders, a call does no more than
/// RunCatalog::contents(). Borrows `catalog`.
std::function<std::optional<std::string>()> list_events(RunCatalog& catalog, PageRequest request);

/// Like list_events(), for the sweep with this id: reports changes to its journal or to the record
/// of one of its trials. nullopt once the sweep is gone.
std::function<std::optional<std::string>()> sweep_events(RunCatalog& catalog, std::string id,
                                                         std::string seen);

}  // namespace runner
