#pragma once

#include <filesystem>
#include <functional>
#include <optional>
#include <string>

namespace runner {

/// Returns a function that, on each call, looks at the run in `folder` and returns the server-sent
/// events since the last call, or an empty text; nullopt once the run is over and this has been
/// reported. The events are
///
/// progress the line that `retort watch` shows, whenever it changes
///   report     the report has changed; at most every fifth call
///   end        the run is over
std::function<std::optional<std::string>()> run_events(std::filesystem::path folder);

}  // namespace runner
