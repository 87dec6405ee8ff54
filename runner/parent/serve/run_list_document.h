#pragma once

#include "runner/parent/page/document.h"
#include "runner/parent/serve/http_message.h"
#include "runner/parent/serve/run_catalog.h"

namespace runner {

/// Returns the list of runs and sweeps, a hundred per page. The query fields select them:
///
///   text    a filter (RunFilter) or part of a name, recipe, state, metric or tag
///   state, recipe   exactly this state or recipe
/// trials "listed": list trials too, which otherwise appear only on the pages of their sweeps
///   sort, order     a column of the table; "up" or "down"
///   page    counted from 1
Document run_list_document(RunCatalog& catalog, const PageRequest& request);

/// Returns the address of the events of this list (page_events.h).
std::string run_list_events(const PageRequest& request);

}  // namespace runner
